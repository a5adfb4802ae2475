//! `bounded_ending`: a stream or call that is over ends for its user within a bounded time, and no
//! call waits forever.
//!
//! [`Path::bound`](super::path::Path::bound) computes the bound from the time at which something
//! became due. The following are due:
//! - a stream whose producer has ended: from that end, or from the stream's opening if that is
//!   later. A stream whose producer is alive is open, not hung;
//! - the next item of an open stream: from its production, or from the stream's opening if that is
//!   later. A live stream that delivers nothing more is hung;
//! - a stream whose producer died with its host, without a later sign of life: from that death;
//! - a stream or durable call on a path that nothing at all can pass for longer than the client may
//!   keep trying: from the start of that interval;
//! - a call: from the time of the call, plus its own wait (the field `wait` of its operation, a
//!   duration). If other calls of its client fill the limit of requests in flight, from the answer
//!   that makes room for it. These are the earlier calls, and the later ones if it sends requests
//!   after theirs;
//! - a bound call, or a stream that a bound call opened: 1 s after the client's end of its
//!   connection is over. While the connection lives, the call may stay open, as a lease does. A
//!   call whose user limits the wait for the outside world
//!   ([`outside_wait`](super::Guarantees::outside_wait)) is also due like an ordinary call with that
//!   wait; a stream that it opened is not. If there was no connection at the time of the call, the call has no bound if a connection comes
//!   later, and the bound of an ordinary call if none does.
//!
//! If the network between a server and the outside world was faulty, a stream from the outside
//! world is due only when its user's own wait is over:
//! [`outside_wait`](super::Guarantees::outside_wait) after its opening. A user that pauses after
//! each item (the field `pause` of its operation, a duration) accepts nothing during a pause. Pauses
//! after the stream became due do not count. For a user that starts to look at a stream only later
//! (the field `looks-after`), nothing is due before that.
//!
//! The answers to the calls of a user use the same link as its streams. So the bound of a stream
//! also allows for the transfer of the answers that had not arrived when the stream became due.
//!
//! Nothing is due to a user that gave up, or whose host died. A stream or call that is open at the
//! horizon is late only if its bound lies before the horizon.

use std::time::Duration;

use crate::history::{Answer, Class, Connection, Time};

use super::facts::{CallEnding, CallFacts, Facts};
use super::findings::Findings;
use super::path::{MARGIN, NEVER, Path, Requests, through, turn_behind};
use super::view::View;
use super::violation::{fields, kinds};
use super::{CheckContext, Phrase, ViolationFields};

kinds! {
    pub(super) KINDS;
    STREAM_LATE = "stream-late": "{subject:}after item {items}, it ended late: {why}, so {bound} was the bound: {terms} {moment}";
    STREAM_OPEN = "stream-open": "{subject:}after item {items}, it never ended: {why}, so {bound} was the bound: {terms} {moment}";
    CALL_LATE = "call-late": "{subject:}it ended late: {why}, so {bound} was the bound: {terms} {moment}";
    CALL_OPEN = "call-open": "{subject:}it never ended: {why}, so {bound} was the bound: {terms} {moment}";
}

// Parts of these sentences: why something was due.
kinds! {
    ENDED = "ended": "its producer had ended at {since}";
    DIED = "died": "its producer had died with its host at {since}";
    OWED = "owed": "its next item had been produced at {since}";
    SEVERED = "severed": "no more data could arrive";
    ASKED = "asked": "it had been asked for at {since}";
    OVER = "over": "its connection was over at {since}";
}

// The terms of a bound that is no bound of a path.
kinds! {
    AT_ONCE = "at-once": "{margin} after that, or after the last hold of its host";
}

/// Checks for views and calls that ended too late, or never.
pub(super) fn check(facts: &Facts<'_>, broken: &mut Findings) {
    for view in &facts.views {
        check_view(facts, view, broken);
    }
    for call in &facts.calls {
        check_call(facts, call, broken);
    }
}

