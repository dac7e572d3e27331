//! The doubles of forges, with repositories in real git.
//!
//! Before each request the branches of a double are set to those of its repository. Gitea needs none: the
//! testbed's forge is one.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use axum::{
    Router,
    extract::{Request, State},
    middleware::{Next, from_fn_with_state},
    response::Response,
};
use parking_lot::Mutex;
use testbed::{
    forge::{Forge, Repository},
    forge_doubles::{
        ForgeState, SharedForgeState, TOKEN, azure, bitbucket_cloud, bitbucket_server, github,
        gitlab,
    },
};

/// A forge: the strategy's type, its repository, the paths of its API and the double.
struct BenchForge {
    name: &'static str,
    project: &'static str,
    prefixes: &'static [&'static str],
    router: Option<fn(SharedForgeState) -> Router>,
}

const FORGES: [BenchForge; 6] = [
    BenchForge {
        name: "github",
        project: "team/config",
        prefixes: &["/api/v3", "/api/graphql"],
        router: Some(github::router),
    },
    BenchForge {
        name: "gitlab",
        project: "team/config",
        prefixes: &["/api/v4"],
        router: Some(gitlab::router),
    },
    BenchForge {
        name: "gitea",
        project: "team/config",
        prefixes: &[],
        router: None,
    },
    BenchForge {
        name: "bitbucket-server",
        project: "scm/team/config",
        prefixes: &["/rest"],
        router: Some(bitbucket_server::router),
    },
    BenchForge {
        name: "bitbucket-cloud",
        project: "team/config",
        prefixes: &["/2.0"],
        router: Some(bitbucket_cloud::router),
    },
    BenchForge {
        name: "azure-devops",
        project: "collection/team/_git/config",
        prefixes: &["/collection/team/_apis", "/collection/_apis"],
        router: Some(azure::router),
    },
];

/// A forge that can be promoted to.
pub(crate) struct ForgeAccess {
    /// The strategy's type.
    pub(crate) kind: &'static str,
    pub(crate) url: String,
    /// The token for its API.
    pub(crate) token: String,
    /// The URL of its API, if that does not follow from the repository.
    pub(crate) api: Option<String>,
}

/// Creates the repositories, each with these files, and serves their APIs.
pub(crate) async fn start(forge: &Forge, files: &[(&str, &str)]) -> Vec<ForgeAccess> {
    let mut repositories: Vec<Repository> = Vec::new();
    let mut accesses = Vec::new();
    for kind in FORGES {
        let known = repositories.iter().find(|it| it.project() == kind.project);
        let repository = match known {
            Some(known) => known.clone(),
            None => {
                let made = forge.create_repository(kind.project, files).await;
                made.expect("a repository")
            }
        };
        repositories.push(repository.clone());
        if let Some(router) = kind.router {
            let forge_state: SharedForgeState = Arc::new(Mutex::new(ForgeState::default()));
            let state = (forge_state.clone(), repository.folder().join("refs/heads"));
            let router = router(forge_state).layer(from_fn_with_state(state, update_branches));
            for prefix in kind.prefixes {
                forge.serve_additional_api(prefix, router.clone());
            }
        }
        accesses.push(ForgeAccess {
            kind: kind.name,
            url: repository.url(),
            token: match kind.router {
                Some(_) => TOKEN.to_owned(),
                None => forge.token().to_owned(),
            },
            api: (kind.name == "bitbucket-cloud").then(|| format!("{}/2.0", forge.origin())),
        });
    }
    accesses
}

/// Sets the branches of a double to those of its repository before it answers.
async fn update_branches(
    State((forge_state, folder)): State<(SharedForgeState, PathBuf)>,
    request: Request,
    next: Next,
) -> Response {
    forge_state.lock().branches.extend(branches(&folder));
    next.run(request).await
}

/// The branches of a bare repository that has packed none.
fn branches(folder: &Path) -> Vec<(String, String)> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let branch = |entry: std::fs::DirEntry| {
        let commit = std::fs::read_to_string(entry.path()).ok()?;
        let name = entry.file_name().into_string().ok()?;
        Some((name, commit.trim().to_owned()))
    };
    entries.filter_map(branch).collect()
}
