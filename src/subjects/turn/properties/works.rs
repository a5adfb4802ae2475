//! The turns of one app-server beside each other, and what its broker holds of them.

use std::time::Duration;

use super::refusals::has;
use super::shared::{may_lose_news, news};
use crate::history::{Call, ConnIndex, EventKind, Time};
use crate::property::Violation;
use crate::property::violation::{fields, kinds};
use crate::subjects::census::EVERY;
use crate::subjects::judging::judged;
use crate::subjects::turn::limits;
use crate::subjects::turn::notes::TurnNote;
use crate::subjects::turn::setup::{self, BROKER, Start, TurnSetup};
use crate::subjects::turn::story::{BrokerConnection, Counted, Run, Story, started};
use crate::subjects::turn::subagents::turn_of;
use reknit_turn::limits::{BrokerLimits, ConnectionLimits};

kinds! {
    pub(in super::super) ONE_CLIENT_WORKS;
    BESIDE = "beside": "{subject:}the app-server started the turn while that of {other} ran, whose client was there {moment}";
}

kinds! {
    pub(in super::super) THREADS_ARE_FREE;
    ON_ITS_THREAD = "on-its-thread": "{subject:}the app-server started the turn on {thread} while a turn of {other} ran there {moment}";
}

kinds! {
    pub(in super::super) NEWS_STAY_PRIVATE;
    HEARD = "heard": "{subject:}its client got news of {thread}, which is the thread of {other} {moment}";
    OF_A_SUBAGENT = "of-a-subagent": "{subject:}its client got news of {thread}, which is the thread of a subagent of {other} {moment}";
}

kinds! {
    pub(in super::super) BROKER_LETS_GO;
    HELD = "held": "the broker held {count} {what}, but no client was connected since {since} {moment}";
    OVER_LIMIT = "over-limit": "the broker held {count} {what}, but its limit is {most} {moment}";
    GHOSTS = "ghosts": "the broker counted {count} clients, but only {open} were connected since {since} {moment}";
    CUT = "cut": "the broker closed the connection {conn}, but its client had made room at {read}, and may make none for {write} {moment}";
}

/// A turn that an app-server started, of a command or of a job.
struct Work<'s> {
    call: Call,
    name: &'s str,
    asked: Time,
    /// When its user ended it, or its client.
    stopped: Option<Time>,
    /// From when to when its user tried in vain to interrupt it over a second connection, each time.
    by_hand: Vec<(Time, Time)>,
    notes: &'s [(Time, &'s TurnNote)],
}

impl<'s> Work<'s> {
    fn first(&self, is: impl Fn(&TurnNote) -> bool) -> Option<(Time, &'s TurnNote)> {
        self.notes.iter().find(|(_, note)| is(note)).copied()
    }

    fn when(&self, is: impl Fn(&TurnNote) -> bool) -> Option<Time> {
        self.first(is).map(|(at, _)| at)
    }

    /// Returns when the app-server was done with it.
    fn over(&self) -> Option<Time> {
        self.when(|note| matches!(note, TurnNote::Reported(_) | TurnNote::Gone))
    }

    /// Returns when its client may have left it, at the earliest.
    fn left(&self, story: &Story<'_>) -> Option<Time> {
        let set = story.cx.limits;
        // The broker gives up a start without an answer, and a turn that takes too long.
        let setup = setup::turn(story.cx.plan, self.name);
        let inferred = self.inferred(story, &setup, limits::turn(set).inference);
        let request = limits::connection(set).request;
        let held = started(self.notes).map_or(Duration::ZERO, |(at, ..)| at.since(self.asked));
        let is_late = setup.start == Start::Silent
            || held + setup.answers_after() + news(story.cx) >= request;
        let patience = if is_late { request } else { limits::broker(set).turn };
        let given_up = self.asked + patience;
        [self.over(), self.stopped, inferred, self.interrupted(), Some(given_up)]
            .into_iter()
            .flatten()
            .min()
    }

