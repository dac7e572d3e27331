//! Where in the strategy's repository the targets of a pipeline are built.

use api::pipeline::{Origin, TargetStatus};
use git::{
    manifest::{Other, is_same_repository, may_be_same_repository, overlap},
    paths::PathLimits,
};
use planner::Failure;

use crate::strategy::{
    subject::{Subject, fill_path},
    words::Change,
};

/// A target of the pipeline.
pub(super) struct Site<'a> {
    name: String,
    namespace: String,
    /// Whether the promotion leads there.
    pub(super) is_own: bool,
    /// As it was last seen, if it was.
    pub(super) target: Option<&'a TargetStatus>,
    whereabouts: Whereabouts,
}

enum Whereabouts {
    /// Flux applies these folders.
    Told(Vec<String>),
    /// The strategy's paths lead there.
    Named {
        folders: Vec<String>,
        patterns: Vec<String>,
    },
    /// Not in what the promotion changes.
    Elsewhere,
    Unknown,
}

/// All targets: those that were seen, and those of environments that nobody has looked at yet.
pub(super) fn sites<'a>(subject: &Subject<'a>, to: &Change<'_>) -> Result<Vec<Site<'a>>, Failure> {
    let mut sites = Vec::new();
    for (environment, target) in subject.all_targets() {
        let is_own = subject.covers(environment, target);
        let origins = target.apps.iter().filter_map(|app| app.origin.as_ref());
        let lookout = Lookout {
            subject,
            to,
            environment,
            is_own,
        };
        let named = subject.target(target);
        sites.push(Site {
            name: format!("{environment} ({})", planner::target_name(target)),
            namespace: named.1.clone(),
            is_own,
            target: Some(target),
            whereabouts: lookout.find(&named, origins.collect())?,
        });
    }
    for environment in &subject.task.pipeline.spec.environments {
        let status = subject.task.pipeline.status.as_ref();
        let is_seen = status.is_some_and(|it| it.environments.contains_key(&environment.name));
        if !is_seen && !environment.targets.is_empty() {
            sites.push(Site {
                name: environment.name.clone(),
                namespace: String::new(),
                is_own: environment.name == subject.place.environment,
                target: None,
                whereabouts: Whereabouts::Unknown,
            });
        }
    }
    Ok(sites)
}

impl Site<'_> {
    /// The folders to look in.
    pub(super) fn directories(&self) -> Vec<String> {
        match &self.whereabouts {
            Whereabouts::Told(folders) | Whereabouts::Named { folders, .. } => folders.clone(),
            Whereabouts::Elsewhere | Whereabouts::Unknown => Vec::new(),
        }
    }

    /// What must stay as it is of this one, as seen from the promotion's own.
    pub(super) fn beside(&self, own: &Self) -> Option<Other> {
        let is_told = matches!(own.whereabouts, Whereabouts::Told(_));
        let own = own.directories();
        let directories = match &self.whereabouts {
            Whereabouts::Elsewhere => return None,
            Whereabouts::Unknown => None,
            Whereabouts::Told(folders) => Some(folders.clone()),
            Whereabouts::Named { folders, patterns } if overlap(folders, &own) => {
                // Paths so wide say nothing about where it is, if the own folder is known.
                let is_wide = is_told && hold(patterns, &own);
                (!is_wide).then(|| patterns.clone())
            }
            Whereabouts::Named { folders, .. } => Some(folders.clone()),
        };
        Some(Other {
            name: self.name.clone(),
            namespace: self.namespace.clone(),
            directories,
        })
    }
}

/// Whether one of the folders is all within the patterns.
fn hold(patterns: &[String], folders: &[String]) -> bool {
    let limits = PathLimits::new(patterns.iter().map(String::as_str));
    let plain = |folder: &String| folder.trim_start_matches("./").trim_matches('/').to_owned();
    limits.is_ok_and(|limits| folders.iter().any(|folder| limits.allow(&plain(folder))))
}

struct Lookout<'a, 'b> {
    subject: &'b Subject<'a>,
    to: &'b Change<'b>,
    environment: &'b str,
    is_own: bool,
}

impl Lookout<'_, '_> {
    fn find(
        &self,
        target: &(String, String),
        origins: Vec<&Origin>,
    ) -> Result<Whereabouts, Failure> {
        let here = origins.iter().filter(|origin| self.is_here(origin));
        let told = distinct(here.map(|origin| origin.path.clone()).collect());
        if !told.is_empty() {
            return Ok(Whereabouts::Told(told));
        }
        let settings = self
            .subject
            .task
            .pipeline
            .spec
            .promotion_into(self.environment);
        let Some(change) = settings.and_then(|settings| Change::of(&settings.strategy)) else {
            return Ok(Self::without_paths(&origins));
        };
        let is_here = may_be_same_repository(change.url, self.to.url)
            && change.base_branch == self.to.base_branch;
        if !is_here {
            return Ok(Whereabouts::Elsewhere);
        }
        let (mut folders, mut patterns) = (Vec::new(), Vec::new());
        for pattern in change.paths {
            let pattern = fill_path(pattern, self.environment, target)?;
            folders.push(folder(&pattern));
            patterns.push(whole(&pattern));
        }
        if folders.is_empty() {
            return Ok(Self::without_paths(&origins));
        }
        let (folders, patterns) = (distinct(folders), distinct(patterns));
        Ok(Whereabouts::Named { folders, patterns })
    }

    fn without_paths(origins: &[&Origin]) -> Whereabouts {
        match origins.is_empty() {
            true => Whereabouts::Unknown,
            false => Whereabouts::Elsewhere,
        }
    }

    /// Whether a folder is surely one to look in, or, of others, may be changed with the own.
    fn is_here(&self, origin: &Origin) -> bool {
        if self.is_own {
            return is_same_repository(&origin.url, self.to.url);
        }
        let own = |(environment, target): &(&str, &TargetStatus)| {
            self.subject.covers(environment, target)
        };
        let own = self.subject.all_targets().filter(own);
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

/// The folder that everything a pattern stands for is in.
fn folder(pattern: &str) -> String {
    let is_plain = |name: &&str| !name.contains(['*', '?']);
    let mut names: Vec<_> = pattern.split('/').take_while(is_plain).collect();
    names.pop_if(|name| is_file(name));
    joined(&names)
}

/// The pattern of the folders and files whose whole content a pattern stands for.
fn whole(pattern: &str) -> String {
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
