//! The TLS implementation of test processes.

/// Selects ring as the TLS implementation of this process. The binary does so in `main`; tests that use
/// TLS call this first. Calling it again has no effect.
pub fn install_provider() {
    drop(rustls::crypto::ring::default_provider().install_default());
}
