//! The properties of a subject report false milestones of the product.
//!
//! The test judges a recorded run that holds once more with a lie in it: a false milestone. The table
//! of a subject lists exactly the lies that no property reports in any run. Each row has a reason. After `A limit:`, the reason names what such a lie can hide, and another
//! property that still sees a part of that. The runs are the
//! scenario files directly in the folder of the subject, each with its first seed.
//!
//! Only milestones that a property reads count: those whose name is in the source of the subject. If the
//! product never notes a milestone, the test `reached` of the subject's suite fails, too.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use reknit::history::{ConnIndex, Event, EventKind, History, Time};
use reknit::hunt::judge::{JudgedRun, judge};
use reknit::property::{self, CheckContext, Guarantees, Judgements};
use reknit::scenario::{Expect, ScenarioFile};
use reknit::schedule::{MilestoneDoc, MilestoneValue, Plan};
use reknit::subject::DynSubject;
use reknit::subjects::{Exec, Sse, Toolcall, Turn};
use reknit::world::Options;

use super::lie::Lie;

/// A milestone, the lies about it that no property reports, and the reason for that.
type Unreported = (&'static str, &'static str, &'static str);

/// The reason for the mistakes of a server that a follower notes.
#[rustfmt::skip]
const MISTAKE: &str = "A limit: `server_keeps_the_protocol` knows this mistake of a server only from the note. With a puppet, as in these runs, it judges nothing. `positions_follow` still judges what the user gets.";

/// The reason for the streams of a server, and their takeovers.
#[rustfmt::skip]
const TAKEOVER: &str = "A limit: `takeover_is_due` and `stale_close_is_inert` know the streams and their takeovers only from the notes, so a lie hides a takeover that is too early. In `justified_failure`, a false note excuses a failure only while the network record shows its connection. The output of each user is still judged. No property reads the generation.";

/// The reason for streams that the server closes with a note.
#[rustfmt::skip]
const CLOSED: &str = "A limit: a false note excuses in `stale_close_is_inert` that the server closed this connection. Without a fault, `streams_stay` still sees the lost stream of a follower that reads alone. Without the note the property is stricter.";

/// The reason for a generation without a reader.
#[rustfmt::skip]
const UNREAD_GENERATION: &str = "No property reads the generation of this note.";

/// The reason for the repairs of missing events.
#[rustfmt::skip]
const HELD_BACK: &str = "A limit: a false note excuses in `gaps_are_requested` events that the client holds back without a request. With a real server, `bounded_delivery` still sees that they do not come. Without the note the property is stricter. No property reads its process or its number.";

/// The reason for the generation of a connection that a request can outlive.
#[rustfmt::skip]
const OUTLIVES: &str = "A limit: with a wrong generation, `requests_end_in_time` does not see a request that outlives its connection. The request must still end at its deadline. No other property reads the generation.";

/// The reason for the ways in which a client returns.
#[rustfmt::skip]
const RETURNED: &str = "A limit: without the note, `forgotten_in_time` does not see that the host knew the client for too long. `counts_are_true` still bounds the number of clients. A second note changes nothing, and no property reads the generation.";

/// The reason for the ends of a restore.
#[rustfmt::skip]
const RESTORED: &str = "A limit: a false note hides in `requests_settle` a restore that goes on. `requests_end_in_time` still sees a user's request for the channel that does not end. Only a restore that is slower than its deadline is judged.";

/// The reason for the waits of a host.
#[rustfmt::skip]
const WAITS: &str = "A limit: `waits_have_causes` knows the begin and the end of a wait only from the notes. `gone_is_failed` still judges the calls of an absent client, and `no_residue` the waits at the end of the run.";

/// The reason for the ends of connections that a host closes.
#[rustfmt::skip]
const CLOSES: &str = "A limit: until the end in the network record, a false note hides that the connection lives. `counts_are_true` still compares the number of connections with that record. Without the note, the end in the record counts.";

#[rustfmt::skip]
const EXEC: &[Unreported] = &[
    ("exec.client.recovering", "silent, wrong generation", "A limit: without the note, `client_recovers` does not see that a client gives up too soon, and `attempts_are_answered` leaves out the first attempt. `justified_failure` still judges the calls and streams that fail. No property reads the generation."),
    ("exec.client.attempt-failed", "silent, wrong generation, wrong conn", "A limit: without the note of its connection, `attempts_are_answered` does not see an attempt that was given up without a cause, nor `catch_ups_progress` a lost catch-up. `attempts_pause` then judges only attempts without data. `client_recovers` and `bounded_work` judge the rest. No property reads the generation."),
    ("exec.client.initialized", "invented, wrong generation", "A limit: a false note hides in `attached_are_answered` that the client got no answer, and begins a catch-up anew in `catches_up_at_once`. `client_recovers` still sees a client without a connection. No property reads the generation."),
    ("exec.client.page", "silent, invented, wrong last", "A limit: a false note excuses a round trip in `catches_up_at_once`, a lost catch-up in `catch_ups_progress` and a full log in `logs_are_bounded`. `bounded_delivery` still sees late output. Without the note the three properties are stricter."),
    ("exec.client.caught-up", "silent, wrong generation, wrong conn", "A limit: without the note of its connection, `catches_up_at_once` does not judge a catch-up. `bounded_delivery` still sees late output. `catch_ups_progress` is stricter without it. No property reads the generation."),
    ("exec.client.writes", "silent, invented, wrong process", "A limit: without the note, `write_ids_are_own` does not see that two clients use one id. `input_arrives` still sees the input that the server takes for a repetition. A second note changes nothing, and no property reads the process."),
    ("exec.client.sent", "silent", "A limit: `no_call_before_install` and `renounced_is_over` judge only calls with the note. The outcome of each call is still judged."),
    ("exec.client.lost", "wrong generation", UNREAD_GENERATION),
    ("exec.client.received", "silent, invented, wrong conn", "A limit: without the note of its connection, `answers_count` does not know that the client has read an answer, and `gaps_are_requested` judges less after a request. No other property sees that a call with an answer was cut off. `kept_while_healthy` only counts its cases by the note."),
    ("exec.client.cut-off", "silent, invented", "A limit: without the note, `answers_count` does not judge a call that was cut off. No other property sees that it had its answer. A second note only adds a case."),
    ("exec.client.ended", "silent, invented, wrong process", "A limit: a false note excuses one missing pause between two refusals of a terminate in `repetitions_pause`. Only a puppet refuses a terminate for now. Without the note the property is stricter."),
    ("exec.client.end-refused", "silent, invented, wrong process", "A limit: `repetitions_pause` knows the refusals of a terminate only from this note. Only a puppet refuses a terminate for now."),
    ("exec.client.failed-deadline", "wrong generation", UNREAD_GENERATION),
    ("exec.client.failed-permanent", "silent, wrong generation", "A limit: without the note, `one_reason` and `generations_are_true` do not judge a failed client. If the run is long enough, `client_recovers` still sees that it has no connection. No property reads the generation."),
    ("exec.client.live-gap", "invented, wrong process", "A limit: a false note excuses in `gaps_are_requested` events that the client holds back without a request, and in `repetitions_pause` one missing pause. With a real server, `bounded_delivery` still sees that the events do not come."),
    ("exec.client.process-failed", "silent", "A limit: without the note, `refusals_pass` and `processes_fail_truly` do not judge why a process failed. `justified_failure` still judges the failure that its user sees."),
    ("exec.client.read-refused", "silent", "A limit: `repetitions_pause` knows the refusals of a read only from this note. Only a puppet refuses a read for now. `refusals_pass` is stricter without the note."),
    ("exec.client.reorder-overflow", "silent, invented, wrong seq", HELD_BACK),
    ("exec.client.log-full", "silent, invented, wrong process", HELD_BACK),
    ("exec.client.renounced", "silent, wrong generation", "A limit: `renounced_is_over` judges only connections with the note. The outcome of each call is still judged. No property reads the generation."),
    ("exec.client.body-early", "silent, invented", "A limit: `response_before_body` knows the early piece only from this note. With a puppet, as in these runs, it judges nothing. `http_fails_truly` still sees a body that fails because of a missing piece."),
    ("exec.server.detached", "invented", "A limit: a false note excuses in `attached_are_answered` a connection without an answer. `client_recovers` still sees a client without a connection. In `no_stealing` and `ends_as_it_wants` the network record must show the end, too, and `sessions_are_shared` is stricter with the note."),
    ("exec.server.expired", "invented", "A limit: each false note allows a host one session more in `sessions_are_shared`. `counts_are_true` still compares the number of sessions with the connections."),
    ("exec.server.refused-still-attached", "silent, wrong conn", "A limit: without the note of its connection, `closed_are_kept` does not see that the server forgot a process soon after it had refused the client. It still judges how long the client was attached."),
    ("exec.server.silent", "silent, wrong conn", "A limit: `kept_while_healthy` judges the server only by this note. `justified_failure` still judges the calls and streams that fail. The connection in the note only counts a case."),
    ("exec.server.no-handshake", "silent, invented, wrong conn", "A limit: with a false note, `no_stealing` believes that a connection is detached before its end is over. `stale_generation_inert` still sees an old connection that changes what the user sees. Without the note the property is stricter."),
    ("exec.process.exited", "invented", "A second note changes nothing: it names the same event. In `in_sequence` the exit must also follow the real end of the process."),
    ("exec.process.forgotten", "silent, wrong process", "A limit: without the note, `closed_are_kept` does not judge a forgotten process. `counts_are_true` still sees that the server knows too few processes of an attached client. The process in the note only names the violation."),
    ("exec.server.refused-full", "silent, invented, wrong conn", "A limit: `sessions_are_shared` knows the refusal and its host only from the note. `justified_failure` still judges the calls and streams of a client that fails by it."),
];

#[rustfmt::skip]
const SSE: &[Unreported] = &[
    ("sse.client.attempt", "silent, wrong attempt", "A limit: without the note, `pauses_grow` does not see that a follower tries too often. `bounded_work` counts its connections, but allows more of them. `streams_stay` only counts its cases by the note, and no property reads the attempt."),
    ("sse.client.lost", "silent, wrong attempt", "A limit: without the note, `streams_stay` does not see a loss without a cause, nor `server_keeps_the_protocol` a stream that ends early. The output of the user is still judged. No property reads the attempt."),
    ("sse.client.duplicate", "silent, invented, wrong position", MISTAKE),
    ("sse.client.hole", "silent, invented, wrong attempt, wrong last", MISTAKE),
    ("sse.server.attached", "silent, invented, wrong generation, wrong conn", TAKEOVER),
    ("sse.server.late-close", "silent, invented, wrong generation, wrong conn", "A limit: `stale_close_is_inert` judges only what follows this note. Without a fault, `streams_stay` still sees the lost stream of a follower that reads alone. No property reads the generation."),
    ("sse.server.fenced", "silent, invented, wrong generation, wrong conn", TAKEOVER),
    ("sse.server.replaced", "silent, invented, wrong conn", CLOSED),
    ("sse.server.stuck", "silent, invented, wrong conn", CLOSED),
    ("sse.server.evicted", "silent, invented, wrong conn", CLOSED),
    ("sse.server.refused-unknown", "silent, invented, wrong conn, wrong command", "A limit: a false note dates a refusal back by at most one attempt. In `refusal_is_true` it excuses a command that was launched in that time. Without the note the property is stricter."),
    ("sse.server.refused-busy", "silent", "A limit: `commands_are_bounded` knows only from the note that the server refused a repeated start. If the follower fails with that refusal, the property still sees a server that had room."),
];

#[rustfmt::skip]
const TOOLCALL: &[Unreported] = &[
    ("toolcall.client.opened", "invented", "A limit: a late note of an older connection makes `pauses_are_right` and `replay_is_used` judge the wrong connection, or none. `bounded_work` still counts the attempts."),
    ("toolcall.client.initialized", "silent, invented, wrong generation", "A limit: without the note, `refusals_are_true` does not judge that the host refuses a returning client, nor `replay_is_used` that the client is ahead of the host, nor `client_comes_back` its place in the session. `counts_are_true` still sees that the host knows too few clients. No property reads the generation."),
    ("toolcall.client.replayed", "silent, invented, wrong generation", RETURNED),
    ("toolcall.client.reseated", "silent, invented, wrong generation", RETURNED),
    ("toolcall.client.connected", "wrong generation", OUTLIVES),
    ("toolcall.client.refused", "silent, wrong generation", "A limit: `refusals_are_true` knows only from the note that the host refused a returning client. `counts_are_true` still sees that the host knows too few clients. No property reads the generation."),
    ("toolcall.client.lost", "wrong generation", OUTLIVES),
    ("toolcall.client.closed", "invented, wrong generation", "A limit: a false note excuses in `healthy_is_kept` the next loss of the connection, and `counts_are_true` judges less of the client. `client_comes_back` still judges that it returns. No property reads the generation."),
    ("toolcall.client.gone", "silent, invented, wrong channel", "A limit: a false note excuses in `rejections_are_handled` all refusals in this channel. `replicas_converge` still compares what the user sees of the channel. Without the note the property is stricter."),
    ("toolcall.client.rejected", "invented, wrong channel", "A second note changes nothing, and one before the refusal does not count. No property reads the channel: the client and the number name the action."),
    ("toolcall.client.joins-again", "silent, invented", "A limit: a false note is a cause in `waits_have_causes` for a wait in the session, and allows one action more in `counts_are_true` for a moment. The wait must still end when the client is back. Without the note both are stricter."),
    ("toolcall.client.unwanted", "silent", "A limit: `news_are_wanted` knows the unwanted news only from this note. `counts_are_true` still bounds the subscriptions of the host."),
    ("toolcall.client.overtaken", "silent, invented, wrong channel", "A limit: `news_are_wanted` knows such an action only from this note. In these runs only the script of a host sends one, and then the property judges nothing. `replicas_converge` still compares the states."),
    ("toolcall.client.unanswered", "silent, invented", "A limit: a false note excuses in `returning_keeps` a release soon after the return of the client. `no_live_client_failed` still judges the calls of a client that watches. Without the note the property is stricter."),
    ("toolcall.client.runs", "silent", "The tool notes its begin itself. Without this note, `no_work_for_what_is_over` leaves out only a tool that is stopped before that."),
    ("toolcall.client.ran", "silent, invented, wrong call", "The note only allows one action more in `counts_are_true` for a moment. An action that is never forgotten is still found. No property reads the call."),
    ("toolcall.host.arriving", "invented", "A limit: a false handshake excuses in `gone_is_failed` and `counts_are_true` what the host keeps for the client. In most cases the deadline of the handshake ends that excuse. For the chats in memory, and for a call without a holder, only the end of the connection does."),
    ("toolcall.host.subscribed", "silent, invented, wrong conn, wrong channel", "A limit: a false note excuses in `replay_is_used` snapshots instead of a replay, until the user receives the channel. `replicas_converge` judges the state in both cases. Without the note the property is stricter."),
    ("toolcall.host.restoring", "silent, invented, wrong channel", "A limit: `requests_settle` judges only restores with the note. `requests_end_in_time` still sees a user's request for the channel that does not end."),
    ("toolcall.host.restored", "silent, invented, wrong channel", RESTORED),
    ("toolcall.host.restore-late", "invented", RESTORED),
    ("toolcall.host.removed", "silent", "A limit: without the note of a removed session, `waits_have_causes` believes that its clients still have their places. `no_residue` still judges the waits at the end of the run. `requests_settle` is stricter without the note."),
    ("toolcall.host.evicted", "silent", "A limit: `holds_are_exact` judges only chats with the note. `replicas_converge` still compares what the users of the chat see."),
    ("toolcall.host.call", "invented", "A limit: a false note excuses in `tools_begin_once` a tool that does not begin, because its window seems to have no room, and in `waits_have_causes` a wait until the end of the turn. `gone_is_failed` still judges the calls of an absent client."),
    ("toolcall.host.call-failed", "silent, wrong call", "A limit: without the note of its call, `returning_keeps` does not judge whether the host waited for the owner long enough. `no_live_client_failed` still judges the failure that the agent notes."),
    ("toolcall.host.deactivated", "silent, wrong session", "A limit: without the note, `waits_have_causes` believes that the client still has its place. `returning_keeps` still judges what the user sees of a lost place. No property reads the session."),
    ("toolcall.host.asked", "silent, wrong client", "A limit: `questions_are_answered` knows only from the note over which connection the host asks. It still judges the answer by what the agent notes. The client in the note only counts a case."),
    ("toolcall.host.waits", "silent", WAITS),
    ("toolcall.host.waits-no-more", "invented", WAITS),
    ("toolcall.host.rejected", "silent, wrong channel", "A limit: `rejections_are_handled` knows the refusal only from the note, and the channel excuses it if the channel is gone. `replicas_converge` still compares what the user sees."),
    ("toolcall.host.lost", "silent", "The network record shows the end of the connection, too."),
    ("toolcall.host.cut", "silent, invented", CLOSES),
    ("toolcall.host.no-handshake", "silent, invented", CLOSES),
];

#[rustfmt::skip]
const TURN: &[Unreported] = &[
    ("turn.client.decided", "invented, wrong thread, wrong turn", "A limit: `failure_is_true` believes its time. A wrong time can excuse a failed turn: it seems to have been silent, or its report on its way. The last note before the outcome counts, and the turn or the thread names the command."),
    ("turn.client.verdict", "invented, wrong thread", "The last note before the outcome of a command counts, so one more changes nothing. The turn names the command without the thread."),
    ("turn.client.cancelled", "silent, invented", "A limit: a false note excuses in `ends_in_order` that an app-server is killed at that moment. Without the note the property is stricter."),
    ("turn.jobs.created", "silent, invented, wrong job", "No property reads it. A point has the same name, and the source names that point."),
    ("turn.jobs.pruned", "invented", "A limit: after a false note, `log_is_complete` does not judge the log of the job. `no_job_is_lost` still judges the record of a job that must be there. A later note of the same job replaces the earlier one."),
];

/// A run that holds.
struct TrueRun {
    file: String,
    plan: Plan,
    guarantees: Guarantees,
    history: History,
}

impl TrueRun {
    /// Runs a scenario file with its first seed. Returns nothing if a property is violated.
    fn of(subject: &Arc<dyn DynSubject>, path: &Path) -> Option<Self> {
        let scenario = ScenarioFile::load(path, std::slice::from_ref(subject)).unwrap();
        let plan = scenario.plans().into_iter().chain(scenario.drawn(subject)).next()?;
        let run = JudgedRun { subject, plan: &plan, expect: &Expect::default() };
        let judged = judge(run, &Options::default(), |_| false).unwrap();
        let guarantees = subject.guarantees(&plan.limits.over(subject.limits()));
        let file = path.file_stem().unwrap().to_string_lossy().into_owned();
        let history = judged.history;
        judged.broken.is_empty().then_some(Self { file, plan, guarantees, history })
    }

    /// Returns the first property that reports a lie about this run.
    fn reporter(&self, subject: &Arc<dyn DynSubject>, milestone: &str, lie: Lie) -> Reported<'_> {
        let until = Time::from(self.plan.horizon).min(self.history.end);
        let mut variants = lie.variants(&self.history, until, milestone).peekable();
        if variants.peek().is_none() {
            return Reported::Impossible;
        }
        match variants.find_map(|events| self.violated(subject, milestone, events)) {
            Some(property) => Reported::By(property, &self.file),
            None => Reported::Never,
        }
    }

    /// Judges the run with other events. Returns the first violated property.
    fn violated(
        &self,
        subject: &Arc<dyn DynSubject>,
        milestone: &str,
        events: Vec<Event>,
    ) -> Option<&'static str> {
        let History { conns, milestones, points, .. } = &self.history;
        let (conns, milestones, points) = (conns.clone(), milestones.clone(), points.clone());
        let mut history = History { events, conns, milestones, points, ..self.history };
        if subject.generation_milestone() == Some(milestone) {
            install_generations(&mut history, milestone);
        }
        let cx = CheckContext {
            plan: &self.plan,
            limits: &self.plan.limits.over(subject.limits()),
            history: &history,
            guarantees: &self.guarantees,
            milestones: subject.milestones(),
            servers: subject.servers(),
            control: None,
            judgements: &Judgements::default(),
        };
        let own = subject.violations(&cx).into_iter().next();
        let violation = own.or_else(|| property::check(&cx).into_iter().next());
        violation.map(|violation| violation.property)
    }
}

