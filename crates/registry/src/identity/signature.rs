//! Signs requests as AWS demands (Signature Version 4).

use ring::hmac;
use sha2::{Digest, Sha256};

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// The key for a day, a region and a service.
pub(super) struct RequestSigningKey {
    key: hmac::Key,
    /// `day/region/service/aws4_request`.
    scope: String,
}

impl RequestSigningKey {
    /// `time` is written as `20150830T123600Z`.
    pub(super) fn new(secret: &str, time: &str, region: &str, service: &str) -> Self {
        let day = time.split('T').next().unwrap_or_default();
        let parts = [day, region, service, "aws4_request"];
        let mut key = format!("AWS4{secret}").into_bytes();
        for part in parts {
            let signing = hmac::Key::new(hmac::HMAC_SHA256, &key);
            key = hmac::sign(&signing, part.as_bytes()).as_ref().to_vec();
        }
        Self {
            key: hmac::Key::new(hmac::HMAC_SHA256, &key),
            scope: parts.join("/"),
        }
    }
}

/// A request to the path `/` that is to be signed.
pub(super) struct Signature<'a> {
    pub(super) method: &'a str,
    pub(super) query: &'a str,
    /// Lower-case names, in alphabetical order.
    pub(super) headers: &'a [(&'a str, &'a str)],
    pub(super) body: &'a [u8],
}

impl Signature<'_> {
    /// The value of the header `Authorization`.
    pub(super) fn authorization(&self, key: &RequestSigningKey, id: &str, time: &str) -> String {
        let lines = self
            .headers
            .iter()
            .map(|(name, value)| format!("{name}:{}\n", value.trim()));
        let lines: String = lines.collect();
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| *name).collect();
        let names = names.join(";");
        let (method, query, body) = (self.method, self.query, hex(&Sha256::digest(self.body)));
        let request = format!("{method}\n/\n{query}\n{lines}\n{names}\n{body}");
        let request = hex(&Sha256::digest(request.as_bytes()));
        let scope = &key.scope;
        let signed = format!("{ALGORITHM}\n{time}\n{scope}\n{request}");
        let signature = hex(hmac::sign(&key.key, signed.as_bytes()).as_ref());
        format!("{ALGORITHM} Credential={id}/{scope}, SignedHeaders={names}, Signature={signature}")
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example in AWS's documentation of Signature Version 4.
    #[test]
    fn the_documented_example_has_the_documented_signature() {
        let time = "20150830T123600Z";
        let secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
        let key = RequestSigningKey::new(secret, time, "us-east-1", "iam");
        let signature = Signature {
            method: "GET",
            query: "Action=ListUsers&Version=2010-05-08",
            headers: &[
                (
                    "content-type",
                    "application/x-www-form-urlencoded; charset=utf-8",
                ),
                ("host", "iam.amazonaws.com"),
                ("x-amz-date", time),
            ],
            body: b"",
        };
        let authorization = signature.authorization(&key, "AKIDEXAMPLE", time);
        let expected = "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7";
        assert!(authorization.ends_with(expected), "{authorization}");
    }
}
