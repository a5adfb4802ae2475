//! The operations of a window's user, as plain data.
//!
//! `t1` is an entry of `[turn.t1]`, `c1` one of `[channel.c1]`.

use proptest::prelude::{BoxedStrategy, Just, Strategy, any, prop_oneof};
use proptest::sample::select;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::claim::Claim;
use super::setup::{self, SESSION, TURN};
use crate::history::Class;
use crate::schedule::Plan;
use crate::subject::Operations;
use reknit_toolcall::wire::ROOT;

/// An operation of a window's user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum ToolcallOperation {
    /// Starts a turn. The words of its agent are the stream `t1`; if the same host starts the turn
    /// again, `t1.2`.
    #[serde(rename_all = "kebab-case")]
    StartTurn {
        /// The name of a turn that the file declares as `[turn.NAME]`. That table also names the chat.
        turn: String,
    },
    /// Cancels the active turn of a chat, as the user sees it.
    #[serde(rename_all = "kebab-case")]
    CancelTurn {
        /// The chat.
        chat: String,
    },
    /// Gives the session a new title.
    #[serde(rename_all = "kebab-case")]
    Rename {
        /// The title; default: one that names the host and the call, as `client 7`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
    },
    /// Starts to watch a chat, or to watch the session and take part in it.
    #[serde(rename_all = "kebab-case")]
    Watch {
        /// The chat, or the session.
        chat: String,
        /// Whether the window only watches the session, and takes no part in it.
        #[serde(default, skip_serializing_if = "is_false")]
        looks_only: bool,
    },
    /// Subscribes to a chat, unsubscribes, and subscribes again, without a pause.
    #[serde(rename_all = "kebab-case")]
    WatchTwice {
        /// The chat.
        chat: String,
    },
    /// Stops watching a chat, or the session with all its chats.
    #[serde(rename_all = "kebab-case")]
    Unwatch {
        /// The session, or the chat.
        channel: String,
    },
    /// Leaves the session, and goes on watching it. The host ends the calls of the window.
    Leave {},
    /// Reads the state of a channel that the window watches.
    #[serde(rename_all = "kebab-case")]
    ReadState {
        /// The root (`ahp-root://`), the session, or the chat.
        channel: String,
        /// Whether the state includes the actions of the window that the host has not confirmed.
        #[serde(default, skip_serializing_if = "is_false")]
        unconfirmed: bool,
    },
    /// Creates a chat in the session, named after the call: `n7`.
    NewChat {},
    /// Disposes of a chat, for all clients.
    #[serde(rename_all = "kebab-case")]
    DisposeChat {
        /// The chat.
        chat: String,
    },
    /// Disposes of a chat and creates it again with the same name, without a pause.
    #[serde(rename_all = "kebab-case")]
    RemakeChat {
        /// The chat.
        chat: String,
    },
    /// Disposes of the session with all its chats, for all clients.
    DisposeSession {},
    /// Creates the session again, with the same name and without chats, and takes part in it. The
    /// host refuses if the session exists.
    NewSession {},
    /// Creates another session, which no window watches.
    #[serde(rename_all = "kebab-case")]
    CreateSession {
        /// The name: `s2` or `s3`.
        name: String,
    },
    /// Disposes of another session.
    #[serde(rename_all = "kebab-case")]
    EndSession {
        /// The name.
        name: String,
    },
    /// Reports content of a running call of the window, named after the operation: `report 7`.
    #[serde(rename_all = "kebab-case")]
    ReportContent {
        /// The chat of the call.
        chat: String,
    },
    /// Reports the result of a running call of the window, for which a user must consent. The tool
    /// works on, and its own result is refused.
    #[serde(rename_all = "kebab-case")]
    ReportResult {
        /// The chat of the call.
        chat: String,
    },
    /// Replies to the request for consent to a result.
    #[serde(rename_all = "kebab-case")]
    JudgeResult {
        /// The chat of the call.
        chat: String,
        /// Whether the result counts.
        approves: bool,
    },
    /// Reads whether the window is connected, and the number of its newest connection.
    ReadConnection {},
    /// Reloads the window, which continues as a new client.
    #[serde(rename_all = "kebab-case")]
    Reload {
        /// Whether the new client has the id of the earlier one.
        #[serde(default, skip_serializing_if = "is_false")]
        keeps_id: bool,
        /// Whether the window closes the earlier client, instead of dropping it.
        #[serde(default, skip_serializing_if = "is_false")]
        closes: bool,
    },
    /// Sends a token, which replaces the one that the window sent at its start.
    #[serde(rename_all = "kebab-case")]
    SendToken {
        /// The token.
        token: Token,
    },
    /// Opens a connection that says nothing. It answers the pings of the host.
    OpenSilent {},
    /// Opens a second connection of the same client. It subscribes to the channels that the window
    /// watches, and sends nothing.
    OpenSecond {},
    /// Closes the newest of these connections.
    CloseSecond {},
    /// Reconnects as another client, over its own connections, and makes a false claim.
    #[serde(rename_all = "kebab-case")]
    Claim {
        /// The claim.
        what: Claim,
    },
    /// Tries to start a tool call in the name of the window, which only the host may do.
    #[serde(rename_all = "kebab-case")]
    Forge {
        /// The chat.
        chat: String,
    },
}

