//! What stands in a scenario of the world outside: what agents do in their turns, what tools do, and how long a restore takes.
//!
//! At the start there is one session, `s1`, with the chats that `[channel.NAME]` declares, or `c1`; every window takes part in it,
//! with every tool, and looks at `c1`. The first turn of `[turn.NAME]` is under way, begun by `client`.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schedule::Plan;
use crate::schedule::units::WrittenDuration;

/// The keys of the tables.
pub const TURN: &str = "turn";
/// The tools that windows run.
pub const TOOL: &str = "tool";
/// The session and its chats.
pub const CHANNEL: &str = "channel";

/// The session.
pub const SESSION: &str = "s1";
/// The chat that every window looks at.
pub const CHAT: &str = "c1";

const fn ms(n: u64) -> WrittenDuration {
    WrittenDuration(Duration::from_millis(n))
}

/// What an agent does in a turn: an entry of `[turn.NAME]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(example = TurnSetup::default())]
pub struct TurnSetup {
    /// The chat in which it is begun.
    pub chat: String,
    /// Whether it is under way at the start, where it is the first of the table.
    pub at_start: bool,
    /// What the agent does, one thing after the other. Then the turn is over.
    pub script: Vec<Scene>,
}

impl Default for TurnSetup {
    fn default() -> Self {
        let script = vec![
            Scene::Say(Saying { times: 3, ..Saying::default() }),
            Scene::Call(Calling::default()),
            Scene::Say(Saying { times: 2, ..Saying::default() }),
        ];
        Self { chat: CHAT.to_owned(), at_start: true, script }
    }
}

/// One thing that an agent does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Scene {
    /// Nothing, for so long.
    Wait(WrittenDuration),
    /// It says something to the user.
    Say(Saying),
    /// It calls a tool that a window runs.
    Call(Calling),
    /// It asks the window that began the turn for a file.
    Ask(Asking),
}

/// What an agent says.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Saying {
    /// How many words.
    pub times: u64,
    /// How long before each of them.
    pub every: WrittenDuration,
    /// How many letters each has, at least.
    pub letters: u64,
}

impl Default for Saying {
    fn default() -> Self {
        Self { times: 1, every: ms(200), letters: 8 }
    }
}

/// How an agent calls a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Calling {
    /// The tool: an entry of `[tool.NAME]`.
    pub tool: String,
    /// How long its parameters stream before it may run.
    pub streams: WrittenDuration,
    /// Whether the user is asked first.
    pub confirm: bool,
    /// Who is to run it.
    pub owner: Whose,
    /// Whether the agent waits for it before it goes on; all are waited for at the end of the turn.
    pub waits: bool,
    /// How long it is waited for, at most.
    pub patience: WrittenDuration,
}

impl Default for Calling {
    fn default() -> Self {
        let (streams, patience) = (ms(500), ms(300_000));
        Self {
            tool: "t1".to_owned(),
            streams,
            confirm: false,
            owner: Whose::Any,
            waits: true,
            patience,
        }
    }
}

/// Who is to run a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Whose {
    /// Whoever can.
    #[default]
    Any,
    /// The window that began the turn, wherever it is.
    Starter,
    /// A client that this host has never seen: it has another way to take part.
    Stranger,
}

/// The name of a client that this host has never seen.
pub const STRANGER: &str = "stranger";

/// How an agent asks a window for something.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Asking {
    /// How long the window takes to answer.
    pub takes: WrittenDuration,
}

impl Default for Asking {
    fn default() -> Self {
        Self { takes: ms(100) }
    }
}

/// What a tool does where a window runs it: an entry of `[tool.NAME]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(example = ToolSetup::default())]
pub struct ToolSetup {
    /// How long it takes.
    pub takes: WrittenDuration,
    /// How it ends.
    pub ends: ToolEnds,
    /// The hosts whose windows offer it; all of them where none is named.
    pub offered_by: Vec<String>,
    /// What the user of its window says where it is asked whether the tool may run.
    pub user: Consent,
    /// How long that user thinks.
    pub thinks: WrittenDuration,
}

impl Default for ToolSetup {
    fn default() -> Self {
        Self {
            takes: ms(2_000),
            ends: ToolEnds::Works,
            offered_by: Vec::new(),
            user: Consent::Approves,
            thinks: ms(500),
        }
    }
}

/// How a tool ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ToolEnds {
    /// With a result.
    Works,
    /// With a result that says that it failed.
    Fails,
    /// With a panic.
    BreaksDown,
}

/// What a user says to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Consent {
    /// It may run.
    Approves,
    /// It may not.
    Denies,
    /// Nothing.
    Ignores,
}

