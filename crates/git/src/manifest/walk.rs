//! Everything that a directory is built of, as Kustomize and the controllers around it read it.
//!
//! Local directories and files only; what is fetched from elsewhere cannot be edited here. Where a
//! file is needed that was not read yet, the walk notes it and is taken again.

use std::collections::BTreeSet;

use super::files::Files;
use super::read::{Manifest, Manifests, join};
use super::target::Target;

/// Deeper than this nobody builds.
const DEEPEST: usize = 32;

/// Nor of more than this.
const MOST: usize = 20_000;

/// The group of the objects that say which directory is applied.
pub(super) const APPLIER: &str = "kustomize.toolkit.fluxcd.io";

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
        (
            self.namespace(own),
            format!("{}{name}{}", self.prefix, self.suffix),
        )
    }

    /// The namespace that everything inside ends up in, where one is said.
    pub(super) fn namespace<'a>(&'a self, written: Option<&'a str>) -> Option<&'a str> {
        self.namespace.as_deref().or(written)
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

/// How much something says: what is further up says more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Level {
    /// How many directories down.
    pub(super) depth: usize,
    /// How many components down: they work on what is listed, before what lists them does.
    layer: usize,
    pub(super) role: Role,
}

impl Level {
    fn new((depth, layer): Place, role: Role) -> Self {
        // Everything else works on the resources.
        let layer = if role == Role::Resource {
            usize::MAX
        } else {
            layer
        };
        Self { depth, layer, role }
    }
}

/// Depth and layer.
type Place = (usize, usize);

/// A file that was reached.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Reached {
    pub(super) level: Level,
    pub(super) path: String,
    pub(super) naming: Naming,
    /// Whom a patch is for, where that is said beside it.
    pub(super) target: Option<Target>,
}

impl Reached {
    fn new(path: &str, role: Role, place: Place, naming: &Naming) -> Self {
        Self {
            level: Level::new(place, role),
            path: path.to_owned(),
            naming: naming.clone(),
            target: None,
        }
    }
}