fn is_false(value: &bool) -> bool {
    !value
}

/// A token of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Token {
    /// The one that the host expects.
    Right,
    /// Another one.
    Wrong,
    /// None: the user logs out.
    None,
}

impl Operations for ToolcallOperation {
    fn class(&self) -> Class {
        match self {
            Self::Watch { .. }
            | Self::WatchTwice { .. }
            | Self::Claim { .. }
            | Self::NewChat {}
            | Self::DisposeChat { .. }
            | Self::RemakeChat { .. }
            | Self::DisposeSession {}
            | Self::NewSession {}
            | Self::CreateSession { .. }
            | Self::EndSession { .. }
            | Self::SendToken { .. }
            | Self::OpenSecond {} => Class::InFlight,
            _ => Class::Durable,
        }
    }

    fn strategy(plan: &Plan) -> BoxedStrategy<Self> {
        let mut turns: Vec<String> = plan.entries(TURN).map(|(name, _)| name.to_owned()).collect();
        if turns.is_empty() {
            turns.push("t1".to_owned());
        }
        let chat = select(setup::chats(plan)).boxed();
        // Occasionally selects a chat that does not exist.
        let watched = prop_oneof![12 => chat.clone(), 1 => Just("nowhere".to_owned()), 1 => Just(SESSION.to_owned())];
        let mut channels = setup::chats(plan);
        channels.extend([SESSION, SESSION, ROOT].map(str::to_owned));
        let channel = prop_oneof![4 => chat.clone(), 1 => Just(SESSION.to_owned())];
        let other = select(vec!["s2", "s3"]).prop_map(str::to_owned);
        prop_oneof![
            5 => select(turns).prop_map(|turn| Self::StartTurn { turn }),
            1 => chat.clone().prop_map(|chat| Self::CancelTurn { chat }),
            3 => Just(Self::Rename { title: None }),
            1 => select(vec!["A", "B"]).prop_map(|title| Self::Rename { title: Some(title.to_owned()) }),
            3 => watched.prop_map(|chat| Self::Watch { chat, looks_only: false }),
            1 => Just(Self::Watch { chat: SESSION.to_owned(), looks_only: true }),
            2 => chat.clone().prop_map(|chat| Self::WatchTwice { chat }),
            2 => channel.prop_map(|channel| Self::Unwatch { channel }),
            1 => Just(Self::Watch { chat: ROOT.to_owned(), looks_only: false }),
            2 => (select(channels), any::<bool>()).prop_map(|(channel, unconfirmed)| Self::ReadState { channel, unconfirmed }),
            2 => Just(Self::NewChat {}),
            1 => chat.clone().prop_map(|chat| Self::DisposeChat { chat }),
            1 => chat.clone().prop_map(|chat| Self::RemakeChat { chat }),
            1 => Just(Self::DisposeSession {}),
            1 => Just(Self::NewSession {}),
            2 => other.clone().prop_map(|name| Self::CreateSession { name }),
            1 => other.prop_map(|name| Self::EndSession { name }),
            2 => chat.clone().prop_map(|chat| Self::ReportContent { chat }),
            2 => Just(Self::Leave {}),
            2 => chat.clone().prop_map(|chat| Self::ReportResult { chat }),
            2 => (chat.clone(), any::<bool>()).prop_map(|(chat, approves)| Self::JudgeResult { chat, approves }),
            1 => Just(Self::ReadConnection {}),
            2 => Just(Self::Reload { keeps_id: false, closes: false }),
            1 => Just(Self::Reload { keeps_id: true, closes: false }),
            1 => select(vec![Token::Right, Token::Wrong, Token::None]).prop_map(|token| Self::SendToken { token }),
            1 => Just(Self::OpenSilent {}),
            4 => Just(Self::OpenSecond {}),
            3 => Just(Self::CloseSecond {}),
            1 => select(vec![Claim::AnotherLife, Claim::TheFuture, Claim::AStateItLacks]).prop_map(|what| Self::Claim { what }),
            1 => chat.prop_map(|chat| Self::Forge { chat }),
        ]
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    use serde_json::json;

    use super::*;

    #[test]
    fn results_are_reported_and_judged_and_windows_leave() {
        let strategy = ToolcallOperation::strategy(&Plan::new("toolcall"));
        let mut runner = TestRunner::deterministic();
        let mut draw = || strategy.new_tree(&mut runner).expect("it rejects nothing").current();
        let drawn: Vec<ToolcallOperation> = (0..2_000).map(|_| draw()).collect();
        let wanted: [fn(&ToolcallOperation) -> bool; 4] = [
            |it| matches!(it, ToolcallOperation::Leave {}),
            |it| matches!(it, ToolcallOperation::ReportResult { .. }),
            |it| matches!(it, ToolcallOperation::JudgeResult { approves: true, .. }),
            |it| matches!(it, ToolcallOperation::JudgeResult { approves: false, .. }),
        ];
        let missing: Vec<usize> =
            (0..wanted.len()).filter(|which| !drawn.iter().any(wanted[*which])).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }

    #[test]
    fn operations_are_read_as_they_are_written_in_a_file() {
        for value in [
            json!({ "start-turn": { "turn": "t1" } }),
            json!({ "cancel-turn": { "chat": "c1" } }),
            json!({ "rename": {} }),
            json!({ "rename": { "title": "A" } }),
            json!({ "watch": { "chat": "c2" } }),
            json!({ "watch": { "chat": "s1", "looks-only": true } }),
            json!({ "watch-twice": { "chat": "c2" } }),
            json!({ "unwatch": { "channel": "s1" } }),
            json!({ "leave": {} }),
            json!({ "read-state": { "channel": "c1" } }),
            json!({ "read-state": { "channel": "s1", "unconfirmed": true } }),
            json!({ "new-chat": {} }),
            json!({ "dispose-chat": { "chat": "c2" } }),
            json!({ "remake-chat": { "chat": "c2" } }),
            json!({ "dispose-session": {} }),
            json!({ "new-session": {} }),
            json!({ "create-session": { "name": "s2" } }),
            json!({ "end-session": { "name": "s2" } }),
            json!({ "report-content": { "chat": "c1" } }),
            json!({ "report-result": { "chat": "c1" } }),
            json!({ "judge-result": { "chat": "c1", "approves": true } }),
            json!({ "read-connection": {} }),
            json!({ "reload": {} }),
            json!({ "reload": { "keeps-id": true } }),
            json!({ "reload": { "closes": true } }),
            json!({ "send-token": { "token": "wrong" } }),
            json!({ "open-silent": {} }),
            json!({ "open-second": {} }),
            json!({ "close-second": {} }),
            json!({ "claim": { "what": "another-life" } }),
            json!({ "forge": { "chat": "c1" } }),
        ] {
            let operation: ToolcallOperation = serde_json::from_value(value.clone()).unwrap();
            assert_eq!(serde_json::to_value(operation).unwrap(), value);
        }
        let mistake =
            serde_json::from_value::<ToolcallOperation>(json!({ "rename": { "to": "x" } }))
                .unwrap_err();
        assert!(mistake.to_string().contains("unknown field `to`"));
    }
}
