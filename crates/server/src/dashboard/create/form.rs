//! The HTML of the create form: fields, errors and the preview of the manifest.

use super::{
    draft::{Draft, DraftEnvironment, DraftTarget, FormButton},
    manifest::{ENVIRONMENTS, FieldErrors, KINDS, STRATEGIES},
};
use crate::{
    dashboard::{
        components::{counted, hidden_field},
        html::{Element, Html, tag},
        yaml::source,
    },
    settings::Authoring,
};

const FORGES: [&str; 6] = [
    "github",
    "gitlab",
    "gitea",
    "bitbucket-server",
    "bitbucket-cloud",
    "azure-devops",
];

/// Everything that the page shows.
pub(super) struct CreateForm<'a> {
    pub(super) draft: &'a Draft,
    pub(super) errors: FieldErrors,
    /// Why the file was not proposed.
    pub(super) refusal: Option<String>,
    /// What a check warned about, if somebody asked for one and there are no errors.
    pub(super) checked: Option<Vec<String>>,
    /// What the manifest is warned about in any case.
    pub(super) warnings: Vec<String>,
    pub(super) csrf: &'a str,
    pub(super) path: String,
    pub(super) authoring: Option<&'a Authoring>,
    /// The field that gets the focus.
    pub(super) focus: Option<String>,
    /// The names of clusters, as they are typed.
    pub(super) clusters: Vec<String>,
}