/// A patch that is written inside another file.
pub(super) struct Inline {
    pub(super) level: Level,
    pub(super) path: String,
    pub(super) line: usize,
    pub(super) target: Option<Target>,
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
            let roots = match directory.contains(['*', '?']) {
                true => files.roots(directory),
                false => resolve("", directory).into_iter().collect(),
            };
            for root in roots {
                walk.root(&root);
            }
        }
        walk
    }

    /// A directory; for one of its files too, if that is only part of what is built there.
    fn root(&mut self, path: &str) {
        let is_file = self.files.paths.contains(path);
        let is_part = is_file && self.files.kustomization(folder(path)).is_some();
        let path = if is_part { folder(path) } else { path };
        self.node(path, (0, 0), 0, &Naming::default());
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
    fn node(&mut self, path: &str, (depth, layer): Place, hop: usize, naming: &Naming) {
        if self.files.paths.contains(path) {
            self.file(path, (depth, layer), naming);
        } else {
            let layer = if hop == 0 { layer } else { 0 };
            self.directory(path, (depth + hop, layer), naming);
        }
    }

    fn directory(&mut self, path: &str, place: Place, naming: &Naming) {
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
            self.inside(path, place, naming);
            self.under_way.pop();
        }
    }

    fn inside(&mut self, path: &str, place: Place, naming: &Naming) {
        if let Some(own) = self.files.kustomization(path) {
            return self.kustomization(&own, path, place, naming);
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
                    self.file(&below(path, rest), place, naming);
                }
                None => {}
            }
        }
        for folder in folders
            .into_iter()
            .filter(|folder| !folder.starts_with('.'))
        {
            let folder = below(path, folder);
            let hop = usize::from(files.kustomization(&folder).is_some());
            self.directory(&folder, (place.0 + hop, place.1), naming);
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

    fn kustomization(&mut self, file: &str, folder: &str, place: Place, naming: &Naming) {
        let role = Role::Kustomization;
        self.reached.insert(Reached::new(file, role, place, naming));
        let (depth, layer) = place;
        for manifest in self.content(file) {
            let naming = naming.around(manifest.text("namespace"), manifest, "");
            for list in ["resources", "bases"] {
                for path in manifest.texts(list) {
                    self.part(folder, path, (place, 1), &naming);
                }
            }
            // A component works on what is listed beside it: it is no level further down.
            for path in manifest.texts("components") {
                self.part(folder, path, ((depth, layer + 1), 0), &naming);
            }
            // What a component's patches are for is listed beside it, or by whoever lists it.
            let is_component = manifest.kind() == "Component";
            let listed_by = self.under_way.iter().rev().nth(1).filter(|_| is_component);
            let directory = listed_by.map_or(folder, String::as_str).to_owned();
            for list in ["patches", "patchesJson6902", "patchesStrategicMerge"] {
                let listing = Listing {
                    file,
                    folder,
                    list,
                    directory: &directory,
                };
                self.patches(&listing, manifest, (place, &naming));
            }
        }
    }

    /// Patches in files of their own, or written into the one that lists them.
    fn patches(
        &mut self,
        listing: &Listing<'_>,
        manifest: Manifest<'_>,
        (place, naming): (Place, &Naming),
    ) {
        let list = listing.list;
        for item in (0..manifest.count(list)).map(|index| join(list, index)) {
            let at = |field: &str| manifest.scalar(&format!("{item}{field}"));
            let target = Target::of(manifest, &item, listing.directory);
            let path = at(".path")
                .or_else(|| at(""))
                .map(|path| path.value.as_str());
            let path = path.and_then(|path| resolve(listing.folder, path));
            if let Some(path) = path.filter(|path| self.files.paths.contains(path)) {
                let mut reached = Reached::new(&path, Role::Patch, place, naming);
                reached.target = target;
                self.reached.insert(reached);
                self.content(&path);
            } else if let Some(patch) = at(".patch").or_else(|| at("")) {
                self.inlines.push(Inline {
                    level: Level::new(place, Role::Patch),
                    path: listing.file.to_owned(),
                    line: patch.line,
                    target,
                    patch: Manifests::read(patch.value.as_bytes()).ok(),
                });
            }
        }
    }

    fn part(&mut self, folder: &str, path: &str, (place, hop): (Place, usize), naming: &Naming) {
        let is_remote = path.contains("://") || path.contains("?ref=") || path.starts_with("git@");
        if let Some(path) = resolve(folder, path).filter(|_| !is_remote) {
            self.node(&path, place, hop, naming);
        }
    }

    fn file(&mut self, path: &str, place: Place, naming: &Naming) {
        let role = Role::Resource;
        self.reached.insert(Reached::new(path, role, place, naming));
        for manifest in self.content(path) {
            if manifest.group() != APPLIER || manifest.kind() != "Kustomization" {
                continue;
            }
            let applied = manifest
                .text("spec.path")
                .and_then(|path| resolve("", path));
            let listing = Listing {
                file: path,
                folder: "",
                list: "spec.patches",
                directory: applied.as_deref().unwrap_or_default(),
            };
            self.patches(&listing, manifest, (place, naming));
            let target = manifest.text("spec.targetNamespace");
            let naming = Naming::default().around(target, manifest, "spec.");
            let source = |field: &str| manifest.text(&format!("spec.sourceRef.{field}"));
            let is_foreign = source("kind").is_some_and(|kind| kind != "GitRepository")
                || source("name").is_some_and(|name| self.foreign.contains(name));
            // The root of a repository is applied by itself, or is that of another repository.
            if let Some(applied) = applied.filter(|path| !is_foreign && !path.is_empty()) {
                self.directory(&applied, (place.0 + 1, 0), &naming);
            }
        }
    }
}

/// A list of patches in a file of a folder.
struct Listing<'a> {
    file: &'a str,
    folder: &'a str,
    list: &'a str,
    /// What the patches are for is built in here.
    directory: &'a str,
}

fn is_manifest(name: &str) -> bool {
    name.ends_with(".yaml") || name.ends_with(".yml")
}

/// The directory that a file is in.
pub(super) fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

pub(super) fn below(folder: &str, name: &str) -> String {
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