    /// Returns when its client may infer its end, at the earliest. It infers nothing while it knows of open
    /// work.
    fn inferred(&self, story: &Story<'_>, setup: &TurnSetup, inference: Duration) -> Option<Time> {
        let answered = self.when(|note| *note == TurnNote::Answered { is_final: true })?;
        let mut at = answered + inference;
        // Nothing but the answer to its start names the thread of a detached review.
        if setup.detached || may_lose_news(story, setup) {
            return Some(at);
        }
        let news = news(story.cx);
        let mut open = None;
        for (noted, note) in self.notes {
            match note {
                TurnNote::Works => open = Some(*noted),
                TurnNote::Rests if open.take().is_some_and(|since| since + news < at) => {
                    at = at.max(*noted + inference);
                }
                _ => {}
            }
        }
        let is_open = open.is_some_and(|since| since + news < at);
        (!is_open).then_some(at)
    }

    /// Returns when its client or the app-server gave it up. A client leaves also if the app-server refuses
    /// to interrupt the turn. It stays if the user asked for that over a second connection.
    fn interrupted(&self) -> Option<Time> {
        let mut by_hand = self.by_hand.clone();
        let mut is_by_hand = |at: Time| {
            let own = by_hand.iter().position(|(from, to)| (*from..=*to).contains(&at));
            own.map(|n| by_hand.remove(n)).is_some()
        };
        let given_up = self.notes.iter().find(|(at, note)| match note {
            TurnNote::Interrupted | TurnNote::Left => true,
            TurnNote::InterruptRefused => !is_by_hand(*at),
            _ => false,
        });
        given_up.map(|(at, _)| *at)
    }
}

/// Returns from when to when users of a host tried in vain to interrupt a turn over a second connection.
fn by_hand(story: &Story<'_>, host: &str, turn: &str) -> Vec<(Time, Time)> {
    let own = story.refused_by_hand.iter().filter(|(.., on, name)| *on == host && *name == turn);
    own.map(|(from, to, ..)| (*from, *to)).collect()
}

fn works<'s>(story: &'s Story<'_>) -> Vec<Work<'s>> {
    let runs = story.runs.iter().map(|run| Work {
        call: run.call,
        name: run.turn(),
        asked: run.asked,
        stopped: [run.abandoned, run.cancelled].into_iter().flatten().min(),
        by_hand: by_hand(story, run.host, run.turn()),
        notes: &run.notes,
    });
    let jobs = story.jobs.jobs.values().map(|job| Work {
        call: job.call,
        name: job.turn(),
        asked: job.asked,
        stopped: [job.unwanted(), job.worker_ended()].into_iter().flatten().min(),
        by_hand: Vec::new(),
        notes: &job.notes,
    });
    runs.chain(jobs).collect()
}

/// Returns the app-server that gave a turn its id.
fn app_server(turn: &str) -> &str {
    turn.rsplit_once('-').map_or(turn, |(app_server, _)| app_server)
}

/// Whether the first of two notes precedes the second one in the history. Only that tells the order of turns that
/// start in the same millisecond.
fn precedes(story: &Story<'_>, first: &TurnNote, second: &TurnNote) -> bool {
    let note = judged(story.cx).find_map(|event| match &event.what {
        EventKind::Observed { saw, .. } => {
            let note = saw.downcast_ref::<TurnNote>()?;
            (std::ptr::eq(note, first) || std::ptr::eq(note, second)).then_some(note)
        }
        _ => None,
    });
    note.is_some_and(|note| std::ptr::eq(note, first))
}

