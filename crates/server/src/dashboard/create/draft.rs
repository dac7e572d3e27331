//! A draft of a pipeline, as the form submits it.
//!
//! Fields are named like `environment.0.target.1.cluster`. Unknown fields are ignored, and absent ones
//! are empty.

/// The limits of a draft; more are ignored.
const MAX_ENVIRONMENTS: usize = 20;
const MAX_TARGETS: usize = 50;

/// A draft of a pipeline.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Draft {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) kind: String,
    pub(super) app: String,
    pub(super) image: String,
    /// Which strategy; the fields of the others are not used.
    pub(super) strategy: String,
    pub(super) tag: String,
    pub(super) forge: String,
    pub(super) url: String,
    pub(super) branch: String,
    pub(super) secret: String,
    /// The percentages of the waves of a rollout, separated by commas; empty for all targets at once.
    pub(super) waves: String,
    /// What to show on pull requests.
    pub(super) commit_status: bool,
    pub(super) comment: bool,
    pub(super) path: String,
    pub(super) environments: Vec<DraftEnvironment>,
}

#[derive(Debug, Default, PartialEq)]
pub(super) struct DraftEnvironment {
    pub(super) name: String,
    pub(super) manual: bool,
    /// The names of the environments that it comes after, separated by commas; empty for the one before it.
    pub(super) after: String,
    pub(super) targets: Vec<DraftTarget>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct DraftTarget {
    pub(super) cluster: String,
    pub(super) namespace: String,
}

/// A button of the form.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum FormButton {
    AddEnvironment,
    RemoveEnvironment(usize),
    AddTarget(usize),
    RemoveTarget(usize, usize),
    /// The enter key: shows the manifest, and does not ask for what is missing.
    Update,
    /// Asks for what is missing.
    Check,
    Propose,
}

impl FormButton {
    /// The value that the button submits.
    pub(super) fn value(self) -> String {
        match self {
            Self::AddEnvironment => "add".to_owned(),
            Self::RemoveEnvironment(nth) => format!("remove.{nth}"),
            Self::AddTarget(nth) => format!("add.{nth}"),
            Self::RemoveTarget(nth, target) => format!("remove.{nth}.{target}"),
            Self::Update => "update".to_owned(),
            Self::Check => "check".to_owned(),
            Self::Propose => "propose".to_owned(),
        }
    }

    /// A form that was submitted without a button is updated.
    fn parse(value: &str) -> Self {
        let parts: Vec<&str> = value.split('.').collect();
        let number = |nth: usize| parts.get(nth).and_then(|it| it.parse().ok());
        match (parts[0], number(1), number(2)) {
            ("add", None, _) => Self::AddEnvironment,
            ("add", Some(nth), _) => Self::AddTarget(nth),
            ("remove", Some(nth), None) => Self::RemoveEnvironment(nth),
            ("remove", Some(nth), Some(target)) => Self::RemoveTarget(nth, target),
            ("check", ..) => Self::Check,
            ("propose", ..) => Self::Propose,
            _ => Self::Update,
        }
    }
}

/// A submitted form.
pub(super) struct SubmittedDraft {
    pub(super) csrf: String,
    pub(super) button: FormButton,
    pub(super) draft: Draft,
}

impl SubmittedDraft {
    pub(super) fn read(fields: Vec<(String, String)>) -> Self {
        let mut submitted = Self {
            csrf: String::new(),
            button: FormButton::Update,
            draft: Draft::default(),
        };
        for (name, value) in fields {
            let value = value.trim().to_owned();
            match name.as_str() {
                "csrf" => submitted.csrf = value,
                "step" => submitted.button = FormButton::parse(&value),
                name => submitted.draft.set(name, value),
            }
        }
        submitted
    }
}

impl Draft {
    /// The initial draft: two environments, the second with approval.
    pub(super) fn new() -> Self {
        let environment = |name: &str, manual| DraftEnvironment {
            name: name.to_owned(),
            manual,
            after: String::new(),
            targets: vec![DraftTarget::default()],
        };
        Self {
            kind: "HelmRelease".to_owned(),
            strategy: "pull-request".to_owned(),
            tag: "${environment}".to_owned(),
            forge: "github".to_owned(),
            branch: "main".to_owned(),
            commit_status: true,
            comment: true,
            environments: vec![environment("dev", false), environment("prod", true)],
            ..Self::default()
        }
    }

    fn set(&mut self, name: &str, value: String) {
        let parts: Vec<&str> = name.split('.').collect();
        match parts.as_slice() {
            ["environment", nth, rest @ ..] => {
                let environment = nth
                    .parse()
                    .ok()
                    .and_then(|nth| get_or_extend(&mut self.environments, nth, MAX_ENVIRONMENTS));
                if let Some(environment) = environment {
                    environment.set(rest, value);
                }
            }
            ["feedback", "commit-status"] => self.commit_status = value == "yes",
            ["feedback", "comment"] => self.comment = value == "yes",
            [name] => {
                if let Some(field) = self.field(name) {
                    *field = value;
                }
            }
            _ => {}
        }
    }

    fn field(&mut self, name: &str) -> Option<&mut String> {
        Some(match name {
            "name" => &mut self.name,
            "namespace" => &mut self.namespace,
            "kind" => &mut self.kind,
            "app" => &mut self.app,
            "image" => &mut self.image,
            "strategy" => &mut self.strategy,
            "tag" => &mut self.tag,
            "forge" => &mut self.forge,
            "url" => &mut self.url,
            "branch" => &mut self.branch,
            "secret" => &mut self.secret,
            "waves" => &mut self.waves,
            "path" => &mut self.path,
            _ => return None,
        })
    }

