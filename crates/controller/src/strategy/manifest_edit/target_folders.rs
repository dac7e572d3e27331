//! Finds the folders in the strategy's repository that each target of a pipeline is deployed from.

use api::pipeline::{Origin, TargetStatus};
use git::{
    manifest::{OtherDeployment, directories_overlap, is_same_repository, may_be_same_repository},
    paths::PathLimits,
};
use planner::Failure;

use crate::strategy::{
    promotion_description::{PromotionDescription, fill_path},
    promotion_proposal::RepositoryStrategy,
};

/// A target of the pipeline and its folders.
pub(super) struct TargetFolder<'a> {
    name: String,
    namespace: String,
    /// Whether the promotion leads into it.
    pub(super) is_own: bool,
    /// Its status, if it has been observed.
    pub(super) target: Option<&'a TargetStatus>,
    folders: TargetFolders,
}

enum TargetFolders {
    /// Flux applies these folders.
    FromFlux(Vec<String>),
    /// The strategy's `paths` name these folders.
    FromPaths {
        folders: Vec<String>,
        patterns: Vec<String>,
    },
    /// In another repository or branch than the promotion changes.
    Elsewhere,
    Unknown,
}

/// All targets: those in the status, and one for each environment that has not been observed yet.
pub(super) fn target_locations<'a>(
    description: &PromotionDescription<'a>,
    to: &RepositoryStrategy<'_>,
) -> Result<Vec<TargetFolder<'a>>, Failure> {
    let mut locations = Vec::new();
    for (environment, target) in description.all_targets() {
        let is_own = description.covers(environment, target);
        if !is_own && description.is_of_other_batch(environment, target) {
            continue;
        }
        let origins = target.apps.iter().filter_map(|app| app.origin.as_ref());
        let resolver = FolderResolver {
            description,
            to,
            environment,
            is_own,
        };
        let named = description.target(target);
        let folders = resolver.find(&named, origins.collect())?;
        let is_unknown = matches!(folders, TargetFolders::Unknown);
        if !is_own && is_unknown && description.is_same_rollout(environment) {
            // A cluster that was never read holds up no other.
            continue;
        }
        locations.push(TargetFolder {
            name: format!("{environment} ({})", planner::target_name(target)),
            namespace: named.1.clone(),
            is_own,
            target: Some(target),
            folders,
        });
    }
    for environment in &description.task.pipeline.spec.environments {
        let status = description.task.pipeline.status.as_ref();
        let is_observed = status.is_some_and(|it| it.environments.contains_key(&environment.name));
        if !is_observed && !environment.targets.is_empty() {
            locations.push(TargetFolder {
                name: environment.name.clone(),
                namespace: String::new(),
                is_own: environment.name == description.site.environment,
                target: None,
                folders: TargetFolders::Unknown,
            });
        }
    }
    Ok(locations)
}

impl TargetFolder<'_> {
    /// The folders to search.
    pub(super) fn directories(&self) -> Vec<String> {
        match &self.folders {
            TargetFolders::FromFlux(folders) | TargetFolders::FromPaths { folders, .. } => {
                folders.clone()
            }
            TargetFolders::Elsewhere | TargetFolders::Unknown => Vec::new(),
        }
    }

    /// What must not be edited because this target uses it, given a target of the promotion.
    pub(super) fn protected_from(&self, own: &Self) -> Option<OtherDeployment> {
        let is_from_flux = matches!(own.folders, TargetFolders::FromFlux(_));
        let own = own.directories();
        let directories = match &self.folders {
            TargetFolders::Elsewhere => return None,
            TargetFolders::Unknown => None,
            TargetFolders::FromFlux(folders) => Some(folders.clone()),
            TargetFolders::FromPaths { folders, patterns }
                if directories_overlap(folders, &own) =>
            {
                // Paths that contain the own folder, too, do not say where this target is.
                let is_wide = is_from_flux && contain(patterns, &own);
                (!is_wide).then(|| patterns.clone())
            }
            TargetFolders::FromPaths { folders, .. } => Some(folders.clone()),
        };
        Some(OtherDeployment {
            name: self.name.clone(),
            namespace: self.namespace.clone(),
            directories,
        })
    }
}

