//! A few hundred generated repositories: each promotion changes exactly the intended scalars, or is
//! refused with the reason that was meant. Nothing of another place changes, ever.
//!
//! Texts hold slots, `«place/app»` or `«place/app#digest»`. A repository is the texts with every slot
//! filled; the promoted one is the same texts with one place's slots of one app filled anew.

use std::io::Write;

use super::super::*;
use super::{Repository, others, promote};

const SEEDS: u64 = 400;

const PLACES: [&str; 4] = ["dev", "staging", "prod", "prod-eu"];
const APPS: [&str; 3] = ["app", "app-2", "shop-app"];

/// The same numbers for the same seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % sides as u64) as usize
    }

    fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.roll(all.len())]
    }
}

/// How an app is deployed, and so where its version is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Chart,
    ChartFromRegistry(&'static str),
    ChartObject,
    GitSource(&'static str),
    Workload,
    ReplacedImage,
    AppliedImage,
}

const FORMS: [Form; 10] = [
    Form::Chart,
    Form::Chart,
    Form::ChartFromRegistry("tag"),
    Form::ChartFromRegistry("semver"),
    Form::ChartFromRegistry("digest"),
    Form::ChartObject,
    Form::GitSource("tag"),
    Form::GitSource("commit"),
    Form::Workload,
    Form::ReplacedImage,
];

/// Where the version is written.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Hold {
    /// In a patch of the place.
    Overlay,
    /// In a manifest that only the place has.
    Own,
    /// In what all places are built of.
    Base,
    /// In two patches of the place.
    Twice,
    /// As a variable.
    Variable,
}

struct Case {
    wanted: WantedField,
    slot: String,
    expected: Option<&'static str>,
    about: String,
}

#[derive(Default)]
struct Corpus {
    texts: Repository,
    cases: Vec<Case>,
}

impl Form {
    fn identity(self, app: &str) -> ManifestIdentity {
        let (group, kind) = match self {
            Self::Chart | Self::ChartFromRegistry(_) | Self::ChartObject => {
                ("helm.toolkit.fluxcd.io", "HelmRelease")
            }
            Self::GitSource(_) | Self::AppliedImage => {
                ("kustomize.toolkit.fluxcd.io", "Kustomization")
            }
            Self::Workload | Self::ReplacedImage => ("apps", "Deployment"),
        };
        ManifestIdentity {
            group: group.to_owned(),
            kind: kind.to_owned(),
            namespace: "shop".to_owned(),
            name: app.to_owned(),
        }
    }

    fn field(self, app: &str) -> VersionField {
        match self {
            Self::Chart | Self::ChartFromRegistry(_) | Self::ChartObject => VersionField::Chart,
            Self::GitSource(_) => VersionField::Source,
            _ => VersionField::Image {
                name: format!("registry.example:5000/{app}"),
            },
        }
    }

    /// The manifest that holds the version, and no more of it than that.
    fn holder(self, app: &str, slot: &str, dice: &mut Dice) -> String {
        let meta = |kind: &str, name: &str, dice: &mut Dice| {
            let namespace = dice.pick(&["", "  namespace: shop\n"]);
            format!("{kind}\nmetadata:\n  name: {name}\n{namespace}spec:\n")
        };
        let oci = "apiVersion: source.toolkit.fluxcd.io/v1\nkind: OCIRepository";
        let git = "apiVersion: source.toolkit.fluxcd.io/v1\nkind: GitRepository";
        let chart = "apiVersion: source.toolkit.fluxcd.io/v1\nkind: HelmChart";
        let release = "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease";
        let quote = dice.pick(&["", "'", "\""]);
        let value = format!(
            "{quote}«{slot}»{quote}{}",
            dice.pick(&["", " # keep", "   #"])
        );
        match self {
            Self::Chart => format!(
                "{}  chart:\n    spec:\n      version: {value}\n",
                meta(release, app, dice)
            ),
            Self::ChartFromRegistry("digest") => {
                let tag = dice.pick(&["", "tag"]);
                let tag = if tag.is_empty() {
                    String::new()
                } else {
                    format!("    tag: {value}\n")
                };
                format!(
                    "{}  ref:\n{tag}    digest: «{slot}#digest»\n",
                    meta(oci, &format!("{app}-charts"), dice)
                )
            }
            Self::ChartFromRegistry(pin) => {
                format!(
                    "{}  ref:\n    {pin}: {value}\n",
                    meta(oci, &format!("{app}-charts"), dice)
                )
            }
            Self::ChartObject => format!(
                "{}  version: {value}\n",
                meta(chart, &format!("{app}-chart"), dice)
            ),
            Self::GitSource(pin) => {
                format!(
                    "{}  url: https://git.example/team/{app}\n  ref:\n    branch: main\n    {pin}: {value}\n",
                    meta(git, &format!("{app}-config"), dice)
                )
            }
            _ => {
                let head = meta("apiVersion: apps/v1\nkind: Deployment", app, dice);
                let image = format!("registry.example:5000/{app}:«{slot}»");
                format!(
                    "{head}  template:\n    spec:\n      containers:\n      - name: side\n        image: side:1\n      - name: main\n        image: {quote}{image}{quote}\n"
                )
            }
        }
    }

