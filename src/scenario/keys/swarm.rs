//! The keys of `[swarm]` and of its tables.

use super::{AGAIN, Form, SPEAKS, Section, key};

/// `[swarm]`
pub const SWARM: Section = Section {
    title: "[swarm]",
    doc: "Weights and ranges from which schedules are drawn, one for each seed. A plain value is fixed, `\"a..b\"` draws from \
          a range with both its ends, and a list draws one of its entries: twice is twice as likely. What is left out is as in \
          the swarm that is run where nobody wrote one: the subject's own values, every fault, limits that are now and then \
          the least ones.",
    keys: &[
        key(
            "runs",
            Form::Number(1),
            Some("100"),
            "How many schedules are drawn where nobody asks for another number.",
        ),
        key(
            "first-seed",
            Form::Number(0),
            Some("1"),
            "The seed of the first of them; the others follow it, one by one.",
        ),
        key("horizon", Form::Times, Some("3m"), "The horizon of a schedule."),
        key(
            "heal",
            Form::Duration,
            Some("60s"),
            "The healed tail: no fault is in force in this last part before the horizon, and what is owed must arrive.",
        ),
        key(
            "latency",
            Form::Ranges,
            Some("1ms..20ms"),
            "Ranges of one-way latency, one of which is in force in a run.",
        ),
        key(
            "asks",
            Form::Numbers(0),
            Some("1..8"),
            "How many operations the user of each client asks for.",
        ),
        key(
            "busy",
            Form::Times,
            Some("1s..30s"),
            "The part of the run, from its start, in which they are asked for.",
        ),
        key(
            "verbs",
            Form::Numbers(1),
            Some("1..4"),
            "Of how many kinds the operations of a run are, besides the first of each client.",
        ),
        key(
            "hosts",
            Form::Table("[swarm.hosts]"),
            Some("1..2 clients"),
            "How many clients there are, each with how much to do.",
        ),
        key(
            "limits",
            Form::Table("[swarm.limits]"),
            Some("now and then the least sizes"),
            "Choices of limits.",
        ),
        key(
            "operations",
            Form::Table("[swarm.operations]"),
            Some("the subject's choice"),
            "The weights of operations.",
        ),
        key(
            "faults",
            Form::Table("[swarm.faults]"),
            Some("every fault"),
            "Which faults come, how many, aimed at what.",
        ),
        key(
            "puppet",
            Form::Tables("[[swarm.puppet]]"),
            Some("none"),
            "Puppets that take the place of a host in a share of the runs.",
        ),
    ],
};

/// `[swarm.hosts]`
pub const SWARM_HOSTS: Section = Section {
    title: "[swarm.hosts]",
    doc: "How many clients there are, each with how much to do. Besides `clients`, each of the subject's own tables has a key \
          here, its name for more than one (`streams` for `[stream.s1]`, `processes` for `[process.p1]`): how many entries of it \
          there are for each client, from 0; without it, `1..3`.",
    keys: &[key("clients", Form::Numbers(1), Some("1..2"), "Client hosts.")],
};

/// Returns the name of a subject's own table in a swarm, where it covers several entries:
/// `processes` for `process`.
pub fn several(table: &str) -> String {
    match table.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{stem}ies"),
        _ if ["s", "x", "z", "ch", "sh"].iter().any(|end| table.ends_with(end)) => {
            format!("{table}es")
        }
        _ => format!("{table}s"),
    }
}

/// `[swarm.limits]`
pub const SWARM_LIMITS: Section = Section {
    title: "[swarm.limits]",
    doc: "Limits as in `[limits]`, each with a choice of values: `\"client.recovery-deadline\" = [\"25s\", \"25s\", \"3s\"]`. \
          Those that are left out have their defaults.",
    keys: &[],
};

