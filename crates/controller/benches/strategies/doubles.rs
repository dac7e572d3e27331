//! The strict doubles of the forge contract, beside repositories with real git.
//!
//! What a double says of a branch is what was pushed: before each call it is told where the branches
//! of its repository are. Gitea needs none: the testbed's forge is one.

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

/// A forge: the strategy's type, its repository, where its API is asked and what answers there.
struct Kind {
    name: &'static str,
    project: &'static str,
    prefixes: &'static [&'static str],
    router: Option<fn(SharedForgeState) -> Router>,
}

const KINDS: [Kind; 6] = [
    Kind {
        name: "github",
        project: "team/config",
        prefixes: &["/api/v3", "/api/graphql"],
        router: Some(github::router),
    },
    Kind {
        name: "gitlab",
        project: "team/config",
        prefixes: &["/api/v4"],
        router: Some(gitlab::router),
    },
    Kind {
        name: "gitea",
        project: "team/config",
        prefixes: &[],
        router: None,
    },
    Kind {
        name: "bitbucket-server",
        project: "scm/team/config",
        prefixes: &["/rest"],
        router: Some(bitbucket_server::router),
    },
    Kind {
        name: "bitbucket-cloud",
        project: "team/config",
        prefixes: &["/2.0"],
        router: Some(bitbucket_cloud::router),
    },
    Kind {
        name: "azure-devops",
        project: "collection/team/_git/config",
        prefixes: &["/collection/team/_apis", "/collection/_apis"],
        router: Some(azure::router),
    },
];

/// A forge that can be promoted to.
pub(crate) struct Place {
    /// The strategy's type.
    pub(crate) kind: &'static str,
    pub(crate) url: String,
    /// What opens its API.
    pub(crate) token: String,
    /// Where its API is, if that cannot be told from the repository.
    pub(crate) api: Option<String>,
}

/// Makes the repositories, each with these files, and starts what speaks for them.
pub(crate) async fn start(forge: &Forge, files: &[(&str, &str)]) -> Vec<Place> {
    let mut repositories: Vec<Repository> = Vec::new();
    let mut places = Vec::new();
    for kind in KINDS {
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
            let world: SharedForgeState = Arc::new(Mutex::new(ForgeState::default()));
            let state = (world.clone(), repository.folder().join("refs/heads"));
            let router = router(world).layer(from_fn_with_state(state, look));
            for prefix in kind.prefixes {
                forge.serve_additional_api(prefix, router.clone());
            }
        }
        places.push(Place {
            kind: kind.name,
            url: repository.url(),
            token: match kind.router {
                Some(_) => TOKEN.to_owned(),
                None => forge.token().to_owned(),
            },
            api: (kind.name == "bitbucket-cloud").then(|| format!("{}/2.0", forge.origin())),
        });
    }
    places
}

/// Tells a double where the branches are before it answers.
async fn look(
    State((world, folder)): State<(SharedForgeState, PathBuf)>,
    request: Request,
    next: Next,
) -> Response {
    world.lock().branches.extend(branches(&folder));
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