/// The bound of something that is due, and the reason.
#[derive(Clone, Copy)]
struct Due {
    bound: Time,
    /// The part of the bound that is the user's own: waits and pauses.
    wait: Duration,
    why: Why,
}

#[derive(Clone, Copy)]
enum Why {
    /// Its producer really ended at this time.
    Ended(Time),
    /// Its producer's host died at this time.
    Died(Time),
    /// Its next item was produced at this time.
    Owed(Time),
    /// Nothing could pass on its path.
    Severed,
    /// The call was made at this time.
    Asked(Time),
    /// The connection that carried it was over at this time.
    Over(Time),
}

impl Why {
    /// Returns the time at which it became due, for a user that looked from `looked` on.
    fn since(self, looked: Time) -> Time {
        match self {
            Why::Ended(at) | Why::Died(at) | Why::Owed(at) | Why::Asked(at) | Why::Over(at) => {
                at.max(looked)
            }
            Why::Severed => looked,
        }
    }
}

impl From<Why> for Phrase {
    fn from(why: Why) -> Self {
        let since = |kind, since: Time| Phrase::new(kind, fields! { since });
        match why {
            Why::Ended(at) => since(&ENDED, at),
            Why::Died(at) => since(&DIED, at),
            Why::Owed(at) => since(&OWED, at),
            Why::Severed => Phrase::new(&SEVERED, ViolationFields::default()),
            Why::Asked(at) => since(&ASKED, at),
            Why::Over(at) => since(&OVER, at),
        }
    }
}

fn check_view(facts: &Facts<'_>, view: &View<'_>, broken: &mut Findings) {
    let Some((_, opened, _)) = view.opened else { return };
    // A client may never learn of messages that it did not receive.
    if facts.path(view.path).is_tampered_since(opened) {
        return;
    }
    let ending = view.ending().map(|(index, at, _)| (index, at));
    let late = |due| late(facts, due, ending.map(|(_, at)| at), |at| view.is_abandoned(at));
    // It takes long to sum up the answers.
    let is_late_without_answers =
        view_due(facts, view, opened, |_, _| Duration::ZERO).is_some_and(|due| late(due).is_some());
    if !is_late_without_answers {
        return;
    }
    let answers = |due, bound| answers_before(facts, view, due, bound);
    let Some(due) = view_due(facts, view, opened, answers) else { return };
    if let Some((at, how)) = late(due) {
        let index = ending.map_or(usize::MAX, |(index, _)| index);
        let kind = if how == Late::Ended { &STREAM_LATE } else { &STREAM_OPEN };
        let terms = terms(facts, view.path, due);
        let data = fields! {
            items: view.fit.items, why: Phrase::from(due.why), bound: due.bound, terms
        };
        broken.push(view.stream, at, kind, data.with("generation", view.generation_before(index)));
    }
}

fn check_call(facts: &Facts<'_>, call: &CallFacts<'_>, broken: &mut Findings) {
    // Not every protocol limits how long a call waits for an answer that a fault took away.
    let waits_for_ever =
        facts.path(call.path).is_tampered_since(call.at) && facts.guarantees().call_wait.is_zero();
    if call.opened || waits_for_ever {
        return;
    }
    let due = call_due(facts, call);
    let ended = call.endings.first().map(|(_, at, _)| *at);
    if let Some((at, how)) = late(facts, due, ended, |at| call.is_abandoned(at)) {
        let kind = if how == Late::Ended { &CALL_LATE } else { &CALL_OPEN };
        let terms = terms(facts, call.path, due);
        let data = fields! { why: Phrase::from(due.why), bound: due.bound, terms };
        broken.push(call, at, kind, data);
    }
}

fn terms(facts: &Facts<'_>, path: usize, due: Due) -> Phrase {
    match due.why {
        Why::Over(_) => Phrase::new(&AT_ONCE, fields! { margin: MARGIN }),
        _ => facts.path(path).terms(facts.guarantees(), due.bound, due.wait),
    }
}

