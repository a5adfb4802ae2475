//! Snapshots: the results that the users of a scenario saw, as text, in a file beside the scenario.
//!
//! Properties judge every run, but only against the rules that someone wrote down. A snapshot also
//! notices a change that no rule covers: the first run of a scenario must show its users the same
//! results as when the snapshot was taken. A changed snapshot is not always a bug. The difference
//! shows a reviewer what a change of the product does to its users.
//!
//! The snapshot of a swarm lists all its runs.
//!
//! The snapshot of `scenarios/exec/cut.toml` is `scenarios/exec/snapshots/cut.txt`. A file without a
//! snapshot is not compared. Times are in whole seconds and contents are digests, so that a snapshot
//! stays short and survives small changes of timing.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::digest::Digest;
use crate::history::{Call, Ending, Event, EventKind, History, Time};
use crate::property::violation::{fields, kinds};
use crate::property::{About, Violation};

kinds! {
    CHANGED = "changed": "line {line} of the snapshot is `{before}`, but the run shows `{now}`; if that is intended, record it with `run --update-snapshots`";
}

/// The name that reports a changed snapshot, in place of a property's name.
pub const SNAPSHOT: &str = "snapshot";

/// The longest text of an answer or an ending that a snapshot contains, in characters. A longer text
/// is cut, and its digest follows.
const LONGEST: usize = 120;

/// The lines of a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot(Vec<String>);

impl Snapshot {
    /// Takes the snapshot of a run.
    pub fn of(history: &History) -> Self {
        let mut seen = Seen::default();
        history.events.iter().for_each(|event| seen.pass(event));
        let mut lines = seen.calls(history.end);
        lines.extend(seen.streams.iter().map(|((host, stream), got)| got.line(host, stream)));
        lines.extend(seen.truth.iter().map(|(name, what)| format!("{name}: {}", joined(what))));
        let mut conns: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
        for conn in &history.conns {
            let link = (conn.client.as_str(), conn.server.as_str());
            conns.entry(link).or_default().push(second(conn.opened));
        }
        lines.extend(conns.iter().map(|((client, server), opened)| {
            format!("{client} connects to {server}: {}", joined(opened))
        }));
        lines.extend(seen.counts.iter().map(|(host, counts)| {
            let counts: Vec<_> =
                counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
            format!("{host} counts: {}", joined(&counts))
        }));
        Self(lines)
    }

    /// Joins the snapshots of several runs, each under its seed.
    pub fn of_runs(runs: impl IntoIterator<Item = (u64, Snapshot)>) -> Self {
        let runs = runs.into_iter();
        Self(
            runs.flat_map(|(seed, Self(lines))| {
                std::iter::once(format!("seed {seed}")).chain(lines)
            })
            .collect(),
        )
    }

    /// Returns the path of a scenario's snapshot.
    pub fn path(scenario: &Path) -> PathBuf {
        let folder = scenario.parent().unwrap_or(Path::new("")).join("snapshots");
        folder.join(scenario.file_stem().unwrap_or_default()).with_extension("txt")
    }

    /// Reads the snapshot of a scenario; `None` if there is none.
    ///
    /// # Errors
    /// If the file exists but cannot be read. The error is one line.
    pub fn load(scenario: &Path) -> Result<Option<Self>, String> {
        let path = Self::path(scenario);
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok(Some(Self(text.lines().map(str::to_owned).collect()))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(format!("{}: this snapshot cannot be read: {error}", path.display())),
        }
    }

    /// Returns the text of the file.
    pub fn to_text(&self) -> String {
        self.0.iter().flat_map(|line| [line, "\n"]).collect()
    }

    /// Returns the first difference to a newer snapshot of the same scenario.
    pub fn changed(&self, now: &Self) -> Option<Violation> {
        let (old, new) = (&self.0, &now.0);
        let line = (0..old.len().max(new.len())).find(|n| old.get(*n) != new.get(*n))?;
        let text = |lines: &[String]| lines.get(line).cloned().unwrap_or_default();
        let data = fields! { line: line as u64 + 1, before: text(old), now: text(new) };
        Some(Violation::new(SNAPSHOT, About::Run, Time::ZERO, &CHANGED, data))
    }
}

