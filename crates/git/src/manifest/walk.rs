//! Everything that a directory is built of, as Kustomize and the controllers around it read it.
//!
//! Local directories and files only; what is fetched from elsewhere cannot be edited here. Where a
//! file is needed that was not read yet, the walk notes it and is taken again.

use std::collections::{BTreeMap, BTreeSet};

use crate::address::{Reach, RepositoryUrl};

use super::read::{Manifest, Manifests, join};

/// Deeper than this nobody builds.
const DEEPEST: usize = 32;

/// Nor of more than this.
const MOST: usize = 20_000;

const KUSTOMIZATIONS: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// The group of the objects that say which directory is applied.
pub(super) const APPLIER: &str = "kustomize.toolkit.fluxcd.io";

/// A repository: which files there are, and what is in those that were read.
pub(crate) struct Files {
    /// The end of its path, to know references to the repository itself.
    pub(crate) url: Option<String>,
    pub(crate) paths: BTreeSet<String>,
    /// Nothing for those that are no manifests.
    pub(crate) read: BTreeMap<String, Option<Manifests>>,
}

impl Files {
    /// The names of the sources that are known to be other repositories.
    fn foreign(&self) -> BTreeSet<&str> {
        let manifests = self.read.values().flatten().flat_map(Manifests::each);
        let sources = manifests.filter(|manifest| manifest.kind() == "GitRepository");
        let is_foreign = |url: &str| normal(url) != self.url;
        let foreign = sources.filter_map(|source| {
            let url = source.text("spec.url")?;
            source.text("metadata.name").filter(|_| is_foreign(url))
        });
        foreign.collect()
    }
}

/// The end of a repository's path. The rest of its address differs by how it is reached.
pub(crate) fn normal(url: &str) -> Option<String> {
    let reach = Reach {
        allow_internal: true,
        allow_insecure: true,
    };
    let project = RepositoryUrl::parse(url, reach)
        .ok()?
        .project()
        .to_lowercase();
    let parts: Vec<&str> = project.split('/').filter(|part| *part != "_git").collect();
    Some(parts[parts.len().saturating_sub(2)..].join("/"))
}

/// What a file is to what is built. Of two on one level the first says more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    Kustomization,
    Patch,
    Resource,
}

/// What the levels above do to the names of what they build.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Naming {
    namespace: Option<String>,
    prefix: String,
    suffix: String,
}

impl Naming {
    /// The names that something ends up with.
    pub(super) fn of<'a>(&'a self, manifest: Manifest<'a>) -> (Option<&'a str>, String) {
        let name = manifest.text("metadata.name").unwrap_or_default();
        let own = manifest.text("metadata.namespace");
        let namespace = self.namespace.as_deref().or(own);
        (namespace, format!("{}{name}{}", self.prefix, self.suffix))
    }

    /// What is further inside happens first; the outermost namespace stays.
    fn around(&self, namespace: Option<&str>, manifest: Manifest<'_>, root: &str) -> Self {
        let text = |field: &str| manifest.text(&format!("{root}{field}"));
        let prefix = text("namePrefix").unwrap_or_default();
        let suffix = text("nameSuffix").unwrap_or_default();
        Self {
            namespace: self.namespace.clone().or(namespace.map(str::to_owned)),
            prefix: format!("{}{prefix}", self.prefix),
            suffix: format!("{suffix}{}", self.suffix),
        }
    }
}

/// A file that was reached.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Reached {
    pub(super) depth: usize,
    pub(super) role: Role,
    pub(super) path: String,
    pub(super) naming: Naming,
    /// The name or pattern of what a patch is for, where that is said beside it.
    pub(super) target: Option<String>,
}

impl Reached {
    fn new(path: &str, role: Role, depth: usize, naming: &Naming) -> Self {
        Self {
            depth,
            role,
            path: path.to_owned(),
            naming: naming.clone(),
            target: None,
        }
    }
}

/// A patch that is written inside another file.
pub(super) struct Inline {
    pub(super) depth: usize,
    pub(super) path: String,
    pub(super) line: usize,
    pub(super) target: Option<String>,
    pub(super) patch: Option<Manifests>,
}

/// What was reached from some directories.
pub(crate) struct Walk<'a> {
    files: &'a Files,
    foreign: BTreeSet<&'a str>,
    pub(super) reached: BTreeSet<Reached>,
    pub(super) inlines: Vec<Inline>,
    pub(crate) missing: BTreeSet<String>,
    directories: BTreeSet<(String, Naming)>,
    /// The directories that are being walked, outermost first.
    under_way: Vec<String>,
    /// There is more than anybody builds of, and not all of it was walked.
    pub(super) is_cut: bool,
}

