//! The keys of a scenario file, table by table. The parser uses these tables, and the schema and
//! the reference are generated from them.
//!
//! Two groups of keys are defined elsewhere: the fault words ([`crate::schedule::words`]), and the
//! parts of a subject: its operations, setup tables, limits and names.

use super::expect;
use super::vocabulary::{ENGINES, ORDERS};

mod swarm;

pub use swarm::{
    SWARM, SWARM_AIMED, SWARM_AT, SWARM_FAULTS, SWARM_HOSTS, SWARM_LIMITS, SWARM_OPERATIONS,
    SWARM_PUPPET, SWARM_SETUP, SWARM_WEIGHTS, several,
};

/// A table of a file.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// Its title for readers: `[expect.stream.NAME]`.
    pub title: &'static str,
    /// Its purpose.
    pub doc: &'static str,
    /// Its keys.
    pub keys: &'static [Key],
}

/// A key of a table.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// The form of its value.
    pub form: Form,
    /// The behaviour if the key is left out; `None` if the key is required.
    pub without: Option<&'static str>,
    /// Its documentation.
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
            Form::Marks => "a list of milestones' names, or of tables".into(),
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
            Form::Ranges => "a range of durations, or a list of such".into(),
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
    title: "The top of a file",
    doc: "What is run, and how often. The subject's own setup tables stand here, too.",
    keys: &[
        key(
            "format",
            Form::Number(1),
            None,
            "The version of this form: `1`. An unknown one is refused, never guessed.",
        ),
        key("subject", Form::Text, None, "The protocol under test: `reknit list subjects`."),
        key("title", Form::Text, None, "What the file shows, in one line."),
        key(
            "source",
            Form::Texts,
            Some("it shows no rule"),
            "The ids of the rules that it shows: `reknit list rules SUBJECT`.",
        ),
        key(
            "kills",
            Form::Texts,
            Some("none"),
            "Defects: with each of them on, at least one seed must break.",
        ),
        key(
            "defects",
            Form::Texts,
            Some("none"),
            "Defects that are on in every run: for a canary, which must fail.",
        ),
        key(
            "seeds",
            Form::Number(1),
            Some("1"),
            "The same schedule with so many seeds: so many draws of latency and order. All must hold.",
        ),
        key("first-seed", Form::Number(0), Some("1"), "The first of them."),
        key(
            "horizon",
            Form::Duration,
            Some("60s"),
            "When the clients are closed, and what is left is counted.",
        ),
        key(
            "heal",
            Form::Duration,
            Some("0ms"),
            "The healed tail, the last part before the horizon: no fault is in force in it.",
        ),
        key(
            "clients",
            Form::Number(1),
            Some("1"),
            "How many client hosts there are: `client`, `client2`, `client3`, …",
        ),
        key(
            "latency",
            Form::Durations,
            Some("1ms..20ms"),
            "The one-way latency of a packet is drawn from this range, both ends included.",
        ),
        key(
            "order",
            Form::OneOf(&names(&ORDERS)),
            Some("drawn"),
            "What comes first where a packet and a timer fall into the same millisecond; `both` runs each seed in both orders.",
        ),
        key(
            "engines",
            Form::SomeOf(&names(&ENGINES)),
            Some("event"),
            "The engines that must show it.",
        ),
        key(
            "engines-because",
            Form::Text,
            Some("nothing to explain"),
            "Why these engines, and not others.",
        ),
        key(
            "limits",
            Form::Table("[limits]"),
            Some("the defaults"),
            "Sizes, windows, deadlines and budgets of the subject.",
        ),
        key(
            "puppet",
            Form::Table("[puppet.HOST]"),
            Some("no puppets"),
            "Hosts whose part is played by a script.",
        ),
        key("step", Form::Tables("[[step]]"), Some("nothing happens"), "What happens."),
        key(
            "swarm",
            Form::Table("[swarm]"),
            Some("the file is one schedule"),
            "Weights and ranges from which schedules are drawn, instead of one.",
        ),
        key(
            "expect",
            Form::Table("[expect]"),
            Some("the properties, and nothing else"),
            "What must come out, besides the properties.",
        ),
    ],
};

/// `[limits]`
pub const LIMITS: Section = Section {
    title: "[limits]",
    doc: "Limits of the subject by their names, between quotes: `\"client.recovery-deadline\" = \"25s\"`. A value has the kind \
          of the limit's default (a duration, a size, a number, `true` or `false`), and is not below its least value. `reknit \
          list limits SUBJECT` prints them.",
    keys: &[],
};

