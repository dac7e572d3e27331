//! The key that commits are signed with, and as whom, from the entries of a Secret.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use net::SecretValue;

use super::{Committer, Error, SigningFormat, SigningKey, entry, read_secret, read_text};

/// The first line of an OpenPGP key.
const OPENPGP: &str = "-----BEGIN PGP PRIVATE KEY BLOCK-----";
/// The first line of an SSH key in its own format.
const OPENSSH: &str = "-----BEGIN OPENSSH PRIVATE KEY-----";

/// Reads the key. A key with a passphrase is refused: there is nobody to type it.
pub(super) fn read_key(entries: &BTreeMap<String, Vec<u8>>) -> Result<Option<SigningKey>, Error> {
    let Some(key) = read_secret(entries, entry::SIGNING_KEY) else {
        return Ok(None);
    };
    let unreadable = |expected| Error::Unreadable {
        entry: entry::SIGNING_KEY,
        expected,
    };
    let text = key.expose_text().unwrap_or_default().trim_start();
    let format = match text.lines().next().map(str::trim_end).unwrap_or_default() {
        OPENPGP => SigningFormat::OpenPgp,
        line if line.starts_with("-----BEGIN ") && line.ends_with("PRIVATE KEY-----") => {
            SigningFormat::Ssh
        }
        _ => {
            return Err(unreadable(
                "an SSH private key or an ASCII-armored OpenPGP private key",
            ));
        }
    };
    if format == SigningFormat::Ssh && has_passphrase(text) {
        return Err(unreadable("a key without a passphrase"));
    }
    Ok(Some(SigningKey { key, format }))
}

/// Whether an SSH key needs a passphrase.
fn has_passphrase(text: &str) -> bool {
    let Some(body) = text.strip_prefix(OPENSSH) else {
        return text.contains("ENCRYPTED");
    };
    let body = body.split("-----").next().unwrap_or_default();
    let body: String = body.chars().filter(|c| !c.is_whitespace()).collect();
    // After the name of the format comes the length and name of the cipher.
    let bytes = STANDARD.decode(body).unwrap_or_default();
    let cipher = bytes.strip_prefix(b"openssh-key-v1\0\0\0\0\x04none");
    cipher.is_none()
}

/// Reads as whom to commit: both name and e-mail address, or neither.
pub(super) fn read_committer(
    entries: &BTreeMap<String, Vec<u8>>,
) -> Result<Option<Committer>, Error> {
    let read = |name| {
        let text = read_text(entries, name)?;
        match text {
            Some(text) if text.contains(['<', '>']) || text.trim().is_empty() => {
                Err(Error::Unreadable {
                    entry: name,
                    expected: "text without angle brackets",
                })
            }
            text => Ok(text.map(|text| text.trim().to_owned())),
        }
    };
    let (name, email) = (read(entry::COMMITTER_NAME)?, read(entry::COMMITTER_EMAIL)?);
    match (name, email) {
        (Some(name), Some(email)) => Ok(Some(Committer { name, email })),
        (None, None) => Ok(None),
        (Some(_), None) => Err(Error::Incomplete {
            present: entry::COMMITTER_NAME,
            missing: entry::COMMITTER_EMAIL,
        }),
        (None, Some(_)) => Err(Error::Incomplete {
            present: entry::COMMITTER_EMAIL,
            missing: entry::COMMITTER_NAME,
        }),
    }
}

impl SigningKey {
    /// The key with the newline at its end that ssh requires.
    pub(crate) fn text(&self) -> Vec<u8> {
        let mut text = self.key.expose().to_vec();
        if !text.ends_with(b"\n") {
            text.push(b'\n');
        }
        text
    }

    /// What must not be in any message.
    pub(crate) fn secret(&self) -> SecretValue {
        self.key.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(entries: &[(&str, &str)]) -> Option<String> {
        let entries = entries.iter();
        let entries = entries.map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec()));
        let entries: BTreeMap<_, _> = entries.collect();
        let key = read_key(&entries).map(drop);
        let read = key.and_then(|()| read_committer(&entries).map(drop));
        read.err().map(|error| error.to_string())
    }

    fn openssh(cipher: &str) -> String {
        let mut bytes = b"openssh-key-v1\0\0\0\0".to_vec();
        bytes.push(u8::try_from(cipher.len()).expect("short"));
        bytes.extend(cipher.as_bytes());
        bytes.extend([7; 90]);
        let body = STANDARD.encode(bytes);
        let (first, second) = body.split_at(70);
        format!("{OPENSSH}\n{first}\n{second}\n-----END OPENSSH PRIVATE KEY-----\n")
    }

    #[test]
    fn keys_without_a_passphrase_are_accepted() {
        let rsa = "-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n";
        let pgp = format!("{OPENPGP}\n\nAAAA\n-----END PGP PRIVATE KEY BLOCK-----\n");
        for key in [openssh("none").as_str(), rsa, &pgp] {
            assert_eq!(problem(&[("signingKey", key)]), None, "{key}");
        }
    }

    #[test]
    fn other_keys_are_refused_with_what_to_store_instead() {
        let old = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n";
        for key in [openssh("aes256-ctr").as_str(), old] {
            let problem = problem(&[("signingKey", key)]).expect("it is refused");
            assert!(
                problem.ends_with("is not a key without a passphrase"),
                "{problem}"
            );
        }
        for other in [
            "ssh-ed25519 AAAA",
            "-----BEGIN CERTIFICATE-----",
            "MY PRIVATE KEY-----",
        ] {
            let problem = problem(&[("signingKey", other)]).expect("it is refused");
            assert!(problem.contains("an SSH private key"), "{problem}");
        }
    }

    #[test]
    fn a_key_is_passed_on_with_one_newline_at_its_end() {
        for text in ["key", "key\n"] {
            let key = SecretValue::new(text.as_bytes().to_vec());
            let format = SigningFormat::Ssh;
            assert_eq!(SigningKey { key, format }.text(), b"key\n");
        }
    }

    #[test]
    fn a_committer_is_whole_or_none() {
        let both = [
            ("committerName", "Bot"),
            ("committerEmail", "bot@example.com"),
        ];
        assert_eq!(problem(&both), None);
        for half in &both {
            assert!(problem(&[*half]).is_some(), "{half:?}");
        }
        assert!(problem(&[("committerName", "B <x>"), both[1]]).is_some());
    }
}
