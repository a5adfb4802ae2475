//! The jobs of a history: what users asked and saw, what the workers did, and how the turns ended.

use std::collections::BTreeMap;
use std::time::Duration;

use super::notes::{
    Damaged, JobCancelled, Looks, ProcessNote, Saw, SeenJob, Signalled, WorkerBegan,
};
use super::watch::stream;
use super::{has_jobs, starts};
use crate::history::{Answer, Call, Event, EventKind, ProcessOutcome, Time};
use crate::property::CheckContext;
use crate::schedule::{Fault, MilestoneValue, Operation, When};
use crate::subject::dyn_subject::read;
use crate::subjects::judging::host;
use crate::subjects::turn::notes::{Reported, TurnNote, Work};
use crate::subjects::turn::operations::TurnOperation;

/// The point after which a cancel may be late: the job is cancelled, and its worker does not know.
const CANCELLED: &str = "turn.runner.cancelled";

/// The points of commands that run beside the worker of a job, and do not delay it.
const BESIDE: [&str; 3] = ["turn.jobs.create", "turn.jobs.created", "turn.jobs.launched"];

/// A job.
pub struct Job<'a> {
    pub call: Call,
    pub host: &'a str,
    pub operation: &'a Operation,
    pub asked: Time,
    /// When its user learned that it was recorded and its worker launched.
    pub accepted: Option<Time>,
    /// When its user learned that it cannot be started.
    pub refused: Option<Time>,
    /// When the user cancelled it, ended its session, or killed its worker, for the first time.
    pub cancelled: Option<Time>,
    pub session_ended: Option<Time>,
    pub killed: Option<Time>,
    /// When the user asked its worker to end.
    pub stopped: Option<Time>,
    /// When its user damaged its record.
    pub damaged: Option<Time>,
    /// When its user removed its record.
    pub gone: Option<Time>,
    /// The cancels that succeeded.
    pub cancels: Vec<(Time, &'a JobCancelled)>,
    /// When a cancel succeeded that had sent the worker no signal, although the worker had not ended.
    pub spared: Option<Time>,
    pub worker: Option<Worker<'a>>,
    /// The notes of the app-server about its turn, in order.
    pub notes: Vec<(Time, &'a TurnNote)>,
    /// The signals of commands that ended the job.
    pub signals: Vec<(Time, &'a Signalled)>,
}

/// The worker of a job.
pub struct Worker<'a> {
    pub began: &'a WorkerBegan,
    /// When it began.
    pub at: Time,
    /// When its process ended.
    pub ended: Option<Time>,
    /// The status with which it exited, unless a signal killed it.
    pub exit: Option<i32>,
}

/// A look of a user at jobs, and the answer. The look began at `since`.
pub struct Look<'a> {
    pub host: &'a str,
    pub since: Time,
    pub at: Time,
    pub saw: &'a Saw,
    /// How long the user waits, if this is a wait for one job.
    pub wait: Option<Duration>,
}

/// The time for which a command held the lock of the records of a machine.
struct Locked<'a> {
    host: &'a str,
    since: Time,
    /// `None`: to the end of the run.
    until: Option<Time>,
    /// How long, by the plan.
    lasts: Duration,
}

/// The wish of a user to end all jobs of a session, or of a turn.
pub struct Wish<'a> {
    pub host: &'a str,
    pub asked: Time,
    /// When the user learned that all are cancelled.
    pub done: Option<Time>,
    pub session: Option<&'a str>,
    pub turn: Option<&'a str>,
    /// The processes that the end of the session sent signals.
    pub signalled: Vec<&'a ProcessNote>,
}

/// What the answer to the end of a session contains if it could not cancel a job.
const NOT_ENDED: &str = "not ended";

/// The jobs of a run.
#[derive(Default)]
pub struct Jobs<'a> {
    has_jobs: bool,
    pub jobs: BTreeMap<Call, Job<'a>>,
    pub looks: Vec<Look<'a>>,
    /// The signals of the ends of sessions: when, and on which host.
    pub signals: Vec<(Time, &'a str, &'a Signalled)>,
    /// When records of jobs were removed, by id.
    pruned: BTreeMap<&'a str, Time>,
    /// The jobs whose workers had not begun when the record of a job was removed.
    waiting: BTreeMap<&'a str, Vec<Call>>,
    /// When the first fault began that was not the hold of a cancel.
    pub disturbed: Option<Time>,
    /// When the first fault began that was not the hold of a command beside its worker.
    pub disturbed_turn: Option<Time>,
    /// When the first fault began that was not the hold of a change of a record.
    pub disturbed_worker: Option<Time>,
    /// How long users wait for jobs, by host and stream of the look.
    waits: BTreeMap<(&'a str, String), Duration>,
    /// The wishes to end jobs, by operation.
    pub wishes: BTreeMap<Call, Wish<'a>>,
    /// When commands held the lock of the records, by operation.
    locks: BTreeMap<Call, Locked<'a>>,
    /// The looks that have begun, by host and stream.
    begun: BTreeMap<(&'a str, &'a str), Time>,
}

