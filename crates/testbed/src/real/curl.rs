//! Requests to real servers of tests, sent with curl.

use std::path::PathBuf;

use tokio::io::AsyncWriteExt;

use super::{Error, system};

/// A client that trusts one file of certificate authorities.
pub(super) struct Curl {
    pub(super) authorities: PathBuf,
}

/// A response.
pub(super) struct CurlResponse {
    pub(super) status: u16,
    headers: String,
    pub(super) body: Vec<u8>,
}

impl CurlResponse {
    pub(super) fn header(&self, name: &str) -> Option<String> {
        self.headers.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name)
                .then(|| value.trim().to_owned())
        })
    }
}

impl Curl {
    /// Sends one request. A server that cannot be reached has the status 0.
    pub(super) async fn send(
        &self,
        method: &str,
        url: &str,
        headers: &[&str],
        body: &[u8],
    ) -> Result<CurlResponse, Error> {
        let mut curl = tokio::process::Command::new("curl")
            .args(["-sS", "-i", "--http1.1", "-X", method])
            .args(["--data-binary", "@-"])
            .args(headers.iter().flat_map(|header| ["-H", header]))
            .arg("--cacert")
            .arg(&self.authorities)
            .arg(url)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::null())
            .spawn()
            .map_err(system("running curl"))?;
        if let Some(mut stdin) = curl.stdin.take() {
            let written = stdin.write_all(body).await;
            written.map_err(system("writing to curl"))?;
        }
        let output = curl.wait_with_output().await;
        Ok(parse(&output.map_err(system("running curl"))?.stdout))
    }
}

fn parse(output: &[u8]) -> CurlResponse {
    let end = output.windows(4).position(|it| it == b"\r\n\r\n");
    let (headers, body) = output.split_at(end.map_or(0, |end| end + 4));
    let headers = String::from_utf8_lossy(headers).into_owned();
    let mut words = headers.split_whitespace();
    let status = words.nth(1).and_then(|it| it.parse().ok());
    CurlResponse {
        status: status.unwrap_or_default(),
        headers,
        body: body.to_owned(),
    }
}
