//! `[turn.NAME]` and `[app-server.HOST]`: how the app-server plays a turn, and how the app-server of
//! a host starts and ends, as users write it in a scenario file.
//!
//! ```toml
//! [turn.t1]
//! work = 3
//! end  = "exits"
//!
//! [app-server.broker]
//! initialize = "silent"
//! ```

use std::time::Duration;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::schedule::Plan;
use crate::schedule::units::WrittenDuration;

/// The host of the broker.
pub const BROKER: &str = "broker";

/// The port at which the broker listens.
pub const PORT: u16 = 80;

/// The key of the table of turns: `turn`, as in `[turn.t1]`.
pub const TABLE: &str = "turn";

/// The key of the table of app-servers: `app-server`, as in `[app-server.broker]`.
pub const APP_SERVERS: &str = "app-server";

/// One entry: the turn with this name, as the app-server plays it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(example = plays(3, 100, Answer::Final, End::Completed), example = plays(2, 50, Answer::Final, End::Omitted), example = plays(2, 50, Answer::None, End::Exits))]
pub struct TurnSetup {
    /// The number of items of work before the answer.
    pub work: u64,
    /// The pause before each message.
    pub every: WrittenDuration,
    /// The number of subagents. Each works in a separate thread, and ends before the answer.
    pub subagents: u64,
    /// The number of items that each subagent completes before its end.
    pub subagent_work: u64,
    /// How the subagents start and end.
    pub subagent: Subagent,
    /// Whether the subagents end after the answer.
    pub outlast: bool,
    /// How the turn starts.
    pub start: Start,
    /// How long a turn whose start is answered at once waits before it begins. Meanwhile, the app-server
    /// refuses to interrupt it.
    pub queued: WrittenDuration,
    /// Whether a review reports the start of an inner turn with a different id.
    pub inner: bool,
    /// Whether the inner turn names no root, as with an old app-server. That takes effect only if the answer to the
    /// start names the review: nothing else does.
    pub rootless: bool,
    /// Whether an earlier turn on the same thread ends before the answer.
    pub earlier: bool,
    /// Whether another thread, which does not belong to the turn, starts a turn that does not end.
    pub stranger: bool,
    /// Whether the app-server reports an error that it retries, before the answer.
    pub retries: bool,
    /// Whether the app-server reports an error that it does not retry, before the answer, and goes on.
    pub errors: bool,
    /// The unreadable output of the app-server.
    pub noise: Noise,
    /// A command that is open when the agent answers, or soon after, and that never completes.
    pub open: Open,
    /// The action of the agent on a file before the answer.
    pub edits: Edits,
    /// Whether the agent has items of every other kind before the answer, and the app-server sends the
    /// other news of threads, and asks the client a question.
    pub extras: bool,
    /// The number of lines that are no messages, before the answer.
    pub unreadable: u64,
    /// The number of letters of a comment, a command line and a change of a file, before the answer.
    pub letters: u64,
    /// Whether its commands fail.
    pub commands_fail: bool,
    /// Whether a review runs in a separate thread.
    pub detached: bool,
    /// The answer of the agent.
    pub answer: Answer,
    /// Whether the answer comes only in the report of the end.
    pub answer_at_end: bool,
    /// How many other answers of the same kind the agent gives before.
    pub drafts: u64,
    /// Whether the agent says more after its answer.
    pub late_message: bool,
    /// The number of comments after the answer, each after a pause.
    pub talk: u64,
    /// Whether the agent runs a command after its answer.
    pub late_work: bool,
    /// The pause between the answer and the end, in addition.
    pub rest: WrittenDuration,
    /// How the turn ends.
    pub end: End,
    /// How many interrupts of the turn the app-server refuses, before it accepts one.
    pub refused_interrupts: u64,
    /// Whether the app-server answers an interrupt only after it has reported the end of the turn.
    pub interrupt_answered_last: bool,
    /// Whether all messages of the turn leave in one write, together with the answer to the start
    /// request.
    pub burst: bool,
}

impl Default for TurnSetup {
    fn default() -> Self {
        plays(3, 100, Answer::Final, End::Completed)
    }
}