impl<'a> Job<'a> {
    fn field(&self, name: &str) -> Option<&'a str> {
        self.operation.fields.get(name).and_then(|value| value.as_str())
    }

    /// Returns the name of the turn.
    pub fn turn(&self) -> &'a str {
        self.field("turn").unwrap_or_default()
    }

    /// Returns when an interrupt of the turn named another thread, for the first time.
    pub fn interrupted_elsewhere(&self) -> Option<Time> {
        self.when(|note| *note == TurnNote::InterruptedElsewhere)
    }

    fn when(&self, is: impl Fn(&TurnNote) -> bool) -> Option<Time> {
        self.notes.iter().find(|(_, note)| is(note)).map(|(at, _)| *at)
    }

    /// Whether it is a review by the reviewer of the app-server.
    pub fn is_review(&self) -> bool {
        let adversarial = self.operation.fields.get("adversarial").and_then(|is| is.as_bool());
        self.operation.verb == "review" && adversarial != Some(true)
    }

    /// Whether the program of its worker cannot be started.
    pub fn is_unstartable(&self) -> bool {
        self.operation.fields.get("unstartable").and_then(|is| is.as_bool()).unwrap_or(false)
    }

    /// Returns when a client interrupted the turn.
    pub fn interrupted(&self) -> Option<Time> {
        self.when(|note| *note == TurnNote::Interrupted)
    }

    /// Returns when the app-server refused to interrupt the turn for the first time.
    pub fn interrupt_refused(&self) -> Option<Time> {
        self.when(|note| *note == TurnNote::InterruptRefused)
    }

    /// Returns when the app-server sent the id of the turn.
    pub fn named(&self) -> Option<Time> {
        self.when(|note| *note == TurnNote::Named)
    }

    /// Returns when the agent gave its final answer, with text.
    pub fn final_answer(&self) -> Option<Time> {
        self.when(|note| *note == TurnNote::Answered { is_final: true })
    }

    /// Whether the agent has run this command.
    pub fn has_run(&self, command: &str) -> bool {
        self.when(|note| matches!(note, TurnNote::Did(Work::Command(run)) if run == command))
            .is_some()
    }

    /// Returns when the app-server reported that the turn completed.
    pub fn completed(&self) -> Option<Time> {
        self.when(|note| *note == TurnNote::Reported(Reported::Completed))
    }

    /// Returns when the app-server was asked to interrupt the turn for the first time.
    pub fn asked_to_interrupt(&self) -> Option<Time> {
        self.when(|note| matches!(note, TurnNote::Interrupted | TurnNote::InterruptRefused))
    }

    /// Whether the app-server ended the turn by itself, or left it.
    pub fn ended_by_itself(&self) -> bool {
        let is_end = |note: &TurnNote| match note {
            TurnNote::Reported(how) => *how != Reported::Interrupted,
            note => *note == TurnNote::Left,
        };
        self.when(is_end).is_some()
    }

    /// Returns when the turn was over at the app-server.
    pub fn over(&self) -> Option<Time> {
        self.when(|note| matches!(note, TurnNote::Gone | TurnNote::Left))
    }

    /// Returns when the turn started.
    pub fn started(&self) -> Option<Time> {
        self.when(|note| matches!(note, TurnNote::Started { .. }))
    }

    /// Returns when a user first wished its end.
    pub fn unwanted(&self) -> Option<Time> {
        [self.cancelled, self.session_ended, self.killed, self.stopped].into_iter().flatten().min()
    }

    /// Whether its worker runs, and no command has sent it a signal. The end of a process is recorded before the
    /// process table forgets the process.
    fn is_unsignalled(&self) -> bool {
        self.worker.as_ref().is_some_and(|worker| {
            let mut all = self.signals.iter();
            worker.ended.is_none()
                && !all.any(|(_, signalled)| signalled.to == worker.began.process)
        })
    }

    /// Returns its session.
    pub fn session(&self) -> Option<&'a str> {
        self.field("session")
    }

    /// Returns when its worker ended.
    pub fn worker_ended(&self) -> Option<Time> {
        self.worker.as_ref()?.ended
    }
}

