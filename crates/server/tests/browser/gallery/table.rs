//! The table of pages.

/// Who looks, and at what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Setting {
    /// Nobody has signed in.
    SignedOut,
    /// People sign in with an OpenID provider.
    SingleSignOn,
    /// There is nothing yet.
    Empty,
    /// There is something of everything.
    Full,
    /// The same for somebody who may not list anything.
    Forbidden,
    /// The page of a pull request on the forge of the demo.
    Forge,
}

/// A page in some state.
pub(super) struct Page {
    pub(super) setting: Setting,
    /// The name of its screenshots.
    pub(super) name: &'static str,
    pub(super) address: &'static str,
    /// A text on it.
    pub(super) shows: &'static str,
    /// What a person does first, as a script.
    pub(super) first: &'static str,
}

const fn page(
    setting: Setting,
    name: &'static str,
    address: &'static str,
    shows: &'static str,
) -> Page {
    Page {
        setting,
        name,
        address,
        shows,
        first: "",
    }
}

impl Page {
    const fn after(self, first: &'static str) -> Self {
        Self { first, ..self }
    }
}

const OPEN_MENUS: &str =
    "document.querySelectorAll('main details').forEach((it) => it.open = true)";
const OPEN_PALETTE: &str = "document.getElementById('find').click()";
const OPEN_ACCOUNT: &str = "document.querySelector('.avatar').click()";

/// Fills in a draft whose cluster and Secret do not exist, and checks it.
const CHECK_DRAFT: &str = "for (const [name, value] of Object.entries({
    name: 'cart', namespace: 'shop', app: 'cart', url: 'https://forge.example/fleet.git', secret: 'git',
    'environment.0.target.0.namespace': 'dev', 'environment.1.target.0.namespace': 'prod',
    'environment.1.target.0.cluster': 'nowhere'})) document.getElementById(name).value = value;
    document.querySelector('[value=check]').click()";