/// Returns the turns that an app-server started while another one ran that counts: the later one, when it
/// started, its thread, and the earlier one.
fn beside<'s>(
    story: &Story<'_>,
    works: &'s [Work<'s>],
    counts: impl Fn(&Work<'_>, &Work<'_>, Time) -> bool,
) -> Vec<(&'s Work<'s>, Time, &'s str, &'s Work<'s>)> {
    let begun = works.iter().filter_map(|work| {
        let (began, turn, thread) = started(work.notes)?;
        let start = work.first(|note| matches!(note, TurnNote::Started { .. }))?;
        // The app-server has accepted a turn that waits before it begins.
        let named = work.first(|note| *note == TurnNote::Named);
        let accepted = named.filter(|(named, _)| *named < began);
        let waits = !setup::turn(story.cx.plan, work.name).waits().is_zero();
        let (at, note) = accepted.filter(|_| waits).unwrap_or(start);
        Some((work, (at, note, turn, thread)))
    });
    let begun: Vec<_> = begun.collect();
    let mut found = Vec::new();
    for (later, (at, note, turn, thread)) in &begun {
        let earlier = begun.iter().find(|(earlier, (since, first, other, _))| {
            earlier.call != later.call
                && app_server(other) == app_server(turn)
                && (since < at || since == at && precedes(story, first, note))
                && story.is_calm_between(*since, *at)
                && counts(earlier, later, *at)
        });
        found.extend(earlier.map(|(earlier, _)| (*later, *at, *thread, *earlier)));
    }
    found
}

pub(in super::super) fn one_client_works(story: &Story<'_>) -> Vec<Violation> {
    let works = works(story);
    let runs = |earlier: &Work<'_>, later: &Work<'_>, at: Time| {
        let is_judged = story.is_calm_between(earlier.asked, at)
            && story.shutdowns.iter().all(|asked| *asked > at);
        if !is_judged {
            return false;
        }
        let left = earlier.left(story);
        // Nothing can be wrong with a turn that is asked for only after the earlier one.
        if left.is_none_or(|left| left > later.asked) {
            story.cx.judges("one_client_works");
        }
        left.is_none_or(|left| left > at)
    };
    let found = beside(story, &works, runs).into_iter().map(|(later, at, _, earlier)| {
        let data = fields! { other: earlier.call.to_string() };
        Violation::new("one_client_works", later.call, at, &BESIDE, data)
    });
    found.collect()
}

/// Whether a broker can pass news of another command's thread to the client of a command: it serves both at a time.
fn may_hear(run: &Run<'_>, other: &Work<'_>) -> bool {
    let Some((began, turn, thread)) = started(other.notes) else { return false };
    let is_shared = match run.route() {
        "direct" => false,
        // The app-server of a broker of a machine has an account.
        "workspace" => {
            turn.starts_with(&format!("turn-{}-", run.host))
                && other.when(|note| matches!(note, TurnNote::Account(_))).is_some()
        }
        _ => turn.starts_with("turn-broker-"),
    };
    other.call != run.call
        && is_shared
        && thread.starts_with("thread-")
        && run.answer.is_none_or(|(answered, _)| answered >= began)
        && other.over().is_none_or(|over| over >= run.asked)
}

/// Judges the news of threads that clients do not own. The broker has passed a request that names the thread of each
/// command, so it knows the owner, whatever happens to the client. A broker that remembers few threads forgets owners.
pub(in super::super) fn news_stay_private(story: &Story<'_>) -> Vec<Violation> {
    let most = limits::broker(story.cx.limits).threads;
    if most < BrokerLimits::default().threads {
        return Vec::new();
    }
    let works = works(story);
    // Only wrong news are recorded, so each client is a case that can get some.
    let clients = story.runs.iter().filter(|run| works.iter().any(|other| may_hear(run, other)));
    clients.for_each(|_| story.cx.judges("news_stay_private"));
    let uses = |work: &Work<'_>, wanted: &str| {
        let mut notes = work.notes.iter();
        notes.any(|(_, note)| match note {
            TurnNote::Thread(thread) | TurnNote::Started { thread, .. } => thread == wanted,
            _ => false,
        })
    };
    let heard = story.heard.iter().filter_map(|(at, call, thread)| {
        let is_own = works.iter().any(|work| work.call == *call && uses(work, thread));
        let mut others = works.iter().filter(|work| work.call != *call);
        let other = others.find(|work| uses(work, thread)).filter(|_| !is_own)?;
        let data = fields! { thread: (*thread).to_owned(), other: other.call.to_string() };
        Some(Violation::new("news_stay_private", *call, *at, &HEARD, data))
    });
    let of_subagents =
        story.heard.iter().filter_map(|heard| heard_of_a_subagent(story, &works, *heard));
    heard.chain(of_subagents).collect()
}

