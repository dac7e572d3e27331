//! Gitea as an OpenID provider: registers a client, and signs people in as their browser would.

use std::path::PathBuf;

use serde_json::json;
use tokio::process::Command;

use super::{Error, PASSWORD, RealGitea, system};

/// The parameters of the authorization that the form of consent repeats.
const REPEATED: [&str; 5] = ["client_id", "redirect_uri", "state", "scope", "nonce"];

/// A registered client.
pub struct OpenIdClient {
    /// Its id.
    pub id: String,
    /// Its secret.
    pub secret: String,
}

impl RealGitea {
    /// Registers a confidential client.
    pub async fn register_client(&self, redirect_url: &str) -> Result<OpenIdClient, Error> {
        let client = json!({
            "name": "sluice", "redirect_uris": [redirect_url], "confidential_client": true,
        });
        let path = "/user/applications/oauth2";
        let created = self.administer("POST", path, client).await?;
        let field = |name: &str| created[name].as_str().unwrap_or_default().to_owned();
        Ok(OpenIdClient {
            id: field("client_id"),
            secret: field("client_secret"),
        })
    }

    /// Signs a user in, consents, and returns where the browser is sent back to.
    pub async fn sign_in(&self, authorization: &str, user: &str) -> Result<String, Error> {
        let (_, query) = authorization.split_once('?').unwrap_or_default();
        // As in a browser that nobody is signed in with.
        drop(std::fs::remove_file(self.cookies()));
        let login = format!("user_name={user}&password={PASSWORD}");
        self.browse("/user/login", Some(&login)).await?;
        let page = authorization.strip_prefix(self.address());
        self.browse(page.unwrap_or(authorization), None).await?;
        let is_repeated = |pair: &&str| {
            let name = pair.split('=').next().unwrap_or_default();
            REPEATED.contains(&name)
        };
        let consent: Vec<&str> = query.split('&').filter(is_repeated).collect();
        let consent = format!("{}&granted=true", consent.join("&"));
        self.browse("/login/oauth/grant", Some(&consent)).await
    }

    fn cookies(&self) -> PathBuf {
        self.folder.path().join("cookies")
    }

    /// Opens a page, or submits a form, with the cookies of earlier pages; where it redirects to.
    async fn browse(&self, path: &str, form: Option<&str>) -> Result<String, Error> {
        let cookies = self.cookies();
        let output = Command::new("curl")
            .args(["-sS", "--output", "/dev/null"])
            .args(["--write-out", "%{redirect_url}"])
            .args(form.into_iter().flat_map(|form| ["--data", form]))
            .arg("--cookie")
            .arg(&cookies)
            .arg("--cookie-jar")
            .arg(&cookies)
            .arg("--cacert")
            .arg(&self.curl.authorities)
            .arg(format!("{}{path}", self.address()))
            .output()
            .await
            .map_err(system("running curl"))?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}
