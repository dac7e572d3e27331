//! The URLs of a repository on Azure DevOps and of the APIs that belong to it.
//!
//! | repository | |
//! | --- | --- |
//! | the service | `https://dev.azure.com/organisation/project/_git/repository` |
//! | its ssh | `git@ssh.dev.azure.com:v3/organisation/project/repository` |
//! | its older name | `https://organisation.visualstudio.com/project/_git/repository` |
//! | a server | `https://host/below/collection/project/_git/repository` |
//!
//! The project may be left out if the repository has the same name.

use url::Url;

use crate::credentials::Credentials;
use crate::forge::Error;
use crate::forge::session::{origin, unusable};
use crate::repository_url::RepositoryUrl;

pub(super) struct AzureUrls {
    /// The API of the repository.
    pub(super) repository: Url,
    /// The API that resolves people and teams.
    pub(super) identities: Url,
    /// The repository in the web interface.
    pub(super) web: String,
}

impl AzureUrls {
    pub(super) fn new(url: &RepositoryUrl, credentials: &Credentials) -> Result<Self, Error> {
        let (collection, project, repository) = parts(url).ok_or_else(|| {
            unusable("an Azure DevOps URL ends in project/_git/repository, or v3/organisation/project/repository for ssh")
        })?;
        // An API URL in the secret is that of the collection.
        let collection = match &credentials.api_url {
            Some(url) => url.trim_end_matches('/').to_owned(),
            None => collection,
        };
        let parse =
            |text: &str| net::parse_url(text).map_err(|_| unusable("the URL has no usable host"));
        let api = format!("{collection}/{project}/_apis/git/repositories/{repository}");
        Ok(Self {
            repository: parse(&api)?,
            identities: parse(&identities_url(&collection))?,
            web: format!("{collection}/{project}/_git/{repository}"),
        })
    }
}

/// Collection, project and repository.
fn parts(url: &RepositoryUrl) -> Option<(String, &str, &str)> {
    let path: Vec<&str> = url.project().split('/').collect();
    if let ["v3", organisation, project, repository] = path[..] {
        return Some((
            format!("https://dev.azure.com/{organisation}"),
            project,
            repository,
        ));
    }
    let (before, repository) = url.project().split_once("/_git/").or_else(|| {
        let repository = url.project().strip_prefix("_git/")?;
        Some(("", repository))
    })?;
    if repository.contains('/') {
        return None;
    }
    let before: Vec<&str> = before.split('/').filter(|part| !part.is_empty()).collect();
    // How many parts of the path name the collection. The project follows.
    let depth = match url.host() {
        "dev.azure.com" => 1,
        host if host.ends_with(".visualstudio.com") => {
            usize::from(before.first() == Some(&"DefaultCollection"))
        }
        _ => before.len().saturating_sub(1).max(1),
    };
    let (collection, project) = before.split_at_checked(depth)?;
    let project = match project {
        [] => repository,
        [project] => project,
        _ => return None,
    };
    let collection: String = collection.iter().map(|part| format!("/{part}")).collect();
    Some((format!("{}{collection}", origin(url)), project, repository))
}

/// The service has another host for people and teams.
fn identities_url(collection: &str) -> String {
    if let Some(organisation) = collection.strip_prefix("https://dev.azure.com/") {
        return format!("https://vssps.dev.azure.com/{organisation}");
    }
    collection.replacen(".visualstudio.com", ".vssps.visualstudio.com", 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use net::AddressPolicy;

    fn check(repository: &str, api: &str, people: &str) {
        let url = RepositoryUrl::parse(repository, AddressPolicy::default()).expect(repository);
        let place = AzureUrls::new(&url, &Credentials::default()).expect(repository);
        let suffix = "/_apis/git/repositories/";
        assert_eq!(place.repository.as_str().replace(suffix, " "), api);
        assert_eq!(place.identities.as_str(), people);
    }

    #[test]
    fn every_form_of_url_leads_to_the_api() {
        let people = "https://vssps.dev.azure.com/acme";
        let api = "https://dev.azure.com/acme/shop config";
        check("https://dev.azure.com/acme/shop/_git/config", api, people);
        check("git@ssh.dev.azure.com:v3/acme/shop/config", api, people);
        check(
            "acme@vs-ssh.visualstudio.com:v3/acme/shop/config",
            api,
            people,
        );
        check(
            "https://dev.azure.com/acme/_git/config",
            "https://dev.azure.com/acme/config config",
            people,
        );
        check(
            "https://dev.azure.com/acme/My%20Shop/_git/config",
            "https://dev.azure.com/acme/My%20Shop config",
            people,
        );
        let older = "https://acme.vssps.visualstudio.com";
        check(
            "https://acme.visualstudio.com/shop/_git/config",
            "https://acme.visualstudio.com/shop config",
            &format!("{older}/"),
        );
        check(
            "https://acme.visualstudio.com/DefaultCollection/shop/_git/config",
            "https://acme.visualstudio.com/DefaultCollection/shop config",
            &format!("{older}/DefaultCollection"),
        );
        check(
            "https://git.example:8443/tfs/Team/shop/_git/config",
            "https://git.example:8443/tfs/Team/shop config",
            "https://git.example:8443/tfs/Team",
        );
        check(
            "ssh://git.example:22/tfs/Team/shop/_git/config",
            "https://git.example/tfs/Team/shop config",
            "https://git.example/tfs/Team",
        );
    }

    #[test]
    fn other_urls_are_refused() {
        for text in [
            "https://dev.azure.com/acme/shop/config",
            "https://dev.azure.com/acme/a/b/_git/config",
            "https://dev.azure.com/_git/config",
        ] {
            let url = RepositoryUrl::parse(text, AddressPolicy::default()).expect(text);
            assert!(
                AzureUrls::new(&url, &Credentials::default()).is_err(),
                "{text}"
            );
        }
    }
}
