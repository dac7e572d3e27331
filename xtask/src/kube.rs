//! Builds a real Kubernetes control plane, helm, an OCI registry, Prometheus and Gitea into a cache folder, for
//! tests.
//!
//! kube-apiserver, kube-controller-manager, kubectl, etcd, helm, registry, prometheus and gitea are compiled from their
//! published Go modules at pinned versions. Existing programs are kept. A finished program is moved to its final name,
//! so interrupted and concurrent runs are safe. The working tree is not changed.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

mod gitea;

/// The Kubernetes release of the control plane.
const KUBERNETES: &str = "v1.36.3";
/// The etcd release that stores its objects.
const ETCD: &str = "v3.6.16";
/// The helm release, with the same Kubernetes libraries, most of which are compiled already.
const HELM: &str = "v4.2.4";
/// The release of the OCI registry.
const REGISTRY: &str = "v3.1.2";
/// The release of Prometheus: 3.15, whose Go module has its own numbers.
const PROMETHEUS: &str = "v0.315.0";
/// The Go module of Kubernetes itself.
const KUBERNETES_MODULE: &str = "k8s.io/kubernetes";
/// The Go module of the etcd server.
const ETCD_MODULE: &str = "go.etcd.io/etcd/server/v3";
/// The Go module of helm.
const HELM_MODULE: &str = "helm.sh/helm/v4";
/// The Go module of the OCI registry.
const REGISTRY_MODULE: &str = "github.com/distribution/distribution/v3";
/// The Go module of Prometheus.
const PROMETHEUS_MODULE: &str = "github.com/prometheus/prometheus";

/// One program to build: its file name and the Go package that is its `main`.
struct Program {
    name: &'static str,
    package: &'static str,
}

const ETCD_PROGRAMS: [Program; 1] = [Program {
    name: "etcd",
    package: ETCD_MODULE,
}];

const HELM_PROGRAMS: [Program; 1] = [Program {
    name: "helm",
    package: "helm.sh/helm/v4/cmd/helm",
}];

const REGISTRY_PROGRAMS: [Program; 1] = [Program {
    name: "registry",
    package: "github.com/distribution/distribution/v3/cmd/registry",
}];

const PROMETHEUS_PROGRAMS: [Program; 1] = [Program {
    name: "prometheus",
    package: "github.com/prometheus/prometheus/cmd/prometheus",
}];

const KUBERNETES_PROGRAMS: [Program; 3] = [
    Program {
        name: "kube-apiserver",
        package: "k8s.io/kubernetes/cmd/kube-apiserver",
    },
    Program {
        name: "kube-controller-manager",
        package: "k8s.io/kubernetes/cmd/kube-controller-manager",
    },
    Program {
        name: "kubectl",
        package: "k8s.io/kubernetes/cmd/kubectl",
    },
];

/// Builds missing programs and returns their folder.
pub(crate) fn kube() -> Result<PathBuf> {
    let folder = folder()?;
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("creating the folder {}", folder.display()))?;
    if missing(&folder, &ETCD_PROGRAMS)
        .chain(missing(&folder, &KUBERNETES_PROGRAMS))
        .chain(missing(&folder, &HELM_PROGRAMS))
        .chain(missing(&folder, &REGISTRY_PROGRAMS))
        .chain(missing(&folder, &PROMETHEUS_PROGRAMS))
        .count()
        == 0
        && folder.join(gitea::PROGRAM).is_file()
    {
        return Ok(folder);
    }
    check_go(&folder)?;
    if missing(&folder, &ETCD_PROGRAMS).count() > 0 {
        let module = ScratchModule::of(&folder, ETCD_MODULE, ETCD)?;
        module.build_missing(&folder, &ETCD_PROGRAMS)?;
    }
    if missing(&folder, &KUBERNETES_PROGRAMS).count() > 0 {
        let module = ScratchModule::kubernetes(&folder)?;
        module.build_missing(&folder, &KUBERNETES_PROGRAMS)?;
    }
    if missing(&folder, &HELM_PROGRAMS).count() > 0 {
        let module = ScratchModule::helm(&folder)?;
        module.build_missing(&folder, &HELM_PROGRAMS)?;
    }
    if missing(&folder, &REGISTRY_PROGRAMS).count() > 0 {
        let module = ScratchModule::of(&folder, REGISTRY_MODULE, REGISTRY)?;
        module.build_missing(&folder, &REGISTRY_PROGRAMS)?;
    }
    if missing(&folder, &PROMETHEUS_PROGRAMS).count() > 0 {
        let mut module = ScratchModule::of(&folder, PROMETHEUS_MODULE, PROMETHEUS)?;
        // Without the clients of clouds, which take longer to compile than everything else.
        module.tags = "remove_all_sd";
        module.build_missing(&folder, &PROMETHEUS_PROGRAMS)?;
    }
    gitea::build_missing(&folder)?;
    Ok(folder)
}

