//! Blobs, trees and commits in memory, with the ids that git gives them.

use std::{collections::BTreeMap, fmt::Write as _};

use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

/// The files of a commit: path, mode and blob.
pub(crate) type Files = BTreeMap<String, (String, String)>;

/// Objects by id.
#[derive(Default)]
pub(crate) struct Objects(BTreeMap<String, (&'static str, Vec<u8>)>);

/// What a commit is made from.
pub(crate) struct NewCommit<'a> {
    pub(crate) tree: &'a str,
    pub(crate) parents: &'a [&'a str],
    /// `name <address> seconds zone`.
    pub(crate) author: &'a str,
    pub(crate) committer: &'a str,
    pub(crate) message: &'a str,
}

impl Objects {
    pub(crate) fn put(&mut self, kind: &'static str, content: Vec<u8>) -> String {
        let mut text = format!("{kind} {}\0", content.len()).into_bytes();
        text.extend(&content);
        let id = hex(digest(&SHA1_FOR_LEGACY_USE_ONLY, &text).as_ref());
        self.0.insert(id.clone(), (kind, content));
        id
    }

    /// The kind and the content of an object.
    pub(crate) fn get(&self, id: &str) -> Option<(&'static str, &[u8])> {
        let (kind, content) = self.0.get(id)?;
        Some((kind, content))
    }

    pub(crate) fn text(&self, id: &str) -> Option<String> {
        let (_, content) = self.get(id)?;
        Some(String::from_utf8_lossy(content).into_owned())
    }

    pub(crate) fn commit(&mut self, new: &NewCommit<'_>) -> String {
        let mut text = format!("tree {}\n", new.tree);
        for parent in new.parents {
            let _ = writeln!(text, "parent {parent}");
        }
        let _ = writeln!(text, "author {}\ncommitter {}\n", new.author, new.committer);
        text.push_str(new.message);
        if !text.ends_with('\n') {
            text.push('\n');
        }
        self.put("commit", text.into_bytes())
    }

    /// The first parent of a commit.
    pub(crate) fn parent(&self, commit: &str) -> Option<String> {
        let text = self.text(commit)?;
        let parent = text.lines().find_map(|line| line.strip_prefix("parent "));
        parent.map(str::to_owned)
    }

    /// The files of a commit or tree.
    pub(crate) fn files(&self, id: &str) -> Option<Files> {
        let (kind, content) = self.get(id)?;
        if kind == "commit" {
            let text = String::from_utf8_lossy(content);
            return self.files(text.strip_prefix("tree ")?.get(..40)?);
        }
        let mut files = Files::new();
        self.read_tree(content, "", &mut files)?;
        Some(files)
    }

    fn read_tree(&self, mut tree: &[u8], folder: &str, files: &mut Files) -> Option<()> {
        while !tree.is_empty() {
            let end = tree.iter().position(|byte| *byte == 0)?;
            let entry = std::str::from_utf8(&tree[..end]).ok()?;
            let (mode, name) = entry.split_once(' ')?;
            let id = hex(tree.get(end + 1..end + 21)?);
            tree = &tree[end + 21..];
            let path = format!("{folder}{name}");
            match mode {
                "40000" => self.read_tree(self.get(&id)?.1, &format!("{path}/"), files)?,
                _ => drop(files.insert(path, (mode.to_owned(), id))),
            }
        }
        Some(())
    }

    /// Writes a tree and those below it.
    pub(crate) fn write_tree(&mut self, files: &Files) -> String {
        let mut folders: BTreeMap<&str, Files> = BTreeMap::new();
        // Git sorts folders as if their names ended with a slash.
        let mut entries: BTreeMap<String, (String, String)> = BTreeMap::new();
        for (path, file) in files {
            match path.split_once('/') {
                Some((folder, rest)) => {
                    let files = folders.entry(folder).or_default();
                    files.insert(rest.to_owned(), file.clone());
                }
                None => drop(entries.insert(path.clone(), file.clone())),
            }
        }
        for (folder, files) in folders {
            let id = self.write_tree(&files);
            entries.insert(format!("{folder}/"), ("40000".to_owned(), id));
        }
        let mut tree = Vec::new();
        for (name, (mode, id)) in entries {
            tree.extend(format!("{mode} {}\0", name.trim_end_matches('/')).into_bytes());
            tree.extend(bytes(&id));
        }
        self.put("tree", tree)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.filter_map(byte).collect()
}