/// A subject's own table.
pub const SWARM_SETUP: Section = Section {
    title: "[swarm.KEY]",
    doc: "For each of the subject's own tables (`stream` for `[stream.s1]`), what stands in its entries. Values are choices; \
          also ranges of durations (`\"0ms..200ms\"`) and sizes (`\"1B..64KiB\"`). A field that is there in a share of the \
          cases is a table with a `chance`: `{ chance = 0.1, value = 7 }`, or, where it is a table itself, `{ chance = 0.1, \
          after = \"0ms..40s\" }`. Where a list is wanted, a list is a value (with choices in its tables), and a \
          list of lists is a choice.",
    keys: &[],
};

/// `[swarm.operations]`
pub const SWARM_OPERATIONS: Section = Section {
    title: "[swarm.operations]",
    doc: "For each operation, its weight: a number from 0. What is left out never comes. The subject draws the values of its \
          fields.",
    keys: &[],
};

/// `[swarm.faults]`
pub const SWARM_FAULTS: Section = Section {
    title: "[swarm.faults]",
    doc: "Which faults come, how many, aimed at what.",
    keys: &[
        key("count", Form::Numbers(0), Some("0..6"), "How many faults a run has."),
        key(
            "kinds",
            Form::Numbers(0),
            Some("1..3"),
            "Of how many kinds: with a few kinds only, rare pairs get room.",
        ),
        key("aimed", Form::Table("aimed"), Some("6 to 2 to 2"), "What they are aimed at."),
        key(
            "at",
            Form::Table("[swarm.faults.at]"),
            Some("all, the common ones more often"),
            "Milestones and points they are aimed at.",
        ),
        key(
            "wakes",
            Form::Share,
            Some("0.4"),
            "The share that comes in the wake of the fault before: at its moment, or up to 3 s later.",
        ),
        key(
            "weights",
            Form::Table("[swarm.faults.weights]"),
            Some("every word, with usual weights"),
            "The words that come.",
        ),
    ],
};

/// `aimed`
pub const SWARM_AIMED: Section = Section {
    title: "aimed",
    doc: "The shares of faults that are aimed at a milestone, at a point and at a time: `{ milestone = 0.6, point = 0.2, time \
          = 0.2 }`. Only their proportions count.",
    keys: &[
        key("milestone", Form::Weight, Some("0"), "After a milestone was reached."),
        key("point", Form::Weight, Some("0"), "After a point was reached."),
        key("time", Form::Weight, Some("0"), "At a time."),
    ],
};

/// `[swarm.faults.at]`
pub const SWARM_AT: Section = Section {
    title: "[swarm.faults.at]",
    doc: "For milestones and points, how often faults, and operations that wait for something, are aimed at each: `\"counter.client.lost\" \
          = 3`, a number from 0. What is left out is never aimed at.",
    keys: &[],
};

/// `[swarm.faults.weights]`
pub const SWARM_WEIGHTS: Section = Section {
    title: "[swarm.faults.weights]",
    doc: "For each word of the fault table but `restart`, its weight: `reset = 3`, or a table with its `weight` and choices \
          for its fields: `cut = { weight = 10, learns = { client = \"0ms..12s\", server = [\"0ms\", \"never\"] } }`. In \
          `learns`, `client` is the end that opened the connection. `toward` is `\"client\"`, `\"server\"`, `\"both\"` or a \
          list of these; `host` a host or a list of hosts; the `by` of a `clock-jump` has no sign, one half jumps back. A word \
          that is left out never comes.",
    keys: &[],
};

/// `[[swarm.puppet]]`
pub const SWARM_PUPPET: Section = Section {
    title: "[[swarm.puppet]]",
    doc: "A puppet that takes the place of a host in a share of the runs.",
    keys: &[
        key("chance", Form::Share, None, "The share of the runs."),
        key("host", Form::Text, None, "The host."),
        key("connections", Form::Number(1), Some("as many as come"), "As in `[puppet.HOST]`."),
        SPEAKS,
        key("script", Form::Tables("script"), None, "As in `[puppet.HOST]`."),
        AGAIN,
    ],
};