impl<'a> Walk<'a> {
    pub(crate) fn from(files: &'a Files, directories: &[String]) -> Self {
        let mut walk = Self {
            files,
            foreign: files.foreign(),
            reached: BTreeSet::new(),
            inlines: Vec::new(),
            missing: BTreeSet::new(),
            directories: BTreeSet::new(),
            under_way: Vec::new(),
            is_cut: false,
        };
        for directory in directories {
            if let Some(path) = resolve("", directory) {
                walk.node(&path, 0, 0, &Naming::default());
            }
        }
        walk
    }

    /// The manifests that were reached, the ones that say most first.
    pub(super) fn manifests(&self) -> impl Iterator<Item = (&Reached, Manifest<'a>)> {
        self.reached.iter().flat_map(|reached| {
            let read = self.files.read.get(&reached.path).and_then(Option::as_ref);
            let manifests = read.into_iter().flat_map(Manifests::each);
            manifests.map(move |manifest| (reached, manifest))
        })
    }

    /// Files that were reached and could not be read.
    pub(super) fn skipped(&self) -> Vec<String> {
        let paths: BTreeSet<&String> = self.reached.iter().map(|reached| &reached.path).collect();
        let is_unreadable = |path: &&&String| matches!(self.files.read.get(**path), Some(None));
        paths
            .iter()
            .filter(is_unreadable)
            .map(|path| (*path).clone())
            .collect()
    }

    pub(super) fn reaches(&self, path: &str) -> bool {
        self.reached.iter().any(|reached| reached.path == path)
    }

    /// A file or a directory that is part of what is built; a directory is a level of its own.
    fn node(&mut self, path: &str, depth: usize, hop: usize, naming: &Naming) {
        if self.files.paths.contains(path) {
            self.file(path, depth, naming);
        } else {
            self.directory(path, depth + hop, naming);
        }
    }

    fn directory(&mut self, path: &str, depth: usize, naming: &Naming) {
        let key = (path.to_owned(), naming.clone());
        // A circle is refused by whoever builds it.
        let is_circle = self.under_way.iter().any(|outer| outer == path);
        if is_circle || self.directories.contains(&key) {
            return;
        }
        self.is_cut |= self.under_way.len() >= DEEPEST || self.directories.len() >= MOST;
        if !self.is_cut {
            self.directories.insert(key);
            self.under_way.push(path.to_owned());
            self.inside(path, depth, naming);
            self.under_way.pop();
        }
    }

    fn inside(&mut self, path: &str, depth: usize, naming: &Naming) {
        let mut names = KUSTOMIZATIONS.into_iter();
        let own = names.find_map(|name| {
            let file = below(path, name);
            self.files.paths.contains(&file).then_some(file)
        });
        if let Some(own) = own {
            return self.kustomization(&own, path, depth, naming);
        }
        // Without one everything below counts, as if it were listed.
        let files = self.files;
        let start = if path.is_empty() {
            String::new()
        } else {
            below(path, "")
        };
        let inside = files.paths.range(start.clone()..);
        let inside = inside.map_while(|file| file.strip_prefix(start.as_str()));
        let mut folders = BTreeSet::new();
        for rest in inside {
            match rest.split_once('/') {
                Some((folder, _)) => drop(folders.insert(folder)),
                None if is_manifest(rest) => {
                    self.file(&below(path, rest), depth, naming);
                }
                None => {}
            }
        }
        for folder in folders
            .into_iter()
            .filter(|folder| !folder.starts_with('.'))
        {
            let folder = below(path, folder);
            let is_overlay = KUSTOMIZATIONS.iter().any(|name| {
                let file = below(&folder, name);
                files.paths.contains(&file)
            });
            self.directory(&folder, depth + usize::from(is_overlay), naming);
        }
    }