/// How something is late.
#[derive(PartialEq, Eq)]
enum Late {
    /// It ended after its bound.
    Ended,
    /// It was still open at the end of the judged time.
    Open,
}

/// Returns when and how something is late, if it is.
fn late(
    facts: &Facts<'_>,
    due: Due,
    ended: Option<Time>,
    is_abandoned: impl Fn(Time) -> bool,
) -> Option<(Time, Late)> {
    let Due { bound, .. } = due;
    // Nothing is seen after the judged time.
    if bound >= facts.judged_until() || is_abandoned(bound) {
        return None;
    }
    facts.cx.judges("bounded_ending");
    let ended = ended.filter(|at| *at <= facts.horizon);
    let seen = ended.unwrap_or(facts.judged_until());
    if seen <= bound {
        return None;
    }
    Some(ended.map_or((bound, Late::Open), |at| (at, Late::Ended)))
}

/// Returns what is due first of a view. `answers` returns how much more time something may take that
/// was due at a time, and is bound by another time without it.
fn view_due(
    facts: &Facts<'_>,
    view: &View<'_>,
    opened: Time,
    answers: impl Fn(Time, Time) -> Duration,
) -> Option<Due> {
    let path = facts.path(view.path);
    let looked = facts.looked(view).unwrap_or(opened);
    let heard = looked.max(heard_from(facts, view, opened));
    let due = |at: Time, why| {
        let bound = path.bound(facts.guarantees(), at.max(heard), Duration::ZERO);
        Due { bound, wait: Duration::ZERO, why }
    };
    let ended = facts.over(view).map(|at| due(at, Why::Ended(at)));
    let died = died_with_its_host(facts, view, opened).filter(|_| ended.is_none());
    let died = died.map(|at| due(at, Why::Died(at)));
    let severed = path.severed_bound(facts.guarantees(), looked).map(|bound| Due {
        bound,
        wait: Duration::ZERO,
        why: Why::Severed,
    });
    let owed = next_item(facts, view).map(|at| due(at, Why::Owed(at)));
    let lost = facts.bound(view).map(|call| {
        let never = Due { bound: NEVER, wait: Duration::ZERO, why: Why::Asked(opened) };
        bound_call_due(facts, call, opened, never)
    });
    let dues =
        [ended, died, severed, owed, lost].into_iter().flatten().filter(|due| due.bound < NEVER);
    let dues = dues.map(|due| {
        let wait = match due.why {
            Why::Ended(_) | Why::Died(_) | Why::Owed(_) => {
                let since = due.why.since(heard);
                let paused = facts.paused(view, since);
                paused + answers(since, due.bound + paused)
            }
            Why::Severed | Why::Asked(_) | Why::Over(_) => {
                facts.paused(view, due.why.since(looked))
            }
        };
        Due { bound: due.bound + wait, wait, ..due }
    });
    dues.min_by_key(|due| due.bound)
}

/// Returns how much longer a stream may take that was due at a time, because answers use the same link.
/// `bound` is its bound without the answers. A call that its user makes before the bound delays it further.
pub(super) fn answers_before(
    facts: &Facts<'_>,
    view: &View<'_>,
    due: Time,
    bound: Time,
) -> Duration {
    let mut extra = Duration::ZERO;
    loop {
        let more = answers_beside(facts, view, due, bound + extra);
        if more <= extra {
            return extra;
        }
        extra = more;
    }
}

/// Returns how long the answers to the calls that a user made until a time take to arrive: they use the
/// same link as the stream. An answer that had arrived before the stream was due delays nothing.
pub(super) fn answers_beside(
    facts: &Facts<'_>,
    view: &View<'_>,
    due: Time,
    until: Time,
) -> Duration {
    let has_arrived = |call: &CallFacts<'_>| {
        let done =
            |ending: &CallEnding<'_>| matches!(ending, CallEnding::Answered(Answer::Done(_)));
        call.endings.first().is_some_and(|(_, at, ending)| *at < due && done(ending))
    };
    let calls = facts
        .calls
        .iter()
        .filter(|call| call.host == view.host && call.at <= until && !has_arrived(call));
    let latency = facts.path(view.path).worst_latency(Time::ZERO, NEVER);
    through(calls.map(|call| bytes(facts, call)).fold(0, u64::saturating_add), latency)
}

