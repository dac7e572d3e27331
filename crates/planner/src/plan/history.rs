//! Which finished promotions are old enough to go.

use std::collections::BTreeMap;

use api::{Pipeline, Promotion, pipeline::PipelineStatus};

use super::{
    Step,
    world::{World, name_of, phase_of},
};
use crate::moment::Timestamp;

/// The finished promotions of each environment beyond the newest `limit`, oldest first.
pub fn surplus(pipeline: &Pipeline, promotions: &[Promotion], limit: usize) -> Vec<Step> {
    let status = PipelineStatus::default();
    let world = World::new(pipeline, &status, promotions, Timestamp::UNIX_EPOCH);
    let mut finished: BTreeMap<&str, Vec<&Promotion>> = BTreeMap::new();
    for promotion in &world.promotions {
        if phase_of(promotion).is_some_and(|phase| phase.is_terminal()) {
            let environment = promotion.spec.environment.as_str();
            finished.entry(environment).or_default().push(promotion);
        }
    }
    finished
        .values()
        .flat_map(|promotions| &promotions[..promotions.len().saturating_sub(limit)])
        .map(|promotion| Step::RemoveFinished {
            name: name_of(promotion),
        })
        .collect()
}
