//! Checked names of branches and ids of git objects.

use std::fmt;

/// A name or id that git would refuse or misread.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    /// Not a branch.
    #[error("{0:?} is not a valid branch name")]
    Branch(String),
    /// Not a commit or blob.
    #[error("{0:?} is not the id of a git object")]
    Object(String),
}

/// A branch, without `refs/heads/`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BranchName(String);

impl BranchName {
    /// Checks a branch name by the rules of git; it also must not look like an option.
    pub fn new(name: impl Into<String>) -> Result<Self, Error> {
        let name = name.into();
        if is_branch_name(&name) {
            Ok(Self(name))
        } else {
            Err(Error::Branch(name))
        }
    }

    /// The short name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name with `refs/heads/`.
    pub fn reference(&self) -> String {
        format!("refs/heads/{}", self.0)
    }

    /// The name with a suffix of letters, digits and dashes.
    pub(crate) fn with_suffix(&self, suffix: &str) -> Self {
        Self(format!("{}-{suffix}", self.0))
    }
}

impl fmt::Display for BranchName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

fn is_branch_name(name: &str) -> bool {
    let forbidden = |character: char| {
        character.is_control() || character.is_whitespace() || "~^:?*[\\".contains(character)
    };
    let is_component = |component: &str| {
        !component.is_empty() && !component.starts_with('.') && !component.ends_with(".lock")
    };
    !name.is_empty()
        && name.len() <= 244
        && name != "@"
        && !name.starts_with('-')
        && !name.ends_with('.')
        && !name.contains("..")
        && !name.contains("@{")
        && !name.contains(forbidden)
        && name.split('/').all(is_component)
}

/// The id of a commit, tree or blob.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId(String);

impl ObjectId {
    /// Checks that it is 40 or 64 hexadecimal digits.
    pub fn new(id: impl Into<String>) -> Result<Self, Error> {
        let id = id.into();
        let is_hexadecimal = id
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if is_hexadecimal && matches!(id.len(), 40 | 64) {
            Ok(Self(id))
        } else {
            Err(Error::Object(id))
        }
    }

    /// The digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branch_names_follow_gits_rules() {
        for good in ["main", "promotion-a-b-c", "feature/x", "v1.2", "a@b"] {
            assert!(BranchName::new(good).is_ok(), "{good}");
        }
        let (longest, longer) = ("a".repeat(244), "a".repeat(245));
        assert!(BranchName::new(longest).is_ok());
        for bad in [
            longer.as_str(),
            "",
            "-x",
            "--upload-pack=x",
            "a..b",
            "a b",
            "a~1",
            "a^",
            "a:b",
            "a?",
            "a*",
            "a[",
            "a\\b",
            "/a",
            "a/",
            "a//b",
            ".a",
            "a/.b",
            "a.lock",
            "a.lock/b",
            "a.",
            "@",
            "a@{1}",
            "a\nb",
            "a\u{7f}",
        ] {
            assert!(BranchName::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn object_ids_are_lower_case_hexadecimal() {
        assert!(ObjectId::new("a".repeat(40)).is_ok());
        assert!(ObjectId::new("0".repeat(64)).is_ok());
        for bad in ["", "abc", "HEAD", &"A".repeat(40), &"g".repeat(40)] {
            assert!(ObjectId::new(bad).is_err(), "{bad}");
        }
    }
}