    /// The manifests of a file, unless it must be read first.
    fn content(&mut self, path: &str) -> Vec<Manifest<'a>> {
        match self.files.read.get(path) {
            Some(Some(manifests)) => manifests.each().collect(),
            Some(None) => Vec::new(),
            None => {
                self.missing.insert(path.to_owned());
                Vec::new()
            }
        }
    }

    fn kustomization(&mut self, file: &str, folder: &str, depth: usize, naming: &Naming) {
        let role = Role::Kustomization;
        self.reached.insert(Reached::new(file, role, depth, naming));
        for manifest in self.content(file) {
            let naming = naming.around(manifest.text("namespace"), manifest, "");
            for list in ["resources", "bases"] {
                for path in manifest.texts(list) {
                    self.part(folder, path, (depth, 1), &naming);
                }
            }
            // A component works on what is listed beside it: it is no level further down.
            for path in manifest.texts("components") {
                self.part(folder, path, (depth, 0), &naming);
            }
            for list in ["patches", "patchesJson6902", "patchesStrategicMerge"] {
                self.patches((file, folder), manifest, list, (depth, &naming));
            }
        }
    }

    /// Patches in files of their own, or written into the one that lists them.
    fn patches(
        &mut self,
        (file, folder): (&str, &str),
        manifest: Manifest<'_>,
        list: &str,
        (depth, naming): (usize, &Naming),
    ) {
        for item in (0..manifest.count(list)).map(|index| join(list, index)) {
            let at = |field: &str| manifest.scalar(&format!("{item}{field}"));
            let target = target(manifest, &item);
            let path = at(".path")
                .or_else(|| at(""))
                .map(|path| path.value.as_str());
            let path = path.and_then(|path| resolve(folder, path));
            if let Some(path) = path.filter(|path| self.files.paths.contains(path)) {
                let mut reached = Reached::new(&path, Role::Patch, depth, naming);
                reached.target = target;
                self.reached.insert(reached);
                self.content(&path);
            } else if let Some(patch) = at(".patch").or_else(|| at("")) {
                self.inlines.push(Inline {
                    depth,
                    path: file.to_owned(),
                    line: patch.line,
                    target,
                    patch: Manifests::read(patch.value.as_bytes()).ok(),
                });
            }
        }
    }

    fn part(&mut self, folder: &str, path: &str, (depth, hop): (usize, usize), naming: &Naming) {
        let is_remote = path.contains("://") || path.contains("?ref=") || path.starts_with("git@");
        if let Some(path) = resolve(folder, path).filter(|_| !is_remote) {
            self.node(&path, depth, hop, naming);
        }
    }

    fn file(&mut self, path: &str, depth: usize, naming: &Naming) {
        let role = Role::Resource;
        self.reached.insert(Reached::new(path, role, depth, naming));
        for manifest in self.content(path) {
            if manifest.group() != APPLIER || manifest.kind() != "Kustomization" {
                continue;
            }
            self.patches((path, ""), manifest, "spec.patches", (depth, naming));
            let target = manifest.text("spec.targetNamespace");
            let naming = Naming::default().around(target, manifest, "spec.");
            let source = |field: &str| manifest.text(&format!("spec.sourceRef.{field}"));
            let is_foreign = source("kind").is_some_and(|kind| kind != "GitRepository")
                || source("name").is_some_and(|name| self.foreign.contains(name));
            let applied = manifest.text("spec.path").filter(|_| !is_foreign);
            let applied = applied.and_then(|path| resolve("", path));
            // The root of a repository is applied by itself, or is that of another repository.
            if let Some(applied) = applied.filter(|path| !path.is_empty()) {
                self.directory(&applied, depth + 1, &naming);
            }
        }
    }
}

/// Whom a patch in a list is for, by name or pattern, where that is said.
fn target(manifest: Manifest<'_>, item: &str) -> Option<String> {
    let text = |field: &str| manifest.text(&format!("{item}.target.{field}"));
    // Whoever is chosen by anything else than a name may be several.
    let others = [
        "kind",
        "group",
        "namespace",
        "labelSelector",
        "annotationSelector",
    ];
    let is_open = || others.iter().any(|field| text(field).is_some());
    let name = text("name").map(str::to_owned);
    name.or_else(|| is_open().then(|| "*".to_owned()))
}

fn is_manifest(name: &str) -> bool {
    name.ends_with(".yaml") || name.ends_with(".yml")
}

/// The directory that a file is in.
pub(super) fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

fn below(folder: &str, name: &str) -> String {
    match folder {
        "" => name.to_owned(),
        folder => format!("{folder}/{name}"),
    }
}

/// A path as seen from a folder, without dots; nothing if it leaves the repository.
pub(super) fn resolve(folder: &str, path: &str) -> Option<String> {
    let start = if path.starts_with('/') { "" } else { folder };
    let mut parts: Vec<&str> = Vec::new();
    for part in start.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}
