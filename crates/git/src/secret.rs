//! A value that must not be shown.

use std::sync::Arc;

/// A password, token or key. It has neither `Debug` nor `Display`, so that it cannot slip into a
/// log line or an error.
#[derive(Clone)]
pub struct Secret(Arc<[u8]>);

impl Secret {
    /// Keeps a value.
    pub fn new(value: impl Into<Vec<u8>>) -> Self {
        Self(value.into().into())
    }

    /// The value itself. Hand it only to what needs it.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// The value as text without surrounding white space, which editors and `echo` leave behind;
    /// nothing if it is not text.
    pub fn expose_text(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok().map(str::trim)
    }

    /// Whether there is anything in it.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(u8::is_ascii_whitespace)
    }
}

/// Puts `***` where any of the secrets occurs in a text.
pub(crate) fn scrub(text: &str, secrets: &[Secret]) -> String {
    let mut scrubbed = text.to_owned();
    for secret in secrets {
        // Shorter ones would blank out half of every sentence, and are not worth hiding.
        if let Some(value) = secret.expose_text().filter(|value| value.len() >= 4) {
            scrubbed = scrubbed.replace(value, "***");
        }
    }
    scrubbed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_taken_out_of_texts() {
        let secrets = [Secret::new("hunter22\n"), Secret::new("x")];
        assert_eq!(scrub("x: hunter22 refused", &secrets), "x: *** refused");
    }
}
