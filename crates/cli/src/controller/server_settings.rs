//! Settings of the HTTP server from the flags.

use std::time::Duration;

use anyhow::ensure;
use server::{Settings, settings::TlsFiles};

use crate::args::controller::Arguments;

/// Validates the flags of the HTTP server.
pub(super) fn check(
    arguments: &Arguments,
    settings: &controller::Settings,
) -> anyhow::Result<Settings> {
    let typed = &arguments.server;
    let seconds = typed.promotion_hook_rate_limit_interval;
    ensure!(
        seconds > 0,
        "--promotion-hook-rate-limit-interval must be at least 1"
    );
    let namespace = arguments.watch_namespace.clone();
    let files = typed.tls_cert_file.clone().zip(typed.tls_key_file.clone());
    let proxies = typed.trusted_proxies.iter();
    Ok(Settings {
        namespace: namespace.filter(|text| !text.is_empty()),
        freeze_namespace: settings.freeze_namespace.clone(),
        hooks_address: typed.promotion_hook_bind_address.0,
        rest_address: typed.rest_bind_address.0,
        tls: files.map(|(certificate, key)| TlsFiles { certificate, key }),
        rate_limit: typed.promotion_hook_rate_limit,
        rate_interval: Duration::from_secs(seconds),
        trusted_proxies: proxies.filter_map(|network| network.0).collect(),
        legacy_approval_signatures: typed.legacy_approval_signatures.0,
        legacy_hook_answers: typed.legacy_hook_answers.0,
        allow_unsigned_reports: arguments.allow_unsigned_reports.0,
        wait: typed.promotion_hook_wait.length(),
        no_cross_namespace_refs: arguments.no_cross_namespace_refs.0,
        leaf_connector: server::leaf::LeafConnector::default(),
        authoring: settings.authoring.as_ref().map(authoring_settings),
        oidc: None,
    })
}

/// The authoring settings that the dashboard shows.
pub(crate) fn authoring_settings(
    to: &controller::settings::Authoring,
) -> server::settings::Authoring {
    server::settings::Authoring {
        url: to.url.clone(),
        branch: to.branch.clone(),
        folders: to.folders.clone(),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{self, Command};

    fn checked(flags: &[&str]) -> anyhow::Result<Settings> {
        let words = ["sluice", "controller"].iter().chain(flags);
        match args::Arguments::try_parse_from(words)?.command {
            Command::Controller(arguments) => check(&arguments, &controller::Settings::default()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn defaults_are_those_of_the_weave_pipeline_controller() {
        let settings = checked(&[]).unwrap();
        assert_eq!(settings.hooks_address.unwrap().port(), 8082);
        assert_eq!(settings.rest_address.unwrap().port(), 8083);
        assert_eq!(settings.rate_limit, 20);
        assert_eq!(settings.rate_interval, Duration::from_secs(30));
        assert!(!settings.legacy_approval_signatures);
        assert!(!settings.legacy_hook_answers);
        assert!(!settings.allow_unsigned_reports);
        assert!(settings.tls.is_none());
    }

    #[test]
    fn proxies_are_networks_or_addresses() {
        let settings = checked(&["--trusted-proxies=10.0.0.0/8, 192.0.2.7,fd00::/8"]).unwrap();
        let written: Vec<_> = settings
            .trusted_proxies
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(written, ["10.0.0.0/8", "192.0.2.7/32", "fd00::/8"]);
        assert!(
            checked(&["--trusted-proxies="])
                .unwrap()
                .trusted_proxies
                .is_empty()
        );
        let error = checked(&["--trusted-proxies=proxy"]).unwrap_err();
        assert!(error.to_string().contains("192.0.2.7"), "{error}");
    }

    #[test]
    fn a_certificate_needs_its_key() {
        assert!(
            checked(&["--tls-cert-file=a", "--tls-key-file=b"])
                .unwrap()
                .tls
                .is_some()
        );
        let error = checked(&["--tls-cert-file=a"]).unwrap_err();
        assert!(error.to_string().contains("--tls-key-file"), "{error}");
        assert!(checked(&["--promotion-hook-rate-limit-interval=0"]).is_err());
    }
}
