//! Reads the manifests of a git checkout and the promotion markers in them.

use std::{
    collections::BTreeMap,
    io::{IsTerminal, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};

/// Larger files are not read, as in promotions.
const FILE_LIMIT: u64 = 1 << 20;

/// The YAML files below a folder.
pub(super) struct ManifestCheckout {
    root: PathBuf,
    /// By path relative to the root, with slashes.
    pub(super) files: BTreeMap<String, Vec<u8>>,
}

/// The files of each marker, and the files that could not be parsed.
#[derive(Default)]
pub(super) struct Markers {
    pub(super) files: BTreeMap<String, Vec<String>>,
    pub(super) unreadable: Vec<String>,
}

impl ManifestCheckout {
    /// Reads all manifests. Does not follow symlinks and skips `.git`.
    pub(super) fn read(root: &Path) -> anyhow::Result<Self> {
        if !root.is_dir() {
            bail!(
                "{} is not a folder; pass the path of a checkout of the repository",
                root.display()
            );
        }
        let mut checkout = Self {
            root: root.to_owned(),
            files: BTreeMap::new(),
        };
        checkout.read_folder(root)?;
        progress("");
        Ok(checkout)
    }

    fn read_folder(&mut self, folder: &Path) -> anyhow::Result<()> {
        let attempted = || format!("cannot read the folder {}", folder.display());
        for entry in std::fs::read_dir(folder).with_context(attempted)? {
            let entry = entry.with_context(attempted)?;
            let (path, kind) = (entry.path(), entry.file_type().with_context(attempted)?);
            let is_manifest = path
                .extension()
                .is_some_and(|it| it == "yaml" || it == "yml")
                || entry.file_name() == "Kustomization";
            if kind.is_dir() && entry.file_name() != ".git" {
                self.read_folder(&path)?;
            } else if kind.is_file() && is_manifest {
                self.read_file(&path)?;
            }
        }
        Ok(())
    }

    fn read_file(&mut self, path: &Path) -> anyhow::Result<()> {
        let attempted = || format!("cannot read {}", path.display());
        if std::fs::metadata(path).with_context(attempted)?.len() > FILE_LIMIT {
            return Ok(());
        }
        let name = path.strip_prefix(&self.root).unwrap_or(path);
        let names = name.iter().map(|name| name.to_string_lossy());
        let name = names.collect::<Vec<_>>().join("/");
        self.files
            .insert(name, std::fs::read(path).with_context(attempted)?);
        if self.files.len().is_multiple_of(500) {
            progress(&format!("{} files read", self.files.len()));
        }
        Ok(())
    }

    /// Finds the markers in all files.
    pub(super) fn markers(&self) -> Markers {
        let mut markers = Markers::default();
        for (path, content) in &self.files {
            match git::edit::markers(content) {
                Ok(found) => found.into_iter().for_each(|marker| {
                    markers.files.entry(marker).or_default().push(path.clone());
                }),
                Err(error) => markers.unreadable.push(format!("{path}: {error}")),
            }
        }
        markers
    }

    /// The path of a file on disk.
    pub(super) fn locate(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }
}

/// Overwrites the progress line, if stderr is a terminal.
fn progress(text: &str) {
    let mut screen = std::io::stderr();
    if screen.is_terminal() {
        // Errors of the progress line do not matter.
        let _ = write!(screen, "\r\x1b[K{text}");
        let _ = screen.flush();
    }
}
