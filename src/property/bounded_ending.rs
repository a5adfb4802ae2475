//! `bounded_ending`: what is over ends for its user in bounded time, and no call waits for ever.
//!
//! The bound is that of [`Path::bound`](super::path::Path::bound). What is due, and since when:
//! - a stream whose producer has ended: since then, or since its opening. One whose producer lives is open, not hung;
//! - an item of a stream that is open: since it was produced, or since the opening. A stream that lives, but brings nothing any
//!   more, is hung;
//! - a stream whose producer died with its host, and showed no life after it: since that death;
//! - a stream or durable call over whose path nothing at all passes for longer than the client may try: since that began;
//! - a call: since its asking, and with its own wait: the field `wait` of its operation, a duration;
//! - a bound call, or the stream that one opened: since the client's end of the connection that carried it was over, plus 1 s; while that lives, it may be open,
//!   as a lease is. One that had no connection when it was asked for has no bound if any comes later, and a call's bound if none
//!   does.
//!
//! Where the way between a server and the outside world was faulty, nothing is due of a stream that comes from there until its user's
//! own wait for it is over: [`outside_wait`](super::Guarantees::outside_wait) from its opening on.
//! A user that pauses after each item (the field `pause` of its operation, a duration) takes nothing in a pause. Its pauses since the
//! stream was due do not count. To a user that looks at what it opened only later (the field `looks-after`), nothing is due before.
//!
//! What the user gave up, or whose user died, is not owed. What is open at the horizon is late only if its bound lies before.

use std::time::Duration;

use crate::history::{Class, Connection, Time};

use super::facts::{CallFacts, Facts};
use super::findings::Findings;
use super::path::{NEVER, Path};
use super::view::View;
use super::violation::{fields, kinds};
use super::{CheckContext, Phrase, ViolationFields};

