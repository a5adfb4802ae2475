//! Somebody who comes back as a client of another name than any window's, and claims what cannot be.
//!
//! It was taken in before, so it is known; what it says the second time is not so. No client of ours lies, and none has to: another
//! program may, and one that forgot, or was restored from an old copy, does not know.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::{Duration, timeout};

use super::answers::{Did, Rejected};
use super::raw::{Raw, Unanswered, hello};
use super::setup::{CHAT, SESSION};
use crate::history::Answer;
use crate::net::Endpoint;
use crate::subject::HostContext;
use reknit_toolcall::wire::{
    InitializeResult, ROOT, ReconnectParams, ReconnectResult, epoch_of, meta_with, method, read,
};

/// What is claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Claim {
    /// To know another life of the host.
    AnotherLife,
    /// To have seen more than has happened.
    TheFuture,
    /// To have the state of a chat that was never given to it.
    AStateItLacks,
}

/// How long one may take.
const PATIENCE: Duration = Duration::from_secs(3);

/// What connections of this kind are called: `client/claim#1`.
const LABEL: &str = "claim";

/// Is taken in under a name, goes, and comes back with a claim; says what the host made of that. Where its connections do not last,
/// nobody waits for it.
pub(super) async fn come_back(
    host: HostContext,
    server: Endpoint,
    name: String,
    claim: Claim,
) -> Answer {
    match timeout(PATIENCE, claimed(&host, &server, &name, claim)).await {
        Ok(Ok(scripted)) => scripted,
        Ok(Err(_)) | Err(_) => Answer::GivenUp,
    }
}

async fn claimed(
    host: &HostContext,
    server: &Endpoint,
    name: &str,
    claim: Claim,
) -> Result<Answer, Unanswered> {
    let given = if claim == Claim::AStateItLacks { vec![SESSION] } else { vec![SESSION, CHAT] };
    let given = given.into_iter().map(str::to_owned).collect();
    let taken_in = Raw::open(host, server, LABEL)
        .await?
        .ask(1, method::INITIALIZE, &hello(name, given))
        .await?;
    let taken_in: InitializeResult = read(Some(&taken_in)).map_err(Unanswered::lost)?;
    let epoch = epoch_of(taken_in.meta.as_ref()).unwrap_or_default();
    let more = if claim == Claim::TheFuture { 1_000 } else { 0 };
    let back = ReconnectParams {
        channel: ROOT.to_owned(),
        meta: Some(meta_with(if claim == Claim::AnotherLife { "another" } else { epoch })),
        client_id: name.to_owned(),
        last_seen_server_seq: taken_in.server_seq + more,
        subscriptions: vec![SESSION.to_owned(), CHAT.to_owned()],
    };
    let mut again = Raw::open(host, server, LABEL).await?;
    match again.ask(2, method::RECONNECT, &back).await {
        Ok(scripted) => Ok(match read(Some(&scripted)).map_err(Unanswered::lost)? {
            ReconnectResult::Replay(replay)
                if replay.missing.iter().any(|channel| channel == CHAT) =>
            {
                "told what is gone".into()
            }
            ReconnectResult::Replay(_) => Did::CaughtUp.into(),
            ReconnectResult::Snapshot(_) => "told how things are".into(),
        }),
        Err(Unanswered::Refused(why)) => Ok(Answer::refused(Rejected(why))),
        Err(lost) => Err(lost),
    }
}
