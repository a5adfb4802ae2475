//! The state of a client, as its user sees it.

use std::time::Duration;

use tokio::time::timeout;

use super::operations::ClientState;
use crate::history::Answer;
use reknit_exec::client::{Client, State};

/// Waits until the client is in a state. Returns the state that it then has.
pub(super) async fn wait_for(client: &Client, wanted: ClientState, wait: Duration) -> Answer {
    let mut states = client.watch_state();
    let waited = timeout(wait, states.wait_for(|state| is(*state, wanted))).await;
    let seen = waited.map_or(client.state(), |seen| seen.map_or(State::Failed, |seen| *seen));
    if seen == client.state() { name(seen).into() } else { "two states at once".into() }
}

fn is(state: State, wanted: ClientState) -> bool {
    state
        == match wanted {
            ClientState::Connected => State::Connected,
            ClientState::Recovering => State::Recovering,
            ClientState::Failed => State::Failed,
        }
}

/// Returns the name of a state.
pub(super) fn name(state: State) -> &'static str {
    match state {
        State::Connected => "connected",
        State::Recovering => "recovering",
        State::Failed => "failed",
    }
}