/// Returns the number of bytes of all answers to a call.
fn bytes(facts: &Facts<'_>, call: &CallFacts<'_>) -> u64 {
    (facts.guarantees().answer_bytes)(facts.cx.plan, call.operation)
}

/// The time from which the end of a stream must reach its user. The protocol guarantees nothing
/// about the network between a server and the outside world. If that network was faulty, the server
/// may not learn of the end; only the wait that the user gave to the server then ends the stream.
/// Otherwise the time of the opening.
pub(super) fn heard_from(facts: &Facts<'_>, view: &View<'_>, opened: Time) -> Time {
    let CheckContext { plan, history, guarantees, .. } = facts.cx;
    let is_outside = |host: &&str| guarantees.outside.contains(host);
    let Some(outside) = facts.sources[view.source].host.filter(is_outside) else { return opened };
    let servers = facts.path(view.path).servers.clone();
    let way = Path::new(outside, servers, plan, history, &facts.faults, &facts.downs);
    let call = view.opened.and_then(|(.., call)| facts.call(call));
    let wait = call.map_or(Duration::ZERO, |call| (guarantees.outside_wait)(plan, call.operation));
    if way.is_touched(opened, facts.judged_until()) { opened + wait } else { opened }
}

/// Returns when the first undelivered item was produced, if the stream is still open at the end of
/// the judged time.
fn next_item(facts: &Facts<'_>, view: &View<'_>) -> Option<Time> {
    let is_open = view.ending().is_none_or(|(_, at, _)| at > facts.horizon);
    let is_judged =
        is_open && view.fit.difference.is_none() && !facts.path(view.path).has_false_peer();
    let next = view.fit.start + view.fit.items;
    let mut items = facts.sources[view.source].items.iter().skip(next).filter(|_| is_judged);
    items.find(|item| !item.bytes.is_empty()).map(|item| item.at)
}

/// Returns when the producer of a stream died with its host, if that was after the opening and no
/// sign of life followed.
fn died_with_its_host(facts: &Facts<'_>, view: &View<'_>, opened: Time) -> Option<Time> {
    let source = &facts.sources[view.source];
    let path = facts.path(view.path);
    let is_its = |host: &str| source.host.map_or(path.servers.contains(&host), |own| own == host);
    let last_contact = source.last_change().map(|(_, at)| at);
    let mut deaths = facts.downs.iter().filter(|down| is_its(down.host)).map(|down| down.from);
    deaths.rfind(|death| *death >= opened && last_contact.is_none_or(|at| at <= *death))
}

fn call_due(facts: &Facts<'_>, call: &CallFacts<'_>) -> Due {
    let path = facts.path(call.path);
    let wait = patience(facts, call);
    let turn = turn(facts, call);
    let bound = |wait| path.bound(facts.guarantees(), turn, wait);
    let asked = Due { bound: bound(wait), wait, why: Why::Asked(call.at) };
    let severed = path.severed_bound(facts.guarantees(), turn).map(|bound| Due {
        bound: bound + wait,
        wait,
        why: Why::Severed,
    });
    match call.class {
        Class::Durable => severed.filter(|due| due.bound < asked.bound).unwrap_or(asked),
        Class::InFlight => asked,
        Class::Bound if may_wait_for_others(facts, call) => Due { bound: NEVER, ..asked },
        Class::Bound => {
            let due = bound_call_due(facts, call, call.at, asked);
            let outside = (facts.guarantees().outside_wait)(facts.cx.plan, call.operation);
            if outside.is_zero() {
                return due;
            }
            // A user that limits its wait for the outside world gets an answer from the server.
            let wait = wait + outside;
            let limited = Due { bound: bound(wait), wait, ..asked };
            if limited.bound < due.bound { limited } else { due }
        }
    }
}

