//! The keys of a scenario file, table by table. The parser uses these tables, and the schema and
//! the reference are generated from them.
//!
//! Two groups of keys are defined elsewhere: the fault words ([`crate::schedule::words`]), and the
//! parts of a subject: its operations, setup tables, limits and names.

use super::expect;
use super::vocabulary::{ENGINES, ORDERS};

mod swarm;

pub use swarm::{
    SWARM, SWARM_AIMED, SWARM_AT, SWARM_FAULTS, SWARM_HOSTS, SWARM_LIMITS, SWARM_OPERATION,
    SWARM_OPERATIONS, SWARM_PUPPET, SWARM_SETUP, SWARM_WEIGHTS, several,
};

/// A table of a file.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// The title for readers: `[expect.stream.NAME]`.
    pub title: &'static str,
    /// The purpose.
    pub doc: &'static str,
    /// The keys.
    pub keys: &'static [Key],
}

/// A key of a table.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The name.
    pub name: &'static str,
    /// The form of its value.
    pub form: Form,
    /// The behaviour if the key is left out; `None` if the key is required.
    pub without: Option<&'static str>,
    /// The documentation.
    pub doc: &'static str,
}

/// The form of a key's value.
#[derive(Clone, Copy, Debug)]
pub enum Form {
    /// A string.
    Text,
    /// A list of strings.
    Texts,
    /// A whole number, at least this.
    Number(u64),
    /// A duration.
    Duration,
    /// A range of durations.
    Durations,
    /// `true`; no other value makes sense.
    True,
    /// One of these.
    OneOf(&'static [&'static str]),
    /// An exit code, or one of these words.
    CodeOr(&'static [&'static str]),
    /// A list of some of these.
    SomeOf(&'static [&'static str]),
    /// The name of a milestone, or a table of [`AFTER`].
    Mark,
    /// A list of milestone names or [`AFTER`] tables.
    Marks,
    /// A share of runs for each name of a milestone or point.
    Shares,
    /// A table, which has a separate section.
    Table(&'static str),
    /// A list of tables, which have a separate section.
    Tables(&'static str),
    /// A choice of numbers, each at least this.
    Numbers(u64),
    /// A choice of durations.
    Times,
    /// A range of durations, or a list of such ranges.
    Ranges,
    /// A number from 0 to 1.
    Share,
    /// A number from 0, with or without a fraction.
    Weight,
}

impl Form {
    /// Returns the form of the value in words, as Markdown.
    pub fn written(self) -> String {
        let ticked = |names: &[&str]| {
            names.iter().map(|name| format!("`\"{name}\"`")).collect::<Vec<_>>().join(", ")
        };
        match self {
            Form::Text => "a string".into(),
            Form::Texts => "a list of strings".into(),
            Form::Number(least) => format!("a number from {least}"),
            Form::Duration => "a duration: `\"25s\"`".into(),
            Form::Durations => "a range: `\"1ms..20ms\"`".into(),
            Form::True => "`true`".into(),
            Form::OneOf(names) => format!("one of {}", ticked(names)),
            Form::CodeOr(words) => format!("a code from 0 to 255, or {}", ticked(words)),
            Form::SomeOf(names) => format!("a list of {}", ticked(names)),
            Form::Mark => "a milestone's name, or a table".into(),
            Form::Marks => "a list of milestone names or tables".into(),
            Form::Shares => {
                "names, each with a share of runs: `{ \"counter.client.gap\" = 0.25 }`".into()
            }
            Form::Table(title) | Form::Tables(title) => format!("see `{title}`"),
            Form::Numbers(least) => {
                format!("a choice of numbers from {least}: `3`, `\"0..6\"`, `[1, 2, \"5..9\"]`")
            }
            Form::Times => {
                "a choice of durations: `\"5s\"`, `\"0ms..5s\"`, `[\"0ms\", \"24s..26s\"]`".into()
            }
            Form::Ranges => "a range of durations, or a list of ranges".into(),
            Form::Share => "a number from 0 to 1".into(),
            Form::Weight => "a number from 0".into(),
        }
    }
}

impl Section {
    /// Whether a file can contain several such tables, each with a name: `[puppet.HOST]`.
    pub fn is_named(&self) -> bool {
        self.title
            .trim_end_matches(']')
            .rsplit('.')
            .next()
            .is_some_and(|last| last.chars().all(char::is_uppercase))
    }

    /// Returns the names of its keys.
    pub fn names<'k>(&self) -> impl Iterator<Item = &'k str> + Clone + use<'k> {
        self.keys.iter().map(|key| key.name)
    }
}