/// Whether the patterns contain all of one of the folders.
fn contain(patterns: &[String], folders: &[String]) -> bool {
    let limits = PathLimits::new(patterns.iter().map(String::as_str));
    let plain = |folder: &String| folder.trim_start_matches("./").trim_matches('/').to_owned();
    limits.is_ok_and(|limits| folders.iter().any(|folder| limits.allow(&plain(folder))))
}

/// Finds the folders of one target.
struct FolderResolver<'a, 'b> {
    description: &'b PromotionDescription<'a>,
    to: &'b RepositoryStrategy<'b>,
    environment: &'b str,
    is_own: bool,
}

impl FolderResolver<'_, '_> {
    fn find(
        &self,
        target: &(String, String),
        origins: Vec<&Origin>,
    ) -> Result<TargetFolders, Failure> {
        let here = origins.iter().filter(|origin| self.is_here(origin));
        let applied = distinct(here.map(|origin| origin.path.clone()).collect());
        if !applied.is_empty() {
            return Ok(TargetFolders::FromFlux(applied));
        }
        let settings = self
            .description
            .task
            .pipeline
            .spec
            .promotion_into(self.environment);
        let Some(strategy) =
            settings.and_then(|settings| RepositoryStrategy::of(&settings.strategy))
        else {
            return Ok(Self::without_paths(&origins));
        };
        let is_here = may_be_same_repository(strategy.url, self.to.url)
            && strategy.base_branch == self.to.base_branch;
        if !is_here {
            return Ok(TargetFolders::Elsewhere);
        }
        let (mut folders, mut patterns) = (Vec::new(), Vec::new());
        for pattern in strategy.paths {
            let pattern = fill_path(pattern, self.environment, target)?;
            folders.push(folder(&pattern));
            patterns.push(without_wildcards(&pattern));
        }
        if folders.is_empty() {
            return Ok(Self::without_paths(&origins));
        }
        let (folders, patterns) = (distinct(folders), distinct(patterns));
        Ok(TargetFolders::FromPaths { folders, patterns })
    }

    fn without_paths(origins: &[&Origin]) -> TargetFolders {
        match origins.is_empty() {
            true => TargetFolders::Unknown,
            false => TargetFolders::Elsewhere,
        }
    }

    /// Whether an origin is in the strategy's repository: certainly, for a target of the promotion; for
    /// others, possibly and on a branch that the promotion changes.
    fn is_here(&self, origin: &Origin) -> bool {
        if self.is_own {
            return is_same_repository(&origin.url, self.to.url);
        }
        let own = |(environment, target): &(&str, &TargetStatus)| {
            self.description.covers(environment, target)
        };
        let own = self.description.all_targets().filter(own);
        let own = own.flat_map(|(_, target)| &target.apps);
        let mut branches = own.filter_map(|app| app.origin.as_ref()?.branch.as_deref());
        let is_changed =
            |branch: &str| branch == self.to.base_branch || branches.any(|own| own == branch);
        may_be_same_repository(&origin.url, self.to.url)
            && origin.branch.as_deref().is_none_or(is_changed)
    }
}

fn distinct(mut folders: Vec<String>) -> Vec<String> {
    folders.sort();
    folders.dedup();
    folders
}

fn is_file(name: &str) -> bool {
    name.ends_with(".yaml") || name.ends_with(".yml")
}

/// The folder that contains everything a pattern matches.
fn folder(pattern: &str) -> String {
    let is_plain = |name: &&str| !name.contains(['*', '?']);
    let mut names: Vec<_> = pattern.split('/').take_while(is_plain).collect();
    names.pop_if(|name| is_file(name));
    joined(&names)
}

/// The pattern without trailing wildcards: what it matches, it contains completely.
fn without_wildcards(pattern: &str) -> String {
    let mut names: Vec<_> = pattern.split('/').collect();
    while names.pop_if(|name| matches!(*name, "*" | "**")).is_some() {}
    joined(&names)
}

fn joined(names: &[&str]) -> String {
    match names.join("/") {
        folder if folder.is_empty() => ".".to_owned(),
        folder => folder,
    }
}