fn plays(work: u64, every_ms: u64, answer: Answer, end: End) -> TurnSetup {
    TurnSetup {
        work,
        every: WrittenDuration(Duration::from_millis(every_ms)),
        subagents: 0,
        subagent_work: 0,
        subagent: Subagent::default(),
        outlast: false,
        start: Start::default(),
        queued: WrittenDuration(Duration::ZERO),
        inner: false,
        rootless: false,
        earlier: false,
        stranger: false,
        retries: false,
        errors: false,
        noise: Noise::default(),
        open: Open::default(),
        edits: Edits::default(),
        extras: false,
        unreadable: 0,
        letters: 0,
        commands_fail: false,
        detached: false,
        answer,
        answer_at_end: false,
        drafts: 0,
        late_message: false,
        talk: 0,
        late_work: false,
        rest: WrittenDuration(Duration::ZERO),
        end,
        refused_interrupts: 0,
        interrupt_answered_last: false,
        burst: false,
    }
}

/// The time that an answer takes that never comes.
const LONGER_THAN_ANY_RUN: Duration = Duration::from_secs(1_000_000);

impl TurnSetup {
    /// Returns how long the turn waits after the answer to its start.
    pub fn waits(&self) -> Duration {
        let waits = self.start == Start::Answered && !self.burst;
        if waits { self.queued.0 } else { Duration::ZERO }
    }

    /// Whether the turn inside of a review names its root.
    pub fn inner_names_its_root(&self) -> bool {
        let is_answered = matches!(
            self.start,
            Start::Answered | Start::NotifiedFirst | Start::Late | Start::Last | Start::Ended
        );
        !self.rootless || !is_answered
    }

    /// Returns how long the answer to the start request takes.
    pub fn answers_after(&self) -> Duration {
        let pauses = match self.start {
            Start::NotifiedFirst => self.subagents + 1,
            Start::Late => 1,
            Start::Last | Start::Ended => {
                // A pause precedes the start of a subagent, its error, and its end.
                let of_each = if self.subagent == Subagent::Failing { 3 } else { 2 };
                let of_subagents = self.subagents.saturating_mul(of_each);
                // Two more precede the answer and the end of the turn.
                let of_agent = [self.work, self.drafts, self.talk, 2];
                let pauses = of_agent.into_iter().fold(of_subagents, u64::saturating_add);
                // A short turn counts as 30 pauses. This bound excuses late answers, so it may be too high, but not
                // too low.
                let items = self.subagents.saturating_mul(self.subagent_work);
                let pauses = pauses.max(30).saturating_add(items);
                let pauses = u32::try_from(pauses).unwrap_or(u32::MAX);
                return self.every.0.saturating_mul(pauses).saturating_add(self.rest.0);
            }
            Start::Unanswered => return LONGER_THAN_ANY_RUN,
            Start::Answered
            | Start::Unnamed
            | Start::Mute
            | Start::Garbled
            | Start::Refused
            | Start::Silent => 0,
        };
        self.every.0 * u32::try_from(pauses).unwrap_or(u32::MAX)
    }
}

/// How the app-server answers the request that starts a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// It answers, and then reports that the turn started.
    #[default]
    Answered,
    /// It reports the start, and the first items, and then answers.
    NotifiedFirst,
    /// It starts the turn, and answers one pause later.
    Late,
    /// It reports the start, all items and the end, and then answers.
    Last,
    /// Its answer contains no turn id.
    Unnamed,
    /// Its answer contains no turn id, and it plays nothing.
    Mute,
    /// Its answer has fields of other types.
    Garbled,
    /// It refuses to start the turn.
    Refused,
    /// It never answers, and plays nothing.
    Silent,
    /// It reports the start, all items and the end, and never answers.
    Unanswered,
    /// It reports the start and all items. Only its answer says how the turn ended.
    Ended,
}

