//! Asks people for reviews so that one whom the forge does not know keeps no other from being asked.

use super::{Error, ForgeFuture};

/// A forge that asks for reviews.
pub(super) trait Reviews: Sync {
    /// Asks these, beside those who are asked already.
    fn ask_all<'a>(&'a self, number: u64, names: &'a [&'a str]) -> ForgeFuture<'a, ()>;
}

/// Asks all at once. Where the forge refuses that for good, it asks one after the other, and answers
/// with a sentence for each who could not be asked.
pub(super) async fn ask(
    forge: &impl Reviews,
    number: u64,
    names: &[&str],
) -> Result<Vec<String>, Error> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    match forge.ask_all(number, names).await {
        Err(error) if is_refusal(&error) => {}
        asked => return asked.map(|()| Vec::new()),
    }
    let mut notes = Vec::new();
    for name in names {
        match forge.ask_all(number, &[name]).await {
            Ok(()) => {}
            Err(error) if is_refusal(&error) => {
                notes.push(format!("{name} was not asked for a review: {error}"));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(notes)
}

fn is_refusal(error: &Error) -> bool {
    matches!(error, Error::Refused { .. } | Error::NotFound { .. })
}