    /// What else there is of the app.
    fn rest(self, app: &str) -> String {
        match self {
            Self::ChartFromRegistry(_) => format!(
                "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata:\n  name: {app}\nspec:\n  chartRef:\n    kind: OCIRepository\n    name: {app}-charts\n"
            ),
            Self::ChartObject => format!(
                "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata:\n  name: {app}\nspec:\n  chartRef: {{kind: HelmChart, name: {app}-chart}}\n"
            ),
            Self::GitSource(_) => format!(
                "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata:\n  name: {app}\nspec:\n  path: ./deploy\n  sourceRef:\n    kind: GitRepository\n    name: {app}-config\n"
            ),
            _ => format!(
                "kind: ConfigMap\napiVersion: v1\nmetadata: {{name: {app}-settings}}\ndata:\n  version: 1.0.0\n"
            ),
        }
    }

    fn pin(self, seed: u64) -> PinnedVersion {
        let version = match self {
            Self::GitSource("commit") => format!("c0ffee{seed:034x}"),
            _ => format!("9.{seed}.1"),
        };
        let digest = matches!(self, Self::ChartFromRegistry("digest"));
        PinnedVersion {
            version,
            digest: digest.then(|| format!("sha256:{seed:064x}")),
            commit: None,
        }
    }
}

impl Corpus {
    fn add(&mut self, path: String, text: String) {
        self.texts.insert(path, text);
    }

    /// Overlays over bases: `root/base/app` and `root/place`.
    fn overlays(&mut self, root: &str, places: &[&str], dice: &mut Dice) {
        let apps = &APPS[..1 + dice.roll(APPS.len())];
        let forms: Vec<Form> = apps.iter().map(|_| dice.pick(&FORMS)).collect();
        // A base that holds a version is only possible where there is nothing above it that does.
        let holds = [
            Hold::Overlay,
            Hold::Overlay,
            Hold::Own,
            Hold::Base,
            Hold::Twice,
            Hold::Variable,
        ];
        let holds: Vec<Hold> = apps.iter().map(|_| dice.pick(&holds)).collect();
        for ((app, form), hold) in apps.iter().zip(&forms).zip(&holds) {
            self.base(root, app, *form, *hold, dice);
        }
        for place in places {
            let mut lists = (String::new(), String::new(), String::new());
            for ((app, form), hold) in apps.iter().zip(&forms).zip(&holds) {
                self.overlay(
                    &format!("{root}/{place}"),
                    (place, app),
                    (*form, *hold),
                    &mut lists,
                    dice,
                );
                let foreign = places.iter().filter(|other| *other != place);
                let foreign = foreign.map(|other| format!("{root}/{other}")).collect();
                let is_shared = *hold == Hold::Base && places.len() > 1;
                let expected = match hold {
                    _ if *form == Form::ReplacedImage => None,
                    Hold::Base if is_shared => Some("SharedManifest"),
                    Hold::Twice => Some("SeveralManifests"),
                    Hold::Variable => Some("UneditableFile"),
                    _ => None,
                };
                let directories = vec![format!("{root}/{place}")];
                self.case(
                    (place, app),
                    (*form, *hold),
                    (directories, foreign),
                    expected,
                );
            }
            let namespace = dice.pick(&["", "namespace: shop\n"]);
            let (resources, patches, images) = lists;
            let mut text = format!("{namespace}resources:\n{resources}");
            if !patches.is_empty() {
                text.push_str(&format!("patches:\n{patches}"));
            }
            if !images.is_empty() {
                text.push_str(&format!("images:\n{images}"));
            }
            self.add(format!("{root}/{place}/kustomization.yaml"), text);
        }
    }