/// Judges the news of the thread of a subagent. The app-server may send them before anything names the thread. Then the
/// broker knows no more than the turns that can own it. If the turn of another command is one of them, no other client
/// may get the news, whether the client of that turn is there or not.
fn heard_of_a_subagent(
    story: &Story<'_>,
    works: &[Work<'_>],
    (at, call, thread): (Time, Call, &str),
) -> Option<Violation> {
    let turn = turn_of(thread)?;
    let mut others = works.iter().filter(|work| work.call != call);
    let other = others.find(|work| started(work.notes).is_some_and(|(_, id, _)| id == turn))?;
    let (_, _, main) = started(other.notes)?;
    // A later turn on the same thread may get what its subagents do there.
    let is_own = |(_, note): &(Time, &TurnNote)| match note {
        TurnNote::Started { turn: id, thread } => id == turn || thread == main,
        _ => false,
    };
    let resumes = |run: &Run<'_>| {
        let resumes = run.operation.fields.get("resume").and_then(|is| is.as_bool());
        run.call == call && resumes == Some(true)
    };
    let is_excused = works.iter().any(|work| work.call == call && work.notes.iter().any(is_own))
        || story.runs.iter().any(resumes)
        || !is_followed(story, other, at);
    let data = fields! { thread: thread.to_owned(), other: other.call.to_string() };
    (!is_excused).then(|| Violation::new("news_stay_private", call, at, &OF_A_SUBAGENT, data))
}

/// Whether the broker certainly follows a turn at this time, because the turn runs, and the broker knows its id and has
/// not given it up.
fn is_followed(story: &Story<'_>, work: &Work<'_>, at: Time) -> bool {
    let cx = story.cx;
    let broker = limits::broker(cx.limits);
    // The raw lines of a user may start a turn on any thread. After a fault, the broker may know less than the history.
    if has(cx.plan, "speak") || !story.is_calm_until(at) {
        return false;
    }
    // A broker may take the turn inside of a review for the review if the answer to its start has no id.
    let setup = setup::turn(cx.plan, work.name);
    let starts = [Start::Answered, Start::NotifiedFirst, Start::Late, Start::Last];
    let is_known = starts.contains(&setup.start) && !setup.inner;
    let ended =
        work.when(|note| matches!(note, TurnNote::Reported(_) | TurnNote::Left | TurnNote::Gone));
    let runs = ended.is_none_or(|ended| ended > at);
    // The broker waits so long for the end of a turn whose client has left it. It learns of that before the app-server
    // gets the interrupt.
    let soon = at + news(cx) * 2;
    let is_given_up = soon >= work.asked + broker.turn
        || work.left(story).is_some_and(|left| left + broker.settle <= soon);
    is_known && runs && !is_given_up
}

pub(in super::super) fn threads_are_free(story: &Story<'_>) -> Vec<Violation> {
    let works = works(story);
    let settle = limits::broker(story.cx.limits).settle;
    let runs = |earlier: &Work<'_>, later: &Work<'_>, at: Time| {
        let thread = |work: &Work<'_>| started(work.notes).map(|(_, _, thread)| thread.to_owned());
        // The broker gives up a turn that does not end.
        let is_given_up = || earlier.left(story).is_some_and(|left| left + settle <= at);
        let over = earlier.over();
        // Nothing can be wrong with a turn that is asked for only after the earlier one.
        let is_judged = over.is_none_or(|over| over > later.asked)
            && earlier.when(|note| *note == TurnNote::Left).is_none()
            && thread(earlier) == thread(later)
            && !is_given_up();
        if is_judged {
            story.cx.judges("threads_are_free");
        }
        is_judged && over.is_none_or(|over| over > at)
    };
    let found = beside(story, &works, runs).into_iter().map(|(later, at, thread, earlier)| {
        let data = fields! { thread: thread.to_owned(), other: earlier.call.to_string() };
        Violation::new("threads_are_free", later.call, at, &ON_ITS_THREAD, data)
    });
    found.collect()
}

