//! A raw client with its own name that reconnects and makes a false claim.
//!
//! The host accepted this client before, so the host knows it; the claim of its second connection
//! is false. The real client never lies. But another program may, and a program that lost its
//! state, or was restored from an old copy, makes false claims without intent.

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

/// A false claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Claim {
    /// That it knows another incarnation of the host.
    AnotherLife,
    /// That it has seen more actions than have happened.
    TheFuture,
    /// That it has the state of a chat which the host never sent to it.
    AStateItLacks,
}

/// The claims, as an operation names them, of a client that the host knows.
pub(super) const OF_A_KNOWN_CLIENT: [&str; 2] = ["the-future", "a-state-it-lacks"];

/// The maximum duration of a claim.
const PATIENCE: Duration = Duration::from_secs(3);

/// The label of these connections: `client/claim#1`.
const LABEL: &str = "claim";

/// Initializes under a name, disconnects, and reconnects with a claim. Returns the host's reaction.
/// If a connection is lost, the operation gives up.
pub(super) async fn come_back(
    host: HostContext,
    server: Endpoint,
    name: String,
    claim: Claim,
) -> Answer {
    match timeout(PATIENCE, claimed(&host, &server, &name, claim)).await {
        Ok(Ok(reply)) => reply,
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
    let initialized = Raw::open(host, server, LABEL)
        .await?
        .request(1, method::INITIALIZE, &hello(name, given))
        .await?;
    let initialized: InitializeResult = read(Some(&initialized)).map_err(Unanswered::lost)?;
    let epoch = epoch_of(initialized.meta.as_ref()).unwrap_or_default();
    let more = if claim == Claim::TheFuture { 1_000 } else { 0 };
    let back = ReconnectParams {
        channel: ROOT.to_owned(),
        meta: Some(meta_with(if claim == Claim::AnotherLife { "another" } else { epoch })),
        client_id: name.to_owned(),
        last_seen_server_seq: initialized.server_seq + more,
        subscriptions: vec![SESSION.to_owned(), CHAT.to_owned()],
    };
    let mut again = Raw::open(host, server, LABEL).await?;
    match again.request(2, method::RECONNECT, &back).await {
        Ok(reply) => Ok(match read(Some(&reply)).map_err(Unanswered::lost)? {
            ReconnectResult::Replay(replay)
                if replay.missing.iter().any(|channel| channel == CHAT) =>
            {
                "given the list of missing channels".into()
            }
            ReconnectResult::Replay(_) => Did::CaughtUp.into(),
            ReconnectResult::Snapshot(_) => "given snapshots".into(),
        }),
        Err(Unanswered::Refused(why)) => Ok(Answer::refused(Rejected(why))),
        Err(lost) => Err(lost),
    }
}
