//! All files that a directory is built from, as Kustomize and the Flux controllers read it.
//!
//! Follows local directories and files only; remote resources cannot be edited here. A file that is
//! needed and not read yet is recorded as missing; the caller reads it and builds the graph again.

use std::collections::BTreeSet;

use super::build_file::{BuildDepth, BuildFile, FileRole, NameTransformation, Precedence};
use super::files::RepositoryFiles;
use super::parsed::{Manifest, Manifests, join};
use super::patch_target::PatchTarget;
use super::paths::{folder, is_manifest, join_path, resolve};

/// The greatest depth of nested directories.
const MAX_DEPTH: usize = 32;

/// The largest number of directories.
const MAX_DIRECTORIES: usize = 20_000;

/// The API group of Flux Kustomizations.
pub(super) const FLUX_KUSTOMIZE_GROUP: &str = "kustomize.toolkit.fluxcd.io";

/// A patch that is written in the Kustomization itself.
pub(super) struct InlinePatch {
    pub(super) precedence: Precedence,
    pub(super) path: String,
    pub(super) line: usize,
    pub(super) target: Option<PatchTarget>,
    pub(super) patch: Option<Manifests>,
}

/// All files that some directories are built from.
pub(crate) struct BuildGraph<'a> {
    files: &'a RepositoryFiles,
    other_repositories: BTreeSet<&'a str>,
    pub(super) build_files: BTreeSet<BuildFile>,
    pub(super) inline_patches: Vec<InlinePatch>,
    pub(crate) missing: BTreeSet<String>,
    directories: BTreeSet<(String, NameTransformation)>,
    /// The directories that are being followed, outermost first.
    current_directories: Vec<String>,
    /// Whether a limit was exceeded, so that files are missing.
    pub(super) is_truncated: bool,
}

impl<'a> BuildGraph<'a> {
    pub(crate) fn new(files: &'a RepositoryFiles, directories: &[String]) -> Self {
        let mut graph = Self {
            files,
            other_repositories: files.other_repositories(),
            build_files: BTreeSet::new(),
            inline_patches: Vec::new(),
            missing: BTreeSet::new(),
            directories: BTreeSet::new(),
            current_directories: Vec::new(),
            is_truncated: false,
        };
        for directory in directories {
            let roots = match directory.contains(['*', '?']) {
                true => files.matching(directory),
                false => resolve("", directory).into_iter().collect(),
            };
            for root in roots {
                graph.add_root(&root);
            }
        }
        graph
    }

    /// Adds a directory, or a file. A file that a Kustomization lists stands for its whole directory.
    fn add_root(&mut self, path: &str) {
        let is_file = self.files.paths.contains(path);
        let is_part = is_file && self.files.kustomization(folder(path)).is_some();
        let path = if is_part { folder(path) } else { path };
        self.add_path(path, (0, 0), 0, &NameTransformation::default());
    }

    /// All manifests, in the order of their precedence.
    pub(super) fn manifests(&self) -> impl Iterator<Item = (&BuildFile, Manifest<'a>)> {
        self.build_files.iter().flat_map(|file| {
            let read = self.files.read.get(&file.path).and_then(Option::as_ref);
            let manifests = read.into_iter().flat_map(Manifests::each);
            manifests.map(move |manifest| (file, manifest))
        })
    }

    /// Files that could not be read.
    pub(super) fn unreadable(&self) -> Vec<String> {
        let paths: BTreeSet<&String> = self.build_files.iter().map(|file| &file.path).collect();
        let is_unreadable = |path: &&&String| matches!(self.files.read.get(**path), Some(None));
        paths
            .iter()
            .filter(is_unreadable)
            .map(|path| (*path).clone())
            .collect()
    }

    pub(super) fn contains(&self, path: &str) -> bool {
        self.build_files.iter().any(|file| file.path == path)
    }

    /// Adds a file or a directory, which is a level of its own.
    fn add_path(
        &mut self,
        path: &str,
        (directories, components): BuildDepth,
        levels: usize,
        names: &NameTransformation,
    ) {
        if self.files.paths.contains(path) {
            self.add_file(path, (directories, components), names);
        } else {
            let components = if levels == 0 { components } else { 0 };
            self.add_directory(path, (directories + levels, components), names);
        }
    }

    fn add_directory(&mut self, path: &str, depth: BuildDepth, names: &NameTransformation) {
        let key = (path.to_owned(), names.clone());
        // Kustomize refuses a cycle.
        let is_cycle = self.current_directories.iter().any(|outer| outer == path);
        if is_cycle || self.directories.contains(&key) {
            return;
        }
        self.is_truncated |= self.current_directories.len() >= MAX_DEPTH
            || self.directories.len() >= MAX_DIRECTORIES;
        if !self.is_truncated {
            self.directories.insert(key);
            self.current_directories.push(path.to_owned());
            self.add_directory_content(path, depth, names);
            self.current_directories.pop();
        }
    }

    fn add_directory_content(&mut self, path: &str, depth: BuildDepth, names: &NameTransformation) {
        if let Some(own) = self.files.kustomization(path) {
            return self.add_kustomization(&own, path, depth, names);
        }
        // Without a Kustomization, Flux applies all manifests below the directory.
        let files = self.files;
        let start = if path.is_empty() {
            String::new()
        } else {
            join_path(path, "")
        };
        let inside = files.paths.range(start.clone()..);
        let inside = inside.map_while(|file| file.strip_prefix(start.as_str()));
        let mut folders = BTreeSet::new();
        for rest in inside {
            match rest.split_once('/') {
                Some((folder, _)) => drop(folders.insert(folder)),
                None if is_manifest(rest) => {
                    self.add_file(&join_path(path, rest), depth, names);
                }
                None => {}
            }
        }
        for folder in folders
            .into_iter()
            .filter(|folder| !folder.starts_with('.'))
        {
            let folder = join_path(path, folder);
            let levels = usize::from(files.kustomization(&folder).is_some());
            self.add_directory(&folder, (depth.0 + levels, depth.1), names);
        }
    }

