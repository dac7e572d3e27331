//! Patterns of files that may be changed, and checks of paths.

use net::Remedy;

/// A path that does not stay inside a repository.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{path:?} is not a path inside the repository")]
pub struct Error {
    /// The path as written.
    pub path: String,
}

impl Error {
    /// A fixed word for metrics, events and conditions.
    pub fn reason(&self) -> &'static str {
        "InvalidPath"
    }

    /// Whether to retry or to wait for an edit.
    pub fn remedy(&self) -> Remedy {
        Remedy::Edit
    }
}

/// Patterns of files that may change; all files if there are none.
///
/// A pattern names a file, or a folder with everything in it. `*` and `?` stand for anything within
/// one name, `**` for any number of folders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathLimits(Vec<Vec<String>>);

impl PathLimits {
    /// Checks the patterns.
    pub fn new<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Result<Self, Error> {
        let mut limits = Vec::new();
        for pattern in patterns {
            let trimmed = pattern
                .strip_prefix("./")
                .unwrap_or(pattern)
                .trim_end_matches('/');
            if trimmed == "."
                || trimmed.is_empty() && !pattern.is_empty() && !pattern.starts_with('/')
            {
                limits.push(Vec::new());
                continue;
            }
            check(trimmed)?;
            limits.push(trimmed.split('/').map(str::to_owned).collect());
        }
        Ok(Self(limits))
    }

    /// Whether a file may change.
    pub fn allow(&self, path: &str) -> bool {
        let names: Vec<&str> = path.split('/').collect();
        self.0.is_empty() || self.0.iter().any(|pattern| covers(pattern, &names))
    }
}

/// Refuses paths outside the repository, in its `.git` folder or with control characters.
pub(crate) fn check(path: &str) -> Result<(), Error> {
    let is_name = |name: &str| {
        !matches!(name, "" | "." | "..")
            && !name
                .trim_end_matches([' ', '.'])
                .eq_ignore_ascii_case(".git")
    };
    let is_plain = !path.contains(|c: char| c.is_control() || c == '\\') && path.len() <= 1024;
    if is_plain && path.split('/').all(is_name) {
        return Ok(());
    }
    Err(Error {
        path: path.to_owned(),
    })
}

/// Files outside hidden folders that forges execute when a branch is pushed.
const CI_FILES: [&str; 4] = [
    "azure-pipelines.yaml",
    "azure-pipelines.yml",
    "bitbucket-pipelines.yaml",
    "bitbucket-pipelines.yml",
];

/// Whether a forge may execute a file as soon as a branch with it is pushed, before a review: all files
/// in hidden folders, such as `.github/workflows`, and a few others.
pub(crate) fn may_be_executed(path: &str) -> bool {
    let mut names = path.split('/');
    let name = path.rsplit('/').next().unwrap_or_default();
    names.any(|name| name.starts_with('.'))
        || CI_FILES.iter().any(|it| it.eq_ignore_ascii_case(name))
}

/// Whether the pattern matches the path or a folder above it.
fn covers(pattern: &[String], names: &[&str]) -> bool {
    let Some((first, rest)) = pattern.split_first() else {
        return true;
    };
    if first == "**" {
        return (0..=names.len()).any(|skipped| covers(rest, &names[skipped..]));
    }
    let Some((name, below)) = names.split_first() else {
        return false;
    };
    let pattern: Vec<char> = first.chars().collect();
    let name: Vec<char> = name.chars().collect();
    matches_name(&pattern, &name) && covers(rest, below)
}

/// One name against one pattern, in time proportional to their product.
fn matches_name(pattern: &[char], name: &[char]) -> bool {
    let mut reachable = vec![false; name.len() + 1];
    reachable[0] = true;
    for wanted in pattern {
        if *wanted == '*' {
            for index in 1..=name.len() {
                reachable[index] |= reachable[index - 1];
            }
            continue;
        }
        for index in (1..=name.len()).rev() {
            reachable[index] =
                reachable[index - 1] && (*wanted == '?' || *wanted == name[index - 1]);
        }
        reachable[0] = false;
    }
    reachable[name.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_allows(patterns: &[&str], allowed: &[&str], refused: &[&str]) {
        let limits = PathLimits::new(patterns.iter().copied()).expect("patterns");
        for path in allowed {
            assert!(limits.allow(path), "{patterns:?} should allow {path}");
        }
        for path in refused {
            assert!(!limits.allow(path), "{patterns:?} should not allow {path}");
        }
    }

    #[test]
    fn patterns_name_files_and_folders() {
        check_allows(&[], &["a.yaml", "x/y.yaml"], &[]);
        check_allows(
            &["apps/prod"],
            &["apps/prod/a.yaml", "apps/prod/x/b.yaml", "apps/prod"],
            &["apps/prod2/a.yaml", "apps"],
        );
        check_allows(&["./apps/prod/"], &["apps/prod/a.yaml"], &["b.yaml"]);
        check_allows(&["./"], &["a.yaml", "b/c.yaml"], &[]);
        check_allows(
            &["clusters/*/app.yaml"],
            &["clusters/a/app.yaml"],
            &["clusters/a/b/app.yaml", "clusters/app.yaml"],
        );
        check_allows(
            &["**/prod/*.yaml"],
            &["prod/a.yaml", "x/y/prod/a.yaml"],
            &["prod/a.yml", "x/prod"],
        );
        check_allows(&["a?c"], &["abc"], &["ac", "abbc"]);
    }

    #[test]
    fn paths_that_leave_are_refused() {
        for path in [
            "../x",
            "/etc/passwd",
            "a/../../b",
            "a//b",
            "a/./b",
            ".git/config",
            "a/.GIT/x",
            "a\\b",
            "a\nb",
            "",
            ".git./x",
        ] {
            assert!(check(path).is_err(), "{path}");
        }
        assert!(check("a/.github/b.yaml").is_ok());
        assert!(PathLimits::new(["../x"]).is_err());
        assert!(PathLimits::new([""]).is_err());
    }

    #[test]
    fn files_that_forges_execute_are_recognised() {
        for path in [
            ".github/workflows/a.yaml",
            ".gitlab-ci.yml",
            "apps/.woodpecker/a.yaml",
            "bitbucket-pipelines.yml",
            "Azure-Pipelines.yml",
        ] {
            assert!(may_be_executed(path), "{path}");
        }
        for path in ["apps/prod.yaml", "a.b/c.yaml", "azure-pipelines/a.yaml"] {
            assert!(!may_be_executed(path), "{path}");
        }
    }

    #[test]
    fn patterns_with_many_stars_match_fast() {
        let pattern = "*a".repeat(200);
        let limits = PathLimits::new([pattern.as_str()]).expect("a pattern");
        assert!(!limits.allow(&"a".repeat(199)));
    }
}
