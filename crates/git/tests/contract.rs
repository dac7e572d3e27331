//! The contract of every forge, against strict doubles on loopback, and for Gitea also against a real one.
//!
//! A new forge joins with a double of its API (`testbed::forge_doubles`) and one row at the end of
//! this file. A run of all of it prints a table: case × forge. `cargo xtask test --real` runs the cases of
//! the real Gitea, and compares the answers of its double with it.
#![expect(clippy::panic, reason = "a check that cannot go on ends the test")]

#[path = "contract/answers.rs"]
mod answers;
#[path = "contract/app.rs"]
mod app;
#[path = "contract/checks.rs"]
mod checks;
#[path = "contract/double.rs"]
mod double;
#[path = "contract/feedback.rs"]
mod feedback;
#[path = "contract/gitea_answers.rs"]
mod gitea_answers;
#[path = "contract/gitea_cases.rs"]
mod gitea_cases;
#[path = "contract/logins.rs"]
mod logins;
#[path = "contract/peculiar.rs"]
mod peculiar;
#[path = "contract/real.rs"]
mod real;
#[path = "contract/table.rs"]
mod table;
#[path = "contract/token_rights.rs"]
mod token_rights;

/// One test per check, for one forge.
macro_rules! contract {
    ($forge:ident, $start:expr, #[$attribute:meta], [$($check:ident),* $(,)?]) => {
        pub(crate) mod $forge {
            mod checks {
                pub(super) use crate::checks::*;
                pub(super) use crate::feedback::*;
                pub(super) use crate::token_rights::*;
            }
            pub(crate) const CASES: &[&str] = &[$(stringify!($check)),*];
            $(
                #[tokio::test]
                #[$attribute]
                async fn $check() {
                    let double = $start.await;
                    let cell = crate::table::Cell::new(stringify!($check), stringify!($forge), &double);
                    checks::$check(double).await;
                    cell.holds();
                }
            )*
        }
    };
}

/// Passes the names of all checks on to another macro.
macro_rules! with_all_checks {
    ($then:ident: $($rest:tt)*) => {
        $then! { $($rest)*, [
            a_pull_request_is_found_by_its_head_in_every_state,
            a_duplicate_is_refused,
            branches_that_do_not_differ_are_refused,
            title_body_and_state_change,
            a_draft_is_one,
            a_long_text_is_found_whole,
            wrong_tokens_are_refused_and_not_repeated,
            what_is_not_there_is_not_found,
            what_is_forbidden_waits_for_an_edit,
            one_among_hundreds_is_found,
            pull_requests_of_forks_are_not_ours,
            merging_twice_is_merging_once,
            a_moved_head_is_not_merged,
            conflicts_are_not_merged,
            what_waits_for_checks_is_not_merged_before_they_pass,
            a_scheduled_merge_is_cancelled,
            labels_reviewers_and_comments_arrive,
            the_last_commit_status_of_a_context_counts,
            long_texts_and_missing_links_are_made_to_fit,
            a_status_on_an_unknown_commit_waits_for_an_edit,
            a_missing_right_to_report_waits_for_an_edit,
            a_comment_is_found_again_and_edited_in_place,
            a_deleted_comment_is_not_found,
            a_promotion_is_shown_with_three_writes,
            asking_one_more_keeps_those_who_were_asked,
            one_unknown_reviewer_keeps_no_other_from_being_asked,
            open_ones_are_listed_and_changes_noticed,
            commits_between_two_are_listed,
            the_rights_of_a_token_are_told_without_a_write,
            a_rate_limit_is_honoured_and_shared,
            a_secondary_limit_is_a_limit,
            a_used_up_allowance_is_not_overdrawn,
            a_forge_that_is_not_well_is_asked_again,
            slow_and_endless_and_strange_answers_are_given_up,
            redirects_are_not_followed,
        ] }
    };
}

/// Every check for every forge.
macro_rules! forges {
    ($($forge:ident: $kind:expr, $router:expr;)*) => {
        /// Each with its cases.
        pub(crate) const FORGES: &[(&str, &[&str])] = &[$((stringify!($forge), $forge::CASES)),*];
        $(with_all_checks! {
            contract: $forge, crate::double::ForgeDouble::start($kind, $router), #[doc = "On a double."]
        })*
    };
}

mod rows {
    forges! {
        github: git::forge::ForgeProduct::GitHub, testbed::forge_doubles::github::router;
        gitea: git::forge::ForgeProduct::Gitea, testbed::forge_doubles::gitea::router;
        gitlab: git::forge::ForgeProduct::GitLab, testbed::forge_doubles::gitlab::router;
        bitbucket_server: git::forge::ForgeProduct::BitbucketServer, testbed::forge_doubles::bitbucket_server::router;
        bitbucket_cloud: git::forge::ForgeProduct::BitbucketCloud, testbed::forge_doubles::bitbucket_cloud::router;
        azure: git::forge::ForgeProduct::AzureDevOps, testbed::forge_doubles::azure::router;
    }
    with_all_checks! {
        contract: real_gitea, crate::double::ForgeDouble::start_gitea(),
        #[ignore = "needs the Gitea that `cargo xtask kube` builds"]
    }
}
