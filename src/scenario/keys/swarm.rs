//! The keys of `[swarm]` and of its tables.

use super::{AGAIN, Form, SPEAKS, Section, key};

/// `[swarm]`
pub const SWARM: Section = Section {
    title: "[swarm]",
    doc: "Weights and ranges from which schedules are drawn, one for each seed. A plain value is fixed, `\"a..b\"` draws from a range that includes both ends, and a list draws one of its entries; an entry that is listed twice is twice as likely. Omitted keys have the values of the default swarm: the subject's own values, every fault, and limits that are sometimes at their minimum.",
    keys: &[
        key(
            "runs",
            Form::Number(1),
            Some("100"),
            "The number of schedules to draw, unless the command line sets another number.",
        ),
        key(
            "first-seed",
            Form::Number(0),
            Some("1"),
            "The seed of the first schedule. Each following schedule uses the next seed.",
        ),
        key("horizon", Form::Times, Some("3m"), "The horizon of a schedule."),
        key(
            "heal",
            Form::Duration,
            Some("60s"),
            "The healed tail: the length of the last part before the horizon. No fault is active in it, and all pending data must arrive.",
        ),
        key(
            "latency",
            Form::Ranges,
            Some("1ms..20ms"),
            "Ranges of one-way latency. Each run uses one of them.",
        ),
        key(
            "asks",
            Form::Numbers(0),
            Some("1..8"),
            "The number of operations that the user of each client requests.",
        ),
        key(
            "busy",
            Form::Times,
            Some("1s..30s"),
            "The part of the run, from its start, in which the operations are requested.",
        ),
        key(
            "verbs",
            Form::Numbers(1),
            Some("1..4"),
            "The number of kinds of operations in a run, not counting the first operation of each client.",
        ),
        key(
            "hosts",
            Form::Table("[swarm.hosts]"),
            Some("1..2 clients"),
            "The number of clients and the work of each client.",
        ),
        key(
            "limits",
            Form::Table("[swarm.limits]"),
            Some("sometimes the minimum sizes"),
            "Choices of limits.",
        ),
        key(
            "operations",
            Form::Table("[swarm.operations]"),
            Some("the subject's choice"),
            "The weights of the operations.",
        ),
        key(
            "faults",
            Form::Table("[swarm.faults]"),
            Some("every fault"),
            "The kinds, number and targets of faults.",
        ),
        key(
            "puppet",
            Form::Tables("[[swarm.puppet]]"),
            Some("none"),
            "Puppets that replace a host in a share of the runs.",
        ),
    ],
};

/// `[swarm.hosts]`
pub const SWARM_HOSTS: Section = Section {
    title: "[swarm.hosts]",
    doc: "The number of clients and the work of each client. Besides `clients`, each of the subject's own tables has a key here, in the plural (`streams` for `[stream.s1]`, `processes` for `[process.p1]`): the number of its entries for each client, from 0. The default is `1..3`.",
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
    doc: "Limits as in `[limits]`, each with a choice of values: `\"client.recovery-deadline\" = [\"25s\", \"25s\", \"3s\"]`. Omitted limits have their defaults, or the values of the `profile`.",
    keys: &[],
};

/// A subject's own table.
pub const SWARM_SETUP: Section = Section {
    title: "[swarm.KEY]",
    doc: "For each of the subject's own tables (`stream` for `[stream.s1]`), the contents of its entries. Values are choices, also ranges of durations (`\"0ms..200ms\"`) and sizes (`\"1B..64KiB\"`). A field that is present in a share of the cases is a table with a `chance`: `{ chance = 0.1, value = 7 }`, or, if its value is a table, `{ chance = 0.1, \
          after = \"0ms..40s\" }`. If the field takes a list, a list is one value (with choices in its tables), and a list of lists is a choice.",
    keys: &[],
};

/// `[swarm.operations]`
pub const SWARM_OPERATIONS: Section = Section {
    title: "[swarm.operations]",
    doc: "The weight of each operation: a number from 0, or a table with its `weight` and its aims: `drop-handle = { weight = 5, at = [\"exec.client.lost\"], then = [\"start\"] }`. An omitted operation is drawn only if the `then` of another one lists it. The subject draws the values of the fields.",
    keys: &[],
};