/// The session or a chat, as it is kept outside of the host: an entry of `[channel.NAME]`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(example = ChannelSetup::default())]
pub struct ChannelSetup {
    /// How long its restore takes.
    pub restores: WrittenDuration,
    /// How long each later restore takes, in the same life of the host; as long as the first where nothing is said.
    pub restores_again: Option<WrittenDuration>,
    /// Whether every window looks at it from the start. At the session and at `c1` they always do.
    pub watched: bool,
}

impl Default for ChannelSetup {
    fn default() -> Self {
        Self { restores: ms(5), restores_again: None, watched: false }
    }
}

impl ChannelSetup {
    /// How long a restore takes, where it was restored so often before.
    pub fn restore(&self, before: u64) -> Duration {
        self.restores_again.filter(|_| before > 0).unwrap_or(self.restores).0
    }
}

/// The tables, with their schemas.
pub(super) fn tables() -> Vec<(&'static str, schemars::Schema)> {
    vec![
        (TURN, schemars::schema_for!(TurnSetup)),
        (TOOL, schemars::schema_for!(ToolSetup)),
        (CHANNEL, schemars::schema_for!(ChannelSetup)),
    ]
}

/// The chats of the session, by name; `c1` is always there.
pub(super) fn chats(plan: &Plan) -> Vec<String> {
    let declared = plan
        .entries(CHANNEL)
        .map(|(name, _)| name.to_owned())
        .filter(|name| name != SESSION && name != CHAT);
    std::iter::once(CHAT.to_owned()).chain(declared).collect()
}

/// What a window looks at from the start.
pub(super) fn watched(plan: &Plan) -> Vec<String> {
    let is_watched = |chat: &String| {
        plan.entry::<ChannelSetup>(CHANNEL, chat).is_some_and(|setup| setup.watched)
    };
    let chats = chats(plan).into_iter().filter(|chat| chat == CHAT || is_watched(chat));
    std::iter::once(SESSION.to_owned()).chain(chats).collect()
}

/// The turn of this name, as the plan declares it.
pub fn turn(plan: &Plan, name: &str) -> TurnSetup {
    plan.entry(TURN, name).unwrap_or_default()
}

/// The turn that is under way at the start, if there is one.
pub fn first_turn(plan: &Plan) -> Option<(String, TurnSetup)> {
    let name = plan.entries(TURN).next().map_or("t1", |(name, _)| name).to_owned();
    let setup = turn(plan, &name);
    setup.at_start.then_some((name, setup))
}

/// The tools that a host's window offers.
pub fn tools_of(plan: &Plan, host: &str) -> Vec<(String, ToolSetup)> {
    let mut names: Vec<String> = plan.entries(TOOL).map(|(name, _)| name.to_owned()).collect();
    if names.is_empty() {
        names.push("t1".to_owned());
    }
    let all = names.into_iter().map(|name| {
        let setup: ToolSetup = plan.entry(TOOL, &name).unwrap_or_default();
        (name, setup)
    });
    all.filter(|(_, setup)| {
        setup.offered_by.is_empty() || setup.offered_by.iter().any(|by| by == host)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn plan(turns: serde_json::Value) -> Plan {
        let mut plan = Plan::new("toolcall");
        plan.setup.insert(TURN.to_owned(), turns);
        plan
    }

    #[test]
    fn the_first_turn_is_under_way_at_the_start_unless_it_says_otherwise() {
        assert_eq!(first_turn(&Plan::new("toolcall")).map(|(name, _)| name).as_deref(), Some("t1"));
        assert_eq!(
            first_turn(&plan(json!({ "t2": {}, "t1": {} }))).map(|(name, _)| name).as_deref(),
            Some("t2")
        );
        assert_eq!(first_turn(&plan(json!({ "t2": { "at-start": false }, "t1": {} }))), None);
    }

    #[test]
    fn a_script_is_read_as_it_is_written_in_a_file() {
        let script = json!([
            { "wait": "1s" }, { "say": { "times": 2 } }, { "call": { "tool": "t1", "owner": "stranger" } }, { "ask": {} }
        ]);
        let turn: TurnSetup = serde_json::from_value(json!({ "script": script })).unwrap();
        assert!(matches!(
            turn.script[..],
            [Scene::Wait(_), Scene::Say(_), Scene::Call(_), Scene::Ask(_)]
        ));
        let mistake = serde_json::from_value::<TurnSetup>(json!({ "script": [{ "shout": {} }] }))
            .unwrap_err();
        assert!(mistake.to_string().contains("unknown variant `shout`"));
    }

    #[test]
    fn a_tool_is_offered_by_those_that_it_names() {
        let mut plan = Plan::new("toolcall");
        plan.setup.insert(TOOL.to_owned(), json!({ "a": {}, "b": { "offered-by": ["client2"] } }));
        let names =
            |host| tools_of(&plan, host).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(
            (names("client"), names("client2")),
            (vec!["a".into()], vec!["a".to_owned(), "b".to_owned()])
        );
    }
}