/// The folder with a control plane from the environment or an earlier build, if it is complete.
pub(crate) fn built() -> Option<PathBuf> {
    let named = std::env::var_os("KUBEBUILDER_ASSETS").filter(|folder| !folder.is_empty());
    let folder = named.map_or_else(|| folder().ok(), |folder| Some(folder.into()))?;
    let is_complete = missing(&folder, &ETCD_PROGRAMS)
        .chain(missing(&folder, &KUBERNETES_PROGRAMS))
        .next()
        .is_none();
    is_complete.then_some(folder)
}

/// The folder of the programs: outside the tree, one per Kubernetes version.
fn folder() -> Result<PathBuf> {
    let absolute = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|p| p.is_absolute())
    };
    let cache = absolute("XDG_CACHE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
        .context("looking for a cache folder: set XDG_CACHE_HOME or HOME to an absolute path")?;
    Ok(cache.join("sluice/kube").join(KUBERNETES))
}

fn missing<'a>(folder: &'a Path, programs: &'a [Program]) -> impl Iterator<Item = &'a Program> {
    programs
        .iter()
        .filter(|program| !folder.join(program.name).is_file())
}

/// Fails early with instructions if Go is not installed.
fn check_go(folder: &Path) -> Result<()> {
    let found = Command::new("go")
        .arg("version")
        .stdin(Stdio::null())
        .output();
    if found.is_ok_and(|output| output.status.success()) {
        return Ok(());
    }
    bail!(
        "building a Kubernetes {KUBERNETES} control plane needs the Go toolchain, and `go version` \
         did not run. Install Go 1.26 or newer (https://go.dev/dl) and put it on PATH, or place \
         etcd, kube-apiserver, kube-controller-manager, kubectl, helm, registry, prometheus and gitea \
         into {} yourself.",
        folder.display()
    )
}

/// A temporary Go module that requires the module to build.
///
/// `go install package@version` refuses modules with `replace` lines, which both Kubernetes and
/// etcd have; requiring them from another module ignores those lines.
struct ScratchModule {
    folder: tempfile::TempDir,
    linker_flags: String,
    /// Build tags.
    tags: &'static str,
}

impl ScratchModule {
    /// A module that needs nothing but itself.
    fn of(beside: &Path, name: &str, version: &str) -> Result<Self> {
        let module = Self::new(beside, "-s -w".to_owned())?;
        module.write(&format!("require {name} {version}\n"))?;
        Ok(module)
    }

    fn kubernetes(beside: &Path) -> Result<Self> {
        let (major, minor, _) = version_parts(KUBERNETES)?;
        let stamp =
            |name: &str, value: &str| format!(" -X k8s.io/component-base/version.{name}={value}");
        let linker_flags = ["-s -w".to_owned()]
            .into_iter()
            .chain([
                stamp("gitVersion", KUBERNETES),
                stamp("gitMajor", major),
                stamp("gitMinor", minor),
                stamp("gitTreeState", "clean"),
            ])
            .collect();
        let module = Self::new(beside, linker_flags)?;
        module.require_with_kubernetes(KUBERNETES_MODULE, KUBERNETES)?;
        Ok(module)
    }

    fn helm(beside: &Path) -> Result<Self> {
        let stamp = format!("-s -w -X {HELM_MODULE}/internal/version.version={HELM}");
        let module = Self::new(beside, stamp)?;
        module.require_with_kubernetes(HELM_MODULE, HELM)?;
        Ok(module)
    }

