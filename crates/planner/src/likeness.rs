//! Suggests the name that was probably meant.

/// How alike two names must be for one to be suggested instead of the other.
const ALIKE: f64 = 0.75;

/// The known name that is most like a wrong one, if one is like it.
pub(crate) fn nearest_name<'a>(
    known: impl IntoIterator<Item = &'a str>,
    wrong: &str,
) -> Option<&'a str> {
    let likeness = |name: &str| strsim::jaro_winkler(&name.to_lowercase(), &wrong.to_lowercase());
    let known = known.into_iter();
    let nearest = known.max_by(|one, other| likeness(one).total_cmp(&likeness(other)));
    nearest.filter(|name| likeness(name) >= ALIKE)
}
