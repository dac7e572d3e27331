//! A thousand generated fleets through the preview: a promotion changes its own environment's version
//! and no other byte, or is refused; where enough is known it is not refused.
//!
//! Texts hold slots: `«prod»` is what only prod runs, `«all»` what every environment is built of.

use serde_json::{Value, json};

use super::drawn::{DrawnRepository, promote};

const SEEDS: u64 = 1000;
const URL: &str = super::drawn::URL;

/// The same numbers for the same seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }

    fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.roll(all.len())]
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Layout {
    /// `apps/prod.yaml`
    Files,
    /// `apps/prod/r.yaml`
    Folders,
    /// `apps/base` and `apps/prod` with a patch.
    Overlays,
    /// `clusters/prod` has `apps/prod` applied, which is an overlay with a patch.
    Clusters,
    /// `apps/base`, and nothing in `apps/prod` but a reference to it.
    Base,
    /// `apps/r.yaml` for everybody.
    Same,
    /// One cluster, a namespace each, all of it in `clusters/main`.
    Namespaces,
}

const LAYOUTS: [Layout; 7] = [
    Layout::Files,
    Layout::Folders,
    Layout::Overlays,
    Layout::Clusters,
    Layout::Base,
    Layout::Same,
    Layout::Namespaces,
];

/// What is known about where environments are built.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Knowledge {
    /// By the clusters, of all.
    Told,
    /// By the clusters, but not of all others.
    ToldInPart,
    /// By paths that tell environments apart.
    Paths,
    /// By paths that do not.
    WidePaths,
}

const KNOWLEDGE: [Knowledge; 4] = [
    Knowledge::Told,
    Knowledge::ToldInPart,
    Knowledge::Paths,
    Knowledge::WidePaths,
];

struct Fleet {
    layout: Layout,
    knowledge: Knowledge,
    environments: Vec<&'static str>,
    texts: DrawnRepository,
}

fn release(namespace: &str, slot: &str) -> String {
    format!(
        "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata:\n  name: app\n{namespace}\
         spec:\n  chart:\n    spec:\n      version: {slot}\n"
    )
}

impl Fleet {
    fn of(dice: &mut Dice) -> Self {
        let mut fleet = Self {
            layout: dice.pick(&LAYOUTS),
            knowledge: dice.pick(&KNOWLEDGE),
            environments: ["dev", "staging", "prod"][..2 + dice.roll(2)].to_vec(),
            texts: DrawnRepository::new(),
        };
        for environment in fleet.environments.clone() {
            fleet.build(environment, dice);
        }
        let noise = "kind: ConfigMap\nmetadata: {name: app}\ndata: {version: 1.0.0}\n";
        for folder in ["apps", "other"].into_iter().take(dice.roll(3)) {
            fleet.add(format!("{folder}/noise.yaml"), noise.to_owned());
        }
        fleet
    }

    fn add(&mut self, path: String, text: String) {
        self.texts.insert(path, text);
    }

    fn namespace(&self, environment: &str) -> String {
        match self.layout {
            Layout::Namespaces => format!("shop-{environment}"),
            _ => "shop".to_owned(),
        }
    }

    fn build(&mut self, environment: &str, dice: &mut Dice) {
        let namespace = format!("  namespace: {}\n", self.namespace(environment));
        let written = dice.pick(&["", namespace.as_str()]).to_owned();
        let own = format!("«{environment}»");
        let folder = format!("apps/{environment}");
        match self.layout {
            Layout::Files => self.add(format!("{folder}.yaml"), release(&written, &own)),
            Layout::Folders => self.add(format!("{folder}/r.yaml"), release(&written, &own)),
            Layout::Same => self.add("apps/r.yaml".to_owned(), release(&written, "«all»")),
            Layout::Namespaces => {
                let path = format!("clusters/main/{environment}.yaml");
                self.add(path, release(&namespace, &own));
            }
            Layout::Overlays | Layout::Clusters | Layout::Base => {
                self.add("apps/base/r.yaml".to_owned(), release(&written, "«all»"));
                let mut list = "resources: [../base]\n".to_owned();
                if self.layout != Layout::Base {
                    let target = dice.pick(&["", ", target: {kind: HelmRelease}"]);
                    list.push_str(&format!("patches: [{{path: p.yaml{target}}}]\n"));
                    self.add(format!("{folder}/p.yaml"), release(&written, &own));
                }
                self.add(format!("{folder}/kustomization.yaml"), list);
            }
        }
        if self.layout == Layout::Clusters {
            let text = format!(
                "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata:\n  name: apps\n\
                 spec:\n  path: ./apps/{environment}\n  sourceRef: {{kind: GitRepository, name: flux-system}}\n"
            );
            self.add(format!("clusters/{environment}/apps.yaml"), text);
        }
    }

    fn origin(&self, environment: &str) -> String {
        match self.layout {
            Layout::Files | Layout::Same => "./apps".to_owned(),
            Layout::Clusters => format!("./clusters/{environment}"),
            Layout::Namespaces => "./clusters/main".to_owned(),
            _ => format!("./apps/{environment}"),
        }
    }