    /// The manifests of a file. Records it as missing if it is not read yet.
    fn manifests_of(&mut self, path: &str) -> Vec<Manifest<'a>> {
        match self.files.read.get(path) {
            Some(Some(manifests)) => manifests.each().collect(),
            Some(None) => Vec::new(),
            None => {
                self.missing.insert(path.to_owned());
                Vec::new()
            }
        }
    }

    fn add_kustomization(
        &mut self,
        file: &str,
        folder: &str,
        depth: BuildDepth,
        names: &NameTransformation,
    ) {
        let role = FileRole::Kustomization;
        self.build_files
            .insert(BuildFile::new(file, role, depth, names));
        let (directories, components) = depth;
        for manifest in self.manifests_of(file) {
            let names = names.nested(manifest.text("namespace"), manifest, "");
            for list in ["resources", "bases"] {
                for path in manifest.texts(list) {
                    self.add_listed(folder, path, (depth, 1), &names);
                }
            }
            // A component changes what is listed beside it, so that it is on the same level.
            for path in manifest.texts("components") {
                self.add_listed(folder, path, ((directories, components + 1), 0), &names);
            }
            // The targets of a component's patches are listed by the Kustomization that lists it.
            let is_component = manifest.kind() == "Component";
            let listed_by = self
                .current_directories
                .iter()
                .rev()
                .nth(1)
                .filter(|_| is_component);
            let directory = listed_by.map_or(folder, String::as_str).to_owned();
            for list in ["patches", "patchesJson6902", "patchesStrategicMerge"] {
                let patches = PatchList {
                    file,
                    folder,
                    list,
                    directory: &directory,
                };
                self.add_patches(&patches, manifest, (depth, &names));
            }
        }
    }

    /// Adds a list of patches, in files of their own or inline.
    fn add_patches(
        &mut self,
        patches: &PatchList<'_>,
        manifest: Manifest<'_>,
        (depth, names): (BuildDepth, &NameTransformation),
    ) {
        let list = patches.list;
        for item in (0..manifest.count(list)).map(|index| join(list, index)) {
            let at = |field: &str| manifest.scalar(&format!("{item}{field}"));
            let target = PatchTarget::of(manifest, &item, patches.directory);
            let path = at(".path")
                .or_else(|| at(""))
                .map(|path| path.value.as_str());
            let path = path.and_then(|path| resolve(patches.folder, path));
            if let Some(path) = path.filter(|path| self.files.paths.contains(path)) {
                let mut patch_file = BuildFile::new(&path, FileRole::Patch, depth, names);
                patch_file.target = target;
                self.build_files.insert(patch_file);
                self.manifests_of(&path);
            } else if let Some(patch) = at(".patch").or_else(|| at("")) {
                self.inline_patches.push(InlinePatch {
                    precedence: Precedence::new(depth, FileRole::Patch),
                    path: patches.file.to_owned(),
                    line: patch.line,
                    target,
                    patch: Manifests::read(patch.value.as_bytes()).ok(),
                });
            }
        }
    }

    /// Adds an entry of a list of resources, unless it is remote.
    fn add_listed(
        &mut self,
        folder: &str,
        path: &str,
        (depth, levels): (BuildDepth, usize),
        names: &NameTransformation,
    ) {
        let is_remote = path.contains("://") || path.contains("?ref=") || path.starts_with("git@");
        if let Some(path) = resolve(folder, path).filter(|_| !is_remote) {
            self.add_path(&path, depth, levels, names);
        }
    }

    fn add_file(&mut self, path: &str, depth: BuildDepth, names: &NameTransformation) {
        let role = FileRole::Resource;
        self.build_files
            .insert(BuildFile::new(path, role, depth, names));
        for manifest in self.manifests_of(path) {
            if manifest.group() != FLUX_KUSTOMIZE_GROUP || manifest.kind() != "Kustomization" {
                continue;
            }
            let applied = manifest
                .text("spec.path")
                .and_then(|path| resolve("", path));
            let patches = PatchList {
                file: path,
                folder: "",
                list: "spec.patches",
                directory: applied.as_deref().unwrap_or_default(),
            };
            self.add_patches(&patches, manifest, (depth, names));
            let target = manifest.text("spec.targetNamespace");
            let names = NameTransformation::default().nested(target, manifest, "spec.");
            let source = |field: &str| manifest.text(&format!("spec.sourceRef.{field}"));
            let is_other_repository = source("kind").is_some_and(|kind| kind != "GitRepository")
                || source("name").is_some_and(|name| self.other_repositories.contains(name));
            // The root is not followed: it contains this file itself, or is another repository's.
            if let Some(applied) = applied.filter(|path| !is_other_repository && !path.is_empty()) {
                self.add_directory(&applied, (depth.0 + 1, 0), &names);
            }
        }
    }
}

/// A list of patches in a Kustomization.
struct PatchList<'a> {
    file: &'a str,
    folder: &'a str,
    list: &'a str,
    /// The directory whose objects are patched.
    directory: &'a str,
}
