//! Hooks, approvals, REST and the dashboard: authenticates, records and shows, never decides. Empty
//! so far.
