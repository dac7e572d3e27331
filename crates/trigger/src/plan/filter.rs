//! Filters source events by globs over branches and tags.

use api::trigger::Filters;

use super::event::SourceEvent;

/// Whether an event passes the filters; without filters every event does.
pub(crate) fn passes(filters: Option<&Filters>, event: &SourceEvent) -> bool {
    let Some(filters) = filters else { return true };
    if filters.branches.is_empty() && filters.tags.is_empty() {
        return true;
    }
    // A short name may be a branch or a tag, so it is matched as both.
    let branch = event.branch().and_then(branch_name);
    let matches_any = |globs: &[String], name: Option<&str>| {
        name.is_some_and(|name| globs.iter().any(|glob| matches(glob, name)))
    };
    matches_any(&filters.branches, branch) || matches_any(&filters.tags, event.tag())
}

fn branch_name(reference: &str) -> Option<&str> {
    let branch = reference.strip_prefix("refs/heads/");
    branch
        .or((!reference.starts_with("refs/tags/")).then_some(reference))
        .filter(|branch| !branch.is_empty())
}

/// `*` matches anything but slashes, `**` anything, `?` one character.
fn matches(glob: &str, name: &str) -> bool {
    let glob: Vec<char> = glob.chars().collect();
    let name: Vec<char> = name.chars().collect();
    // reachable[n]: the glob so far matches the first n characters.
    let mut reachable = vec![false; name.len() + 1];
    reachable[0] = true;
    let mut at = 0;
    while at < glob.len() {
        let crosses_slashes = glob[at] == '*' && glob.get(at + 1) == Some(&'*');
        at += if crosses_slashes { 2 } else { 1 };
        reachable = match glob[at - 1] {
            '*' => spread(&reachable, &name, crosses_slashes),
            wanted => advance(&reachable, &name, wanted),
        };
    }
    reachable[name.len()]
}

fn spread(reachable: &[bool], name: &[char], crosses_slashes: bool) -> Vec<bool> {
    let mut next = reachable.to_vec();
    for (at, c) in name.iter().enumerate() {
        next[at + 1] |= next[at] && (crosses_slashes || *c != '/');
    }
    next
}

fn advance(reachable: &[bool], name: &[char], wanted: char) -> Vec<bool> {
    let mut next = vec![false; reachable.len()];
    for (at, c) in name.iter().enumerate() {
        next[at + 1] = reachable[at] && (wanted == '?' || wanted == *c);
    }
    next
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn globs() {
        for (glob, name, expected) in [
            ("main", "main", true),
            ("main", "maintenance", false),
            ("release-*", "release-1.2", true),
            ("*", "feature/x", false),
            ("**", "feature/x", true),
            ("feature/*", "feature/x", true),
            ("feature/*", "feature/x/y", false),
            ("feature/**", "feature/x/y", true),
            ("**/fix", "a/b/fix", true),
            ("v?.*", "v1.2", true),
            ("v?.*", "v12", false),
            ("*a*b*c*", "xxaxxbxxcxx", true),
            ("", "", true),
            ("*", "", true),
        ] {
            assert_eq!(matches(glob, name), expected, "{glob} on {name}");
        }
    }

    #[test]
    fn a_hostile_glob_is_not_slow() {
        assert!(!matches(
            &"*a".repeat(120),
            &"a".repeat(250).replace("aaaaa", "b")
        ));
    }
}
