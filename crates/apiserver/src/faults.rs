//! Faults on purpose, for tests: seeded, so that a failing run can be repeated.

use std::hash::{BuildHasher, Hasher, RandomState};

use http::{Method, StatusCode};

use crate::status::ApiError;

/// How often what goes wrong. Each is a probability from 0 to 1.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Faults {
    /// Decides which requests fail; print it when a test does.
    pub seed: u64,
    /// A replace or patch is refused with 409 although nobody else wrote.
    pub conflict: f64,
    /// A request is refused with 500 or 503 before anything happened.
    pub server_error: f64,
    /// A request is carried out, but its answer is 504.
    pub timeout: f64,
    /// A watch ends after a few events.
    pub dropped_watch: f64,
    /// A list shows an earlier state.
    pub stale_list: f64,
}

/// What is to happen to one request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Verdict {
    /// Answered at once, nothing done.
    pub(crate) refused: Option<ApiError>,
    /// Done, but answered with this.
    pub(crate) hidden: Option<ApiError>,
    /// A watch ends after so many lines.
    pub(crate) watch_lines: Option<u64>,
    /// A list is this many changes old.
    pub(crate) list_lag: u64,
}

/// Draws a verdict for each request.
#[derive(Debug, Default)]
pub(crate) struct Fate {
    faults: Faults,
    random: Random,
}

impl Fate {
    pub(crate) fn new(faults: Faults) -> Self {
        Self {
            faults,
            random: Random(faults.seed),
        }
    }

    /// Decides about the next request.
    pub(crate) fn judge(&mut self, method: &Method) -> Verdict {
        if self.faults == Faults::default() {
            return Verdict::default();
        }
        let faults = self.faults;
        let mut verdict = Verdict::default();
        let is_update = matches!(*method, Method::PUT | Method::PATCH);
        if self.draws(faults.conflict) && is_update {
            verdict.refused = Some(ApiError::new(
                StatusCode::CONFLICT,
                "Conflict",
                "Operation cannot be fulfilled: the object has been modified; please apply your changes to the latest version and try again",
            ));
        }
        if self.draws(faults.server_error) {
            verdict.refused = Some(self.server_error());
        }
        if self.draws(faults.timeout) {
            verdict.hidden = Some(ApiError::new(
                StatusCode::GATEWAY_TIMEOUT,
                "Timeout",
                "request did not complete within the allotted timeout",
            ));
        }
        if self.draws(faults.dropped_watch) {
            verdict.watch_lines = Some(self.random.next() % 8);
        }
        if self.draws(faults.stale_list) {
            verdict.list_lag = 1 + self.random.next() % 16;
        }
        verdict
    }

    fn server_error(&mut self) -> ApiError {
        if self.random.next().is_multiple_of(2) {
            return ApiError::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "InternalError",
                "Internal error occurred: injected",
            );
        }
        ApiError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "ServiceUnavailable",
            "the server is currently unable to handle the request",
        )
    }

    fn draws(&mut self, probability: f64) -> bool {
        // 53 bits fit a double exactly.
        #[expect(clippy::cast_precision_loss, reason = "53 bits fit a double exactly")]
        let drawn = (self.random.next() >> 11) as f64 / (1_u64 << 53) as f64;
        drawn < probability
    }
}

/// SplitMix64: small, seedable, good enough for names and faults. Nothing secret comes from it.
#[derive(Debug, Default)]
pub(crate) struct Random(u64);

impl Random {
    /// Seeded, or different in every process.
    pub(crate) fn new(seed: Option<u64>) -> Self {
        Self(seed.unwrap_or_else(|| RandomState::new().build_hasher().finish()))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