impl CreateForm<'_> {
    /// The parts that are updated while typing.
    pub(super) fn parts(&self) -> Vec<(String, Element)> {
        let mut parts = vec![("preview".to_owned(), self.preview())];
        for field in self.draft.fields() {
            parts.push((format!("error-{field}"), self.error(&field)));
        }
        parts
    }

    pub(super) fn page(&self) -> Html {
        let refusal = self.refusal.as_ref().map(|text| {
            tag("p")
                .class("notice bad")
                .with("role", "alert")
                .text(text)
        });
        Html::all([
            Html::from(tag("h1").text("Create a pipeline")),
            self.introduction().into(),
            refusal.into(),
            self.check_result().into(),
            self.form().into(),
        ])
    }

    /// What a check found, where somebody asked for one: never nothing.
    fn check_result(&self) -> Option<Element> {
        let result = |class: &str, text: String| {
            let class = format!("notice {class}");
            let element = tag("div").id("checked").class(class).with("role", "status");
            element.child(tag("p").text(text))
        };
        let errors = self.errors.len();
        let Some(checked) = &self.checked else {
            let text = || {
                format!(
                    "{} to correct before it can be proposed.",
                    counted(errors, "field")
                )
            };
            return (errors > 0).then(|| result("bad", text()));
        };
        let warnings: Vec<&String> = self.warnings.iter().chain(checked).collect();
        if warnings.is_empty() {
            let text = "No errors. Everything that the manifest names exists.";
            return Some(result("good", text.to_owned()));
        }
        let text = format!("No errors, {}:", counted(warnings.len(), "warning"));
        let items = warnings.into_iter().map(|it| tag("li").text(it));
        Some(result("warn", text).child(tag("ul").children(items)))
    }

    fn form(&self) -> Element {
        let clusters = self
            .clusters
            .iter()
            .map(|it| tag("option").with("value", it));
        tag("form")
            .id("draft")
            .class("create")
            .with("method", "post")
            .with("data-preview", "/create/preview")
            .with("autocomplete", "off")
            .set("novalidate", true)
            .link("/create")
            .child(hidden_field("csrf", self.csrf))
            // The enter key presses the first button of a form.
            .child(
                self.button(FormButton::Update, "Update the manifest")
                    .class("vh")
                    .with("tabindex", -1),
            )
            .child(
                tag("div")
                    .class("fields")
                    .child(self.pipeline())
                    .child(self.environments())
                    .child(self.promotion())
                    .child(self.file())
                    .child(self.buttons()),
            )
            .child(self.preview())
            .child(tag("datalist").id("clusters").children(clusters))
    }

    fn introduction(&self) -> Element {
        match self.authoring {
            Some(to) => tag("p").class("dim").text(format_args!(
                "The manifest is proposed as a pull request to {} of {}. Merging it creates the \
                 pipeline.",
                to.branch, to.url
            )),
            None => tag("p").id("not-configured").class("notice bad").text(
                "Files cannot be proposed: the controller runs without --authoring-url, the \
                 repository for new manifests. Copy the manifest into your repository instead.",
            ),
        }
    }

    fn pipeline(&self) -> Element {
        let draft = self.draft;
        let kinds = KINDS.map(|(kind, _)| kind);
        group("Pipeline")
            .child(self.field("name", "Name", &draft.name, "basket"))
            .child(self.field("namespace", "Namespace", &draft.namespace, "shop"))
            .child(choice("kind", "App kind", &draft.kind, &kinds))
            .child(self.field("app", "App name", &draft.app, "the same in every target"))
            .child(self.field("image", "Image to track (optional)", &draft.image, ""))
    }

    fn environments(&self) -> Element {
        let all = self.draft.environments.iter().enumerate();
        group("Environments, in the order of promotion")
            .child(self.error(ENVIRONMENTS))
            .children(all.map(|(nth, environment)| self.environment(nth, environment)))
            .child(
                self.button(FormButton::AddEnvironment, "Add an environment")
                    .class("quiet"),
            )
    }

    fn environment(&self, nth: usize, environment: &DraftEnvironment) -> Element {
        let legend = format!("Environment {}", nth + 1);
        let name = format!("environment.{nth}.name");
        let targets = environment.targets.iter().enumerate();
        let remove = FormButton::RemoveEnvironment(nth);
        group(&legend)
            .child(self.field(&name, "Name", &environment.name, "staging"))
            .child(self.after(nth, environment))
            .child(approval(nth, environment))
            .children(targets.map(|(number, target)| self.target((nth, number), target)))
            .child(
                tag("p")
                    .class("buttons")
                    .child(
                        self.button(FormButton::AddTarget(nth), "Add a target")
                            .class("quiet"),
                    )
                    .child(
                        self.button(remove, "Remove the environment")
                            .class("quiet")
                            .with(
                                "aria-label",
                                format_args!("Remove the environment {}", nth + 1),
                            ),
                    ),
            )
    }

    /// What an environment comes after, where that is not the one before it.
    fn after(&self, nth: usize, environment: &DraftEnvironment) -> Option<Element> {
        let name = format!("environment.{nth}.after");
        if nth == 0 {
            let is_typed = !environment.after.is_empty();
            return is_typed.then(|| hidden_field(&name, &environment.after));
        }
        let label = "Comes after (empty: the one before it)";
        Some(self.field(&name, label, &environment.after, "eu, us"))
    }

    fn target(&self, (nth, number): (usize, usize), target: &DraftTarget) -> Element {
        let field = |field: &str| format!("environment.{nth}.target.{number}.{field}");
        let remove = FormButton::RemoveTarget(nth, number);
        let label = format!("Remove target {} of environment {}", number + 1, nth + 1);
        tag("div")
            .class("target")
            .child(self.input(
                (&field("cluster"), "Cluster (empty: the hub)"),
                &target.cluster,
                "the hub",
                Some("clusters"),
            ))
            .child(self.field(&field("namespace"), "Namespace", &target.namespace, ""))
            .child(
                self.button(remove, "Remove target")
                    .class("quiet")
                    .with("aria-label", label),
            )
    }

    /// How revisions are promoted. The style sheet hides the fields of other strategies; they are sent all
    /// the same, so that nothing is lost when another strategy is chosen.
    fn promotion(&self) -> Element {
        let draft = self.draft;
        let only = |strategies: &str, element: Element| {
            tag("div")
                .class(format_args!("only {strategies}"))
                .child(element)
        };
        let secret = "Secret with the credentials (for resourceSetInputs: with the token)";
        group("Promotion")
            .child(choice("strategy", "Strategy", &draft.strategy, &STRATEGIES))
            .child(only("pull-request oci", self.repository()))
            .child(only(
                "pull-request",
                choice("forge", "Forge", &draft.forge, &FORGES),
            ))
            .child(only(
                "pull-request",
                self.field("branch", "Branch", &draft.branch, "main"),
            ))
            .child(only(
                "pull-request",
                checkbox(
                    "feedback.commit-status",
                    "Set the commit status sluice/ENVIRONMENT on pull requests",
                    draft.commit_status,
                ),
            ))
            .child(only(
                "pull-request",
                checkbox(
                    "feedback.comment",
                    "Add a comment with the state of the promotion to pull requests",
                    draft.comment,
                ),
            ))
            .child(only(
                "oci",
                self.field("tag", "Tag", &draft.tag, "${environment}"),
            ))
            .child(self.field("secret", secret, &draft.secret, "git"))
            .child(self.field(
                "waves",
                "Waves, in percent of the targets (empty: all targets at once)",
                &draft.waves,
                "5, 25",
            ))
    }

    fn repository(&self) -> Element {
        self.field(
            "url",
            "URL of the git repository (for oci: oci://…); empty: nothing is promoted",
            &self.draft.url,
            "https://git.example.com/fleet.git",
        )
    }

    fn file(&self) -> Element {
        let label = "Path in the repository; empty for the suggestion";
        group("File").child(self.field("path", label, &self.draft.path, &self.path))
    }

    fn buttons(&self) -> Element {
        let propose = self
            .button(FormButton::Propose, "Propose in git")
            .class("main");
        tag("p")
            .class("buttons")
            .child(self.authoring.map(|_| propose))
            .child(self.button(FormButton::Check, "Check"))
    }

    fn preview(&self) -> Element {
        let title = tag("h2").id("preview-title").text("Manifest");
        // After a check they are part of its result.
        let warnings = self.warnings.iter().filter(|_| self.checked.is_none());
        let warnings = warnings.map(|text| tag("p").class("notice warn").text(text));
        tag("section")
            .id("preview")
            .with("aria-labelledby", "preview-title")
            .child(title)
            .child(tag("p").class("dim").child(tag("code").text(&self.path)))
            .children(warnings)
            .child(source(&self.draft.yaml(), "YAML"))
    }

    fn field(&self, name: &str, label: &str, value: &str, example: &str) -> Element {
        self.input((name, label), value, example, None)
    }

    fn input(
        &self,
        (name, label): (&str, &str),
        value: &str,
        example: &str,
        list: Option<&str>,
    ) -> Element {
        let mut input = tag("input")
            .id(name)
            .with("name", name)
            .with("value", value)
            .with("maxlength", 1024)
            .with("spellcheck", "false")
            .with("placeholder", example)
            .with("aria-describedby", format_args!("error-{name}"));
        if let Some(list) = list {
            input = input.with("list", list);
        }
        if self.focus.as_deref() == Some(name) {
            input = input.set("autofocus", true);
        }
        if self.errors.contains_key(name) {
            input = input.with("aria-invalid", "true");
        }
        tag("span")
            .class("field")
            .child(tag("label").with("for", name).text(label))
            .child(input)
            .child(self.error(name))
    }

    /// The error of a field; an empty element if there is none.
    fn error(&self, field: &str) -> Element {
        let text = self.errors.get(field);
        tag("small")
            .id(format_args!("error-{field}"))
            .class("bad")
            .text(text.map(String::as_str).unwrap_or_default())
    }

    fn button(&self, button: FormButton, text: &str) -> Element {
        tag("button")
            .with("name", "step")
            .with("value", button.value())
            .text(text)
    }
}

/// Whether promotions into an environment need approval.
fn approval(nth: usize, environment: &DraftEnvironment) -> Option<Element> {
    let manual = format!("environment.{nth}.manual");
    // Nothing is promoted into the first one. What was ticked counts when it is not the first.
    if nth == 0 {
        return environment.manual.then(|| hidden_field(&manual, "yes"));
    }
    let text = "Promotions into it need approval";
    Some(checkbox(&manual, text, environment.manual))
}

fn checkbox(name: &str, label: &str, is_checked: bool) -> Element {
    let input = tag("input")
        .id(name)
        .with("name", name)
        .with("type", "checkbox")
        .with("value", "yes")
        .set("checked", is_checked);
    let text = format!(" {label}");
    tag("label").class("check").child(input).text(text)
}

fn group(name: &str) -> Element {
    tag("fieldset").child(tag("legend").text(name))
}

fn choice(name: &'static str, label: &str, chosen: &str, all: &[&str]) -> Element {
    let options = all.iter().map(|it| {
        let option = tag("option").with("value", it).text(it);
        option.set("selected", *it == chosen)
    });
    tag("span")
        .class("field")
        .child(tag("label").with("for", name).text(label))
        .child(tag("select").id(name).with("name", name).children(options))
}
