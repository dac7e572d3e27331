//! Which digests a tag may point to before a promotion moves it.

use api::{Promotion, names::PromotionSite, promotion::PromotionStatus};

use crate::site::site_of;

/// The digests that a promotion may replace: what its site ran when it was created, what the promotion
/// before it brought there, and what one brought since then that ended before it could say so. Anything
/// else at the tag was put there by somebody else.
pub fn replaceable_digests<'a>(
    promotion: &'a Promotion,
    promotions: &'a [Promotion],
    namespace: &str,
) -> Vec<&'a str> {
    let site = site_of(&promotion.spec, namespace);
    let others = || {
        let is_other = |other: &&Promotion| is_other(other, promotion, &site, namespace);
        promotions.iter().filter(is_other)
    };
    let landed = others().filter_map(|other| Some((status(other)?.merged_at.clone()?, other)));
    let last = landed.max_by(|(one, _), (other, _)| one.cmp(other));
    let since = last.as_ref().map(|(at, _)| at.clone());
    let unfinished = others().filter(|other| {
        let Some(status) = status(other) else {
            return false;
        };
        let is_since = status
            .started_at
            .as_ref()
            .is_some_and(|at| Some(at) >= since.as_ref());
        status.merged_at.is_none() && is_since
    });
    let others = last.into_iter().map(|(_, other)| other).chain(unfinished);
    let others = others.filter_map(|other| other.spec.artifact_digest());
    promotion
        .spec
        .replaced_digest()
        .into_iter()
        .chain(others)
        .collect()
}

fn is_other(
    other: &Promotion,
    promotion: &Promotion,
    site: &PromotionSite,
    namespace: &str,
) -> bool {
    other.metadata.name != promotion.metadata.name
        && other.spec.pipeline == promotion.spec.pipeline
        && other.spec.strategy.oci == promotion.spec.strategy.oci
        && site_of(&other.spec, namespace) == *site
}

fn status(promotion: &Promotion) -> Option<&PromotionStatus> {
    promotion.status.as_ref()
}
