//! The tables of a scenario for the outside world: the scripts of agents, the behaviour of tools,
//! and the duration of restores.
//!
//! At the start there is one session, `s1`, with the chats that `[channel.NAME]` declares, or `c1`.
//! Every window takes part in it, with every tool, and watches `c1`. `client` has already started
//! the first turn of `[turn.NAME]`.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::property::{Dependent, Thing};
use crate::schedule::Plan;
use crate::schedule::units::WrittenDuration;
use crate::subjects::records;
use crate::subjects::toolcall::limits::{LIMITS, client_limits};
use reknit_toolcall::limits::ClientLimits;

/// The creation time of everything that exists at the start.
pub(super) const AT_FIRST: &str = "2026-01-01T00:00:00.000Z";

/// The key of the table of turns.
pub const TURN: &str = "turn";
/// The key of the table of tools that windows run.
pub const TOOL: &str = "tool";
/// The key of the table of the session and its chats.
pub const CHANNEL: &str = "channel";

/// The name of the session.
pub const SESSION: &str = "s1";
/// The names of all sessions. Only the first exists at the start.
pub(super) const SESSIONS: [&str; 3] = [SESSION, "s2", "s3"];

/// Returns whether this is the name of a session, and not of a chat.
pub(super) fn is_session(channel: &str) -> bool {
    SESSIONS.contains(&channel)
}

/// The name of the chat that every window watches.
pub const CHAT: &str = "c1";

const fn ms(n: u64) -> WrittenDuration {
    WrittenDuration(Duration::from_millis(n))
}

/// The script of an agent in a turn: an entry of `[turn.NAME]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(example = TurnSetup::default())]
pub struct TurnSetup {
    /// The chat of the turn.
    pub chat: String,
    /// Whether the turn is active at the start, if it is the first of the table.
    pub at_start: bool,
    /// The agent's steps, in order. The turn ends after the last one.
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

/// One step of an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Scene {
    /// The agent waits for this long.
    Wait(WrittenDuration),
    /// The agent says words to the user.
    Say(Saying),
    /// The agent calls a tool that a window runs.
    Call(Calling),
    /// The agent asks the window that started the turn for a file.
    Ask(Asking),
    /// The agent panics, which ends the turn.
    BreakDown,
}

/// The words of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Saying {
    /// The number of words.
    pub times: u64,
    /// The pause before each word.
    pub every: WrittenDuration,
    /// The minimum length of each word, in letters.
    pub letters: u64,
    /// Whether the agent begins another text after the first word, which is no part of its words,
    /// and then continues the earlier text.
    pub aside: bool,
}

impl Default for Saying {
    fn default() -> Self {
        Self { times: 1, every: ms(200), letters: 8, aside: false }
    }
}

/// A tool call of an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Calling {
    /// The tool: an entry of `[tool.NAME]`.
    pub tool: String,
    /// How long its parameters stream before it may run.
    pub streams: WrittenDuration,
    /// Whether the user must consent first.
    pub confirm: bool,
    /// The client that runs it.
    pub owner: Whose,
    /// Whether the agent waits for the call before the next step. At the end of the turn, it waits
    /// for all calls.
    pub waits: bool,
    /// The maximum time for which the agent waits for the call.
    pub patience: WrittenDuration,
    /// Whether the agent starts the call and waits for it in one step, with all parameters. It then
    /// reports to its user how the call ended. The host chooses the client.
    pub in_one_step: bool,
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
            in_one_step: false,
        }
    }
}

/// The choice of the client that runs a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Whose {
    /// Any client that can run it; the host chooses.
    #[default]
    Any,
    /// The window that started the turn, whether it is connected or not.
    Starter,
    /// A client that this host has never seen, because it takes part in another way.
    Stranger,
}

/// The name of a client that this host has never seen.
pub const STRANGER: &str = "stranger";

/// A question of an agent to a window.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Asking {
    /// How long the window needs to answer.
    pub takes: WrittenDuration,
    /// Whether the window refuses to answer, because it does not know the question.
    pub is_unknown: bool,
    /// Whether the agent reports the answer to its user, or why there is none.
    pub tells: bool,
}

impl Default for Asking {
    fn default() -> Self {
        Self { takes: ms(100), is_unknown: false, tells: false }
    }
}

/// The behaviour of a tool in a window: an entry of `[tool.NAME]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(example = ToolSetup::default())]
pub struct ToolSetup {
    /// How long the tool runs.
    pub takes: WrittenDuration,
    /// The way in which the tool ends.
    pub ends: ToolEnds,
    /// The minimum length of its result, in letters.
    pub letters: u64,
    /// The hosts whose windows offer the tool; default: all.
    pub offered_by: Vec<String>,
    /// The user's reply when the window asks whether the tool may run.
    pub user: Consent,
    /// How long the user takes to reply.
    pub thinks: WrittenDuration,
}

impl Default for ToolSetup {
    fn default() -> Self {
        Self {
            takes: ms(2_000),
            ends: ToolEnds::Works,
            letters: 0,
            offered_by: Vec::new(),
            user: Consent::Approves,
            thinks: ms(500),
        }
    }
}

/// The way in which a tool ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ToolEnds {
    /// With a result.
    Works,
    /// With a result that reports a failure.
    Fails,
    /// With a panic.
    BreaksDown,
}

/// The user's reply to a call that needs consent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Consent {
    /// The tool may run.
    Approves,
    /// The tool must not run.
    Denies,
    /// No reply.
    Ignores,
}

