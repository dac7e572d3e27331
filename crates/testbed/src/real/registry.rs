//! A real OCI registry for tests: distribution's `registry`, with TLS and token authentication.
//!
//! The program comes from the folder that `cargo xtask kube` prints. It listens on loopback, keeps its
//! contents in a temporary folder, and ends with its value. Tests push to it with curl.

mod token_service;

use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};

use super::curl::{Curl, CurlResponse};
use super::process::SupervisedProcess;
use super::{ASK_EVERY, Assets, Error, READY_WITHIN, system, write_private};
use crate::forge::tls::IssuedCertificate;
use crate::ports::free_port;
use crate::registry::StoredManifest;
use token_service::TokenService;

pub use token_service::{PASSWORD, USER};

/// The program's file name.
const PROGRAM: &str = "registry";
/// The media type of an OCI image manifest.
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// A running registry.
pub struct RealRegistry {
    host: String,
    authorities: String,
    tokens: TokenService,
    process: SupervisedProcess,
    folder: tempfile::TempDir,
}

impl RealRegistry {
    /// Starts a registry and its token service, and waits until it answers.
    pub async fn start(assets: &Assets) -> Result<Self, Error> {
        let program = assets.program(PROGRAM);
        if !program.is_file() {
            let folder = program.parent().map(Path::to_owned).unwrap_or_default();
            return Err(Error::ProgramMissing {
                program: PROGRAM,
                folder,
            });
        }
        let folder = tempfile::Builder::new().prefix("registry-").tempdir();
        let folder = folder.map_err(system("creating the folder of a registry"))?;
        let (tokens, authority) = TokenService::start().await?;
        let host = format!("127.0.0.1:{}", free_port());
        let mut process = SupervisedProcess::prepare(assets, PROGRAM, folder.path())?;
        let certificate = IssuedCertificate::new()?;
        let settings = settings(&host, process.folder(), &tokens);
        let files = [
            ("config.yml", settings.to_string()),
            ("keys.json", tokens.keys().to_string()),
            ("server.crt", certificate.pem()),
            ("server.key", certificate.key_pem()),
        ];
        for (name, text) in files {
            write_private(&process.folder().join(name), &text)?;
        }
        let authorities = format!("{}\n{authority}", certificate.authority_pem());
        write_private(&folder.path().join("authorities.crt"), &authorities)?;
        let config = process.folder().join("config.yml");
        process.start(vec!["serve".into(), config.into()])?;
        let mut registry = Self {
            host,
            authorities,
            tokens,
            process,
            folder,
        };
        registry.wait_until_ready().await?;
        Ok(registry)
    }

    /// `127.0.0.1:PORT`.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The certificate authorities of the registry and of its token service, as PEM.
    pub fn certificate_authority(&self) -> &str {
        &self.authorities
    }

    /// Pushes a Flux artifact of that version and returns its digest.
    pub async fn push_artifact(&self, repository: &str, version: &str) -> Result<String, Error> {
        let mut blobs = Vec::new();
        for (media_type, content) in [
            ("application/vnd.cncf.flux.config.v1+json", "{}"),
            ("application/vnd.cncf.flux.content.v1.tar+gzip", version),
        ] {
            let digest = self.push_blob(repository, content.as_bytes()).await?;
            blobs.push(json!({"mediaType": media_type, "size": content.len(), "digest": digest}));
        }
        let manifest = json!({
            "schemaVersion": 2, "mediaType": MANIFEST, "config": blobs[0], "layers": [blobs[1]],
            "annotations": {"org.opencontainers.image.version": version},
        });
        // Not in the form that a serializer would choose.
        let bytes = format!("{manifest:#}\n").into_bytes();
        let digest = crate::registry::digest(&bytes);
        self.put(repository, &digest, &bytes).await?;
        Ok(digest)
    }

    /// Points a tag at a digest, as somebody else would.
    pub async fn tag(&self, repository: &str, tag: &str, digest: &str) -> Result<(), Error> {
        let manifest = self.manifest(repository, digest).await?;
        let bytes = manifest.map(|manifest| manifest.bytes).unwrap_or_default();
        self.put(repository, tag, &bytes).await
    }

