//! A password, token or key that must not appear in logs or errors.

use std::sync::Arc;

/// A password, token or key. Has neither `Debug` nor `Display`, so that it cannot get into a log line
/// or an error by accident.
#[derive(Clone)]
pub struct SecretValue(Arc<[u8]>);

impl SecretValue {
    /// Wraps a value.
    pub fn new(value: impl Into<Vec<u8>>) -> Self {
        Self(value.into().into())
    }

    /// The value itself.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// The value as text without surrounding white space, which editors and `echo` add; `None` if it
    /// is not UTF-8.
    pub fn expose_text(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok().map(str::trim)
    }

    /// Whether it is empty or only white space.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(u8::is_ascii_whitespace)
    }
}

/// Replaces every occurrence of a secret in a text by `***`.
pub fn redact(text: &str, secrets: &[SecretValue]) -> String {
    let mut redacted = text.to_owned();
    for secret in secrets {
        // Shorter ones would also match parts of ordinary words.
        if let Some(value) = secret.expose_text().filter(|value| value.len() >= 4) {
            redacted = redacted.replace(value, "***");
        }
    }
    redacted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_redacted() {
        let secrets = [SecretValue::new("hunter22\n"), SecretValue::new("x")];
        assert_eq!(redact("x: hunter22 refused", &secrets), "x: *** refused");
    }
}
