//! Signs commits with git's own machinery.

use crate::credentials::SigningKey;
use crate::mirror::{self, Mirror};
use crate::names::ObjectId;
use crate::runner::{self, GitCommand};
use net::redact;

/// Runs a command that writes a signed commit.
pub(super) async fn sign(
    mirror: &Mirror,
    key: &SigningKey,
    mut command: GitCommand<'_>,
) -> Result<String, mirror::Error> {
    let runner = &mirror.runner;
    let files = runner.prepare_signing(key).await?;
    command.environment.extend(files.environment());
    let signed = runner.run_for_text(command).await;
    runner.finish_signing(files).await;
    Ok(signed.map_err(|error| match error {
        runner::Error::Failed { message, .. } => {
            let because = redact(&message, &[key.secret()]);
            let message = format!(
                "{because}; the key in the entry \"signingKey\" must be valid and have no passphrase"
            );
            runner::Error::Signing { message }
        }
        error => error,
    })?)
}

/// Whether a commit is the unsigned one with a signature.
pub(super) async fn is_signed_copy(
    mirror: &Mirror,
    commit: &ObjectId,
    unsigned: &ObjectId,
) -> Result<bool, mirror::Error> {
    let commit = content(mirror, commit).await?;
    let stripped = without_signature(&commit);
    Ok(stripped != commit && stripped == content(mirror, unsigned).await?)
}

async fn content(mirror: &Mirror, commit: &ObjectId) -> Result<String, mirror::Error> {
    let arguments = ["cat-file", "commit", commit.as_str()];
    let command = GitCommand::new("read a commit", &mirror.folder, &arguments);
    let output = mirror.runner.run(command).await?;
    Ok(String::from_utf8_lossy(&output).into_owned())
}

/// The text of a commit without the header `gpgsig`, whose further lines begin with a space.
fn without_signature(commit: &str) -> String {
    let (header, message) = commit.split_once("\n\n").unwrap_or((commit, ""));
    let mut kept = Vec::new();
    let mut is_signature = false;
    for line in header.lines() {
        is_signature = line.starts_with("gpgsig ") || is_signature && line.starts_with(' ');
        if !is_signature {
            kept.push(line);
        }
    }
    format!("{}\n\n{message}", kept.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::without_signature;

    #[test]
    fn only_the_signature_is_removed() {
        let signed = "tree a\nparent b\ngpgsig -----BEGIN\n \n AAAA\n -----END\nencoding x\n\nHi\n\n gpgsig y\n";
        let unsigned = "tree a\nparent b\nencoding x\n\nHi\n\n gpgsig y\n";
        assert_eq!(without_signature(signed), unsigned);
        assert_eq!(without_signature(unsigned), unsigned);
    }
}