/// Finds out again which connection carries which generation. In a run, the world takes them from this milestone.
fn install_generations(history: &mut History, milestone: &str) {
    let History { events, conns, .. } = history;
    for conn in conns.iter_mut() {
        (conn.generation, conn.of) = (None, None);
    }
    for event in events.iter() {
        let EventKind::Milestone { name, fields } = &event.what else { continue };
        let index = ConnIndex::from_fields(fields).filter(|_| *name == milestone);
        let Some(ConnIndex(index)) = index else { continue };
        let Some(conn) = conns.get_mut(index) else { continue };
        conn.generation = MilestoneValue::number(fields, "generation");
        conn.of = MilestoneValue::text(fields, "client").map(str::to_owned);
    }
}

/// The outcome of a lie.
enum Reported<'r> {
    /// This property reports it, in the run of this file.
    By(&'static str, &'r str),
    /// No property reports it.
    Never,
    /// No run has such a note, or its field no other value.
    Impossible,
}

/// Returns the outcome of a lie in all runs.
fn reported<'r>(
    runs: &'r [TrueRun],
    subject: &Arc<dyn DynSubject>,
    milestone: &str,
    lie: Lie,
) -> Reported<'r> {
    let mut result = Reported::Impossible;
    for run in runs {
        match run.reporter(subject, milestone, lie) {
            by @ Reported::By(..) => return by,
            Reported::Never => result = Reported::Never,
            Reported::Impossible => {}
        }
    }
    result
}

