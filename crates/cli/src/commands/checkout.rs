//! A checkout of a git repository: its manifests and the markers in them. Only reads.

use std::{
    collections::BTreeMap,
    io::{IsTerminal, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};

/// Larger files are nobody's manifests; promotions do not read them either.
const FILE_LIMIT: u64 = 1 << 20;

/// The YAML files below a folder.
pub(super) struct Checkout {
    root: PathBuf,
    /// By path from the root, with slashes.
    pub(super) files: BTreeMap<String, Vec<u8>>,
}

/// Which files carry which markers, and which could not be read.
#[derive(Default)]
pub(super) struct Markers {
    pub(super) files: BTreeMap<String, Vec<String>>,
    pub(super) unreadable: Vec<String>,
}

impl Checkout {
    /// Reads every manifest. Links are not followed, and git's own folder is left out.
    pub(super) fn read(root: &Path) -> anyhow::Result<Self> {
        if !root.is_dir() {
            bail!(
                "{} is not a folder; name a checkout of the repository",
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
        let cannot = || format!("cannot read the folder {}", folder.display());
        for entry in std::fs::read_dir(folder).with_context(cannot)? {
            let entry = entry.with_context(cannot)?;
            let (path, kind) = (entry.path(), entry.file_type().with_context(cannot)?);
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
        let cannot = || format!("cannot read {}", path.display());
        if std::fs::metadata(path).with_context(cannot)?.len() > FILE_LIMIT {
            return Ok(());
        }
        let name = path.strip_prefix(&self.root).unwrap_or(path);
        let names = name.iter().map(|name| name.to_string_lossy());
        let name = names.collect::<Vec<_>>().join("/");
        self.files
            .insert(name, std::fs::read(path).with_context(cannot)?);
        if self.files.len().is_multiple_of(500) {
            progress(&format!("{} files read", self.files.len()));
        }
        Ok(())
    }

    /// Every marker.
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

    /// Where a file of the checkout is on disk.
    pub(super) fn locate(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }
}

/// One line that is written over and over, where somebody watches.
fn progress(text: &str) {
    let mut screen = std::io::stderr();
    if screen.is_terminal() {
        // Nobody is helped by an error about a progress line.
        let _ = write!(screen, "\r\x1b[K{text}");
        let _ = screen.flush();
    }
}
