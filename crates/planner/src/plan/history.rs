//! Which finished promotions are old enough to go.

use std::collections::{BTreeMap, BTreeSet};

use api::{Pipeline, Promotion, pipeline::PipelineStatus};

use super::{
    Step,
    input::{PlanInput, name_of, phase_of},
};
use crate::{hook::guards_signature, site::site_of, time::Timestamp};

/// The finished promotions of each environment beyond the newest `limit`, oldest first. The last one
/// of each place stays: it is how a revision that failed there is known. So does one that was approved
/// by a signature a moment ago: it is how the signature is known to be used.
pub fn surplus(
    pipeline: &Pipeline,
    promotions: &[Promotion],
    limit: usize,
    now: Timestamp,
) -> Vec<Step> {
    let status = PipelineStatus::default();
    let world = PlanInput::new(pipeline, &status, promotions, now);
    let mut finished: BTreeMap<&str, Vec<&Promotion>> = BTreeMap::new();
    let (mut last, mut places) = (BTreeSet::new(), BTreeSet::new());
    for promotion in world.promotions.iter().rev() {
        if places.insert(site_of(&promotion.spec, world.namespace()).key()) {
            last.insert(name_of(promotion));
        }
    }
    for promotion in &world.promotions {
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
