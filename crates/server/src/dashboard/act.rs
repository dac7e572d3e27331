//! Forms: the same actions as REST, by the same rules, with an answer for people.

use std::sync::Arc;

use axum::{
    Form,
    extract::{Path, State},
    response::{IntoResponse, Redirect, Response},
};
use http::{HeaderMap, header};
use serde::Deserialize;

use super::{
    Failure,
    sign_in::{Viewer, is_secure},
    words::address,
};
use crate::{
    Door,
    rest::{
        Problem,
        act::{Action, Words, on_environment, suspend_pipeline},
    },
    session::Told,
    watched::ObjectKey,
};

/// What a form says.
#[derive(Deserialize)]
pub(super) struct Said {
    csrf: String,
    verb: String,
    #[serde(default)]
    environment: String,
    revision: Option<String>,
    note: Option<String>,
    unseen: Option<String>,
    back: Option<String>,
}

pub(super) async fn act(
    State(door): State<Arc<Door>>,
    viewer: Viewer,
    Path((namespace, name)): Path<(String, String)>,
    headers: HeaderMap,
    Form(said): Form<Said>,
) -> Result<Response, Failure> {
    viewer.must_have_given(&said.csrf)?;
    let key = ObjectKey::parse(&namespace, &name);
    let key = key.ok_or_else(|| Problem::not_found("a pipeline of that name"))?;
    let is_from_inbox = said.back.as_deref() == Some("/approvals");
    let done = carry_out(&door, &viewer, &key, said).await;
    let told = match done {
        Ok(sentence) => Told {
            is_good: true,
            sentence,
        },
        Err(problem) => Told {
            is_good: false,
            sentence: problem.parts().1.chars().take(1000).collect(),
        },
    };
    let cookie = door.sessions.tell(&told, is_secure(&door, &headers)).await;
    let cookie = cookie.map_err(Problem::from)?;
    let back = match is_from_inbox {
        true => "/approvals".to_owned(),
        false => address(&key),
    };
    Ok(([(header::SET_COOKIE, cookie)], Redirect::to(&back)).into_response())
}

/// What was done, in a sentence.
async fn carry_out(
    door: &Arc<Door>,
    viewer: &Viewer,
    key: &ObjectKey,
    said: Said,
) -> Result<String, Problem> {
    let (verb, environment) = (said.verb.as_str(), said.environment);
    if environment.is_empty() {
        let suspend = match verb {
            "suspend" => true,
            "resume" => false,
            _ => return Err(Problem::not_found(&format!("the action {verb:?}"))),
        };
        drop(suspend_pipeline(door, &viewer.caller, key, suspend).await?);
        let state = if suspend { "suspended" } else { "resumed" };
        return Ok(format!("{} is {state}.", key.name));
    }
    let revision = said.revision.unwrap_or_default();
    let words = Words {
        revision: Some(revision.clone()).filter(|it| !it.is_empty()),
        note: said.note.filter(|note| !note.is_empty()),
        unseen: said.unseen.is_some(),
    };
    let action = Path(Action {
        environment: environment.clone(),
        verb: said.verb.clone(),
    });
    let (state, caller) = (State(door.clone()), viewer.caller.clone());
    let done = on_environment(state, caller, key.clone(), action, words.checked()?).await?;
    let message = done.1.0["message"].as_str().unwrap_or_default();
    Ok(match verb {
        "approve" => format!("{revision} is approved for {environment}."),
        "suspend" => format!("{environment} is suspended: nothing starts in it."),
        "resume" => format!("{environment} is resumed."),
        _ if message.is_empty() => format!("Asked to bring {revision} into {environment}."),
        _ => format!("Asked for {revision} in {environment}: {message}."),
    })
}
