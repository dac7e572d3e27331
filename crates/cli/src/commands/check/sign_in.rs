//! Sign-in with an OpenID provider: whether its user names can be those of the API server.
//!
//! A person with two names counts as two people when they approve.

use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::{Api, Client, api::PostParams};

use super::{super::installed::InstalledController, Check};

/// One check for each controller that people sign in to with a provider.
pub(super) async fn check(client: &Client, controllers: &[InstalledController]) -> Vec<Check> {
    let mut checks = Vec::new();
    for controller in controllers {
        let Some(issuer) = controller.flag("--oidc-issuer-url") else {
            continue;
        };
        let claim = controller.flag("--oidc-username-claim").unwrap_or("sub");
        let prefix = controller.flag("--oidc-username-prefix");
        let own = own_name(client).await;
        checks.push(compare(issuer, claim, prefix, own.as_deref()));
    }
    checks
}

/// The caller's name, as the API server knows it; nothing if it does not say.
async fn own_name(client: &Client) -> Option<String> {
    let reviews: Api<SelfSubjectReview> = Api::all(client.clone());
    let review = SelfSubjectReview::default();
    let review = reviews.create(&PostParams::default(), &review).await;
    review.ok()?.status?.user_info?.username
}

fn compare(issuer: &str, claim: &str, prefix: Option<&str>, own: Option<&str>) -> Check {
    let subject = format!("sign-in with {issuer}");
    let prefix = match prefix {
        Some("-") => String::new(),
        Some(prefix) => prefix.to_owned(),
        None if claim == "email" => String::new(),
        None => format!("{issuer}#"),
    };
    let named = match prefix.as_str() {
        "" => format!("users are named by the claim {claim}"),
        prefix => format!("users are named {prefix} and the claim {claim}"),
    };
    let Some(own) = own else {
        return Check::passed(subject, named);
    };
    let rest = own.strip_prefix(&prefix);
    match rest.is_some_and(|rest| claim != "email" || rest.contains('@')) {
        true => Check::passed(subject, format!("{named}; the API server calls you {own}")),
        false => Check::warning(
            subject,
            format!(
                "{named}, but the API server calls you {own}; if you sign in to both with the \
                 provider, make the names equal, or your approvals count as those of two people"
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::check::CheckResult;

    const ISSUER: &str = "https://dex.example.com";

    #[test]
    fn names_that_cannot_be_equal_are_a_warning() {
        for (claim, prefix, own, expected) in [
            ("email", None, "ann@example.com", CheckResult::Passed),
            ("email", None, "ann", CheckResult::Warning),
            (
                "email",
                Some("oidc:"),
                "ann@example.com",
                CheckResult::Warning,
            ),
            (
                "email",
                Some("oidc:"),
                "oidc:ann@example.com",
                CheckResult::Passed,
            ),
            (
                "sub",
                None,
                "https://dex.example.com#7",
                CheckResult::Passed,
            ),
            ("sub", None, "7", CheckResult::Warning),
            ("sub", Some("-"), "7", CheckResult::Passed),
        ] {
            let check = compare(ISSUER, claim, prefix, Some(own));
            assert_eq!(check.result, expected, "{claim} {prefix:?} {own}");
        }
        assert_eq!(
            compare(ISSUER, "sub", None, None).result,
            CheckResult::Passed
        );
    }
}
