//! Which finished promotions are removed.

use std::collections::{BTreeMap, BTreeSet};

use api::{Pipeline, Promotion, pipeline::PipelineStatus};

use super::{Step, input::PlanInput};
use crate::{
    hook::guards_signature,
    promotion_phase::{name_of, phase_of},
    site::site_of,
    time::Timestamp,
};

/// The finished promotions of each environment beyond the newest `limit`, oldest first. The last one
/// of each site stays: it records a revision that failed there. So does one that was approved by a
/// signature that is still valid: it records that the signature was used.
pub fn surplus(
    pipeline: &Pipeline,
    promotions: &[Promotion],
    limit: usize,
    now: Timestamp,
) -> Vec<Step> {
    let status = PipelineStatus::default();
    let input = PlanInput::new(pipeline, &status, promotions, now);
    let mut finished: BTreeMap<&str, Vec<&Promotion>> = BTreeMap::new();
    let (mut last, mut sites) = (BTreeSet::new(), BTreeSet::new());
    for promotion in input.promotions.iter().rev() {
        if sites.insert(site_of(&promotion.spec, input.namespace()).key()) {
            last.insert(name_of(promotion));
        }
    }
    for promotion in &input.promotions {
        if phase_of(promotion).is_some_and(|phase| phase.is_terminal()) {
            let environment = promotion.spec.environment.as_str();
            finished.entry(environment).or_default().push(promotion);
        }
    }
    finished
        .values()
        .flat_map(|promotions| &promotions[..promotions.len().saturating_sub(limit)])
        .filter(|promotion| !last.contains(&name_of(promotion)))
        .filter(|promotion| !guards_signature(promotion, now))
        .map(|promotion| Step::RemoveFinished {
            name: name_of(promotion),
        })
        .collect()
}