    /// Requires a module, with the libraries of our Kubernetes release.
    fn require_with_kubernetes(&self, module: &str, version: &str) -> Result<()> {
        let (_, minor, patch) = version_parts(KUBERNETES)?;
        self.write("")?;
        let mut lines = format!("require {module} {version}\n");
        for staged in self.staged_modules()? {
            lines.push_str(&format!(
                "replace {staged} => {staged} v0.{minor}.{patch}\n"
            ));
        }
        self.write(&lines)
    }

    fn new(beside: &Path, linker_flags: String) -> Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix(".build-")
            .tempdir_in(beside)
            .with_context(|| format!("creating a build folder in {}", beside.display()))?;
        Ok(Self {
            folder,
            linker_flags,
            tags: "",
        })
    }

    fn write(&self, lines: &str) -> Result<()> {
        let path = self.folder.path().join("go.mod");
        std::fs::write(&path, format!("module scratch\n\ngo 1.26.0\n\n{lines}"))
            .with_context(|| format!("writing {}", path.display()))
    }

    /// The modules that Kubernetes develops inside its own tree: its go.mod requires them at
    /// v0.0.0, and they are published under v0.MINOR.PATCH.
    fn staged_modules(&self) -> Result<Vec<String>> {
        let module = format!("{KUBERNETES_MODULE}@{KUBERNETES}");
        let downloaded = self.go_json(&["mod", "download", "-json", &module])?;
        let go_mod = downloaded["GoMod"]
            .as_str()
            .with_context(|| format!("`go mod download {module}` named no go.mod: {downloaded}"))?;
        let described = self.go_json(&["mod", "edit", "-json", go_mod])?;
        let required = described["Require"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        let staged: Vec<String> = required
            .iter()
            .filter(|module| module["Version"] == "v0.0.0")
            .filter_map(|module| Some(module["Path"].as_str()?.to_owned()))
            .collect();
        ensure!(
            !staged.is_empty(),
            "{go_mod} requires no module at v0.0.0: its layout has changed"
        );
        Ok(staged)
    }

    fn build_missing(&self, into: &Path, programs: &[Program]) -> Result<()> {
        for program in missing(into, programs) {
            self.build(into, program)?;
        }
        Ok(())
    }

    /// Builds one program and moves it to its final name.
    fn build(&self, into: &Path, program: &Program) -> Result<()> {
        eprintln!("building {} (minutes, the first time)", program.name);
        let unfinished = self.folder.path().join(program.name);
        let status = self
            .go(&[
                "build",
                "-mod=mod",
                "-trimpath",
                "-buildvcs=false",
                "-tags",
                self.tags,
                "-ldflags",
                &self.linker_flags,
            ])
            .arg("-o")
            .arg(&unfinished)
            .arg(program.package)
            .stdout(Stdio::null())
            .status()
            .with_context(|| format!("running `go build {}`", program.package))?;
        ensure!(
            status.success(),
            "`go build {}` failed ({status}); its output is above. Check that Go is 1.26 or newer \
             and that modules can be downloaded (`go env GOPROXY`), then run this again: what is \
             finished is kept.",
            program.package
        );
        let finished = into.join(program.name);
        std::fs::rename(&unfinished, &finished)
            .with_context(|| format!("moving the built program to {}", finished.display()))
    }

    fn go_json(&self, arguments: &[&str]) -> Result<serde_json::Value> {
        let attempted = format!("`go {}`", arguments.join(" "));
        let output = self
            .go(arguments)
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| format!("running {attempted}"))?;
        let said = String::from_utf8_lossy(&output.stdout);
        ensure!(
            output.status.success(),
            "{attempted} failed ({}): {said}",
            output.status
        );
        serde_json::from_str(&said).with_context(|| format!("reading what {attempted} printed"))
    }

    /// A Go command inside the scratch module.
    fn go<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Command {
        let mut command = Command::new("go");
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env("CGO_ENABLED", "0")
            .env("GOWORK", "off")
            .stdin(Stdio::null());
        command
    }
}

/// `v1.2.3` as its three numbers.
fn version_parts(version: &str) -> Result<(&str, &str, &str)> {
    let mut parts = version.trim_start_matches('v').split('.');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(major), Some(minor), Some(patch), None) => Ok((major, minor, patch)),
        _ => bail!("the pinned version {version} is not of the form v1.2.3"),
    }
}