/// The results that users saw in a run, and the real events behind them.
#[derive(Default)]
struct Seen<'a> {
    asked: BTreeMap<Call, (&'a Event, &'a str)>,
    results: BTreeMap<Call, String>,
    /// The first stream that each call opened.
    opened: BTreeMap<Call, String>,
    streams: BTreeMap<(&'a str, &'a str), Received>,
    /// The ends of producers, and the effects on each target.
    truth: BTreeMap<&'a str, Vec<String>>,
    /// The counts of each host before the first connection.
    baseline: BTreeMap<&'a str, &'a BTreeMap<String, u64>>,
    /// For each host: the highest value of each count, and the counts that are higher at the end of
    /// the run than before its first connection.
    counts: BTreeMap<&'a str, BTreeMap<String, u64>>,
}

/// The items, observations and endings that a user received of a stream.
#[derive(Default)]
struct Received {
    items: u64,
    bytes: u64,
    content: Digest,
    /// The number of observations, without immediate repetitions.
    observations: u64,
    observed: Digest,
    last: String,
    endings: Vec<String>,
}

impl<'a> Seen<'a> {
    fn pass(&mut self, event: &'a Event) {
        let host = event.host.as_ref().map_or("", |host| host.as_str());
        match &event.what {
            EventKind::Asked { call, operation, .. } => {
                self.asked.insert(*call, (event, &operation.verb));
            }
            EventKind::Answered { call, answer } => {
                self.result(*call, format!("{} {}", short(answer), at(event)));
            }
            EventKind::Failed { call, reason } => {
                self.result(*call, format!("failed: {} {}", short(reason), at(event)));
            }
            EventKind::Delivered { stream, bytes, .. } => {
                let got = self.streams.entry((host, &stream.0)).or_default();
                got.items += 1;
                got.bytes += bytes.len() as u64;
                got.content.bytes(&bytes.whole());
            }
            EventKind::Observed { stream, saw } => {
                let got = self.streams.entry((host, &stream.0)).or_default();
                let saw = saw.to_string();
                if got.last != saw {
                    got.observations += 1;
                    got.observed.bytes(saw.as_bytes());
                    got.last = saw;
                }
            }
            EventKind::StreamEnded { stream, ending } => {
                let how = match ending {
                    Ending::Completed { outcome } => format!("completed: {}", short(outcome)),
                    Ending::Failed { reason } => format!("failed: {}", short(reason)),
                };
                let got = self.streams.entry((host, &stream.0)).or_default();
                got.endings.push(format!("{how} {}", at(event)));
            }
            EventKind::Ended { stream, outcome } => {
                let ended = format!("ended: {} {}", short(outcome), at(event));
                self.truth.entry(&stream.0).or_default().push(ended);
            }
            EventKind::Effect { target, .. } => {
                self.truth.entry(target).or_default().push(format!("effect {}", at(event)));
            }
            EventKind::Gauge { name, value } => {
                let peak = self.counts.entry(host).or_default();
                let peak = peak.entry(format!("peak {name}")).or_default();
                *peak = (*peak).max(*value);
            }
            EventKind::ResourceCounts { baseline: true, counts } => {
                self.baseline.insert(host, counts);
            }
            EventKind::ResourceCounts { baseline: false, counts } => {
                let before = |name| self.baseline.get(host).and_then(|counts| counts.get(name));
                for (name, count) in counts {
                    if before(name).copied().unwrap_or_default() < *count {
                        let name = format!("final {name}");
                        self.counts.entry(host).or_default().insert(name, *count);
                    }
                }
            }
            EventKind::Opened { stream, call } => {
                let opened = format!("opened {stream} {}", at(event));
                self.opened.entry(*call).or_insert(opened);
            }
            _ => {}
        }
    }

    /// Records the result of a call. Only the first one counts.
    fn result(&mut self, call: Call, result: String) {
        self.results.entry(call).or_insert(result);
    }