    fn base(&mut self, root: &str, app: &str, form: Form, hold: Hold, dice: &mut Dice) {
        let folder = format!("{root}/base/{app}");
        let mut text = form.rest(app);
        if hold != Hold::Own {
            let slot = if hold == Hold::Base {
                format!("base/{app}")
            } else {
                format!("default/{app}")
            };
            text = format!("---\n{text}---\n{}", form.holder(app, &slot, dice));
        }
        self.add(format!("{folder}/all.yaml"), text);
        if dice.roll(2) == 0 {
            self.add(
                format!("{folder}/kustomization.yaml"),
                "resources:\n- all.yaml\n".to_owned(),
            );
        }
    }

    fn overlay(
        &mut self,
        folder: &str,
        (place, app): (&str, &str),
        (form, hold): (Form, Hold),
        (resources, patches, images): &mut (String, String, String),
        dice: &mut Dice,
    ) {
        let slot = format!("{place}/{app}");
        resources.push_str(&format!("  - ../base/{app}\n"));
        if form == Form::ReplacedImage {
            images.push_str(&format!(
                "- name: registry.example:5000/{app}\n  newTag: \"«{slot}»\"\n"
            ));
        }
        let mut text = form.holder(app, &slot, dice);
        if hold == Hold::Variable {
            text = text
                .replace(&format!("«{slot}»"), "${version}")
                .replace(&format!("«{slot}#digest»"), "${digest}");
        }
        match hold {
            _ if form == Form::ReplacedImage && hold != Hold::Own => {}
            Hold::Base => {}
            Hold::Own => {
                resources.push_str(&format!("  - {app}.yaml\n"));
                let text = if form == Form::ReplacedImage {
                    text.replace(&format!("«{slot}»"), "0.0.1")
                } else {
                    text
                };
                self.add(format!("{folder}/{app}.yaml"), text);
            }
            Hold::Overlay | Hold::Variable => {
                patches.push_str(&format!("- path: {app}-patch.yaml\n"));
                self.add(format!("{folder}/{app}-patch.yaml"), text);
            }
            Hold::Twice => {
                for copy in ["a", "b"] {
                    patches.push_str(&format!("- path: {app}-{copy}.yaml\n"));
                    self.add(format!("{folder}/{app}-{copy}.yaml"), text.clone());
                }
            }
        }
    }

    fn case(
        &mut self,
        (place, app): (&str, &str),
        (form, hold): (Form, Hold),
        (directories, foreign): (Vec<String>, Vec<String>),
        expected: Option<&'static str>,
    ) {
        let is_base = hold == Hold::Base && form != Form::ReplacedImage;
        let owner = if is_base { "base" } else { place };
        self.cases.push(Case {
            wanted: WantedField {
                identity: form.identity(app),
                field: form.field(app),
                pin: form.pin(self.cases.len() as u64 + 7),
                directories,
                others: others(&foreign.iter().map(String::as_str).collect::<Vec<_>>()),
            },
            slot: format!("{owner}/{app}"),
            expected,
            about: format!("{place}/{app}: {form:?}, {hold:?}"),
        });
    }

    /// `clusters/place` says that `apps/place` is applied.
    fn monorepo(&mut self, dice: &mut Dice) {
        let places = &PLACES[..1 + dice.roll(PLACES.len())];
        self.overlays("apps", places, dice);
        for place in places {
            let text = format!(
                "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata:\n  name: apps\n  namespace: flux-system\nspec:\n  path: ./apps/{place}\n  sourceRef: {{kind: GitRepository, name: flux-system}}\n"
            );
            self.add(format!("clusters/{place}/apps.yaml"), text);
        }
        if dice.roll(2) == 0 {
            let cluster = |path: &String| path.replace("apps/", "./clusters/");
            for case in &mut self.cases {
                case.wanted.directories = case.wanted.directories.iter().map(cluster).collect();
                for other in &mut case.wanted.others {
                    let known = other.directories.take().unwrap_or_default();
                    other.directories = Some(known.iter().map(cluster).collect());
                }
            }
        }
    }

