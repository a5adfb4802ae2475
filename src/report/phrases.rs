//! Phrases for the parts of a schedule or a history: durations, faults, operations, triggers,
//! endings.
//!
//! Every function converts data to a part of a sentence, without host and time. Host and time have
//! separate columns.

use std::io::ErrorKind;
use std::time::Duration;

use crate::history::{ConnEnd, ConnIndex, Ending, History};
use crate::hunt::Shrunk;
use crate::schedule::{
    Action, Fault, HoldEnd, Host, Learns, LinkPlace, MilestoneValue, Named, Operation, Orphans,
    SlowBy, Step, TrafficCount, Trigger, Unsynced, When,
};

/// Returns a duration in readable form: `400 ms`, `3 s`, `1.250 s`, `2 min 5 s`, `15 h 21 min`.
pub fn span(duration: Duration) -> String {
    let (all, seconds) = (duration.as_millis(), duration.as_secs());
    match () {
        () if all < 1000 => format!("{all} ms"),
        () if all % 1000 != 0 => format!("{seconds}.{:03} s", all % 1000),
        () if seconds < 120 => format!("{seconds} s"),
        () if seconds >= 7200 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        () if seconds % 60 == 0 => format!("{} min", seconds / 60),
        () => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

/// Returns a number with its noun: `1 step`, `3 steps`.
pub fn count(n: u64, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

/// Returns an ordinal number: `2nd`.
pub fn nth(n: u64) -> String {
    let ending = match (n % 100, n % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    };
    format!("{n}{ending}")
}

/// Returns the action of a step.
pub fn step(step: &Step) -> String {
    match &step.action {
        Action::Operation(what) => operation(what),
        Action::Fault(what) => fault(what),
    }
}

/// Returns the trigger of a step, unless it waits only for a time.
pub fn cause(when: &When) -> Option<String> {
    match when {
        When::At(_) => None,
        When::After(what) => Some(format!("after {}", trigger(what))),
    }
}

/// Returns an operation: its verb and its fields.
pub fn operation(operation: &Operation) -> String {
    let mut text = operation.verb.clone();
    for (n, (name, value)) in operation.fields.iter().enumerate() {
        text += if n == 0 { " " } else { ", " };
        match value {
            serde_json::Value::String(value) => text += &format!("{name} {value}"),
            other => text += &format!("{name} {other}"),
        }
    }
    text
}

/// Returns a trigger: `2nd counter.client.connected on client (generation 2), 200 ms later`.
pub fn trigger(trigger: &Trigger) -> String {
    let mut text = if trigger.nth > 1 { format!("{} ", nth(trigger.nth)) } else { String::new() };
    text += &trigger.mark.to_string();
    if let Some(host) = &trigger.host {
        text += &format!(" on {host}");
    }
    if let Some(conn) = &trigger.conn {
        text += &format!(" of {conn}");
    }
    if !trigger.fields.is_empty() {
        let fields: Vec<_> =
            trigger.fields.iter().map(|(name, value)| format!("{name} {value}")).collect();
        text += &format!(" ({})", fields.join(", "));
    }
    if !trigger.delay.is_zero() {
        text += &format!(", {} later", span(trigger.delay));
    }
    text
}

/// Returns the fields of a milestone or point, without the connection: ` (generation 2)`, or an
/// empty string.
pub fn fields(fields: &[(&'static str, MilestoneValue)]) -> String {
    let parts: Vec<_> = fields
        .iter()
        .filter(|(name, _)| *name != "conn")
        .map(|(name, value)| format!("{name} {value}"))
        .collect();
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) }
}

/// Returns the name of the connection of a milestone or point: ` on client#2`, or an empty string.
pub fn about_conn(history: &History, fields: &[(&'static str, MilestoneValue)]) -> String {
    let conn = MilestoneValue::number(fields, "conn")
        .and_then(|n| history.conns.get((n as usize).checked_sub(1)?));
    conn.map_or(String::new(), |conn| format!(" on {}", conn.name))
}

/// Returns the name of a connection, with its generation if it has one: `client#2 (generation 1)`.
pub fn conn(history: &History, index: ConnIndex) -> String {
    match history.conns.get(index.0) {
        Some(conn) => match conn.generation {
            Some(generation) => format!("{} (generation {generation})", conn.name),
            None => conn.name.clone(),
        },
        None => format!("connection {}", index.0),
    }
}

/// Returns the origin of a shrunk schedule: `shrunk from 19 in 84 runs`.
pub fn origin(shrunk: &Shrunk) -> String {
    format!("shrunk from {} in {}", count(shrunk.from as u64, "step"), count(shrunk.runs, "run"))
}

/// Returns how a stream ended for its user.
pub fn ending(ending: &Ending) -> String {
    match ending {
        Ending::Completed { outcome } => format!("completed, {outcome}"),
        Ending::Failed { reason } => format!("failed: {reason}"),
    }
}

/// Returns how one end of a connection ended.
pub fn conn_end(how: ConnEnd) -> String {
    match how {
        ConnEnd::Closed => "closed".into(),
        ConnEnd::Eof => "the other end closed it".into(),
        ConnEnd::Error(kind) => error(kind),
        ConnEnd::NotOpened(kind) => format!("not opened: {}", error(kind)),
    }
}

/// Returns an error of a connection: `connection reset`.
pub fn error(kind: ErrorKind) -> String {
    kind.to_string()
}

/// Returns a fault: `cut client#1: client learns at once, server after 400 ms`.
pub fn fault(fault: &Fault) -> String {
    match fault {
        Fault::Cut { conn, learns } => format!("cut {conn}: {}", learn(learns)),
        Fault::CutAfter { conn, toward, count, learns } => {
            format!("cut {conn} after {} toward {toward}: {}", amount(*count), learn(learns))
        }
        Fault::Partition { hosts: (a, b), toward, lasts } => {
            format!("partition {a} and {b}{}", bounds(toward, *lasts))
        }
        Fault::Stall { conn, toward, lasts } => {
            format!("stall {conn} toward {toward}{}", length(*lasts))
        }
        Fault::Blackhole { conn, lasts } => format!("blackhole {conn}{}", length(*lasts)),
        Fault::Delay { place, toward, by, lasts } => {
            format!("delay {} by {}{}", at(place), span(*by), bounds(toward, *lasts))
        }
        Fault::DelayClose { conn, toward, by } => {
            format!("delay the close of {conn} toward {toward} by {}", span(*by))
        }
        Fault::Reset { conn, toward: Some(toward) } => format!("reset {conn} toward {toward}"),
        Fault::Reset { conn, toward: None } => format!("reset {conn}"),
        Fault::Slow { place, toward, by, lasts } => {
            format!("slow {}: {}{}", at(place), slowness(by), bounds(toward, *lasts))
        }
        Fault::Refuse { host, lasts } => format!("refuse connections to {host}{}", length(*lasts)),
        Fault::Hang { host, lasts } => {
            format!("do not answer connections to {host}{}", length(*lasts))
        }
        Fault::AcceptThenClose { host, lasts } => {
            format!("accept connections to {host}, then close them{}", length(*lasts))
        }
        Fault::Hold { end } => format!("hold the task {}", hold(end)),
        Fault::Crash { host, lasts, processes: Orphans::Die } => {
            format!("crash {host}{}", down(*lasts))
        }
        Fault::Crash { host, lasts, processes: Orphans::Live } => {
            format!("crash {host}{}, its processes survive", down(*lasts))
        }
        Fault::PowerLoss { host, unsynced: Unsynced::Kept, lasts } => {
            format!("power loss of {host}{}", down(*lasts))
        }
        Fault::PowerLoss { host, unsynced: Unsynced::Lost, lasts } => {
            format!("power loss of {host}{}, unsynced data can be lost", down(*lasts))
        }
        Fault::Restart { host } => format!("restart {host}"),
        Fault::KillChildren { host } => format!("kill the child processes of {host}"),
        Fault::StopChildren { host, lasts } => {
            format!("stop the child processes of {host}{}", length(*lasts))
        }
        Fault::SlowChildren { host, by, lasts } => {
            format!(
                "slow down the child processes of {host}: a pause of {} before each step{}",
                span(*by),
                length(*lasts)
            )
        }
        Fault::DelayOutput { host, by, lasts } => {
            format!(
                "delay the output of the child processes of {host} by {}{}",
                span(*by),
                length(*lasts)
            )
        }
        Fault::ClosePipe { host, pipe } => {
            format!("close the pipe {} of the child processes of {host}", pipe.name())
        }
        Fault::ClockJump { host, by_ms } => {
            let way = if *by_ms < 0 { "back" } else { "forward" };
            format!(
                "wall clock of {host} jumps {way} by {}",
                span(Duration::from_millis(by_ms.unsigned_abs()))
            )
        }
    }
}

fn learn(learns: &std::collections::BTreeMap<Host, Learns>) -> String {
    if learns.is_empty() {
        return "both ends learn of it at once".into();
    }
    let mut text = String::new();
    for (n, (host, learns)) in learns.iter().enumerate() {
        let verb = if n == 0 { format!("{host} learns") } else { format!(", {host}") };
        text += &match learns {
            Learns::After(after) if after.is_zero() => format!("{verb} at once"),
            Learns::After(after) => format!("{verb} after {}", span(*after)),
            Learns::Never => format!("{verb} never"),
        };
    }
    if learns.len() == 1 { text + ", the other end at once" } else { text }
}

fn amount(of: TrafficCount) -> String {
    match of {
        TrafficCount::Bytes(n) => count(n, "byte"),
        TrafficCount::Messages(n) => count(n, "message"),
    }
}

fn at(place: &LinkPlace) -> String {
    match place {
        LinkPlace::Conn(conn) => conn.to_string(),
        LinkPlace::Link(a, b) => format!("{a} and {b}"),
    }
}

fn length(lasts: Option<Duration>) -> String {
    lasts.map_or(", until the end of the run".into(), |lasts| format!(", {}", span(lasts)))
}

fn bounds(toward: &Option<Host>, lasts: Option<Duration>) -> String {
    let toward = toward.as_ref().map_or(String::new(), |host| format!(" toward {host}"));
    toward + &length(lasts)
}

fn down(lasts: Option<Duration>) -> String {
    lasts.map_or(", until the end of the run".into(), |lasts| {
        format!(", restarts after {}", span(lasts))
    })
}

fn hold(end: &HoldEnd) -> String {
    match end {
        HoldEnd::After(after) => format!("for {}", span(*after)),
        HoldEnd::Until { trigger: what, at_most } => {
            format!("until {}, at most {}", trigger(what), span(*at_most))
        }
    }
}

fn slowness(by: &SlowBy) -> String {
    let parts = [
        by.latency.map(|latency| format!("{} more latency", span(latency))),
        by.bandwidth.map(|n| format!("{n} B/s")),
        by.segment.map(|n| format!("segments of {n} B")),
        by.window.map(|n| format!("a window of {n} B")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Conn;

    #[test]
    fn durations_use_a_readable_unit() {
        let texts: Vec<_> = [0, 400, 1000, 1250, 119_000, 120_000, 125_000, 55_262_000]
            .map(Duration::from_millis)
            .map(span)
            .into();
        assert_eq!(
            texts,
            ["0 ms", "400 ms", "1 s", "1.250 s", "119 s", "2 min", "2 min 5 s", "15 h 21 min"]
        );
    }

    #[test]
    fn places_in_a_row() {
        assert_eq!(
            [1, 2, 3, 4, 11, 12, 13, 21, 102, 113].map(nth).join(" "),
            "1st 2nd 3rd 4th 11th 12th 13th 21st 102nd 113th"
        );
    }

    #[test]
    fn a_cut_names_when_each_end_learns_of_it() {
        let mut learns = std::collections::BTreeMap::new();
        let cut = |learns: &std::collections::BTreeMap<_, _>| {
            fault(&Fault::Cut { conn: Conn::number("client", 1), learns: learns.clone() })
        };
        assert_eq!(cut(&learns), "cut client#1: both ends learn of it at once");
        learns.insert("client".into(), Learns::After(Duration::ZERO));
        assert_eq!(cut(&learns), "cut client#1: client learns at once, the other end at once");
        learns.insert("server".into(), Learns::After(Duration::from_millis(400)));
        assert_eq!(cut(&learns), "cut client#1: client learns at once, server after 400 ms");
        learns.insert("server".into(), Learns::Never);
        assert_eq!(cut(&learns), "cut client#1: client learns at once, server never");
    }

    #[test]
    fn a_trigger_shows_all_its_conditions() {
        let trigger_ = Trigger::milestone("a.connected")
            .nth(2)
            .on("client")
            .field("generation", 2)
            .delay(Duration::from_millis(200));
        assert_eq!(trigger(&trigger_), "2nd a.connected on client (generation 2), 200 ms later");
        assert_eq!(trigger(&Trigger::point("a.unlocked")), "point a.unlocked");
    }

    #[test]
    fn faults_read_as_sentences() {
        let second = Some(Duration::from_secs(1));
        let link = LinkPlace::Link("client".into(), "server".into());
        let by = SlowBy { bandwidth: Some(1000), window: Some(512), ..SlowBy::default() };
        let texts = [
            Fault::Partition {
                hosts: ("client".into(), "server".into()),
                toward: Some("server".into()),
                lasts: second,
            },
            Fault::Slow { place: link, toward: None, by, lasts: None },
            Fault::ClockJump { host: "server".into(), by_ms: -3000 },
            Fault::PowerLoss { host: "server".into(), unsynced: Unsynced::Kept, lasts: second },
            Fault::Crash { host: "server".into(), lasts: second, processes: Orphans::Live },
        ]
        .map(|it| fault(&it));
        assert_eq!(
            texts,
            [
                "partition client and server toward server, 1 s",
                "slow client and server: 1000 B/s, a window of 512 B, until the end of the run",
                "wall clock of server jumps back by 3 s",
                "power loss of server, restarts after 1 s",
                "crash server, restarts after 1 s, its processes survive",
            ]
        );
    }
}