    /// The field that a person fills in next after a button was pressed.
    pub(super) fn next_field(&self, button: FormButton) -> Option<String> {
        let name = |nth: usize| format!("environment.{nth}.name");
        match button {
            FormButton::AddEnvironment => self.environments.len().checked_sub(1).map(name),
            FormButton::RemoveEnvironment(nth) => {
                let last = self.environments.len().checked_sub(1)?;
                Some(name(nth.min(last)))
            }
            FormButton::AddTarget(nth) => {
                let last = self.environments.get(nth)?.targets.len().checked_sub(1)?;
                Some(format!("environment.{nth}.target.{last}.cluster"))
            }
            FormButton::RemoveTarget(nth, _) => Some(name(nth)),
            FormButton::Update | FormButton::Check | FormButton::Propose => None,
        }
    }

    /// Applies a button that adds or removes environments or targets.
    pub(super) fn apply(&mut self, button: FormButton) {
        match button {
            FormButton::AddEnvironment if self.environments.len() < MAX_ENVIRONMENTS => {
                self.environments.push(DraftEnvironment {
                    targets: vec![DraftTarget::default()],
                    ..DraftEnvironment::default()
                });
            }
            FormButton::RemoveEnvironment(nth) if nth < self.environments.len() => {
                self.environments.remove(nth);
            }
            FormButton::AddTarget(nth) => {
                let targets = self.environments.get_mut(nth).map(|it| &mut it.targets);
                if let Some(targets) = targets.filter(|targets| targets.len() < MAX_TARGETS) {
                    targets.push(DraftTarget::default());
                }
            }
            FormButton::RemoveTarget(nth, target) => {
                let targets = self.environments.get_mut(nth).map(|it| &mut it.targets);
                if let Some(targets) = targets.filter(|targets| target < targets.len()) {
                    targets.remove(target);
                }
            }
            _ => {}
        }
    }
}

impl DraftEnvironment {
    fn set(&mut self, parts: &[&str], value: String) {
        match parts {
            ["name"] => self.name = value,
            ["manual"] => self.manual = value == "yes",
            ["after"] => self.after = value,
            ["target", nth, field] => {
                let nth = nth.parse().ok();
                let Some(target) =
                    nth.and_then(|nth| get_or_extend(&mut self.targets, nth, MAX_TARGETS))
                else {
                    return;
                };
                match *field {
                    "cluster" => target.cluster = value,
                    "namespace" => target.namespace = value,
                    _ => {}
                }
            }
            _ => {}
        }
    }
}

/// The nth element; missing ones are added, up to a limit.
fn get_or_extend<T: Default>(all: &mut Vec<T>, nth: usize, limit: usize) -> Option<&mut T> {
    if nth >= limit {
        return None;
    }
    while all.len() <= nth {
        all.push(T::default());
    }
    all.get_mut(nth)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn submitted(fields: &str) -> SubmittedDraft {
        let fields = fields.split('&').map(|it| it.split_once('=').unwrap());
        SubmittedDraft::read(fields.map(|(a, b)| (a.to_owned(), b.to_owned())).collect())
    }

    #[test]
    fn a_submitted_form_is_parsed() {
        let submitted = submitted(
            "csrf=x&name= basket &feedback.comment=yes&environment.1.name=prod&environment.1.manual=yes&\
             environment.1.target.0.namespace=shop&environment.99.name=x&nonsense=1&step=add.1",
        );
        assert_eq!(submitted.csrf, "x");
        assert_eq!(submitted.button, FormButton::AddTarget(1));
        let draft = submitted.draft;
        assert_eq!(draft.name, "basket");
        assert_eq!((draft.commit_status, draft.comment), (false, true));
        assert_eq!(draft.environments.len(), 2);
        assert_eq!(draft.environments[0], DraftEnvironment::default());
        assert!(draft.environments[1].manual);
        assert_eq!(draft.environments[1].targets[0].namespace, "shop");
    }

    #[test]
    fn buttons_add_and_remove_environments_and_targets() {
        let mut draft = Draft::new();
        for button in [
            FormButton::AddEnvironment,
            FormButton::AddTarget(2),
            FormButton::RemoveTarget(2, 0),
            FormButton::RemoveEnvironment(0),
            FormButton::RemoveEnvironment(9),
            FormButton::RemoveTarget(0, 9),
            FormButton::AddTarget(9),
        ] {
            assert_eq!(FormButton::parse(&button.value()), button);
            draft.apply(button);
        }
        let state_icon: Vec<_> = draft
            .environments
            .iter()
            .map(|it| (it.name.as_str(), it.targets.len()))
            .collect();
        assert_eq!(state_icon, [("prod", 1), ("", 1)]);
        for _ in 0..100 {
            draft.apply(FormButton::AddEnvironment);
            draft.apply(FormButton::AddTarget(0));
        }
        assert_eq!(draft.environments.len(), MAX_ENVIRONMENTS);
        assert_eq!(draft.environments[0].targets.len(), MAX_TARGETS);
    }

    #[test]
    fn the_next_field_is_what_was_added() {
        let mut draft = Draft::new();
        for (button, expected) in [
            (FormButton::AddEnvironment, "environment.2.name"),
            (FormButton::AddTarget(1), "environment.1.target.1.cluster"),
            (FormButton::RemoveTarget(1, 0), "environment.1.name"),
            (FormButton::RemoveEnvironment(2), "environment.1.name"),
        ] {
            draft.apply(button);
            assert_eq!(draft.next_field(button).as_deref(), Some(expected));
        }
        assert_eq!(draft.next_field(FormButton::Propose), None);
    }
}