/// Returns the files below a folder, in the order of their names.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|it| it.unwrap().path()).collect();
    paths.sort();
    let below = |path: PathBuf| if path.is_dir() { files_below(&path) } else { vec![path] };
    paths.into_iter().flat_map(below).collect()
}

/// Returns the source of a subject without its tables and its tests.
fn source(subject: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/subjects").join(subject);
    let is_of_the_code = |path: &PathBuf| {
        let path = path.strip_prefix(&folder).unwrap().to_string_lossy();
        !path.contains("tables") && !path.contains("tests")
    };
    let code = files_below(&folder).into_iter().filter(is_of_the_code).map(|path| {
        let text = fs::read_to_string(path).unwrap();
        text.split("mod tests {").next().unwrap_or_default().to_owned()
    });
    code.collect()
}

/// Returns the true runs of a subject.
fn true_runs(subject: &Arc<dyn DynSubject>) -> Vec<TrueRun> {
    let paths = super::scenario_paths(subject.name());
    paths.iter().filter_map(|path| TrueRun::of(subject, path)).collect()
}

/// Checks that the table of a subject lists exactly the lies that no property reports. Prints the outcome of
/// each lie.
fn each_lie_is_reported(subject: Arc<dyn DynSubject>, table: &[Unreported]) {
    let runs = true_runs(&subject);
    let source = source(subject.name());
    let (mut wrong, mut known) = (Vec::new(), 0);
    let is_read = |doc: &&MilestoneDoc| source.contains(&format!("\"{}\"", doc.name));
    for doc in subject.milestones().iter().filter(is_read) {
        let (name, mut unreported) = (doc.name, Vec::new());
        for lie in Lie::about(doc.fields) {
            match reported(&runs, &subject, name, lie) {
                Reported::By(property, file) => {
                    println!("{name}, {lie}: {property} reports it in {file}");
                }
                Reported::Never => {
                    println!("{name}, {lie}: no property reports it");
                    unreported.push(lie.to_string());
                }
                Reported::Impossible => println!("{name}, {lie}: no scenario file has it"),
            }
        }
        let unreported = unreported.join(", ");
        let row = table.iter().find(|(milestone, ..)| *milestone == name);
        known += usize::from(row.is_some());
        let (_, listed, reason) = row.copied().unwrap_or((name, "", "?"));
        if unreported != listed {
            wrong.push(format!("    (\"{name}\", \"{unreported}\", \"{reason}\"),"));
        }
    }
    assert_eq!(known, table.len(), "the table has too many rows");
    assert!(
        wrong.is_empty(),
        "these rows are wrong (one without a lie must go). They must be:\n{}",
        wrong.join("\n")
    );
}