/// How a subagent starts and ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Subagent {
    /// An item of the turn names its thread.
    #[default]
    Spawned,
    /// Its thread names the thread of the turn as its parent. No item names it.
    Announced,
    /// After its first turn, which ends at once, it works in a second turn.
    Again,
    /// The end of its turn is reported before the start.
    Backwards,
    /// Its turn starts before an item of the turn names its thread. Its thread is not announced.
    Early,
    /// The app-server reports that its thread is idle instead of the end of its turn.
    Idle,
    /// The app-server reports that its thread is closed instead of the end of its turn.
    Closed,
    /// The app-server reports an error of its thread instead of the end of its turn.
    Broken,
    /// Only an item on its activity names its thread.
    Active,
    /// It has its own subagent, which does its work, and whose thread and turn start before an item
    /// names the thread of the first one.
    Nested,
    /// Only its turn says whose it is: it names the turn of the user as its root.
    Rooted,
    /// Its turn meets an error that the app-server does not retry, before its work, and goes on.
    Failing,
    /// Its turn starts and ends before an item of the turn names its thread. Its thread is not announced.
    NamedLast,
}

impl Subagent {
    /// Whether the app-server reports its turn only at the end. Its items would belong to no turn.
    pub fn is_reported_last(self) -> bool {
        matches!(self, Self::Backwards | Self::NamedLast)
    }
}

/// The unreadable output of the app-server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Noise {
    /// Nothing.
    #[default]
    None,
    /// A line that is no message.
    Line,
    /// A notification whose fields have other types.
    Fields,
    /// A notification with an id that is longer than any client reads.
    Id,
    /// An item of another type. The notification names the thread and the turn.
    Item,
    /// The start of a command after the answer. The command ends after the rest.
    Work,
}

/// A command that never completes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Open {
    /// There is none.
    #[default]
    None,
    /// It starts before the answer.
    Before,
    /// It starts after the answer.
    After,
}

/// The action of the agent on a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Edits {
    /// Nothing.
    #[default]
    None,
    /// It changes the file.
    Made,
    /// It tries to change the file, and fails.
    Failed,
    /// It may not change the file.
    Declined,
}

/// The answer of the agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// A message in the phase `final_answer`.
    #[default]
    Final,
    /// A message without text in the phase `final_answer`.
    Empty,
    /// A message in the phase `partial_answer`.
    Partial,
    /// A message without a phase.
    Unphased,
    /// None.
    None,
}

/// How the app-server ends a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// It reports that the turn completed.
    #[default]
    Completed,
    /// It reports that the turn failed.
    Failed,
    /// It reports that the turn was interrupted.
    Interrupted,
    /// It reports that the turn failed, and does not say why.
    Unexplained,
    /// It reports the end with a status that no client knows.
    Unknown,
    /// It reports no end, and waits for the next turn.
    Omitted,
    /// It reports that the thread is closed, and no end.
    Closes,
    /// It reports an error that it does not retry, and no end.
    Error,
    /// It exits with 0.
    Exits,
    /// It exits with 0 in the middle of a line.
    ExitsMidLine,
    /// It reports that the turn completed, and exits with 0 before the end of the line.
    ExitsReported,
    /// It complains on its standard error, and exits with 3.
    Crashes,
}

impl End {
    /// Whether the app-server exits.
    pub fn exits(self) -> bool {
        matches!(self, Self::Exits | Self::ExitsMidLine | Self::ExitsReported | Self::Crashes)
    }
}

/// One entry: the app-servers that this host launches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(example = AppServerSetup { outlives_input: true, ..AppServerSetup::default() })]
pub struct AppServerSetup {
    /// The host. If it is left out, the name of the entry is the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// How it answers `initialize`.
    pub initialize: Initialize,
    /// How long it takes to answer `initialize`, or to exit instead.
    pub initialize_takes: WrittenDuration,
    /// How long it takes to answer the requests to start a thread and to name it.
    pub threads_take: WrittenDuration,
    /// How it answers the request to start a thread, or to name it.
    pub threads: Threads,
    /// Whether it goes on after the end of its input.
    pub outlives_input: bool,
    /// Whether it ignores SIGTERM.
    pub ignores_terminate: bool,
    /// How long it takes to end after the end of its input. It plays nothing meanwhile.
    #[serde(skip_serializing_if = "is_zero")]
    pub input_takes: WrittenDuration,
    /// How long it takes to end after SIGTERM. It plays nothing meanwhile.
    #[serde(skip_serializing_if = "is_zero")]
    pub terminate_takes: WrittenDuration,
}