/// `[swarm.operations.VERB]`
pub const SWARM_OPERATION: Section = Section {
    title: "[swarm.operations.VERB]",
    doc: "The weight of an operation, and its aims: moments and orders that are rare otherwise.",
    keys: &[
        key("weight", Form::Number(0), None, "The weight."),
        key(
            "at",
            Form::Marks,
            Some("as any other"),
            "Milestones and points, as in `after`. Half of these operations, except the first of a client, are requested at one of them: at the same time, or up to 3 s later. An entry that is listed twice is twice as likely.",
        ),
        key(
            "then",
            Form::Texts,
            Some("nothing"),
            "Operations. One of them follows half of these operations, at the same time or within a round trip. Both have the same value in each field that both have. Another operation may follow that one in the same way.",
        ),
    ],
};

/// `[swarm.faults]`
pub const SWARM_FAULTS: Section = Section {
    title: "[swarm.faults]",
    doc: "The kinds, number and targets of faults.",
    keys: &[
        key("count", Form::Numbers(0), Some("0..6"), "The number of faults in a run."),
        key(
            "kinds",
            Form::Numbers(0),
            Some("1..3"),
            "The number of kinds of faults in a run. With few kinds, rare pairs become more likely.",
        ),
        key("aimed", Form::Table("aimed"), Some("6 to 2 to 2"), "The targets of the faults."),
        key(
            "at",
            Form::Table("[swarm.faults.at]"),
            Some("all; common ones more often"),
            "The milestones and points at which faults are aimed.",
        ),
        key(
            "wakes",
            Form::Share,
            Some("0.4"),
            "The share of faults that follow the previous fault: at the same time, or up to 3 s later.",
        ),
        key(
            "weights",
            Form::Table("[swarm.faults.weights]"),
            Some("every fault, with default weights"),
            "The weight of each fault.",
        ),
    ],
};

/// `aimed`
pub const SWARM_AIMED: Section = Section {
    title: "aimed",
    doc: "The shares of faults that are aimed at a milestone, at a point and at a time: `{ milestone = 0.6, point = 0.2, time \
          = 0.2 }`. Only the proportions count.",
    keys: &[
        key("milestone", Form::Weight, Some("0"), "After a milestone was reached."),
        key("point", Form::Weight, Some("0"), "After a point was reached."),
        key("time", Form::Weight, Some("0"), "At a time."),
    ],
};

/// `[swarm.faults.at]`
pub const SWARM_AT: Section = Section {
    title: "[swarm.faults.at]",
    doc: "The weight of each milestone and point as a target of faults and of operations with a trigger: `\"counter.client.lost\" = 3`, a number from 0. Omitted names are never targets.",
    keys: &[],
};

/// `[swarm.faults.weights]`
pub const SWARM_WEIGHTS: Section = Section {
    title: "[swarm.faults.weights]",
    doc: "The weight of each fault except `restart`: `reset = 3`, or a table with its `weight` and choices for its fields: `cut = { weight = 10, learns = { client = \"0ms..12s\", server = [\"0ms\", \"never\"] } }`. In `learns`, `client` is the end that opened the connection. `toward` is `\"client\"`, `\"server\"`, `\"both\"` or a list of these; `host` is a host or a list of hosts; the `by` of a `clock-jump` has no sign, and half of the jumps go back. Omitted faults are never drawn.",
    keys: &[],
};

/// `[[swarm.puppet]]`
pub const SWARM_PUPPET: Section = Section {
    title: "[[swarm.puppet]]",
    doc: "A puppet that replaces a host in a share of the runs.",
    keys: &[
        key("chance", Form::Share, None, "The share of the runs."),
        key("host", Form::Text, None, "The host."),
        key("connections", Form::Number(1), Some("as many as come"), "As in `[puppet.HOST]`."),
        SPEAKS,
        key("script", Form::Tables("script"), None, "As in `[puppet.HOST]`."),
        AGAIN,
    ],
};
