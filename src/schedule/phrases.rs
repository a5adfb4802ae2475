//! Phrases for the parts of a schedule: durations, numbers, triggers, and parts of faults.

use std::collections::BTreeMap;
use std::time::Duration;

use super::fault::values::Learns;
use super::names::Host;
use super::trigger::Trigger;

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

/// Returns when each end of a connection learns of a cut.
pub fn learns(learns: &BTreeMap<Host, Learns>) -> String {
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

/// Returns the duration of a fault, after a comma.
pub fn length(lasts: Option<Duration>) -> String {
    lasts.map_or(", until the end of the run".into(), |lasts| format!(", {}", span(lasts)))
}

/// Returns the direction and the duration of a fault.
pub fn bounds(toward: &Option<Host>, lasts: Option<Duration>) -> String {
    let toward = toward.as_ref().map_or(String::new(), |host| format!(" toward {host}"));
    toward + &length(lasts)
}

/// Returns the downtime of a host, after a comma.
pub fn downtime(lasts: Option<Duration>) -> String {
    lasts.map_or(", until the end of the run".into(), |lasts| {
        format!(", restarts after {}", span(lasts))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_trigger_shows_all_its_conditions() {
        let trigger_ = Trigger::milestone("a.connected")
            .nth(2)
            .on("client")
            .field("generation", 2)
            .delay(Duration::from_millis(200));
        assert_eq!(trigger(&trigger_), "2nd a.connected on client (generation 2), 200 ms later");
        assert_eq!(trigger(&Trigger::point("a.unlocked")), "point a.unlocked");
    }
}