/// Returns whether a call may wait for other calls of its client, because they fill the limit of
/// requests in flight. An observer cannot know which connection then carries it.
fn may_wait_for_others(facts: &Facts<'_>, call: &CallFacts<'_>) -> bool {
    behind(facts, call).is_some()
}

/// Returns when other calls of its client no longer fill the limit of requests in flight: from then
/// on, a call does not wait for them. Each of them has its own bound.
pub(super) fn turn(facts: &Facts<'_>, call: &CallFacts<'_>) -> Time {
    behind(facts, call).unwrap_or(call.at)
}

fn behind(facts: &Facts<'_>, call: &CallFacts<'_>) -> Option<Time> {
    let limit = facts.guarantees().in_flight?;
    let others = rivals(facts, call).map(|other| Requests {
        asked: other.at,
        answered: answered(facts, other),
        count: (limit.of)(other.operation),
    });
    turn_behind(call.at, others, limit.requests)
}

/// Returns when a call had its outcome, or opened a stream.
fn answered(facts: &Facts<'_>, call: &CallFacts<'_>) -> Time {
    let opened = facts.views.iter().filter_map(|view| view.opened);
    let opened = opened.filter(|(.., by)| *by == call.call).map(|(_, at, _)| at);
    opened.chain(call.endings.first().map(|(_, at, _)| *at)).min().unwrap_or(NEVER)
}

/// Returns the calls of the same client that were open when a call was made.
fn open_before<'f, 'a>(
    facts: &'f Facts<'a>,
    call: &'f CallFacts<'a>,
) -> impl Iterator<Item = &'f CallFacts<'a>> {
    facts.calls.iter().filter(move |other| {
        let is_open = other.endings.first().is_none_or(|(_, ended, _)| *ended >= call.at);
        other.host == call.host && other.index < call.index && is_open
    })
}

/// Returns the calls of the same client whose requests may be before one of a call: those that were
/// open when it was made, and those that were made before its end if it sends requests after theirs.
fn rivals<'f, 'a>(
    facts: &'f Facts<'a>,
    call: &'f CallFacts<'a>,
) -> impl Iterator<Item = &'f CallFacts<'a>> {
    let open = open_before(facts, call).filter(|other| answered(facts, other) >= call.at);
    let open: Vec<_> = open.map(|other| other.operation).collect();
    let limit = facts.guarantees().in_flight;
    let is_later = limit.is_some_and(|limit| (limit.later)(&open, call.operation));
    let ended = call.endings.first().map(|(_, ended, _)| *ended);
    // A later call without an outcome may itself wait for this one, so it excuses nothing.
    let later = facts.calls.iter().filter(move |other| {
        let is_before_its_end = ended.is_none_or(|ended| other.at <= ended);
        let is_other = other.host == call.host && other.index > call.index;
        is_later && is_other && is_before_its_end && answered(facts, other) != NEVER
    });
    open_before(facts, call).chain(later)
}

/// Returns how often a call, and the calls before it, fill the limit of requests in flight. Each time,
/// the next requests wait for the answers to the earlier ones. A request that may wait keeps its place
/// meanwhile, so the others share fewer places; [`turn`] covers the time in which none is left.
fn rounds(facts: &Facts<'_>, call: &CallFacts<'_>) -> u32 {
    let rounds = facts.guarantees().in_flight.map_or(0, |limit| {
        let of = |call: &CallFacts<'_>| (limit.of)(call.operation);
        let most = limit.requests.max(1);
        let (waiting, others): (Vec<_>, Vec<_>) =
            open_before(facts, call).partition(|other| !other.operation.wait().is_zero());
        let waiting: u64 = waiting.into_iter().map(of).sum();
        let others = others.into_iter().map(of).sum::<u64>() + of(call);
        let shared = others / (most - waiting.min(most - 1));
        shared.max((waiting + others) / most)
    });
    u32::try_from(rounds).unwrap_or(u32::MAX)
}