/// The session or a chat, as stored outside the host: an entry of `[channel.NAME]`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(example = ChannelSetup::default())]
pub struct ChannelSetup {
    /// How long the first restore takes.
    pub restores: WrittenDuration,
    /// How long each later restore in the same incarnation of the host takes; default: as long as
    /// the first.
    pub restores_again: Option<WrittenDuration>,
    /// Whether every window watches the channel from the start. Windows always watch the session
    /// and `c1`.
    pub watched: bool,
}

impl Default for ChannelSetup {
    fn default() -> Self {
        Self { restores: ms(5), restores_again: None, watched: false }
    }
}

impl ChannelSetup {
    /// The duration of a restore after `before` earlier ones.
    pub fn restore(&self, before: u64) -> Duration {
        self.restores_again.filter(|_| before > 0).unwrap_or(self.restores).0
    }

    /// The duration of the slowest restore.
    pub fn slowest_restore(&self) -> Duration {
        self.restore(0).max(self.restore(1))
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

/// The chats of the session, by name; `c1` always exists.
pub(super) fn chats(plan: &Plan) -> Vec<String> {
    let declared = plan
        .entries(CHANNEL)
        .map(|(name, _)| name.to_owned())
        .filter(|name| !is_session(name) && name != CHAT);
    std::iter::once(CHAT.to_owned()).chain(declared).collect()
}

/// The channels that a window watches from the start.
pub(super) fn watched(plan: &Plan) -> Vec<String> {
    let is_watched = |chat: &String| {
        plan.entry::<ChannelSetup>(CHANNEL, chat).is_some_and(|setup| setup.watched)
    };
    let chats = chats(plan).into_iter().filter(|chat| chat == CHAT || is_watched(chat));
    std::iter::once(SESSION.to_owned()).chain(chats).collect()
}

/// The turn with this name, as the plan declares it.
pub fn turn(plan: &Plan, name: &str) -> TurnSetup {
    plan.entry(TURN, name).unwrap_or_default()
}

/// Whether an operation or a turn depends on a channel that the host restores, or on the agent of a
/// turn: it is about the same chat, or shows it, or about a session whose chats the host restores. If windows
/// run few tools at once, the turns of one chat wait for those of another.
pub(super) fn depends(plan: &Plan, dependent: Dependent<'_>, thing: Thing<'_>) -> bool {
    let tools = client_limits(&plan.limits.over(LIMITS)).running_tools;
    let waits =
        matches!(thing, Thing::Producer(_)) && tools < ClientLimits::default().running_tools;
    let chat_of = |name: &str| turn(plan, records::declared(name)).chat;
    let channel = match thing {
        Thing::Fetched(channel) => channel.to_owned(),
        Thing::Producer(turn) => chat_of(&turn.0),
    };
    match dependent {
        Dependent::Stream(turn) => waits || is_session(&channel) || chat_of(&turn.0) == channel,
        Dependent::Operation(operation) => {
            let field = |name: &str| operation.fields.get(name).and_then(|field| field.as_str());
            match field("turn").map(chat_of).as_deref().or(field("channel")).or(field("chat")) {
                // A session shows the status of its chats.
                Some(named) => {
                    waits || named == channel || is_session(named) || is_session(&channel)
                }
                None => is_session(&channel) && field("name").is_none_or(|name| name == channel),
            }
        }
    }
}

/// The turn that is active at the start, if there is one.
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
    use crate::schedule::{LimitValue, Operation};

    fn plan(turns: serde_json::Value) -> Plan {
        let mut plan = Plan::new("toolcall");
        plan.setup.insert(TURN.to_owned(), turns);
        plan
    }

    #[test]
    fn the_first_turn_is_active_at_the_start_by_default() {
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
    fn what_is_about_the_same_chat_depends_on_its_restore_and_on_its_agent() {
        let plan = plan(json!({ "t1": {}, "t2": { "chat": "c2" } }));
        let asked = |verb: &str, field: &str, value: &str| {
            let fields = [(field.to_owned(), json!(value))].into_iter().collect();
            Operation { verb: verb.to_owned(), client: "client".into(), fields }
        };
        let needs =
            |operation: &Operation, thing| depends(&plan, Dependent::Operation(operation), thing);
        let (t1, t2) = ("client2/t1".into(), "t2".into());
        let things = [
            Thing::Fetched("c1"),
            Thing::Producer(&t1),
            Thing::Fetched("c2"),
            Thing::Producer(&t2),
            Thing::Fetched("s1"),
        ];
        let of = |operation: &Operation| things.map(|thing| needs(operation, thing));
        assert_eq!(of(&asked("start-turn", "turn", "t1")), [true, true, false, false, true]);
        assert_eq!(of(&asked("cancel-turn", "chat", "c2")), [false, false, true, true, true]);
        assert_eq!(of(&asked("read-state", "channel", "s1")), [true; 5]);
        let rename = asked("rename", "title", "A");
        assert_eq!(of(&rename), [false, false, false, false, true]);
        assert_eq!(of(&asked("create-session", "name", "s2")), [false; 5]);
        let streams = things.map(|thing| depends(&plan, Dependent::Stream(&t1), thing));
        assert_eq!(streams, [true, true, false, false, true]);
        let mut tight = plan.clone();
        tight.limits.set("client.running-tools", LimitValue::Count(1));
        let needs = |operation: &Operation| {
            things.map(|thing| depends(&tight, Dependent::Operation(operation), thing))
        };
        let of_c1 = [true, true, false, true, true];
        assert_eq!(needs(&asked("start-turn", "turn", "t1")), of_c1, "one tool waits for another");
        assert_eq!(things.map(|thing| depends(&tight, Dependent::Stream(&t1), thing)), of_c1);
        assert_eq!(needs(&rename), of(&rename));
    }

    #[test]
    fn a_tool_is_offered_by_the_named_hosts() {
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
