//! `watches_are_true`: what a watch for a file says is so, and it says it soon.
//!
//! A file exists only after a user has written it. A write without an answer may take effect at any
//! later time. The server looks at a watched file twice a second. A watch is late only if no fault is in
//! force, if its client has a connection that is open at both ends, if it had not to wait for other requests
//! of its client, and if the file is not removed meanwhile. A link may be another file, so a run with links is
//! not judged.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::prompt::is_open;
use super::served::UserOperation;
use crate::history::{Answer, Call, Event, EventKind, Time};
use crate::property::path::{NEVER, through};
use crate::property::violation::{fields, kinds};
use crate::property::{CheckContext, Violation, ViolationFields};
use crate::subjects::exec::files::{self, FileSetup, path, target};
use crate::subjects::exec::limits::{client_limits, server_limits};
use crate::subjects::exec::network_fault::{AROUND, NetworkFault};
use crate::subjects::judging::{host, judged, peers_may_lie};

kinds! {
    pub(super) WATCHES_ARE_TRUE;
    NOT_WRITTEN = "not-written": "{subject:}it said that the file had appeared since {since}, but no user can have written it then {moment}";
    NOT_THERE = "not-there": "{subject:}it said that the file exists, but no user had begun to write it {moment}";
    UNSEEN = "unseen": "{subject:}it still waited at {at}, although its file was written at {written}";
}

/// How many watches a connection may have. Further ones are refused as if their files existed.
const MOST: usize = 64;

/// How many requests for files of a connection run at once. Further ones wait.
pub(super) const AT_ONCE: usize = 8;

/// The longest time between a change and the next look of the server, and a moment for the tasks.
const LOOK: Duration = Duration::from_millis(1_500);

/// A write of a file: from the request to the time by which it has taken effect.
struct WrittenFile<'a> {
    file: &'a str,
    from: Time,
    until: Time,
}

/// The files, and the watches without an answer.
#[derive(Default)]
struct Watched<'a> {
    network_fault: NetworkFault,
    /// The clients with a connection.
    connected: BTreeSet<&'a str>,
    writes: BTreeMap<Call, WrittenFile<'a>>,
    /// How many watches users asked for.
    watches: usize,
    open: BTreeMap<Call, UserOperation<'a>>,
    /// The requests for files without an answer.
    file_calls: BTreeSet<Call>,
    /// All operations without an outcome.
    calls: BTreeMap<Call, UserOperation<'a>>,
    /// How many requests of a client wait for nothing.
    most: u64,
    /// The watches whose file was written: when.
    due: BTreeMap<Call, Time>,
    /// The bytes that users wrote, and the number of answers that may contain all of them, or all output.
    written: u64,
    reads: u64,
}

/// Returns how many requests of a client have no outcome.
fn requests(calls: &BTreeMap<Call, UserOperation<'_>>, client: &str) -> u64 {
    calls.values().filter(|asked| asked.host == client).map(UserOperation::requests).sum()
}

/// Returns the file of an operation.
fn file<'a>(asked: &UserOperation<'a>) -> Option<&'a str> {
    asked.operation.fields.get("file")?.as_str()
}

impl<'a> Watched<'a> {
    /// Processes an event. Returns the watch that it answers.
    fn pass(
        &mut self,
        cx: &CheckContext<'_>,
        event: &'a Event,
    ) -> Option<(Call, UserOperation<'a>)> {
        self.network_fault.pass(event);
        match &event.what {
            EventKind::Asked { .. } => {
                let (call, asked) = UserOperation::of(event)?;
                self.written += asked.bytes() as u64 + asked.requests() * AROUND as u64;
                self.reads += asked.reads() as u64 + u64::from(asked.verb().starts_with("read-"));
                if file(&asked).is_some() || asked.verb() == "use-files" {
                    self.file_calls.insert(call);
                }
                self.calls.insert(call, asked);
                match (asked.verb(), file(&asked)) {
                    ("write-file", Some(file)) => {
                        let write = WrittenFile { file, from: event.at, until: NEVER };
                        self.writes.insert(call, write);
                    }
                    ("watch-file", Some(_)) => {
                        self.watches += 1;
                        self.open.insert(call, asked);
                    }
                    _ => {}
                }
            }
            EventKind::Answered { call, answer } => {
                // One that was refused or given up may take effect later.
                if let Some(write) = self.writes.get_mut(call).filter(|_| answer.acknowledges()) {
                    write.until = event.at;
                }
                self.calls.remove(call);
                self.file_calls.remove(call);
                // It was answered in time, and nothing has excused it until then.
                if self.due.remove(call).is_some() && !matches!(answer, Answer::GivenUp) {
                    cx.judges("watches_are_true");
                }
                return Some((*call, self.open.remove(call)?));
            }
            EventKind::Opened { call, .. } => drop(self.calls.remove(call)),
            EventKind::Failed { call, .. } => {
                self.calls.remove(call);
                self.file_calls.remove(call);
                self.open.remove(call);
                self.due.remove(call);
            }
            EventKind::Effect { call, target: changed } => {
                self.changed(cx, *call, changed, event.at);
            }
            EventKind::FaultBegan { .. } => self.due.clear(),
            EventKind::Died { .. } => {
                self.due.clear();
                self.connected.remove(host(event));
                self.open.retain(|_, watch| watch.host != host(event));
                self.calls.retain(|_, asked| asked.host != host(event));
                // Its clients may not know it yet.
                if cx.servers.contains(&host(event)) {
                    self.connected.clear();
                }
            }
            EventKind::Milestone { name: "exec.client.connected", .. } => {
                self.connected.insert(host(event));
                self.reads += 1; // the client may read all output once more
            }
            EventKind::Milestone { name: "exec.client.lost", .. } => {
                self.connected.remove(host(event));
                self.due.retain(|call, _| {
                    self.open.get(call).is_some_and(|watch| watch.host != host(event))
                });
            }
            _ => {}
        }
        None
    }