kinds! {
    pub(super) KINDS;
    STREAM_LATE = "stream-late": "{subject:}after item {items}, it ended late: {why}, so {bound} was the bound {moment}";
    STREAM_OPEN = "stream-open": "{subject:}after item {items}, it never ended: {why}, so {bound} was the bound {moment}";
    CALL_LATE = "call-late": "{subject:}it ended late: {why}, so {bound} was the bound {moment}";
    CALL_OPEN = "call-open": "{subject:}it never ended: {why}, so {bound} was the bound {moment}";
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

/// What "at once" may take.
const AT_ONCE: Duration = Duration::from_secs(1);

/// The views and calls that ended too late, or never.
pub(super) fn check(facts: &Facts<'_>, broken: &mut Findings) {
    for view in &facts.views {
        check_view(facts, view, broken);
    }
    for call in &facts.calls {
        check_call(facts, call, broken);
    }
}

/// Why something is due.
#[derive(Clone, Copy)]
struct Due {
    bound: Time,
    why: Why,
}

#[derive(Clone, Copy)]
enum Why {
    /// Its producer really ended then.
    Ended(Time),
    /// Its producer's host died then.
    Died(Time),
    /// Its next item was produced then.
    Owed(Time),
    /// Nothing could pass.
    Severed,
    /// It was asked for then.
    Asked(Time),
    /// The connection that carried it was over then.
    Over(Time),
}

impl Why {
    /// Since when it was due, for a user who looked from `looked` on.
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
    let Some(due) = view_due(facts, view, opened) else { return };
    let ending = view.ending().map(|(index, at, _)| (index, at));
    if let Some((at, how)) = late(facts, due, ending.map(|(_, at)| at), |at| view.is_abandoned(at))
    {
        let index = ending.map_or(usize::MAX, |(index, _)| index);
        let kind = if how == Late::Ended { &STREAM_LATE } else { &STREAM_OPEN };
        let data = fields! { items: view.fit.items, why: Phrase::from(due.why), bound: due.bound };
        broken.push(view.stream, at, kind, data.with("generation", view.generation_before(index)));
    }
}

fn check_call(facts: &Facts<'_>, call: &CallFacts<'_>, broken: &mut Findings) {
    if call.opened {
        return;
    }
    let due = call_due(facts, call);
    let ended = call.endings.first().map(|(_, at, _)| *at);
    if let Some((at, how)) = late(facts, due, ended, |at| call.is_abandoned(at)) {
        let kind = if how == Late::Ended { &CALL_LATE } else { &CALL_OPEN };
        broken.push(call, at, kind, fields! { why: Phrase::from(due.why), bound: due.bound });
    }
}

/// How something is late.
#[derive(PartialEq, Eq)]
enum Late {
    /// It ended after its bound.
    Ended,
    /// It is still open when nobody looks any more.
    Open,
}

/// When and how something is late, if it is.
fn late(
    facts: &Facts<'_>,
    due: Due,
    ended: Option<Time>,
    is_abandoned: impl Fn(Time) -> bool,
) -> Option<(Time, Late)> {
    let Due { bound, .. } = due;
    let ended = ended.filter(|at| *at <= facts.horizon);
    let seen = ended.unwrap_or(facts.judged_until());
    if seen <= bound || is_abandoned(bound) {
        return None;
    }
    Some(ended.map_or((bound, Late::Open), |at| (at, Late::Ended)))
}

fn view_due(facts: &Facts<'_>, view: &View<'_>, opened: Time) -> Option<Due> {
    let path = facts.path(view.path);
    let looked = facts.looked(view).unwrap_or(opened);
    let heard = looked.max(heard_from(facts, view, opened));
    let bound = |due: Time| path.bound(facts.guarantees(), due.max(heard), Duration::ZERO);
    let ended = facts.over(view).map(|at| Due { bound: bound(at), why: Why::Ended(at) });
    let died = died_with_its_host(facts, view, opened).filter(|_| ended.is_none());
    let died = died.map(|at| Due { bound: bound(at), why: Why::Died(at) });
    let severed = path
        .severed_bound(facts.guarantees(), looked)
        .map(|bound| Due { bound, why: Why::Severed });
    let owed = next_item(facts, view).map(|at| Due { bound: bound(at), why: Why::Owed(at) });
    let lost = facts.bound(view).map(|call| {
        bound_call_due(facts, call, opened, Due { bound: NEVER, why: Why::Asked(opened) })
    });
    let dues =
        [ended, died, severed, owed, lost].into_iter().flatten().filter(|due| due.bound < NEVER);
    let paused = |why: Why| match why {
        Why::Ended(_) | Why::Died(_) | Why::Owed(_) => facts.paused(view, why.since(heard)),
        Why::Severed | Why::Asked(_) | Why::Over(_) => facts.paused(view, why.since(looked)),
    };
    let dues = dues.map(|due| Due { bound: due.bound + paused(due.why), ..due });
    dues.min_by_key(|due| due.bound)
}

/// From when on the end of a stream is heard for certain. Nothing is promised of the way between a server and the outside world: where that
/// was faulty, the server may hear of no end, and only the wait that its user gave it ends the stream. Otherwise from the opening on.
fn heard_from(facts: &Facts<'_>, view: &View<'_>, opened: Time) -> Time {
    let CheckContext { plan, history, guarantees, .. } = facts.cx;
    let is_outside = |host: &&str| guarantees.outside.contains(host);
    let Some(outside) = facts.sources[view.source].host.filter(is_outside) else { return opened };
    let servers = facts.path(view.path).servers.clone();
    let way = Path::new(outside, servers, plan, history, &facts.faults, &facts.downs);
    let call = view.opened.and_then(|(.., call)| facts.call(call));
    let wait = call.map_or(Duration::ZERO, |call| (guarantees.outside_wait)(plan, call.operation));
    if way.is_touched(opened, facts.judged_until()) { opened + wait } else { opened }
}

/// When the first item was produced that a stream still owes when nobody looks any more, if it is open then.
fn next_item(facts: &Facts<'_>, view: &View<'_>) -> Option<Time> {
    let is_open = view.ending().is_none_or(|(_, at, _)| at > facts.horizon);
    let is_judged = is_open && view.fit.difference.is_none() && !facts.path(view.path).puppet;
    let item = facts.sources[view.source]
        .items
        .get(view.fit.start + view.fit.items)
        .filter(|_| is_judged)?;
    (!item.bytes.is_empty()).then_some(item.at)
}

/// When the producer of a stream died with its host, after the opening, and showed no life after it.
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
    let asked =
        Due { bound: path.bound(facts.guarantees(), call.at, wait), why: Why::Asked(call.at) };
    let severed = path
        .severed_bound(facts.guarantees(), call.at)
        .map(|bound| Due { bound: bound + wait, why: Why::Severed });
    match call.class {
        Class::Durable => severed.filter(|due| due.bound < asked.bound).unwrap_or(asked),
        Class::InFlight => asked,
        Class::Bound => bound_call_due(facts, call, call.at, asked),
    }
}

/// How long a call may wait on top of everything: its own wait, and that for a puppet or the outside world.
pub(super) fn patience(facts: &Facts<'_>, call: &CallFacts<'_>) -> Duration {
    let is_patient = facts.path(call.path).puppet || may_wait_for_the_outside(facts, call);
    call.operation.wait() + if is_patient { facts.guarantees().call_wait } else { Duration::ZERO }
}

/// What is bound to a connection, and was seen while a generation was installed, belongs to that. Anything else waits, and
/// belongs to a later generation; nobody outside knows to which.
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
            why: Why::Over(over),
        }),
        None if open.next().is_some() => never,
        None => asked,
    }
}

/// Whether a call may be one that is answered only when a host is that plays the outside world: its path leads there, and it has had no
/// effect anywhere else.
pub(super) fn may_wait_for_the_outside(facts: &Facts<'_>, call: &CallFacts<'_>) -> bool {
    let is_outside = |host: &str| facts.guarantees().outside.contains(&host);
    let had_effect_inside = || {
        facts
            .effects
            .iter()
            .any(|effect| effect.call == call.call && !effect.host.is_some_and(is_outside))
    };
    facts.path(call.path).servers.iter().any(|host| is_outside(host)) && !had_effect_inside()
}

/// By when a host has noticed what happened there: at once, but not while a task of it is held.
fn at_once(facts: &Facts<'_>, host: &str, happened: Time) -> Time {
    facts.holds_on(host).fold(happened + AT_ONCE, |bound, hold| {
        match hold.began <= bound && hold.ended >= happened {
            true if hold.ended == NEVER => NEVER,
            true => bound.max(hold.ended + AT_ONCE),
            false => bound,
        }
    })
}

#[cfg(test)]
mod tests;
