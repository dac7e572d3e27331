//! Requests reviews so that one unknown reviewer does not prevent the others from being asked.

use super::{Error, ForgeFuture, PullRequestMetadata};

/// A forge that can request reviews of a pull request.
pub(super) trait ReviewRequester: Sync {
    /// Requests reviews from these people, in addition to those requested before.
    fn request_reviews<'a>(&'a self, number: u64, names: &'a [&'a str]) -> ForgeFuture<'a, ()>;
}

/// Requests all reviews at once. If the forge refuses that permanently, requests them one by one and
/// returns a sentence for each person who could not be asked.
pub(super) async fn request_from_each(
    forge: &impl ReviewRequester,
    number: u64,
    names: &[&str],
) -> Result<Vec<String>, Error> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    match forge.request_reviews(number, names).await {
        Err(error) if is_refusal(&error) => {}
        requested => return requested.map(|()| Vec::new()),
    }
    let mut notes = Vec::new();
    for name in names {
        match forge.request_reviews(number, &[name]).await {
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

/// Separates teams, which are written with a slash, from people.
pub(super) fn teams_and_people<T: AsRef<str>>(reviewers: &[T]) -> (Vec<&str>, Vec<&str>) {
    let names = reviewers.iter().map(AsRef::as_ref);
    names.partition(|name| name.contains('/'))
}

/// Requests reviews on a Bitbucket, which has no labels and no groups of reviewers. Returns a sentence
/// for everything that was left out.
pub(super) async fn bitbucket_metadata(
    forge: &impl ReviewRequester,
    number: u64,
    metadata: &PullRequestMetadata,
) -> Result<Vec<String>, Error> {
    let (teams, people) = teams_and_people(&metadata.reviewers);
    let mut notes = request_from_each(forge, number, &people).await?;
    if !metadata.labels.is_empty() {
        let labels = metadata.labels.join(", ");
        notes.push(format!("Bitbucket has no labels: {labels} left out"));
    }
    let note = |team| format!("Bitbucket does not ask groups for reviews: {team} left out");
    notes.extend(teams.into_iter().map(note));
    Ok(notes)
}