    /// Processes a change of a file: a call wrote it, or it was removed.
    fn changed(&mut self, cx: &CheckContext<'_>, by: Call, changed: &str, at: Time) {
        let is_its = |watch: &UserOperation<'_>| {
            file(watch).is_some_and(|file| target(&path(file)) == changed)
        };
        let is_calm = self.network_fault.in_force == 0
            && self.network_fault.settled.is_none_or(|settled| settled < at)
            && self.file_calls.len() < AT_ONCE;
        let its = self.open.iter().filter(|(_, watch)| is_its(watch));
        for (call, watch) in its {
            if by == Call::NONE {
                self.due.remove(call);
            } else if is_calm
                && self.connected.contains(watch.host)
                && is_open(cx, watch.host, at)
                && requests(&self.calls, watch.host) <= self.most
            {
                self.due.entry(*call).or_insert(at);
            }
        }
    }

    /// Whether a user may have written a file between two times.
    fn may_be_written(&self, file: &str, from: Time, to: Time) -> bool {
        let mut its = self.writes.values().filter(|write| write.file == file);
        its.any(|write| write.from <= to && write.until >= from)
    }

    /// Returns how long links need at most for all data so far.
    fn transfer(&self, latency: Duration) -> Duration {
        let bytes = self.network_fault.printed as u64 + self.written;
        through(bytes.saturating_mul(self.reads + 1), latency)
    }
}

/// See the module.
pub(super) fn watches_are_true(cx: &CheckContext<'_>) -> Vec<Violation> {
    // Tasks may write files that no operation names.
    let uses_files = |event: &Event| match &event.what {
        EventKind::Asked { operation, .. } => {
            operation.verb == "use-files" && operation.fields.get("apart").is_none()
        }
        _ => false,
    };
    let is_link = |name: &str| {
        let setup: Option<FileSetup> = cx.plan.entry(files::TABLE, name);
        setup.is_some_and(|setup| setup.links_to.is_some())
    };
    let has_links = cx.plan.entries(files::TABLE).any(|(name, _)| is_link(name));
    if peers_may_lie(cx) || has_links || judged(cx).any(uses_files) {
        return Vec::new();
    }
    let latency = cx.plan.latency.1;
    let limits = cx.limits;
    let most = server_limits(limits).waiting_requests.min(client_limits(limits).calls) as u64;
    let mut watched = Watched { most, ..Watched::default() };
    let mut found = Vec::new();
    let until = Time::from(cx.plan.horizon).min(cx.history.end);
    let late = |watched: &Watched<'_>, now: Time| {
        let wait = LOOK + latency * 4 + watched.transfer(latency);
        let late = watched.due.iter().find(|(_, written)| **written + wait < now);
        late.map(|(call, written)| {
            cx.judges("watches_are_true");
            let at = *written + wait;
            Violation::new("watches_are_true", *call, at, &UNSEEN, fields! { at, written })
        })
    };
    for event in judged(cx) {
        found.extend(late(&watched, event.at));
        if !found.is_empty() {
            return found;
        }
        let Some((call, watch)) = watched.pass(cx, event) else { continue };
        let EventKind::Answered { answer, .. } = &event.what else { continue };
        let Some(file) = file(&watch) else { continue };
        let said = |text: &str| answer.acknowledges() && answer.to_string() == text;
        let (from, kind, data) = match () {
            () if said(files::APPEARED) => (watch.at, &NOT_WRITTEN, fields! { since: watch.at }),
            () if said(files::IS_THERE) && watched.watches <= MOST => {
                (Time::ZERO, &NOT_THERE, ViolationFields::default())
            }
            () => continue,
        };
        cx.judges("watches_are_true");
        if !watched.may_be_written(file, from, event.at) {
            found.push(Violation::new("watches_are_true", call, event.at, kind, data));
        }
    }
    found.extend(late(&watched, until));
    found.truncate(5);
    found
}

