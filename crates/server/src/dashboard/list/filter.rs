//! The filter and sort order of the list, from its address.

use std::{cmp::Reverse, sync::Arc};

use jiff::Timestamp;
use planner::SummaryState;
use serde::Deserialize;

use super::row::PipelineRow;
use crate::dashboard::{
    components::{hidden_field, percent_encoded},
    html::{Element, tag},
};

/// Which rows are shown, and in which order.
#[derive(Deserialize, Clone, Default)]
#[serde(default)]
pub(in crate::dashboard) struct PipelineFilter {
    q: String,
    namespace: String,
    state: String,
    sort: String,
    page: Option<usize>,
}

/// What the filter has instead of a state for pipelines with a frozen environment.
const FROZEN: &str = "frozen";

impl PipelineFilter {
    /// Whether only pipelines with a frozen environment are shown.
    pub(super) fn is_frozen(&self) -> bool {
        self.state == FROZEN
    }

    pub(super) fn with_frozen(&self) -> Self {
        Self {
            state: FROZEN.to_owned(),
            ..self.clone()
        }
    }

    pub(super) fn state(&self) -> Option<SummaryState> {
        SummaryState::from_id(&self.state)
    }

    pub(super) fn with_state(&self, state: Option<SummaryState>) -> Self {
        let state = state.map_or("", SummaryState::id).to_owned();
        Self {
            state,
            ..self.clone()
        }
    }

    /// Pages count from zero here and from one in the address.
    pub(super) fn page(&self) -> usize {
        self.page.unwrap_or(1).saturating_sub(1)
    }

    pub(super) fn matches(&self, row: &PipelineRow, now: Timestamp) -> bool {
        let is_state = self.state().is_none_or(|state| row.states.contains(&state));
        let is_state = is_state && (!self.is_frozen() || !row.frozen(now).is_empty());
        let namespace = self.namespace.trim();
        let is_here = namespace.is_empty() || row.key.namespace == namespace;
        let mut words = self.q.split_whitespace();
        is_state && is_here && words.all(|word| row.text.contains(&word.to_lowercase()))
    }

    pub(super) fn sort(&self, rows: &mut [&Arc<PipelineRow>]) {
        let name = |row: &Arc<PipelineRow>| (row.key.name.clone(), row.key.namespace.clone());
        match self.sort.as_str() {
            "state" => rows.sort_by_cached_key(|row| (row.state, name(row))),
            "newest" => rows.sort_by_cached_key(|row| (Reverse(row.changed), name(row))),
            "name" => rows.sort_by_cached_key(|row| name(row)),
            _ => rows.sort_by_cached_key(|row| (row.key.namespace.clone(), name(row))),
        }
    }

    /// Whether rows of a namespace follow each other.
    pub(super) fn is_by_namespace(&self) -> bool {
        !["state", "newest", "name"].contains(&self.sort.as_str())
    }

    /// The address of a page of the filtered list.
    pub(super) fn address(&self, page: usize) -> String {
        let page = match page {
            0 => String::new(),
            page => (page + 1).to_string(),
        };
        let parameters = [
            ("q", &self.q),
            ("namespace", &self.namespace),
            ("state", &self.state),
            ("sort", &self.sort),
            ("page", &page),
        ];
        let parameters = parameters.iter().filter(|(_, value)| !value.is_empty());
        let pairs: Vec<_> = parameters
            .map(|(name, value)| format!("{name}={}", percent_encoded(value)))
            .collect();
        match pairs.is_empty() {
            true => "/pipelines".to_owned(),
            false => format!("/pipelines?{}", pairs.join("&")),
        }
    }

    pub(super) fn form(&self) -> Element {
        let field = |name: &'static str, label: &str, kind: &str, value: &str| {
            let mut input = tag("input")
                .id(name)
                .with("name", name)
                .with("type", kind)
                .with("value", value);
            if name == "namespace" {
                input = input.with("list", "namespaces");
            }
            let label = tag("label").with("for", name).text(label);
            tag("span").class("field").child(label).child(input)
        };
        let is_known = self.state().is_some() || self.is_frozen();
        let state = is_known.then(|| hidden_field("state", &self.state));
        tag("form")
            .class("filter")
            .with("role", "search")
            .with("method", "get")
            .set("data-live", true)
            .link("/pipelines")
            .child(field(
                "q",
                "Search by name, environment or version",
                "search",
                &self.q,
            ))
            .child(field("namespace", "Namespace", "text", &self.namespace))
            .child(self.sort_field())
            .child(state)
            .child(tag("button").text("Show"))
    }

    fn sort_field(&self) -> Element {
        let orders = [
            ("", "namespace and name"),
            ("name", "name"),
            ("state", "attention needed first"),
            ("newest", "latest change first"),
        ];
        let options = orders.map(|(value, name)| {
            let option = tag("option").with("value", value).text(name);
            option.set("selected", self.sort == value)
        });
        let select = tag("select").id("sort").with("name", "sort");
        let label = tag("label").with("for", "sort").text("Sort by");
        let field = tag("span").class("field").child(label);
        field.child(select.children(options))
    }
}
