//! What somebody has typed of a pipeline so far, as the form sends it.
//!
//! Fields are called `environment.0.target.1.cluster`; what the form does not know is left out, and
//! what it lacks is empty.

/// More of them than this are not taken.
const ENVIRONMENTS: usize = 20;
const TARGETS: usize = 50;

/// A pipeline that is being typed.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Draft {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) kind: String,
    pub(super) app: String,
    pub(super) image: String,
    pub(super) forge: String,
    pub(super) url: String,
    pub(super) branch: String,
    pub(super) secret: String,
    pub(super) path: String,
    pub(super) environments: Vec<Environment>,
}

#[derive(Debug, Default, PartialEq)]
pub(super) struct Environment {
    pub(super) name: String,
    pub(super) manual: bool,
    pub(super) targets: Vec<Target>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Target {
    pub(super) cluster: String,
    pub(super) namespace: String,
}

/// What a button of the form asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Step {
    AddEnvironment,
    RemoveEnvironment(usize),
    AddTarget(usize),
    RemoveTarget(usize, usize),
    Preview,
    Propose,
}

impl Step {
    /// How a button names it.
    pub(super) fn word(self) -> String {
        match self {
            Self::AddEnvironment => "add".to_owned(),
            Self::RemoveEnvironment(nth) => format!("remove.{nth}"),
            Self::AddTarget(nth) => format!("add.{nth}"),
            Self::RemoveTarget(nth, target) => format!("remove.{nth}.{target}"),
            Self::Preview => "preview".to_owned(),
            Self::Propose => "propose".to_owned(),
        }
    }

    /// A form that was sent without a button is only looked at.
    fn read(word: &str) -> Self {
        let parts: Vec<&str> = word.split('.').collect();
        let number = |nth: usize| parts.get(nth).and_then(|it| it.parse().ok());
        match (parts[0], number(1), number(2)) {
            ("add", None, _) => Self::AddEnvironment,
            ("add", Some(nth), _) => Self::AddTarget(nth),
            ("remove", Some(nth), None) => Self::RemoveEnvironment(nth),
            ("remove", Some(nth), Some(target)) => Self::RemoveTarget(nth, target),
            ("propose", ..) => Self::Propose,
            _ => Self::Preview,
        }
    }
}

/// A form as it was sent.
pub(super) struct Sent {
    pub(super) csrf: String,
    pub(super) step: Step,
    pub(super) draft: Draft,
}

impl Sent {
    pub(super) fn read(fields: Vec<(String, String)>) -> Self {
        let mut sent = Self {
            csrf: String::new(),
            step: Step::Preview,
            draft: Draft::default(),
        };
        for (name, value) in fields {
            let value = value.trim().to_owned();
            match name.as_str() {
                "csrf" => sent.csrf = value,
                "step" => sent.step = Step::read(&value),
                name => sent.draft.set(name, value),
            }
        }
        sent
    }
}

impl Draft {
    /// Where everybody begins: two environments, the second of which waits for approval.
    pub(super) fn new() -> Self {
        let environment = |name: &str, manual| Environment {
            name: name.to_owned(),
            manual,
            targets: vec![Target::default()],
        };
        Self {
            kind: "HelmRelease".to_owned(),
            forge: "github".to_owned(),
            branch: "main".to_owned(),
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
                    .and_then(|nth| grown(&mut self.environments, nth, ENVIRONMENTS));
                if let Some(environment) = environment {
                    environment.set(rest, value);
                }
            }
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
            "forge" => &mut self.forge,
            "url" => &mut self.url,
            "branch" => &mut self.branch,
            "secret" => &mut self.secret,
            "path" => &mut self.path,
            _ => return None,
        })
    }

    /// Does what a button that changes the form asks for.
    pub(super) fn take(&mut self, step: Step) {
        match step {
            Step::AddEnvironment if self.environments.len() < ENVIRONMENTS => {
                self.environments.push(Environment {
                    targets: vec![Target::default()],
                    ..Environment::default()
                });
            }
            Step::RemoveEnvironment(nth) if nth < self.environments.len() => {
                self.environments.remove(nth);
            }
            Step::AddTarget(nth) => {
                let targets = self.environments.get_mut(nth).map(|it| &mut it.targets);
                if let Some(targets) = targets.filter(|targets| targets.len() < TARGETS) {
                    targets.push(Target::default());
                }
            }
            Step::RemoveTarget(nth, target) => {
                let targets = self.environments.get_mut(nth).map(|it| &mut it.targets);
                if let Some(targets) = targets.filter(|targets| target < targets.len()) {
                    targets.remove(target);
                }
            }
            _ => {}
        }
    }
}

impl Environment {
    fn set(&mut self, parts: &[&str], value: String) {
        match parts {
            ["name"] => self.name = value,
            ["manual"] => self.manual = value == "yes",
            ["target", nth, field] => {
                let nth = nth.parse().ok();
                let Some(target) = nth.and_then(|nth| grown(&mut self.targets, nth, TARGETS))
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

/// The nth, with as many before it as that takes, up to a limit.
fn grown<T: Default>(all: &mut Vec<T>, nth: usize, limit: usize) -> Option<&mut T> {
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

    fn sent(fields: &str) -> Sent {
        let fields = fields.split('&').map(|it| it.split_once('=').unwrap());
        Sent::read(fields.map(|(a, b)| (a.to_owned(), b.to_owned())).collect())
    }

    #[test]
    fn a_form_is_read_as_it_was_typed() {
        let sent = sent(
            "csrf=x&name= basket &environment.1.name=prod&environment.1.manual=yes&\
             environment.1.target.0.namespace=shop&environment.99.name=x&nonsense=1&step=add.1",
        );
        assert_eq!(sent.csrf, "x");
        assert_eq!(sent.step, Step::AddTarget(1));
        let draft = sent.draft;
        assert_eq!(draft.name, "basket");
        assert_eq!(draft.environments.len(), 2);
        assert_eq!(draft.environments[0], Environment::default());
        assert!(draft.environments[1].manual);
        assert_eq!(draft.environments[1].targets[0].namespace, "shop");
    }

    #[test]
    fn buttons_add_and_remove() {
        let mut draft = Draft::new();
        for step in [
            Step::AddEnvironment,
            Step::AddTarget(2),
            Step::RemoveTarget(2, 0),
            Step::RemoveEnvironment(0),
            Step::RemoveEnvironment(9),
            Step::RemoveTarget(0, 9),
            Step::AddTarget(9),
        ] {
            assert_eq!(Step::read(&step.word()), step);
            draft.take(step);
        }
        let shape: Vec<_> = draft
            .environments
            .iter()
            .map(|it| (it.name.as_str(), it.targets.len()))
            .collect();
        assert_eq!(shape, [("prod", 1), ("", 1)]);
        for _ in 0..100 {
            draft.take(Step::AddEnvironment);
            draft.take(Step::AddTarget(0));
        }
        assert_eq!(draft.environments.len(), ENVIRONMENTS);
        assert_eq!(draft.environments[0].targets.len(), TARGETS);
    }
}