pub(super) const SPEAKS: Key = key(
    "speaks",
    Form::OneOf(&names(&crate::schedule::puppet::SPEAKS)),
    Some("bytes"),
    "What its texts are on the wire: bytes as they are; or text messages of a WebSocket, one a text, which is opened before the \
     script begins. Pings are answered where the script reads.",
);

pub(super) const AGAIN: Key = key(
    "again",
    Form::Tables("script"),
    Some("the same"),
    "What it does on the connections after the first, where that is something else.",
);

/// `[puppet.HOST]`
pub const PUPPET: Section = Section {
    title: "[puppet.HOST]",
    doc: "The host's part is played by a script: a raw peer that speaks the wire. It plays the script once on each connection.",
    keys: &[
        key(
            "connections",
            Form::Number(1),
            Some("as many as come"),
            "How many connections it accepts, or, in the place of a client, opens.",
        ),
        SPEAKS,
        key(
            "script",
            Form::Tables("script"),
            None,
            "What it does on a connection, in order; after it, it closes the connection.",
        ),
        AGAIN,
    ],
};

/// One entry of a puppet's script.
pub const SCRIPT: Section = Section {
    title: "script",
    doc: "A list of tables: `script = [{ expect = \"hello\" }, { send = \"welcome 1\\n\" }]`. Each has exactly one of the \
          verbs `expect`, `send`, `wait`, `drain`, `close` and `reset`.",
    keys: &[
        key(
            "expect",
            Form::Text,
            Some("another verb"),
            "Waits until bytes that contain this text have come, and takes them up to and with the text.",
        ),
        key(
            "send",
            Form::Text,
            Some("another verb"),
            "Sends text. `{n}` in it stands for the number of the repetition, `{conn}` for the number of the connection, both \
             from 1.",
        ),
        key("times", Form::Number(1), Some("1"), "With `send`: how many times."),
        key("every", Form::Duration, Some("0ms"), "With `send`: how long between two of them."),
        key("wait", Form::Duration, Some("another verb"), "Sends and reads nothing for so long."),
        key(
            "drain",
            Form::True,
            Some("another verb"),
            "Reads and throws away whatever comes, until the other end closes.",
        ),
        key(
            "close",
            Form::True,
            Some("another verb"),
            "Closes the connection, as the end of the script does.",
        ),
        key("reset", Form::True, Some("another verb"), "Resets the connection."),
    ],
};

/// `[[step]]`
pub const STEP: Section = Section {
    title: "[[step]]",
    doc: "One list, in the order in which it happens. A step is one `at` or `after`, and one verb: a word of the fault table, \
          or an operation of the subject (`reknit list operations SUBJECT`). An operation has one more field, `client`: the \
          host whose user asks for it; without it, `client`.",
    keys: &[
        key(
            "at",
            Form::Duration,
            Some("there is an `after`"),
            "When it happens, counted from the start of the world.",
        ),
        key("after", Form::Mark, Some("there is an `at`"), "What it happens after: see `after`."),
        key(
            "may-miss",
            Form::True,
            Some("it must do something"),
            "Whether all is well though it does nothing in any seed: it is never reached, or there is nothing that it could do \
             it to.",
        ),
    ],
};

/// The condition of a trigger, or the milestone to look for.
pub const AFTER: Section = Section {
    title: "after",
    doc: "A milestone's name, or a table: `{ milestone = \"counter.client.connected\", generation = 2, delay = \"5ms\" }`. Any \
          key that is not listed here is a field of the milestone or point, and must be equal. `reknit list milestones \
          SUBJECT` and `reknit list points SUBJECT` print them. Entries of `reaches` and `never` and the `until` of a `hold` \
          have the same form, without `delay`.",
    keys: &[
        key("milestone", Form::Text, Some("there is a `point`"), "A milestone."),
        key("point", Form::Text, Some("there is a `milestone`"), "A point."),
        key(
            "nth",
            Form::Number(1),
            Some("1"),
            "Which time, among those that match. In `reaches`: so many times at least.",
        ),
        key("host", Form::Text, Some("any"), "On which host."),
        key(
            "conn",
            Form::Text,
            Some("any"),
            "About which connection: `client#2` is the second that `client` opened, `client/status#3` the third of those \
             labelled `status`, `client:gen2` the one that carries its generation 2, `client#last` its newest.",
        ),
        key(
            "delay",
            Form::Duration,
            Some("0ms"),
            "How long after it. 0 acts before what was sent in the same turn leaves its host.",
        ),
    ],
};

