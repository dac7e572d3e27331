//! What comes next for one promotion.

/// The reason of a promotion that is not what its pipeline asks for.
pub(crate) const STRATEGY_CHANGED: &str = "StrategyChanged";