const fn key(
    name: &'static str,
    form: Form,
    without: Option<&'static str>,
    doc: &'static str,
) -> Key {
    Key { name, form, without, doc }
}

/// All sections, in the order of the reference.
pub const SECTIONS: &[&Section] = &[
    &FILE,
    &LIMITS,
    &PUPPET,
    &SCRIPT,
    &STEP,
    &AFTER,
    &EXPECT,
    &EXPECT_STREAM,
    &EXPECT_PROCESS,
    &EXPECT_CALL,
    &SWARM,
    &SWARM_HOSTS,
    &SWARM_LIMITS,
    &SWARM_SETUP,
    &SWARM_OPERATIONS,
    &SWARM_OPERATION,
    &SWARM_FAULTS,
    &SWARM_AIMED,
    &SWARM_AT,
    &SWARM_WEIGHTS,
    &SWARM_PUPPET,
];

/// Returns the names in the first column of a table.
const fn names<T, const N: usize>(table: &[(&'static str, T); N]) -> [&'static str; N] {
    let mut names = [""; N];
    let mut row = 0;
    while row < N {
        names[row] = table[row].0;
        row += 1;
    }
    names
}

/// The top of a file.
pub const FILE: Section = Section {
    title: "Top-level keys",
    doc: "The subject to run and the number of runs. The subject's own setup tables are also top-level keys.",
    keys: &[
        key(
            "format",
            Form::Number(1),
            None,
            "The version of the file format: `1`. Any other version is an error.",
        ),
        key("subject", Form::Text, None, "The protocol under test: `reknit list subjects`."),
        key("title", Form::Text, None, "A one-line summary of the scenario."),
        key(
            "source",
            Form::Texts,
            Some("no rules"),
            "The ids of the rules that the scenario covers: `reknit list rules SUBJECT`.",
        ),
        key(
            "kills",
            Form::Texts,
            Some("none"),
            "Defects that the scenario must detect: with each one enabled, at least one seed must violate a property.",
        ),
        key(
            "defects",
            Form::Texts,
            Some("none"),
            "Defects that are enabled in every run. For a canary, which must fail.",
        ),
        key(
            "seeds",
            Form::Number(1),
            Some("1"),
            "The number of seeds. Each seed draws other latencies and another order for the same schedule. No run may violate a property.",
        ),
        key("first-seed", Form::Number(0), Some("1"), "The first of them."),
        key(
            "horizon",
            Form::Duration,
            Some("60s"),
            "The time at which the clients are closed. After that, remaining resources are counted.",
        ),
        key(
            "heal",
            Form::Duration,
            Some("0ms"),
            "The healed tail: the length of the last part before the horizon, in which no fault is active.",
        ),
        key(
            "clients",
            Form::Number(1),
            Some("1"),
            "The number of client hosts: `client`, `client2`, `client3`, …",
        ),
        key(
            "latency",
            Form::Durations,
            Some("1ms..20ms"),
            "The range of the one-way latency of a packet, both ends included. Each packet's latency is drawn from it.",
        ),
        key(
            "order",
            Form::OneOf(&names(&ORDERS)),
            Some("drawn"),
            "Which comes first when a packet and a timer are due in the same millisecond. `both` runs each seed in both orders.",
        ),
        key(
            "engines",
            Form::SomeOf(&names(&ENGINES)),
            Some("event"),
            "The engines on which the scenario runs.",
        ),
        key("engines-because", Form::Text, Some("none"), "The reason for this choice of engines."),
        key(
            "profile",
            Form::Text,
            Some("none"),
            "The profile of limits to use: `reknit list profiles SUBJECT`. A profile has other values for some limits; `[limits]` or `[swarm.limits]` may change each of them again.",
        ),
        key(
            "limits",
            Form::Table("[limits]"),
            Some("the defaults, or those of the profile"),
            "Sizes, windows, deadlines and budgets of the subject.",
        ),
        key(
            "puppet",
            Form::Table("[puppet.HOST]"),
            Some("no puppets"),
            "Hosts that run a script instead of the subject.",
        ),
        key("step", Form::Tables("[[step]]"), Some("nothing happens"), "What happens."),
        key(
            "swarm",
            Form::Table("[swarm]"),
            Some("the file has one schedule"),
            "Weights and ranges from which schedules are drawn, instead of one fixed schedule.",
        ),
        key(
            "expect",
            Form::Table("[expect]"),
            Some("only the properties are checked"),
            "Expectations in addition to the properties.",
        ),
    ],
};

/// `[limits]`
pub const LIMITS: Section = Section {
    title: "[limits]",
    doc: "Limits of the subject. Their names are quoted: `\"client.recovery-deadline\" = \"25s\"`. A value has the type of the limit's default (a duration, a size, a number, `true` or `false`) and must not be below the minimum. `reknit list limits SUBJECT` prints them.",
    keys: &[],
};

pub(super) const SPEAKS: Key = key(
    "speaks",
    Form::OneOf(&names(&crate::schedule::puppet::SPEAKS)),
    Some("bytes"),
    "How the texts of the script are sent. `bytes` sends them unchanged. `websocket` opens a WebSocket before the script begins and sends each text as one text message; pings are answered while the script reads.",
);

pub(super) const AGAIN: Key = key(
    "again",
    Form::Tables("script"),
    Some("the same"),
    "The script for the connections after the first, if it differs.",
);

/// `[puppet.HOST]`
pub const PUPPET: Section = Section {
    title: "[puppet.HOST]",
    doc: "A puppet: a script takes the place of the host and sends raw data. The script runs once on each connection.",
    keys: &[
        key(
            "connections",
            Form::Number(1),
            Some("as many as come"),
            "The number of connections that the puppet accepts, or opens if it replaces a client.",
        ),
        SPEAKS,
        key(
            "script",
            Form::Tables("script"),
            None,
            "The actions on a connection, in order. After the last one, the puppet closes the connection.",
        ),
        AGAIN,
    ],
};

/// One entry of a puppet's script.
pub const SCRIPT: Section = Section {
    title: "script",
    doc: "A list of tables: `script = [{ expect = \"hello\" }, { send = \"welcome 1\\n\" }]`. Each table has exactly one of the verbs `expect`, `send`, `wait`, `drain`, `close` and `reset`.",
    keys: &[
        key(
            "expect",
            Form::Text,
            Some("another verb"),
            "Reads until the bytes received contain this text, and consumes them up to and including the text.",
        ),
        key(
            "send",
            Form::Text,
            Some("another verb"),
            "Sends this text. `{n}` is replaced by the number of the repetition, `{conn}` by the number of the connection, both from 1.",
        ),
        key("times", Form::Number(1), Some("1"), "With `send`: the number of repetitions."),
        key(
            "every",
            Form::Duration,
            Some("0ms"),
            "With `send`: the pause between two repetitions.",
        ),
        key(
            "wait",
            Form::Duration,
            Some("another verb"),
            "Sends and reads nothing for this duration.",
        ),
        key(
            "drain",
            Form::True,
            Some("another verb"),
            "Reads and discards all data until the other end closes.",
        ),
        key(
            "close",
            Form::True,
            Some("another verb"),
            "Closes the connection. The end of the script does the same.",
        ),
        key("reset", Form::True, Some("another verb"), "Resets the connection."),
    ],
};

/// `[[step]]`
pub const STEP: Section = Section {
    title: "[[step]]",
    doc: "The steps of the schedule, in order. A step has one `at` or `after`, and one verb: a fault, or an operation of the subject (`reknit list operations SUBJECT`). An operation has one more field, `client`: the host whose user requests it. The default is `client`.",
    keys: &[
        key(
            "at",
            Form::Duration,
            Some("there is an `after`"),
            "The time of the step, counted from the start of the run.",
        ),
        key(
            "after",
            Form::Mark,
            Some("there is an `at`"),
            "The event that triggers the step: see `after`.",
        ),
        key(
            "may-miss",
            Form::True,
            Some("the step must have an effect"),
            "Whether the step may have no effect in any seed, because its trigger is not reached or its target does not exist.",
        ),
    ],
};

/// The condition of a trigger, or the milestone to look for.
pub const AFTER: Section = Section {
    title: "after",
    doc: "A milestone's name, or a table: `{ milestone = \"counter.client.connected\", generation = 2, delay = \"5ms\" }`. Any key that is not listed here is a field of the milestone or point, and its value must be equal. `reknit list milestones SUBJECT` and `reknit list points SUBJECT` print the names. Entries of `reaches` and `never` and the `until` of a `hold` have the same format, without `delay`.",
    keys: &[
        key("milestone", Form::Text, Some("there is a `point`"), "A milestone."),
        key("point", Form::Text, Some("there is a `milestone`"), "A point."),
        key(
            "nth",
            Form::Number(1),
            Some("1"),
            "The number of the occurrence, among those that match. In `reaches`: the minimum number of occurrences.",
        ),
        key("host", Form::Text, Some("any"), "On which host."),
        key(
            "conn",
            Form::Text,
            Some("any"),
            "The connection that it belongs to: `client#2` is the second connection that `client` opened, `client/status#3` the third with the label `status`, `client:gen2` the one of its generation 2, `client#last` its newest.",
        ),
        key(
            "delay",
            Form::Duration,
            Some("0ms"),
            "The delay after the event. With 0, the step takes effect before data sent in the same turn leaves its host.",
        ),
    ],
};

/// `[expect]`
pub const EXPECT: Section = Section {
    title: "[expect]",
    doc: "Expectations in addition to the properties. For a schedule, each seed must meet them; for a swarm, all runs together.",
    keys: &[
        key(
            "reaches",
            Form::Marks,
            Some("nothing"),
            "Milestones and points that each run must reach.",
        ),
        key("never", Form::Marks, Some("nothing"), "Milestones and points that no run may reach."),
        key(
            "breaks",
            Form::Text,
            Some("nothing may break"),
            "For a canary: the property that at least one seed must violate.",
        ),
        key(
            "at-least",
            Form::Shares,
            Some("nothing"),
            "For a swarm: milestones and points, each with the share of runs that must reach it.",
        ),
        key(
            "stream",
            Form::Table("[expect.stream.NAME]"),
            Some("nothing"),
            "Expectations for streams.",
        ),
        key(
            "process",
            Form::Table("[expect.process.NAME]"),
            Some("nothing"),
            "Expectations for processes.",
        ),
        key("call", Form::Table("[expect.call.N]"), Some("nothing"), "Expectations for calls."),
    ],
};

/// `[expect.stream.NAME]`
pub const EXPECT_STREAM: Section = Section {
    title: "[expect.stream.NAME]",
    doc: "Expectations for the stream of this name, as the user of a client sees it.",
    keys: &[
        key(
            "ends",
            Form::OneOf(&names(&expect::STREAM_ENDS)),
            Some("either way"),
            "How it ended for its user. The default allows any end.",
        ),
        key(
            "outcome",
            Form::Text,
            Some("any"),
            "The exact outcome. Only with `ends = \"completed\"`.",
        ),
        key(
            "reason",
            Form::Text,
            Some("any"),
            "A text that the reason must contain. Only with `ends = \"failed\"`.",
        ),
        key(
            "output",
            Form::OneOf(&names(&expect::OUTPUTS)),
            Some("any"),
            "How much of the produced data was delivered. `prefix` is the first part of it; all of it and none of it are also prefixes.",
        ),
        key("says", Form::Text, Some("any"), "A text that the delivered data must contain."),
        key(
            "shows",
            Form::Texts,
            Some("any"),
            "Texts. Each of them must be in an observation of this stream: in what its user or the outside world noted.",
        ),
        key(
            "within",
            Form::Duration,
            Some("any time"),
            "The longest time between its real end and its end for its user.",
        ),
        key(
            "live-from",
            Form::Number(1),
            Some("any"),
            "At least one item that was produced after this generation connected must be delivered over this generation or a later one. Replayed items do not count.",
        ),
    ],
};

/// `[expect.process.NAME]`
pub const EXPECT_PROCESS: Section = Section {
    title: "[expect.process.NAME]",
    doc: "Expectations for the process of this name, as the user of a client sees it: for the stream of the same name (`p1`) and those of its parts (`p1/stdout`, `p1/stderr`, `p1/pty`) that were opened. Quote a name with characters other than letters, digits, `-` and `_`: `[expect.process.\"p1.2\"]`.",
    keys: &[
        key(
            "ends",
            Form::OneOf(&names(&expect::PROCESS_ENDS)),
            Some("any way"),
            "How the process and its pipes ended for the user. `closed`: the process ended and its pipes were closed.",
        ),
        key(
            "exit",
            Form::CodeOr(&names(&expect::EXITS)),
            Some("any"),
            "The exit code, or `signal` if any signal ended it. Only with `ends = \"closed\"`.",
        ),
        key(
            "reason",
            Form::Text,
            Some("any"),
            "A text that the reason must contain. Only with `ends = \"failed\"`.",
        ),
        key(
            "output",
            Form::OneOf(&names(&expect::OUTPUTS)),
            Some("any"),
            "How much of the printed output of each part was delivered. `prefix` is the first part of it; all of it and none of it are also prefixes.",
        ),
        key(
            "within",
            Form::Duration,
            Some("any time"),
            "The longest time between the real end of the process and its pipes and their end for the user.",
        ),
        key(
            "live-from",
            Form::Number(1),
            Some("any"),
            "At least one item of any part that was produced after this generation connected must be delivered over this generation or a later one. Replayed items do not count.",
        ),
        key(
            "really-ends",
            Form::Durations,
            Some("any time"),
            "The time of the run at which the process really ends: `\"5s..8s\"`. Its user may have dropped it before.",
        ),
    ],
};

/// `[expect.call.N]`
pub const EXPECT_CALL: Section = Section {
    title: "[expect.call.N]",
    doc: "Expectations for the N-th requested operation, counted from 1.",
    keys: &[
        key(
            "ends",
            Form::OneOf(&names(&expect::CALL_ENDS)),
            Some("any way"),
            "How it ended for its user. The default allows any end.",
        ),
        key(
            "result",
            Form::Text,
            Some("any"),
            "The exact result. Only with `ends = \"answered\"`.",
        ),
        key(
            "says",
            Form::Text,
            Some("any"),
            "A text that the result must contain. Only with `ends = \"answered\"`.",
        ),
        key(
            "reason",
            Form::Text,
            Some("any"),
            "A text that the reason must contain. Only with `ends = \"failed\"`.",
        ),
        key(
            "takes",
            Form::Durations,
            Some("any duration"),
            "The time from the request to its end for its user: `\"5s..8s\"`.",
        ),
    ],
};