/// How long after its end a connection may count for a broker that runs.
const LEARNS: Duration = Duration::from_secs(2);

pub(in super::super) fn broker_lets_go(story: &Story<'_>) -> Vec<Violation> {
    let mut found: Vec<_> =
        story.counted.iter().filter_map(|counted| over_limit(story, counted)).collect();
    for (n, counted) in story.counted.iter().enumerate() {
        let next = story.counted.get(n + 1);
        let until = next.map_or(Time::from(story.cx.plan.horizon), |next| next.at);
        // The last time at which the counts were still the same.
        let at = until.before(EVERY);
        if at >= counted.at && story.runs_between(BROKER, Time::ZERO, at) {
            found.extend(held(story, counted, at));
        }
    }
    found.extend(
        story.connections.iter().filter_map(|(conn, own)| cut_while_it_reads(story, *conn, own)),
    );
    found
}

/// The length of a tick of stock turmoil.
const TICK: Duration = Duration::from_millis(1);

/// A connection that the broker closed, although its client read what waited for it. The network says when the
/// broker could write again after it had waited for room. Until the time to write is over since then, no slow path
/// and no slow client is a reason to close the connection.
fn cut_while_it_reads(
    story: &Story<'_>,
    conn: ConnIndex,
    own: &BrokerConnection<'_>,
) -> Option<Violation> {
    let cx = story.cx;
    let broker = limits::broker(cx.limits);
    let write = broker.connection.write;
    let facts = cx.history.conns.get(conn.0).filter(|_| own.server == BROKER)?;
    let read = facts.unblocked.1?;
    // A broker also closes the connection of a client that is idle, that lets too much wait, or that sends a line that
    // is too long. Only the raw lines of a user are so long.
    let has_room = broker.connection.outbox_bytes >= ConnectionLimits::default().outbox_bytes;
    if !has_room || has(cx.plan, "speak") {
        return None;
    }
    cx.judges("broker_lets_go");
    let closed = own.closed.filter(|closed| *closed < Time::from(cx.plan.horizon))?;
    let was_there =
        facts.over.0.is_none_or(|over| over > closed) && closed < own.opened + broker.idle;
    // A broker that ends closes all connections, and so does its host when it dies.
    let ends = story.shutdowns.iter().any(|asked| *asked <= closed)
        || story.ended.iter().any(|ended| *ended >= closed)
        || story.broker_died.is_some_and(|died| died <= closed);
    let is_cut = was_there && !ends && read < closed && closed + TICK < read + write;
    let data = fields! { conn: &facts.name, read, write };
    is_cut.then(|| Violation::new("broker_lets_go", Call::NONE, closed, &CUT, data))
}

/// Whether the app-server named a turn in this span that had no reported end: the broker interrupts it,
/// and waits again.
fn was_named_late(story: &Story<'_>, since: Time, until: Time) -> bool {
    works(story).iter().any(|work| {
        let named = work.when(|note| *note == TurnNote::Named);
        let reported = work.when(|note| matches!(note, TurnNote::Reported(_)));
        named.is_some_and(|named| {
            let is_late = since <= named && named <= until;
            is_late && reported.is_none_or(|reported| reported > named)
        })
    })
}

