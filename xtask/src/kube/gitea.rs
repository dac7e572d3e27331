//! Builds Gitea from its published Go module, with the files that it reads at run time.
//!
//! It is built inside the downloaded module, because its `replace` lines count only there. It uses SQLite,
//! which is C. Templates and translations are copied beside the program: only a build of its web
//! interface, which needs Node.js, embeds them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// The Go module of Gitea and its release.
const MODULE: &str = "code.gitea.io/gitea@v1.26.0";
/// The file name of the program.
pub(super) const PROGRAM: &str = "gitea";
/// The folder of the files that it reads, beside the program.
const FILES: &str = "gitea-files";
/// What it reads of its own source tree.
const FOLDERS: [&str; 3] = ["options", "templates", "public"];

/// Builds Gitea unless it is there. The program is moved to its name last.
pub(super) fn build_missing(into: &Path) -> Result<()> {
    if into.join(PROGRAM).is_file() {
        return Ok(());
    }
    eprintln!("building {PROGRAM} (minutes, the first time)");
    let source = download()?;
    let scratch = tempfile::Builder::new()
        .prefix(".build-")
        .tempdir_in(into)
        .with_context(|| format!("creating a build folder in {}", into.display()))?;
    compile(&source, &scratch.path().join(PROGRAM))?;
    copy_files(&source, &scratch.path().join(FILES))?;
    let files = into.join(FILES);
    if files.exists() {
        std::fs::remove_dir_all(&files)
            .with_context(|| format!("removing the older {}", files.display()))?;
    }
    for name in [FILES, PROGRAM] {
        std::fs::rename(scratch.path().join(name), into.join(name))
            .with_context(|| format!("moving {name} to {}", into.display()))?;
    }
    Ok(())
}

/// Downloads the module and returns its folder.
fn download() -> Result<PathBuf> {
    let output = Command::new("go")
        .args(["mod", "download", "-json", MODULE])
        .env("GOWORK", "off")
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("running `go mod download {MODULE}`"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success(),
        "`go mod download {MODULE}` failed ({}): {said}",
        output.status
    );
    let downloaded: serde_json::Value = serde_json::from_str(&said)
        .with_context(|| format!("reading what `go mod download {MODULE}` printed"))?;
    let folder = downloaded["Dir"].as_str();
    let folder =
        folder.with_context(|| format!("`go mod download {MODULE}` named no folder: {said}"))?;
    Ok(folder.into())
}

fn compile(source: &Path, program: &Path) -> Result<()> {
    let (_, version) = MODULE.split_once("@v").unwrap_or_default();
    let status = Command::new("go")
        .args(["build", "-mod=readonly", "-trimpath", "-buildvcs=false"])
        .args(["-tags", "sqlite sqlite_unlock_notify"])
        .args(["-ldflags", &format!("-s -w -X main.Version={version}")])
        .arg("-o")
        .arg(program)
        .arg(".")
        .current_dir(source)
        .env("CGO_ENABLED", "1")
        .env("GOWORK", "off")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .context("running `go build` for Gitea")?;
    ensure!(
        status.success(),
        "`go build` for Gitea failed ({status}); its output is above. Check that Go is 1.26.2 or newer, \
         that there is a C compiler (`cc`), and that modules can be downloaded (`go env GOPROXY`), then \
         run this again: what is finished is kept."
    );
    Ok(())
}

fn copy_files(source: &Path, into: &Path) -> Result<()> {
    for name in FOLDERS {
        copy_folder(&source.join(name), &into.join(name))?;
    }
    Ok(())
}

/// Copies contents only: the modes of downloaded modules forbid writing.
fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to).with_context(|| format!("creating {}", to.display()))?;
    for entry in std::fs::read_dir(from).with_context(|| format!("listing {}", from.display()))? {
        let entry = entry.with_context(|| format!("listing {}", from.display()))?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy_folder(&from, &to)?;
            continue;
        }
        let bytes = std::fs::read(&from).with_context(|| format!("reading {}", from.display()))?;
        std::fs::write(&to, bytes).with_context(|| format!("writing {}", to.display()))?;
    }
    Ok(())
}