impl<'a> Jobs<'a> {
    /// Prepares to read a history.
    pub fn of(cx: &CheckContext<'_>) -> Self {
        Self { has_jobs: has_jobs(cx.plan), ..Self::default() }
    }

    /// Takes an entry.
    pub fn take(&mut self, cx: &'a CheckContext<'_>, event: &'a Event) {
        if !self.has_jobs {
            return;
        }
        match &event.what {
            EventKind::Asked { call, operation, .. } => self.asked(*call, operation, event),
            EventKind::Answered { call, .. } if self.locks.contains_key(call) => {
                if let Some(lock) = self.locks.get_mut(call) {
                    lock.until = Some(event.at);
                }
            }
            EventKind::Answered { call, answer: Answer::Done(done) }
                if self.wishes.contains_key(call) =>
            {
                let is_done = !done.to_string().contains(NOT_ENDED);
                if let Some(wish) = self.wishes.get_mut(call) {
                    wish.done = is_done.then_some(event.at);
                }
            }
            EventKind::Answered { call, answer: Answer::Queued(_) } => {
                if let Some(job) = self.jobs.get_mut(call) {
                    job.accepted = Some(event.at);
                }
            }
            EventKind::Answered { call, answer: Answer::Refused(_) } => {
                if let Some(job) = self.jobs.get_mut(call) {
                    job.refused = Some(event.at);
                }
            }
            EventKind::Observed { stream, .. } => self.observed(&stream.0, event),
            EventKind::Ended { stream, outcome } => {
                let workers = self.jobs.values_mut().filter(|job| job.host == host(event));
                let mut workers = workers.filter_map(|job| job.worker.as_mut());
                let ended = workers.find(|worker| worker.began.name == *stream.0);
                if let Some(worker) = ended.filter(|worker| worker.ended.is_none()) {
                    worker.ended = Some(event.at);
                    worker.exit = match outcome.downcast_ref() {
                        Some(ProcessOutcome::Exit(code)) => Some(*code),
                        _ => None,
                    };
                }
            }
            EventKind::Milestone { name: "turn.jobs.pruned", fields } => {
                if let Some(id) = MilestoneValue::text(fields, "job") {
                    self.pruned.insert(id, event.at);
                    let waiting = self.jobs.values().filter(|job| job.worker.is_none());
                    self.waiting.insert(id, waiting.map(|job| job.call).collect());
                }
            }
            EventKind::FaultBegan { step, what, .. } => {
                let mark = cx.plan.steps.get(*step).and_then(|step| match &step.when {
                    When::After(trigger) => Some(trigger.mark.name()),
                    When::At(_) => None,
                });
                let held = mark.filter(|_| matches!(**what, Fault::Hold { .. }));
                if held != Some(CANCELLED) {
                    self.disturbed = self.disturbed.or(Some(event.at));
                }
                if !held.is_some_and(|mark| mark.starts_with("turn.jobs.")) {
                    self.disturbed_worker = self.disturbed_worker.or(Some(event.at));
                }
                if !held.is_some_and(|mark| BESIDE.contains(&mark)) {
                    self.disturbed_turn = self.disturbed_turn.or(Some(event.at));
                }
            }
            _ => {}
        }
    }

    fn asked(&mut self, call: Call, operation: &'a Operation, event: &'a Event) {
        let (at, on) = (event.at, host(event));
        if starts(operation) {
            let job = Job {
                call,
                host: on,
                operation,
                asked: at,
                accepted: None,
                refused: None,
                cancelled: None,
                session_ended: None,
                killed: None,
                stopped: None,
                damaged: None,
                gone: None,
                cancels: Vec::new(),
                spared: None,
                worker: None,
                notes: Vec::new(),
                signals: Vec::new(),
            };
            self.jobs.insert(call, job);
            return;
        }
        if operation.verb == "await-job"
            && let Ok(TurnOperation::AwaitJob { wait, .. }) = read(operation)
        {
            self.waits.insert((on, stream(call).to_string()), wait.0);
        }
        if operation.verb == "hold-jobs"
            && let Ok(TurnOperation::HoldJobs { lasts }) = read(operation)
        {
            let lock = Locked { host: on, since: at, until: None, lasts: lasts.0 };
            self.locks.insert(call, lock);
        }
        let named = |name: &str| operation.fields.get(name).and_then(|value| value.as_str());
        let (turn, session) = (named("turn"), named("session"));
        if matches!(operation.verb.as_str(), "cancel" | "end-session") {
            let (done, signalled) = (None, Vec::new());
            let wish = Wish { host: on, asked: at, done, session, turn, signalled };
            self.wishes.insert(call, wish);
        }
        for job in self.jobs.values_mut().filter(|job| job.host == on) {
            let is_turn = turn == Some(job.turn());
            let place = match operation.verb.as_str() {
                "cancel" if is_turn => &mut job.cancelled,
                "abandon" if is_turn => &mut job.killed,
                "stop-worker" if is_turn => &mut job.stopped,
                "end-session" if session == job.field("session") => &mut job.session_ended,
                _ => continue,
            };
            *place = place.or(Some(at));
        }
    }