/// The other tests take minutes. This one shows in every test run that lies are judged.
#[test]
fn a_silent_product_is_reported() {
    let subject: Arc<dyn DynSubject> = Arc::new(Exec);
    let file = "scenarios/exec/plain-output-and-exit.toml";
    let run = TrueRun::of(&subject, &Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
    let reported = |lie| run.reporter(&subject, "exec.client.connected", lie);
    assert!(matches!(reported(Lie::Silent), Reported::By("no_call_before_install", _)));
    // The client has one connection, so no other one can be named.
    assert!(matches!(reported(Lie::Wrong("conn")), Reported::Impossible));
}

#[test]
#[ignore = "it takes minutes, in a release"]
fn lies_about_exec_are_reported() {
    each_lie_is_reported(Arc::new(Exec), EXEC);
}

#[test]
#[ignore = "it takes minutes, in a release"]
fn lies_about_sse_are_reported() {
    each_lie_is_reported(Arc::new(Sse), SSE);
}

#[test]
#[ignore = "it takes minutes, in a release"]
fn lies_about_toolcall_are_reported() {
    each_lie_is_reported(Arc::new(Toolcall), TOOLCALL);
}

#[test]
#[ignore = "it takes minutes, in a release"]
fn lies_about_turn_are_reported() {
    each_lie_is_reported(Arc::new(Turn), TURN);
}