    fn calls(&self, end: Time) -> Vec<String> {
        let line = |(call, (event, verb)): (&Call, &(&Event, &str))| {
            let host = event.host.as_ref().map_or("", |host| host.as_str());
            let open = format!("no result by {}", second(end));
            let result = self.results.get(call).or(self.opened.get(call)).unwrap_or(&open);
            format!("{host} {call} {verb}: {result}")
        };
        self.asked.iter().map(line).collect()
    }
}

impl Received {
    fn line(&self, host: &str, stream: &str) -> String {
        let mut parts = Vec::new();
        if self.items > 0 {
            let Self { items, bytes, content, .. } = self;
            parts.push(format!("items {items}, bytes {bytes} ({content})"));
        }
        if self.observations > 0 {
            parts.push(format!("observations {} ({})", self.observations, self.observed));
        }
        parts.extend(self.endings.iter().cloned());
        format!("{host} receives {stream}: {}", joined(&parts))
    }
}

/// Joins the parts of a line. Equal parts are counted: `0 s, 3 s × 2`.
fn joined(parts: &[String]) -> String {
    let runs = parts.chunk_by(|a, b| a == b).map(|run| match run {
        [one] => one.clone(),
        more => format!("{} × {}", more[0], more.len()),
    });
    runs.collect::<Vec<_>>().join(", ")
}

fn at(event: &Event) -> String {
    format!("at {}", second(event.at))
}

fn second(at: Time) -> String {
    format!("{} s", at.0 / 1000)
}

fn short(text: &impl fmt::Display) -> String {
    // The alternate form of an answer contains what its usual form leaves out.
    let text = format!("{text:#}").replace('\n', " ");
    match text.char_indices().nth(LONGEST) {
        None => text,
        Some((end, _)) => {
            let mut digest = Digest::default();
            digest.bytes(text.as_bytes());
            format!("{}… ({digest})", &text[..end])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Answer, ProcessOutcome};
    use crate::property::scripted::history;

    fn answered(answer: u64) -> Snapshot {
        let run = history().asked(1, 1_000).answered(1, 2_400, Answer::from(answer));
        run.with(|cx| Snapshot::of(cx.history))
    }

    #[test]
    fn a_snapshot_shows_results_deliveries_and_real_ends() {
        let run = history().asked(1, 1_000).asked(2, 1_000).effect(1, 1_500, "c1");
        let run = run.answered(1, 2_400, Answer::from(7)).delivered("s1", 3_100, "ab");
        let run = run.ended("s1", 4_000, ProcessOutcome::Exit(3));
        let text = run.with(|cx| Snapshot::of(cx.history)).to_text();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "client call 1 add: 7 at 2 s");
        assert!(lines[1].starts_with("client call 2 add: no result by "), "{text}");
        assert!(lines[2].starts_with("client receives s1: items 1, bytes 2 ("), "{text}");
        assert_eq!(lines[3..5], ["c1: effect at 1 s", "s1: ended: exit 3 at 4 s"]);
    }

    #[test]
    fn a_changed_answer_is_a_changed_snapshot() {
        assert_eq!(answered(7).changed(&answered(7)), None);
        let changed = answered(7).changed(&answered(8)).expect("a change");
        assert_eq!((changed.property, changed.kind.name), ("snapshot", "changed"));
    }

    #[test]
    fn a_longer_snapshot_is_a_change() {
        let (longer, shorter) = (answered(7), Snapshot::default());
        assert!(shorter.changed(&longer).is_some() && longer.changed(&shorter).is_some());
    }

    #[test]
    fn equal_parts_are_counted_and_long_texts_are_cut() {
        assert_eq!(joined(&["0 s", "3 s", "3 s"].map(str::to_owned)), "0 s, 3 s × 2");
        let (long, other) = ("x".repeat(LONGEST) + "y", "x".repeat(LONGEST) + "z");
        assert_ne!(short(&long), short(&other));
        assert_eq!(short(&"x\ny"), "x y");
    }
}