    fn observed(&mut self, stream: &'a str, event: &'a Event) {
        let EventKind::Observed { saw, .. } = &event.what else { return };
        let (at, on) = (event.at, host(event));
        if saw.downcast_ref::<Looks>().is_some() {
            self.begun.insert((on, stream), at);
            return;
        }
        if let Some(saw) = saw.downcast_ref::<Saw>() {
            if let Some(since) = self.begun.get(&(on, stream)) {
                let wait = self.waits.get(&(on, stream.to_owned())).copied();
                self.looks.push(Look { host: on, since: *since, at, saw, wait });
            }
            return;
        }
        let call = stream.rsplit_once('-').and_then(|(_, call)| call.parse().ok());
        let Some(job) = call.and_then(|call| self.jobs.get_mut(&Call(call))) else {
            if let Some(signalled) = saw.downcast_ref::<Signalled>() {
                self.signals.push((at, on, signalled));
                if let Some(wish) = call.and_then(|call| self.wishes.get_mut(&Call(call))) {
                    wish.signalled.push(&signalled.to);
                }
            }
            return;
        };
        if let Some(note) = saw.downcast_ref() {
            job.notes.push((at, note));
        } else if let Some(began) = saw.downcast_ref::<WorkerBegan>() {
            job.worker = Some(Worker { began, at, ended: None, exit: None });
        } else if let Some(cancelled) = saw.downcast_ref::<JobCancelled>() {
            job.cancels.push((at, cancelled));
            job.spared = job.spared.or(job.is_unsignalled().then_some(at));
        } else if let Some(signalled) = saw.downcast_ref::<Signalled>() {
            job.signals.push((at, signalled));
        } else if let Some(Damaged { is_gone }) = saw.downcast_ref() {
            job.gone = job.gone.or(is_gone.then_some(at));
            job.damaged = job.damaged.or(Some(at));
        }
    }

    /// Returns whether a command held the lock of the records of a machine in this time.
    pub fn is_locked(&self, on: &str, since: Time, until: Time) -> bool {
        let mut locks = self.locks.values().filter(|lock| lock.host == on);
        locks.any(|lock| lock.since <= until && lock.until.is_none_or(|released| released >= since))
    }

    /// Returns how long commands held the lock of the records of a machine, in all.
    pub fn locked_for(&self, on: &str) -> Duration {
        self.locks.values().filter(|lock| lock.host == on).map(|lock| lock.lasts).sum()
    }

    /// Returns when users killed workers on a host, each with its app-server.
    pub fn killed_on(&self, on: &str) -> impl Iterator<Item = Time> {
        self.jobs.values().filter(move |job| job.host == on).filter_map(|job| job.killed)
    }

    /// Returns when the record of a job was removed.
    pub fn pruned(&self, job: &Job<'_>) -> Option<Time> {
        self.pruned.get(&*job.worker.as_ref()?.began.job).copied()
    }

    /// Whether another job waited for its worker, which begins later, when the record of a job was removed.
    pub fn waited(&self, other: &Job<'_>, job: &Job<'_>) -> bool {
        let id = job.worker.as_ref().map(|worker| &*worker.began.job);
        let waiting = id.and_then(|id| self.waiting.get(id));
        other.worker.is_some() && waiting.is_some_and(|waiting| waiting.contains(&other.call))
    }

    /// Returns what users of a job's machine saw of the job, in order.
    pub fn sights<'s>(
        &'s self,
        job: &'s Job<'a>,
    ) -> impl Iterator<Item = (&'s Look<'a>, &'a SeenJob)> + 's {
        self.looks.iter().filter(|look| look.host == job.host).filter_map(|look| {
            let seen = look.saw.jobs.iter().find(|seen| seen.call == job.call)?;
            Some((look, seen))
        })
    }
}