/// Returns how long the answers to a call, and to the calls before it, take to arrive. A call that
/// sends requests after those of later calls waits for their answers, too.
pub(super) fn answers(facts: &Facts<'_>, call: &CallFacts<'_>) -> Duration {
    let latency = facts.path(call.path).worst_latency(Time::ZERO, NEVER);
    let rounds = rounds(facts, call);
    let before = rivals(facts, call).map(|call| bytes(facts, call)).sum::<u64>();
    through(before + bytes(facts, call), latency) + latency.saturating_mul(2).saturating_mul(rounds)
}

/// Returns the extra time that a call may wait: its own wait, plus the wait for a puppet, the outside
/// world or a slow user, plus the transfer of the answers. A puppet may leave all of the requests in
/// flight without an answer, each time. So may a fault that changes messages.
pub(super) fn patience(facts: &Facts<'_>, call: &CallFacts<'_>) -> Duration {
    let is_patient =
        facts.path(call.path).has_false_peer() || may_wait_for_others_to_act(facts, call);
    let outside = if is_patient { facts.guarantees().call_wait } else { Duration::ZERO };
    let outside = outside.saturating_mul(rounds(facts, call).saturating_add(1));
    call.operation.wait() + outside + answers(facts, call)
}

/// Returns the bound of a bound call. If a generation was installed when the call was seen, the
/// call belongs to that generation's connection. Otherwise it waits for a later generation, and an
/// observer cannot know which one.
fn bound_call_due(facts: &Facts<'_>, call: &CallFacts<'_>, seen: Time, asked: Due) -> Due {
    let conns = facts.cx.history.conns.iter().zip(&facts.installed);
    let own = conns
        .filter_map(|(conn, installed)| Some((conn, (*installed)?)))
        .filter(|(conn, _)| conn.client.as_str() == call.host);
    let is_over = |conn: &Connection| conn.over.0.is_some_and(|over| over <= seen);
    let mut open = own.filter(|(conn, _)| !is_over(conn));
    let never = Due { bound: NEVER, ..asked };
    match open.clone().rfind(|(_, installed)| *installed <= seen) {
        Some((conn, _)) => conn.over.0.map_or(never, |over| Due {
            bound: at_once(facts, call.host, over),
            wait: Duration::ZERO,
            why: Why::Over(over),
        }),
        None if open.next().is_some() => never,
        None => asked,
    }
}

/// Returns whether a call may wait until the outside world or a slow user acts.
pub(super) fn may_wait_for_others_to_act(facts: &Facts<'_>, call: &CallFacts<'_>) -> bool {
    let ended = call.endings.first().map_or(NEVER, |(_, ended, _)| *ended);
    let own = facts.calls.iter().filter(|other| other.host == call.host && other.at <= ended);
    let own: Vec<_> = own.map(|other| other.operation).collect();
    may_wait_for_the_outside(facts, call)
        || (facts.guarantees().held)(facts.cx.plan, &own, call.operation)
}

/// Returns whether only a host of the outside world may be able to answer a call: its path includes
/// such a host, and the call had no effect on any other host.
fn may_wait_for_the_outside(facts: &Facts<'_>, call: &CallFacts<'_>) -> bool {
    let is_outside = |host: &str| facts.guarantees().outside.contains(&host);
    let had_effect_inside = || {
        facts
            .effects
            .iter()
            .any(|effect| effect.call == call.call && !effect.host.is_some_and(is_outside))
    };
    facts.path(call.path).servers.iter().any(|host| is_outside(host)) && !had_effect_inside()
}

/// Returns the time by which a host must notice an event: at once, but not while a task of the host
/// is held.
fn at_once(facts: &Facts<'_>, host: &str, happened: Time) -> Time {
    facts.holds_on(host).fold(happened + MARGIN, |bound, hold| {
        match hold.began <= bound && hold.ended >= happened {
            true if hold.ended == NEVER => NEVER,
            true => bound.max(hold.ended + MARGIN),
            false => bound,
        }
    })
}

#[cfg(test)]
mod tests;