    /// Everything in the repository is one place's; no overlays.
    fn repository_per_environment(&mut self, dice: &mut Dice) {
        let root = dice.pick(&[".", "cluster", "./cluster/"]);
        for app in &APPS[..1 + dice.roll(APPS.len())] {
            let mut form = dice.pick(&FORMS);
            if form == Form::ReplacedImage {
                form = Form::AppliedImage;
            }
            let slot = format!("prod/{app}");
            let mut text = format!("{}---\n{}", form.rest(app), form.holder(app, &slot, dice));
            if form == Form::AppliedImage {
                text = format!(
                    "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata:\n  name: {app}\n  namespace: shop\nspec:\n  path: ./elsewhere\n  images:\n  - name: registry.example:5000/{app}\n    newTag: «{slot}»\n"
                );
            }
            let folder = dice.pick(&["", "apps/", "apps/shop/"]);
            self.add(format!("cluster/{folder}{app}.yaml"), text);
            self.case(
                ("prod", app),
                (form, Hold::Own),
                (vec![root.to_owned()], Vec::new()),
                None,
            );
        }
        self.add("README.md".to_owned(), "version: 1.0.0\n".to_owned());
    }

    /// One team's app with an overlay per place.
    fn repository_per_team(&mut self, dice: &mut Dice) {
        let places = &PLACES[..2 + dice.roll(PLACES.len() - 1)];
        self.overlays("deploy", places, dice);
        self.add(
            "src/kustomization.yaml".to_owned(),
            "not: [yaml\n".to_owned(),
        );
    }

    /// Every slot filled; those of one owner anew.
    fn filled(&self, anew: Option<(&str, &PinnedVersion)>, line: &str) -> Repository {
        let fill = |text: &String| {
            let mut filled = String::new();
            let mut rest = text.as_str();
            while let Some((before, after)) = rest.split_once('«') {
                let (slot, behind) = after.split_once('»').expect("a slot ends");
                let (owner, is_digest) = match slot.strip_suffix("#digest") {
                    Some(owner) => (owner, true),
                    None => (slot, false),
                };
                filled.push_str(before);
                match anew.filter(|(new, _)| *new == owner) {
                    Some((_, pin)) if is_digest => {
                        filled.push_str(pin.digest.as_deref().unwrap_or("?"))
                    }
                    Some((_, pin)) => filled.push_str(&pin.version),
                    None if is_digest => filled.push_str("sha256:0ld"),
                    None => filled.push_str("1.2.3"),
                }
                rest = behind;
            }
            filled.push_str(rest);
            filled.replace('\n', line)
        };
        let texts = self.texts.iter();
        texts
            .map(|(path, text)| (path.clone(), fill(text)))
            .collect()
    }
}

#[test]
fn every_promotion_changes_exactly_what_is_meant_or_says_why_not() {
    let (mut changed, mut refused) = (0, 0);
    for seed in 0..SEEDS {
        let mut dice = Dice(seed);
        let mut corpus = Corpus::default();
        match seed % 3 {
            0 => corpus.monorepo(&mut dice),
            1 => corpus.repository_per_environment(&mut dice),
            _ => corpus.repository_per_team(&mut dice),
        }
        let line = dice.pick(&["\n", "\n", "\r\n"]);
        let before = corpus.filled(None, line);
        for case in &corpus.cases {
            let about = format!("seed {seed}, {}", case.about);
            let after = promote(&before, &case.wanted);
            match case.expected {
                None => {
                    let expected = corpus.filled(Some((&case.slot, &case.wanted.pin)), line);
                    assert_ne!(expected, before, "{about}: the case is empty");
                    let after = after.unwrap_or_else(|error| panic!("{about}: {error}"));
                    for (path, text) in &expected {
                        assert_eq!(&after[path], text, "{about}: {path}");
                    }
                    changed += 1;
                }
                Some(reason) => {
                    let error = after
                        .err()
                        .unwrap_or_else(|| panic!("{about}: not refused"));
                    assert_eq!(error.reason(), reason, "{about}: {error}");
                    refused += 1;
                }
            }
        }
    }
    assert!(
        changed > 300 && refused > 100,
        "{changed} changed, {refused} refused"
    );
    let told = format!(
        "corpus: seeds 0 to {SEEDS}, {changed} promotions set what was meant, {refused} were refused\n"
    );
    // Past the capture of test output.
    let _ = std::io::stdout().lock().write_all(told.as_bytes());
}