fn is_zero(time: &WrittenDuration) -> bool {
    time.0.is_zero()
}

/// How much longer than its time an app-server may take to end.
const AROUND: Duration = Duration::from_millis(10);

impl AppServerSetup {
    /// Whether it ends within this time after the end of its input.
    pub fn ends_with_its_input(&self, within: Duration) -> bool {
        !self.outlives_input && self.input_takes.0 + AROUND < within
    }

    /// Whether it ends within this time after SIGTERM.
    pub fn ends_when_asked(&self, within: Duration) -> bool {
        !self.ignores_terminate && self.terminate_takes.0 + AROUND < within
    }
}

/// How an app-server answers `initialize`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Initialize {
    /// At once.
    #[default]
    Answered,
    /// Never.
    Silent,
    /// It exits with 1 instead.
    Exits,
    /// It refuses.
    Refused,
}

/// How an app-server answers the request to start a thread, or to name it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Threads {
    /// It does what it is asked for.
    #[default]
    Made,
    /// It refuses to start a thread.
    Refused,
    /// It starts a thread, and its answer contains none.
    Omitted,
    /// It refuses to name a thread.
    Nameless,
}

/// Returns the entry of the turn with this name, or the default.
pub fn turn(plan: &Plan, name: &str) -> TurnSetup {
    let mut entries = entries(plan, TABLE);
    entries.find(|(known, _)| *known == name).map(|(_, setup)| setup).unwrap_or_default()
}

/// Returns the first entry of the app-servers of a host, or the default.
pub fn app_server(plan: &Plan, host: &str) -> AppServerSetup {
    let is_of =
        |(name, setup): &(&str, AppServerSetup)| setup.host.as_deref().unwrap_or(name) == host;
    entries(plan, APP_SERVERS).find(is_of).map(|(_, setup)| setup).unwrap_or_default()
}

fn entries<'p, T: Default + DeserializeOwned>(
    plan: &'p Plan,
    table: &str,
) -> impl Iterator<Item = (&'p str, T)> {
    let entries = plan.entries(table);
    entries.map(|(name, entry)| (name, T::deserialize(entry).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_entry_describes_a_turn() {
        let mut plan = Plan::new("turn");
        let entry = json!({ "every": "50ms", "answer": "none", "end": "exits-mid-line", "start": "notified-first" });
        plan.setup.insert(TABLE.into(), json!({ "t1": entry }));
        let expected = TurnSetup {
            start: Start::NotifiedFirst,
            ..plays(3, 50, Answer::None, End::ExitsMidLine)
        };
        assert_eq!(turn(&plan, "t1"), expected);
        assert_eq!(turn(&plan, "t2"), TurnSetup::default());
    }

    #[test]
    fn the_answer_at_the_end_of_a_turn_waits_for_all_of_its_work() {
        let last = |work, subagents, talk| {
            let setup = plays(work, 100, Answer::Final, End::Completed);
            TurnSetup { start: Start::Last, subagents, talk, ..setup }.answers_after()
        };
        assert_eq!(last(3, 0, 0), Duration::from_secs(3));
        assert_eq!(last(40, 0, 0), Duration::from_millis(4_200));
        assert_eq!(last(27, 2, 0), Duration::from_millis(3_300));
        assert_eq!(last(0, 0, 50), Duration::from_millis(5_200));
    }

    #[test]
    fn an_entry_describes_the_app_servers_of_a_host() {
        let mut plan = Plan::new("turn");
        let a1 = json!({ "host": "client2", "ignores-terminate": true });
        let entries = json!({ "a1": a1, "broker": { "outlives-input": true } });
        plan.setup.insert(APP_SERVERS.into(), entries);
        assert!(app_server(&plan, "broker").outlives_input);
        assert!(app_server(&plan, "client2").ignores_terminate);
        assert_eq!(app_server(&plan, "client"), AppServerSetup::default());
    }
}