/// Whether the app-server may answer the start of a turn after the deadline of the request. The raw lines of a
/// user may start turns that belong to no command.
fn may_answer_late(story: &Story<'_>) -> bool {
    let request = limits::connection(story.cx.limits).request;
    let speaks = judged(story.cx).any(|event| match &event.what {
        EventKind::Asked { operation, .. } => operation.verb == "speak",
        _ => false,
    });
    let mut works = works(story).into_iter();
    speaks
        || works.any(|work| {
            let setup = setup::turn(story.cx.plan, work.name);
            let answers = |at: Time| at.since(work.asked) + setup.answers_after() + news(story.cx);
            started(work.notes).is_none_or(|(at, ..)| answers(at) >= request)
        })
}

/// The most finished turns that a broker remembers.
pub(super) const MOST_FINISHED: usize = 64;

/// Compares the counts of a broker with its limits. Each start that may be answered late belongs to a turn. One
/// request may be as long as a line, and take more bytes than that.
fn over_limit(story: &Story<'_>, counted: &Counted<'_>) -> Option<Violation> {
    let broker = limits::broker(story.cx.limits);
    let counts = &counted.counts.0;
    let bytes = if counts.requests > 1 { broker.connection.line_bytes } else { usize::MAX };
    let held = [
        ("bytes of requests", counts.request_bytes, bytes),
        ("late starts", counts.late_starts, counts.turns + counts.finished_turns),
        ("clients", counts.clients, broker.clients),
        ("threads", counts.threads, broker.threads),
        ("finished turns", counts.finished_turns, MOST_FINISHED),
        ("bytes of news without an owner", counts.unclaimed_bytes, broker.connection.outbox_bytes),
    ];
    // A broker that holds less than it may is no case.
    if held.iter().any(|(_, count, most)| *count > 0 && count >= most) {
        story.cx.judges("broker_lets_go");
    }
    let (what, count, most) = held.into_iter().find(|(_, count, most)| count > most)?;
    let data = fields! { count: count as u64, what, most: most as u64 };
    Some(Violation::new("broker_lets_go", Call::NONE, counted.at, &OVER_LIMIT, data))
}

/// Judges the counts of a broker at a time.
fn held(story: &Story<'_>, counted: &Counted<'_>, at: Time) -> Option<Violation> {
    let broker = limits::broker(story.cx.limits);
    let counts = &counted.counts.0;
    let open = |since: Time| {
        let own = story.connections.values().filter(|connection| {
            let over = connection.over.is_none_or(|over| over >= since);
            connection.server == BROKER && connection.opened <= at && over
        });
        own.count()
    };
    let violation = |kind, data| Some(Violation::new("broker_lets_go", Call::NONE, at, kind, data));
    let had_clients = |since: Time| {
        let mut own = story.connections.values().filter(|own| own.server == BROKER);
        own.any(|own| own.over.is_some_and(|over| over < since))
    };
    let since = at.before(LEARNS + broker.linger * 2);
    if had_clients(since) {
        story.cx.judges("broker_lets_go");
    }
    if counts.clients > open(since) {
        let (count, open) = (counts.clients as u64, open(since) as u64);
        return violation(&GHOSTS, fields! { count, open, since });
    }
    // A start without an answer, then the end of its turn, and the answers to the last interrupts.
    let patience = broker.connection.request * 3 + broker.settle * 2 + LEARNS * 2;
    let since = at.before(patience);
    let is_alone = since > Time::ZERO && open(since) == 0 && !was_named_late(story, since, at);
    if !is_alone {
        return None;
    }
    if had_clients(since) {
        story.cx.judges("broker_lets_go");
    }
    // The late answer to a start may claim the news.
    let is_final = counts.unclaimed_bytes > 0 && !may_answer_late(story);
    let unclaimed = if is_final { counts.unclaimed_bytes } else { 0 };
    let left = [
        ("requests", counts.requests),
        ("interrupts", counts.interrupts),
        ("turns", counts.turns),
        ("bytes for clients", counts.outbox_bytes),
        ("bytes of news without an owner", unclaimed),
    ];
    let (what, count) = left.into_iter().find(|(_, count)| *count > 0)?;
    violation(&HELD, fields! { count: count as u64, what, since })
}
