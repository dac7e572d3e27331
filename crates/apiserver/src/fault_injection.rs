//! Fault injection for tests: requests fail at random, with a seed so that a run can be repeated.

use std::hash::{BuildHasher, Hasher, RandomState};

use http::{Method, StatusCode};

use crate::status::ApiError;

/// How often which fault is injected. Each is a probability from 0 to 1.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct FaultRates {
    /// Decides which requests fail; print it when a test fails.
    pub seed: u64,
    /// An update or patch fails with 409 although there is no conflict.
    pub conflict: f64,
    /// A request fails with 500 or 503 and has no effect.
    pub server_error: f64,
    /// A request takes effect, but is answered with 504.
    pub timeout: f64,
    /// A watch ends after a few events.
    pub dropped_watch: f64,
    /// A list returns an earlier state.
    pub stale_list: f64,
}

/// The faults of one request.
#[derive(Debug, Clone, Default)]
pub(crate) struct RequestFaults {
    /// The error that is returned instead of running the request.
    pub(crate) instead: Option<ApiError>,
    /// The error that is returned after running the request.
    pub(crate) afterwards: Option<ApiError>,
    /// A watch ends after this many events.
    pub(crate) watch_lines: Option<u64>,
    /// A list is this many revisions old.
    pub(crate) list_lag: u64,
}

/// Draws the faults of each request.
#[derive(Debug, Default)]
pub(crate) struct FaultInjector {
    rates: FaultRates,
    random: SeededRandom,
}

impl FaultInjector {
    pub(crate) fn new(rates: FaultRates) -> Self {
        Self {
            rates,
            random: SeededRandom(rates.seed),
        }
    }

    /// Draws the faults of the next request.
    pub(crate) fn draw(&mut self, method: &Method) -> RequestFaults {
        let rates = self.rates;
        if rates == FaultRates::default() {
            return RequestFaults::default();
        }
        let mut faults = RequestFaults::default();
        let is_update = matches!(*method, Method::PUT | Method::PATCH);
        if self.happens(rates.conflict) && is_update {
            faults.instead = Some(ApiError::new(
                StatusCode::CONFLICT,
                "Conflict",
                "Operation cannot be fulfilled: the object has been modified; please apply your changes to the latest version and try again",
            ));
        }
        if self.happens(rates.server_error) {
            faults.instead = Some(self.server_error());
        }
        if self.happens(rates.timeout) {
            faults.afterwards = Some(ApiError::new(
                StatusCode::GATEWAY_TIMEOUT,
                "Timeout",
                "request did not complete within the allotted timeout",
            ));
        }
        if self.happens(rates.dropped_watch) {
            faults.watch_lines = Some(self.random.next() % 8);
        }
        if self.happens(rates.stale_list) {
            faults.list_lag = 1 + self.random.next() % 16;
        }
        faults
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

    fn happens(&mut self, probability: f64) -> bool {
        // 53 bits fit a double exactly.
        #[expect(clippy::cast_precision_loss, reason = "53 bits fit a double exactly")]
        let drawn = (self.random.next() >> 11) as f64 / (1_u64 << 53) as f64;
        drawn < probability
    }
}

/// SplitMix64, a seedable generator for names and faults; not for secrets.
#[derive(Debug, Default)]
pub(crate) struct SeededRandom(u64);

impl SeededRandom {
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