    fn paths(&self, dice: &mut Dice) -> Vec<&'static str> {
        match (self.knowledge, self.layout) {
            (Knowledge::WidePaths, Layout::Namespaces) => vec![dice.pick(&["**", "clusters/**"])],
            (Knowledge::WidePaths, _) => vec![dice.pick(&["**", "apps/**", "./"])],
            (Knowledge::Paths, Layout::Files) => vec!["apps/${environment}.yaml"],
            (Knowledge::Paths, Layout::Clusters) => {
                vec!["clusters/${environment}/**", "apps/${environment}/**"]
            }
            (Knowledge::Paths, Layout::Namespaces) => vec!["clusters/main/${environment}.yaml"],
            (Knowledge::Paths, _) => vec!["apps/${environment}/**"],
            // Told by the clusters; paths are a limit, if anything.
            _ => dice.pick(&[&[][..], &["**"]]).to_vec(),
        }
    }

    fn pipeline(&self, into: &str, dice: &mut Dice) -> Value {
        let paths = self.paths(dice);
        let mut status = json!({});
        for environment in &self.environments {
            let namespace = self.namespace(environment);
            let is_told = match self.knowledge {
                Knowledge::Told => true,
                Knowledge::ToldInPart => *environment == into,
                Knowledge::Paths | Knowledge::WidePaths => false,
            };
            let origin = is_told.then(|| json!({"url": URL, "path": self.origin(environment)}));
            let cluster = json!({"clusterRef": {"kind": "GitopsCluster", "name": environment}});
            let app = json!({"name": "app", "origin": origin});
            let target = json!({"clusterAppRef": cluster, "namespace": namespace, "apps": [app]});
            status[environment] = json!({"targets": [target]});
        }
        let environments = self.environments.iter();
        let environments = environments.map(|name| json!({"name": name, "targets": []}));
        let commit = json!({"url": URL, "baseBranch": "main", "paths": paths});
        let kind = json!({"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "name": "app"});
        json!({
            "apiVersion": "pipelines.weave.works/v1alpha1", "kind": "Pipeline",
            "metadata": {"name": "app", "namespace": "team"},
            "spec": {
                "appRef": kind, "environments": environments.collect::<Vec<_>>(),
                "promotion": {"strategy": {"commit": commit}},
            },
            "status": {"environments": status},
        })
    }

    /// Every slot filled; that of one environment anew.
    fn filled(&self, anew: &str) -> DrawnRepository {
        let fill = |text: &String| {
            let text = text.replace(&format!("«{anew}»"), "2.0.0");
            let slots = ["dev", "staging", "prod", "all"];
            slots.iter().fold(text, |text, slot| {
                text.replace(&format!("«{slot}»"), "1.0.0")
            })
        };
        let texts = self.texts.iter();
        texts
            .map(|(path, text)| (path.clone(), fill(text)))
            .collect()
    }

    /// Whether enough is known to find what is meant.
    fn must_succeed(&self) -> bool {
        let has_own = !matches!(self.layout, Layout::Base | Layout::Same);
        let is_apart = match self.knowledge {
            // Files in one folder are one folder's.
            Knowledge::Told => self.layout != Layout::Files,
            Knowledge::ToldInPart => {
                matches!(
                    self.layout,
                    Layout::Folders | Layout::Overlays | Layout::Namespaces
                )
            }
            Knowledge::Paths => true,
            Knowledge::WidePaths => self.layout == Layout::Namespaces,
        };
        has_own && is_apart
    }
}

#[test]
fn no_promotion_changes_another_environment() {
    let (mut changed, mut refused) = (0, 0);
    for seed in 0..SEEDS {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let fleet = Fleet::of(&mut dice);
        // Of two clusters with one folder, none can tell while only one of them is known.
        if fleet.layout == Layout::Same && fleet.knowledge == Knowledge::ToldInPart {
            continue;
        }
        for environment in &fleet.environments {
            let about = format!(
                "seed {seed}: {:?}, {:?}, into {environment}",
                fleet.layout, fleet.knowledge
            );
            let before = fleet.filled("nothing");
            let pipeline = fleet.pipeline(environment, &mut dice);
            match promote(pipeline, environment, "2.0.0", &before) {
                Ok(after) => {
                    assert_ne!(after, before, "{about}: nothing changed");
                    assert_eq!(after, fleet.filled(environment), "{about}");
                    changed += 1;
                }
                Err(reason) => {
                    assert!(!fleet.must_succeed(), "{about}: {reason}");
                    let expected = [
                        "SharedManifest",
                        "SeveralManifests",
                        "NotObserved",
                        "NoManifest",
                    ];
                    assert!(expected.contains(&reason.as_str()), "{about}: {reason}");
                    refused += 1;
                }
            }
        }
    }
    assert!(
        changed > 700 && refused > 500,
        "{changed} changed, {refused} refused"
    );
}
