//! The form, the manifest beside it, and what is wrong.

use super::{
    draft::{Draft, Environment, Step, Target},
    manifest::{ENVIRONMENTS, KINDS, Problems},
};
use crate::{
    dashboard::{
        html::{Element, Html, tag},
        words::hidden,
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

/// Everything the page shows.
pub(super) struct View<'a> {
    pub(super) draft: &'a Draft,
    pub(super) problems: Problems,
    /// Why it was not proposed.
    pub(super) refusal: Option<String>,
    pub(super) csrf: &'a str,
    pub(super) path: String,
    pub(super) authoring: Option<&'a Authoring>,
    /// As they are typed.
    pub(super) clusters: Vec<String>,
}

impl View<'_> {
    /// The parts that follow what is typed.
    pub(super) fn parts(&self) -> Vec<(String, Element)> {
        let mut parts = vec![("preview".to_owned(), self.preview())];
        for field in self.fields() {
            parts.push((format!("error-{field}"), self.problem(&field)));
        }
        parts
    }

    pub(super) fn page(&self) -> Html {
        let refusal = self.refusal.as_ref().map(|sentence| {
            tag("p")
                .class("told bad")
                .with("role", "alert")
                .text(sentence)
        });
        Html::all([
            Html::from(tag("h1").text("Create a pipeline")),
            self.introduction().into(),
            refusal.into(),
            self.form().into(),
        ])
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
            .child(hidden("csrf", self.csrf))
            // What the enter key presses: the first button, whatever that is.
            .child(
                self.button(Step::Preview, "Preview")
                    .class("vh")
                    .with("tabindex", -1),
            )
            .child(
                tag("div")
                    .class("fields")
                    .child(self.subject())
                    .child(self.environments())
                    .child(self.promotion())
                    .child(self.file())
                    .child(self.ends()),
            )
            .child(self.preview())
            .child(tag("datalist").id("clusters").children(clusters))
    }

    fn introduction(&self) -> Element {
        match self.authoring {
            Some(to) => tag("p").class("dim").text(format_args!(
                "The manifest is proposed as a pull request to {} of {}. Whoever merges it makes the \
                 pipeline.",
                to.branch, to.url
            )),
            None => tag("p").id("not-configured").class("told bad").text(
                "Nothing can be proposed from here: the controller was started without \
                 --authoring-url, the repository for new manifests. Copy the manifest into your \
                 repository instead.",
            ),
        }
    }

    fn subject(&self) -> Element {
        let draft = self.draft;
        let kinds = KINDS.map(|(kind, _)| kind);
        group("Pipeline")
            .child(self.field("name", "Name", &draft.name, "basket"))
            .child(self.field("namespace", "Namespace", &draft.namespace, "shop"))
            .child(choice("kind", "Kind of app", &draft.kind, &kinds))
            .child(self.field(
                "app",
                "Name of the app",
                &draft.app,
                "the same in every target",
            ))
            .child(self.field("image", "Image to follow (optional)", &draft.image, ""))
    }

    fn environments(&self) -> Element {
        let all = self.draft.environments.iter().enumerate();
        group("Environments, in the order of promotion")
            .child(self.problem(ENVIRONMENTS))
            .children(all.map(|(nth, environment)| self.environment(nth, environment)))
            .child(
                self.button(Step::AddEnvironment, "Add an environment")
                    .class("quiet"),
            )
    }

    fn environment(&self, nth: usize, environment: &Environment) -> Element {
        let legend = format!("Environment {}", nth + 1);
        let name = format!("environment.{nth}.name");
        let manual = format!("environment.{nth}.manual");
        let check = tag("label")
            .class("check")
            .child(
                tag("input")
                    .id(&manual)
                    .with("name", &manual)
                    .with("type", "checkbox")
                    .with("value", "yes")
                    .set("checked", environment.manual),
            )
            .text(" Somebody must approve what is promoted into it");
        let targets = environment.targets.iter().enumerate();
        let remove = Step::RemoveEnvironment(nth);
        group(&legend)
            .child(self.field(&name, "Name", &environment.name, "staging"))
            .child((nth > 0).then_some(check))
            .children(targets.map(|(number, target)| self.target((nth, number), target)))
            .child(
                tag("p")
                    .class("buttons")
                    .child(
                        self.button(Step::AddTarget(nth), "Add a target")
                            .class("quiet"),
                    )
                    .child(
                        self.button(remove, "Remove the environment")
                            .class("quiet")
                            .with("aria-label", format_args!("Remove environment {}", nth + 1)),
                    ),
            )
    }

    fn target(&self, (nth, number): (usize, usize), target: &Target) -> Element {
        let field = |field: &str| format!("environment.{nth}.target.{number}.{field}");
        let remove = Step::RemoveTarget(nth, number);
        let label = format!("Remove target {} of environment {}", number + 1, nth + 1);
        tag("div")
            .class("target")
            .child(self.input(
                (&field("cluster"), "Cluster"),
                &target.cluster,
                "empty: where Sluice runs",
                Some("clusters"),
            ))
            .child(self.field(&field("namespace"), "Namespace", &target.namespace, ""))
            .child(
                self.button(remove, "Remove")
                    .class("quiet")
                    .with("aria-label", label),
            )
    }

    fn promotion(&self) -> Element {
        let draft = self.draft;
        group("Promotion by pull request")
            .child(self.field(
                "url",
                "Repository with the apps' manifests; empty to promote nothing",
                &draft.url,
                "https://git.example.com/fleet.git",
            ))
            .child(choice("forge", "Forge", &draft.forge, &FORGES))
            .child(self.field("branch", "Branch", &draft.branch, "main"))
            .child(self.field("secret", "Secret with credentials", &draft.secret, "git"))
    }

    fn file(&self) -> Element {
        let label = "Path in the repository; empty for the one shown";
        group("File").child(self.field("path", label, &self.draft.path, &self.path))
    }

    fn ends(&self) -> Element {
        let propose = self.button(Step::Propose, "Propose in git").class("main");
        tag("p")
            .class("buttons")
            .child(self.authoring.map(|_| propose))
            .child(self.button(Step::Preview, "Check"))
    }

    fn preview(&self) -> Element {
        let title = tag("h2").id("preview-title").text("Manifest");
        tag("section")
            .id("preview")
            .with("aria-labelledby", "preview-title")
            .child(title)
            .child(tag("p").class("dim").child(tag("code").text(&self.path)))
            .child(
                tag("pre")
                    .with("tabindex", 0)
                    .with("role", "region")
                    .with("aria-label", "YAML")
                    .child(tag("code").text(self.draft.yaml())),
            )
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
        if self.problems.contains_key(name) {
            input = input.with("aria-invalid", "true");
        }
        tag("span")
            .class("field")
            .child(tag("label").with("for", name).text(label))
            .child(input)
            .child(self.problem(name))
    }

    /// What is wrong with a field; an empty place where nothing is.
    fn problem(&self, field: &str) -> Element {
        let sentence = self.problems.get(field);
        tag("small")
            .id(format_args!("error-{field}"))
            .class("bad")
            .text(sentence.map(String::as_str).unwrap_or_default())
    }

    fn button(&self, step: Step, text: &str) -> Element {
        tag("button")
            .with("name", "step")
            .with("value", step.word())
            .text(text)
    }

    /// The fields that something can be wrong with.
    fn fields(&self) -> Vec<String> {
        let plain = [
            "name",
            "namespace",
            "app",
            "image",
            "url",
            "branch",
            "secret",
            "path",
        ];
        let mut fields: Vec<String> = plain.map(str::to_owned).into();
        fields.push(ENVIRONMENTS.to_owned());
        for (nth, environment) in self.draft.environments.iter().enumerate() {
            fields.push(format!("environment.{nth}.name"));
            for number in 0..environment.targets.len() {
                fields.push(format!("environment.{nth}.target.{number}.cluster"));
                fields.push(format!("environment.{nth}.target.{number}.namespace"));
            }
        }
        fields
    }
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