/// Every page in every state that looks different.
pub(super) const PAGES: &[Page] = &{
    use Setting::{Empty, Forbidden, Forge, Full, SignedOut, SingleSignOn};
    const APP: &str = "/pipelines/shop/app";
    [
        page(SignedOut, "sign-in", "/login", "Sign in"),
        page(SignedOut, "not-found-signed-out", "/nothing", "Not Found"),
        page(SingleSignOn, "sign-in-sso", "/login", "single sign-on"),
        page(Empty, "pipelines-none", "/pipelines", "No pipelines yet"),
        page(
            Empty,
            "approvals-none",
            "/approvals",
            "Nothing awaits approval",
        ),
        page(Empty, "freezes-none", "/freezes", "No freezes"),
        page(Empty, "checks-none", "/checks", "No check runs"),
        page(Empty, "apps-none", "/apps", "No apps"),
        page(Empty, "clusters-none", "/clusters", "No GitopsClusters"),
        page(Empty, "triggers-none", "/triggers", "No PipelineTriggers"),
        page(Empty, "changes-none", "/changes", "No proposals"),
        page(Full, "pipelines", "/pipelines", "20 pipelines"),
        page(
            Full,
            "pipelines-frozen",
            "/pipelines?state=frozen",
            "invoices",
        ),
        page(
            Full,
            "pipelines-no-match",
            "/pipelines?q=nothing",
            "No pipeline matches",
        ),
        page(Full, "account", "/pipelines", "Sign out").after(OPEN_ACCOUNT),
        page(Full, "palette", "/pipelines", "apps on this cluster").after(OPEN_PALETTE),
        page(
            Full,
            "pipeline-decision",
            "/pipelines/shop/orders",
            "let 6.3.0 into prod?",
        ),
        page(
            Full,
            "pipeline-actions",
            "/pipelines/shop/orders",
            "Suspend",
        )
        .after(OPEN_MENUS),
        page(
            Full,
            "pipeline-ready",
            "/pipelines/shop/basket",
            "1 of 1 target ready",
        ),
        page(
            Full,
            "pipeline-merge",
            "/pipelines/shop/checkout",
            "Pull request #7",
        ),
        page(
            Full,
            "pipeline-soaking",
            "/pipelines/shop/catalogue",
            "Why prod waits",
        ),
        page(
            Full,
            "pipeline-frozen",
            "/pipelines/shop/ledger",
            "incident 7",
        ),
        page(
            Full,
            "pipeline-frozen-idle",
            "/pipelines/shop/invoices",
            "frozen: incident 7",
        ),
        page(
            Full,
            "pipeline-rolled-back",
            "/pipelines/shop/refunds",
            "Nothing newer for prod",
        ),
        page(
            Full,
            "pipeline-failed",
            "/pipelines/shop/payments",
            "install retries exhausted",
        ),
        page(
            Full,
            "pipeline-suspended",
            "/pipelines/shop/search",
            "suspended",
        ),
        page(
            Full,
            "pipeline-new",
            "/pipelines/platform/ingress",
            "nothing yet",
        ),
        page(
            Full,
            "pipeline-graph",
            "/pipelines/shop/regions",
            "after eu, us",
        ),
        page(
            Full,
            "pipeline-digests",
            "/pipelines/shop/images",
            "sha256:012345678901",
        ),
        page(Full, "pipeline-long", "/pipelines/shop/long", "region-7"),
        page(
            Full,
            "fleet",
            "/pipelines/shop/fleet",
            "56 of 61 targets ready",
        ),
        page(Full, "rollout-few", "/pipelines/shop/few", "Wave 3 of 3"),
        page(Full, "rollout-some", "/pipelines/shop/some", "Wave 3 of 3").after(OPEN_MENUS),
        page(Full, "rollout-many", "/pipelines/shop/many", "Wave 3 of 3"),
        page(
            Full,
            "pipeline-triggers",
            APP,
            "PipelineTrigger build starts Tekton runs",
        ),
        page(
            Full,
            "objects",
            "/pipelines/shop/app/objects?environment=prod&cluster=east",
            "web-7f9-a",
        ),
        page(
            Full,
            "objects-unreachable",
            "/pipelines/shop/app/objects?environment=prod&cluster=lost",
            "connection refused",
        ),
        page(
            Full,
            "yaml",
            "/pipelines/shop/basket/yaml",
            "namespace: shop",
        ),
        page(
            Full,
            "approvals",
            "/approvals",
            "1 promotion awaits approval",
        ),
        page(Full, "freezes", "/freezes", "active: cannot be understood").after(OPEN_MENUS),
        page(Full, "checks", "/checks", "the answer has the status 500"),
        page(Full, "apps", "/apps", "lonely"),
        page(Full, "clusters", "/clusters", "connection refused"),
        page(Full, "triggers", "/triggers", "GitRepository code"),
        page(Full, "changes", "/changes", "Add pipeline shop/basket"),
        page(
            Full,
            "change",
            "/changes/shop/add-basket",
            "Pull request #12",
        ),
        page(Full, "create", "/create", "Propose in git"),
        page(Full, "create-errors", "/create", "name the pipeline")
            .after("document.querySelector('[value=check]').click()"),
        page(Full, "create-checked", "/create", "No errors, ").after(CHECK_DRAFT),
        page(
            Full,
            "pipeline-shared",
            "/pipelines/shop/basket-eu",
            "the pipeline shop/basket promotes the same app",
        ),
        page(
            Full,
            "pipeline-rejected",
            "/pipelines/shop/rejected",
            "ann rejected 6.3.0 in prod",
        ),
        page(Full, "not-found", "/nothing/here", "Not Found"),
        page(
            Forbidden,
            "pipelines-forbidden",
            "/pipelines",
            "You may not list pipelines",
        ),
        page(
            Forbidden,
            "pipeline-forbidden",
            "/pipelines/shop/basket",
            "nora may not see shop/basket",
        ),
        page(
            Forbidden,
            "checks-forbidden",
            "/checks",
            "You may not list check runs",
        ),
        page(Forge, "forge", "/", "team/config"),
        page(
            Forge,
            "forge-pull-requests",
            "/team/config/pulls",
            "Promote shop/basket",
        ),
        page(
            Forge,
            "forge-pull-request",
            "/team/config/pulls/1",
            "Promote shop/basket",
        ),
    ]
};