#[cfg(test)]
mod tests {
    use super::super::tests::{milestone, violations};
    use super::*;
    use crate::history::Class;
    use crate::property::scripted::{ScriptedRun, history};
    use crate::schedule::LimitValue;

    const F1: &str = r#"{"file":"f1"}"#;

    /// A connected client watches `f1` from 2 s on, and `write` is call 2.
    fn watch(write: impl FnOnce(ScriptedRun) -> ScriptedRun) -> ScriptedRun {
        let connected = milestone(history(), 500, "exec.client.connected", &[]);
        write(connected.asked_as(1, 2_000, Class::Bound, "watch-file", F1))
    }

    fn writes(run: ScriptedRun, ms: u64) -> ScriptedRun {
        run.asked_as(2, ms, Class::InFlight, "write-file", F1)
    }

    fn found(run: &ScriptedRun) -> Vec<String> {
        violations(run, watches_are_true)
    }

    fn appeared(run: ScriptedRun, ms: u64) -> ScriptedRun {
        run.answered(1, ms, files::APPEARED)
    }

    #[test]
    fn a_file_appears_only_if_a_user_writes_it() {
        let wrong = [
            "call 1: it said that the file had appeared since 2.000 s, but no user can have written it then (at 5.000 s)",
        ];
        assert_eq!(found(&appeared(watch(|run| run), 5_000)), wrong);
        assert_eq!(found(&appeared(watch(|run| writes(run, 5_000)), 5_000)), [""; 0]);
        assert_eq!(found(&appeared(watch(|run| writes(run, 5_001)), 5_000)), wrong);
        let before = |answered| {
            let run = watch(|run| writes(run, 1_000).answered(2, answered, "written"));
            found(&appeared(run, 5_000)).len()
        };
        assert_eq!([before(1_999), before(2_000)], [1, 0]);
        let lost = watch(|run| writes(run, 1_000).failed(2, 1_500, "lost"));
        assert_eq!(found(&appeared(lost, 5_000)), [""; 0], "it may take effect later");
        let other =
            watch(|run| run.asked_as(2, 3_000, Class::InFlight, "write-file", r#"{"file":"f2"}"#));
        assert_eq!(found(&appeared(other, 5_000)), wrong);
        let tasks = watch(|run| run.asked_as(2, 3_000, Class::InFlight, "use-files", "{}"));
        assert_eq!(found(&appeared(tasks, 5_000)), [""; 0]);
    }

    #[test]
    fn a_file_is_there_only_after_its_first_write() {
        let there = |run: ScriptedRun| found(&run.answered(1, 2_040, files::IS_THERE));
        assert_eq!(
            there(watch(|run| run)),
            [
                "call 1: it said that the file exists, but no user had begun to write it (at 2.040 s)"
            ]
        );
        assert_eq!(there(watch(|run| writes(run, 1_000))), [""; 0]);
    }

    #[test]
    fn a_watch_sees_its_file_soon() {
        // A look, and four times 20 ms.
        let written = |run: ScriptedRun| writes(run, 3_000).effect(2, 3_100, "file /f1");
        let seen = |ms| found(&appeared(watch(written), ms));
        assert_eq!(seen(4_680), [""; 0]);
        assert_eq!(
            seen(4_681),
            ["call 1: it still waited at 4.680 s, although its file was written at 3.100 s"]
        );
        let never = watch(written).end(9_000);
        assert_eq!(found(&never).len(), 1);
        assert_eq!(
            found(&watch(|run| written(run).effect(0, 3_500, "file /f1")).end(9_000)).len(),
            0
        );
        let partition = watch(|run| written(run).partition(3_500, Some(4_000)));
        assert_eq!(found(&partition.end(9_000)).len(), 0);
        let lost = milestone(watch(written), 3_500, "exec.client.lost", &[]);
        assert_eq!(found(&lost.end(9_000)).len(), 0);
        let other = watch(|run| writes(run, 3_000).effect(2, 3_100, "file /f2"));
        assert_eq!(found(&other.end(9_000)).len(), 0);
        let half_open = |ms| watch(written).conn_closed(1, 50, ms, None).end(9_000);
        let found_of = [3_000, 3_101].map(|ms| found(&half_open(ms)).len());
        assert_eq!(found_of, [0, 1], "its client does not know that the server has closed it");
        let died = watch(|run| written(run.died("server", 2_500)));
        assert_eq!(found(&died.end(9_000)).len(), 0);
        let mut full = watch(written);
        full.plan.limits.set("client.calls", LimitValue::Count(1));
        assert_eq!(found(&full.end(9_000)).len(), 0, "the watch may wait for the write");
    }
}