    /// A manifest by its tag or digest.
    pub async fn manifest(
        &self,
        repository: &str,
        reference: &str,
    ) -> Result<Option<StoredManifest>, Error> {
        let path = format!("/v2/{repository}/manifests/{reference}");
        let accept = format!("Accept: {MANIFEST}");
        let answer = self.request("GET", &path, repository, &accept, b"").await?;
        Ok((answer.status == 200).then(|| StoredManifest {
            media_type: answer.header("content-type").unwrap_or_default(),
            digest: answer.header("docker-content-digest").unwrap_or_default(),
            bytes: answer.body,
        }))
    }

    async fn push_blob(&self, repository: &str, content: &[u8]) -> Result<String, Error> {
        let start = format!("/v2/{repository}/blobs/uploads/");
        let started = self
            .request("POST", &start, repository, "Expect:", b"")
            .await?;
        let location = started.header("location").unwrap_or_default();
        let path = location.split_once(&self.host).map_or("", |(_, path)| path);
        let digest = crate::registry::digest(content);
        let path = format!("{path}&digest={digest}");
        let kind = "Content-Type: application/octet-stream";
        let answer = self
            .request("PUT", &path, repository, kind, content)
            .await?;
        self.expect_created(&answer).map(|()| digest)
    }

    async fn put(&self, repository: &str, reference: &str, bytes: &[u8]) -> Result<(), Error> {
        let path = format!("/v2/{repository}/manifests/{reference}");
        let kind = format!("Content-Type: {MANIFEST}");
        let answer = self.request("PUT", &path, repository, &kind, bytes).await?;
        self.expect_created(&answer)
    }

    fn expect_created(&self, answer: &CurlResponse) -> Result<(), Error> {
        if answer.status == 201 {
            return Ok(());
        }
        Err(Error::NotReady {
            address: self.host.clone(),
            answer: format!(
                "{} {}",
                answer.status,
                String::from_utf8_lossy(&answer.body)
            ),
            log: self.process.log_tail(),
        })
    }

    /// Sends a request with a token that may do everything in the repository.
    async fn request(
        &self,
        method: &str,
        path: &str,
        repository: &str,
        header: &str,
        body: &[u8],
    ) -> Result<CurlResponse, Error> {
        let token = self
            .tokens
            .issue(&format!("repository:{repository}:pull,push"));
        let url = format!("https://{}{path}", self.host);
        let authorization = format!("Authorization: Bearer {token}");
        let curl = Curl {
            authorities: self.folder.path().join("authorities.crt"),
        };
        curl.send(method, &url, &[header, &authorization], body)
            .await
    }

    async fn wait_until_ready(&mut self) -> Result<(), Error> {
        let give_up = Instant::now() + READY_WITHIN;
        loop {
            self.process.check_running()?;
            let answer = self.request("GET", "/v2/", "any", "Expect:", b"").await?;
            if answer.status == 200 {
                return Ok(());
            }
            if Instant::now() > give_up {
                return Err(Error::NotReady {
                    address: self.host.clone(),
                    answer: answer.status.to_string(),
                    log: self.process.log_tail(),
                });
            }
            tokio::time::sleep(ASK_EVERY).await;
        }
    }
}

/// The registry's configuration. JSON is YAML.
fn settings(host: &str, folder: &Path, tokens: &TokenService) -> Value {
    let file = |name: &str| folder.join(name).to_string_lossy().into_owned();
    json!({
        "version": 0.1,
        "log": {"level": "warn"},
        "storage": {"filesystem": {"rootdirectory": file("data")}, "delete": {"enabled": true}},
        "http": {
            "addr": host, "secret": "only for tests",
            "tls": {"certificate": file("server.crt"), "key": file("server.key")},
        },
        "auth": {"token": {
            "realm": tokens.realm(), "service": token_service::SERVICE,
            "issuer": token_service::ISSUER, "jwks": file("keys.json"),
        }},
    })
}