/// `[expect]`
pub const EXPECT: Section = Section {
    title: "[expect]",
    doc: "What must come out, besides the properties. Of a schedule it holds for every seed, of a swarm over all runs together.",
    keys: &[
        key("reaches", Form::Marks, Some("nothing"), "Milestones and points that must be reached."),
        key(
            "never",
            Form::Marks,
            Some("nothing"),
            "Milestones and points that must not be reached.",
        ),
        key(
            "breaks",
            Form::Text,
            Some("nothing may break"),
            "For a canary: the property that must break in at least one seed.",
        ),
        key(
            "at-least",
            Form::Shares,
            Some("nothing"),
            "Of a swarm: milestones and points that this share of runs must reach.",
        ),
        key(
            "stream",
            Form::Table("[expect.stream.NAME]"),
            Some("nothing"),
            "What must come out of streams.",
        ),
        key(
            "process",
            Form::Table("[expect.process.NAME]"),
            Some("nothing"),
            "What must come of processes.",
        ),
        key("call", Form::Table("[expect.call.N]"), Some("nothing"), "What must come of calls."),
    ],
};

/// `[expect.stream.NAME]`
pub const EXPECT_STREAM: Section = Section {
    title: "[expect.stream.NAME]",
    doc: "What the user of a client saw of the stream of this name.",
    keys: &[
        key(
            "ends",
            Form::OneOf(&names(&expect::STREAM_ENDS)),
            Some("either way"),
            "How it ended for its user.",
        ),
        key("outcome", Form::Text, Some("any"), "The outcome, exactly. It must be `completed`."),
        key(
            "reason",
            Form::Text,
            Some("any"),
            "A text that the reason contains. It must have `failed`.",
        ),
        key(
            "output",
            Form::OneOf(&names(&expect::OUTPUTS)),
            Some("any"),
            "How much of what was really produced was delivered: `prefix` is a part, from the beginning, also all or nothing.",
        ),
        key(
            "within",
            Form::Duration,
            Some("any time"),
            "It ended for its user so long after its real end, at most.",
        ),
        key(
            "live-from",
            Form::Number(1),
            Some("any"),
            "Something that was produced after this generation was connected was delivered over it or a later one: not only \
             what was missed.",
        ),
    ],
};

/// `[expect.process.NAME]`
pub const EXPECT_PROCESS: Section = Section {
    title: "[expect.process.NAME]",
    doc: "What the user of a client saw of the process of this name: of the stream of its name (`p1`), and of those that are \
          parts of it (`p1/stdout`, `p1/stderr`, `p1/pty`), as far as they were opened. A name with more than letters, digits, \
          `-` and `_` stands between quotes: `[expect.process.\"p1.2\"]`.",
    keys: &[
        key(
            "ends",
            Form::OneOf(&names(&expect::PROCESS_ENDS)),
            Some("any way"),
            "How all of it ended for its user: `closed` are a process that ended and pipes that were closed.",
        ),
        key(
            "exit",
            Form::CodeOr(&names(&expect::EXITS)),
            Some("any"),
            "The code of its exit; `signal` where a signal ended it, whichever. It must be `closed`.",
        ),
        key(
            "reason",
            Form::Text,
            Some("any"),
            "A text that the reason contains. It must have `failed`.",
        ),
        key(
            "output",
            Form::OneOf(&names(&expect::OUTPUTS)),
            Some("any"),
            "How much of what it really printed was delivered, of each part: `prefix` is a beginning of it, also all \
             or nothing.",
        ),
        key(
            "within",
            Form::Duration,
            Some("any time"),
            "All of it ended for its user so long after the real end of the process and of its pipes, at most.",
        ),
        key(
            "live-from",
            Form::Number(1),
            Some("any"),
            "Something of some part that was produced after this generation was connected was delivered over it or a later \
             one: not only what was missed.",
        ),
    ],
};

/// `[expect.call.N]`
pub const EXPECT_CALL: Section = Section {
    title: "[expect.call.N]",
    doc: "What came of the N-th operation that was asked for, from 1.",
    keys: &[
        key(
            "ends",
            Form::OneOf(&names(&expect::CALL_ENDS)),
            Some("any way"),
            "How it ended for its user.",
        ),
        key("result", Form::Text, Some("any"), "The result, exactly. It must be `answered`."),
        key(
            "reason",
            Form::Text,
            Some("any"),
            "A text that the reason contains. It must have `failed`.",
        ),
    ],
};
