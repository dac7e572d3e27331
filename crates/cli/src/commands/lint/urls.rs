//! Finds URLs of repositories that the controller refuses.

use api::pipeline::PipelineSpec;
use git::repository_url::RepositoryUrl;
use net::{AddressError, AddressPolicy};

/// A URL that is refused, and the field that has it.
pub(super) struct RefusedUrl {
    pub(super) field: String,
    pub(super) text: String,
    /// Whether no flag of the controller allows it.
    pub(super) is_error: bool,
}

/// All URLs that are refused. Schemes are checked by the planner.
pub(super) fn refused(spec: &PipelineSpec) -> Vec<RefusedUrl> {
    let whole = spec.promotion.iter();
    let whole = whole.map(|it| ("spec".to_owned(), "the pipeline", it));
    let each = spec.environments.iter().enumerate();
    let each = each.filter_map(|(index, it)| {
        let field = format!("spec.environments[{index}]");
        Some((field, it.name.as_str(), it.promotion.as_ref()?))
    });
    let mut found = Vec::new();
    for (field, name, settings) in whole.chain(each) {
        let strategy = &settings.strategy;
        let pull_request = strategy.pull_request.as_ref().map(|to| to.url.as_str());
        let commit = strategy.commit.as_ref().map(|to| to.url.as_str());
        let urls = [("pull-request", pull_request), ("commit", commit)];
        for (kind, url) in urls {
            let refused = url.filter(|url| is_checked(url)).and_then(refusal);
            found.extend(refused.map(|(is_error, because)| RefusedUrl {
                field: format!("{field}.promotion.strategy.{kind}.url"),
                text: format!("the promotion of {name} has a url that cannot be used: {because}"),
                is_error,
            }));
        }
    }
    found
}

/// Whether the planner does not report the URL already.
fn is_checked(url: &str) -> bool {
    let has_other_scheme = url.split_once("://").is_some_and(|(scheme, _)| {
        let known = ["https", "ssh"];
        !known.iter().any(|it| scheme.eq_ignore_ascii_case(it))
    });
    !url.is_empty() && !has_other_scheme
}

/// Why a URL is refused, and whether any flags would allow it. Never the URL, which may hold a password.
fn refusal(url: &str) -> Option<(bool, String)> {
    let parse = |allow_internal| {
        let policy = AddressPolicy {
            allow_internal,
            allow_insecure: false,
        };
        RepositoryUrl::parse(url, policy)
    };
    match (parse(true), parse(false)) {
        (Err(AddressError::Invalid { because }), _) => Some((true, because.to_owned())),
        (_, Err(AddressError::Internal { host, .. })) => Some((
            false,
            format!("{host} is an internal address; the controller needs --allow-internal-urls"),
        )),
        _ => None,
    }
}
