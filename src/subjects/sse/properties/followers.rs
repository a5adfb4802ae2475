//! The way of followers to the ending: their connections, their attempts, their items.

use std::time::Duration;

use super::refusals::MANY;
use crate::history::{ConnIndex, Connection, EventKind, Time};
use crate::property::Violation;
use crate::property::violation::{fields, kinds};
use crate::subjects::judging::{judged, peers_may_lie};
use crate::subjects::sse::operations::SseOperation;
use crate::subjects::sse::story::{Question, Story};

kinds! {
    pub(super) STREAMS_STAY;
    LOST = "lost": "{subject:}a follower lost its connection ({why}), but nothing was in its way {moment}";
    TAKES_BYTES = "takes-bytes": "{subject:}the server closed {conn}, but that had taken bytes at {took}, and may refuse them for {deadline} {moment}";
}

kinds! {
    pub(super) PAUSES_GROW;
    TOO_MANY = "too-many": "{subject:}the followers began {attempts} attempts since {since}, more than {most} {moment}";
    TOO_LATE = "too-late": "{subject:}the follower began its next attempt only then, although it had no connection since {lost}, and its pause is at most {most} {moment}";
}

kinds! {
    pub(super) ITEMS_ARE_LINES;
    LINES = "lines": "{subject:}the user received more than one line as one item {moment}";
    HALF = "half": "{subject:}the user received an item that begins inside a character {moment}";
    TOO_LONG = "too-long": "{subject:}the user received {bytes} bytes as one item, more than {most} {moment}";
}

pub(super) fn streams_stay(story: &Story<'_>) -> Vec<Violation> {
    if peers_may_lie(story.cx) || story.server.connections < MANY {
        return Vec::new();
    }
    let sign_of_life = story.server.heartbeat + story.cx.plan.latency.1 * 2;
    let is_impatient = story.client.silence <= sign_of_life;
    // A loss of one of these connections would have been wrong.
    for (on, attempts) in &story.attempts {
        if reads_alone(story, on) {
            let calm =
                attempts.iter().filter(|at| story.first_fault.is_none_or(|fault| fault > **at));
            calm.for_each(|_| story.cx.judges("streams_stay"));
        }
    }
    let lost = story.losses.iter().filter_map(|(at, on, why)| {
        // The server says so, and other properties judge it.
        let is_told = why.starts_with("refused") || why.starts_with("command ");
        let is_own = is_impatient && *why == "the connection was silent";
        let is_calm = story.first_fault.is_none_or(|fault| fault > *at);
        (!is_told && !is_own && is_calm && reads_alone(story, on)).then(|| {
            story.cx.judges("streams_stay");
            let data = fields! { why: (*why).to_owned() };
            Violation::new("streams_stay", *on, *at, &LOST, data)
        })
    });
    let closed = story.cx.history.conns.iter().zip(0..);
    let closed = closed.filter_map(|(conn, n)| closed_with_progress(story, conn, ConnIndex(n)));
    lost.chain(closed).collect()
}

/// Judges the connection of a follower whose end at the server has waited for room, and has taken bytes after that:
/// the server closes it only if it then refuses bytes for the whole deadline. The reader may be slow, and so may the
/// network: a connection that takes nothing is never judged.
fn closed_with_progress(
    story: &Story<'_>,
    conn: &Connection,
    index: ConnIndex,
) -> Option<Violation> {
    let took = conn.unblocked.1?;
    let deadline = story.server.write_deadline;
    let closed = story.server_closed.get(&index).copied();
    let closed = closed.filter(|closed| took + deadline > *closed + EXACT);
    must_stay(story, conn, closed.unwrap_or(took)).then(|| story.cx.judges("streams_stay"))?;
    let (name, deadline) = (conn.name.clone(), Time::from(deadline));
    let data = fields! { conn: name, took, deadline };
    Some(Violation::new("streams_stay", conn.client.as_str(), closed?, &TAKES_BYTES, data))
}

/// Whether a server has no reason to close a connection at a time but that it takes no bytes.
fn must_stay(story: &Story<'_>, conn: &Connection, at: Time) -> bool {
    let on = conn.client.as_str();
    // Its client is still there, and has no other connection that could have taken its place.
    let mut conns = story.followers_conns(on).filter(|other| other.name != conn.name);
    let is_newest = !conns.any(|other| (conn.opened..=at).contains(&other.opened));
    let is_there = conn.over.0.is_none_or(|over| over > at) && is_newest;
    // The stream is complete only after the end of the process. Before that, its server and its process have no
    // fault: these end commands, too. At the horizon, users do.
    let follower = story.only_follower(on, at).filter(|_| !conn.is_labelled());
    let process = follower.and_then(|its| story.processes.get(its.record.as_str()));
    let goes_on = process.is_some_and(|process| {
        process.launched.len() == 1 && process.ended.is_none_or(|(ended, _)| ended > at)
    });
    let is_calm = story.is_prompt(at) && at < Time::from(story.cx.plan.horizon);
    is_there && goes_on && is_calm && is_alone(story, on)
}

/// Whether the users of a host read at once, and no other reader wants their streams.
pub(super) fn reads_alone(story: &Story<'_>, on: &str) -> bool {
    is_alone(story, on) && reads_at_once(story, on)
}

/// Whether no other reader wants the streams of the users of a host.
fn is_alone(story: &Story<'_>, on: &str) -> bool {
    let own = |question: &&Question<'_>| question.host == on && question.follows();
    story.questions.iter().filter(own).all(|question| {
        let others = story.questions.iter().filter(|other| {
            // A request that is refused changes nothing.
            let takes_events = other.takes_events() && !other.is_refused();
            let is_reader = takes_events || other.host != on && other.follows();
            is_reader && other.record == question.record
        });
        others.count() == 0
    })
}

/// Whether the users of a host read at once what they follow.
pub(super) fn reads_at_once(story: &Story<'_>, on: &str) -> bool {
    let mut own = story.questions.iter().filter(|question| question.host == on);
    own.all(|question| match &question.operation {
        SseOperation::Run { reads, .. } | SseOperation::Follow { reads, .. } => reads.is_none(),
        _ => true,
    })
}

/// The time in which attempts are counted.
const WINDOW: Duration = Duration::from_secs(4);

/// The attempts that follow each other quickly after a loss, before the pauses are long.
const QUICK: u64 = 7;

pub(super) fn pauses_grow(story: &Story<'_>) -> Vec<Violation> {
    let longest = story.client.max_pause.max(Duration::from_millis(1));
    // At least half of a pause is fixed.
    let slow = WINDOW.as_millis() as u64 * 2 / longest.as_millis() as u64;
    let mut found = Vec::new();
    for (on, attempts) in &story.attempts {
        let excess = attempts.iter().enumerate().find_map(|(n, at)| {
            story.cx.judges("pauses_grow");
            let since = at.before(WINDOW);
            let count = within(&attempts[..=n], since, *at);
            let followers = story.questions.iter().filter(|question| {
                question.host == *on && question.follows() && question.asked <= *at
            });
            let followers = followers.count() as u64;
            // Each delivery shortens the pauses again.
            let delivered = story.deliveries.get(on).map_or(&[][..], Vec::as_slice);
            let progress = within(delivered, since, *at);
            let most = (followers + progress) * QUICK + slow * followers;
            (count > most).then_some((*at, count, since, most))
        });
        found.extend(excess.map(|(at, attempts, since, most)| {
            let data = fields! { attempts, since, most };
            Violation::new("pauses_grow", *on, at, &TOO_MANY, data)
        }));
        found.extend(late_attempt(story, on));
    }
    found
}

/// How exactly a client keeps its pauses.
const EXACT: Duration = Duration::from_millis(20);

/// Returns the first attempt of a host that began too late.
fn late_attempt(story: &Story<'_>, on: &str) -> Option<Violation> {
    // The connections of several followers have the same name, and a puppet may name a longer time.
    let follower = story.only_follower(on, Time::from(story.cx.plan.horizon))?;
    if peers_may_lie(story.cx) || !reads_at_once(story, on) {
        return None;
    }
    let conns: Vec<_> = story.followers_conns(on).collect();
    conns.windows(2).find_map(|pair| {
        let [lost, next] = pair else { return None };
        let over = lost.over.0?;
        let most = longest_pause(story, follower, lost, over)?;
        if !story.is_prompt(next.opened) {
            return None;
        }
        story.cx.judges("pauses_grow");
        let is_late = next.opened > over + most + EXACT;
        let data = fields! { lost: over, most: Time::from(most) };
        is_late.then(|| Violation::new("pauses_grow", on, next.opened, &TOO_LATE, data))
    })
}

/// Returns how long a follower pauses at most after it has lost a connection at `over`. `None` if the
/// connection may have brought a refusal with a time.
fn longest_pause(
    story: &Story<'_>,
    follower: &Question<'_>,
    lost: &Connection,
    over: Time,
) -> Option<Duration> {
    if lost.received.0.is_none() {
        return Some(story.client.max_pause.max(story.client.min_pause));
    }
    let (on, record) = (follower.host, follower.record.as_str());
    let is_its = |at: Time| lost.opened < at && at <= over;
    // After a gap, the history has only notes of what the user receives.
    let mut notes = story.notes.get(&(on, record)).into_iter().flatten();
    let brought = story.last_delivery(on, record, over).is_some_and(is_its)
        || notes.any(|(at, note)| note.is_item() && is_its(*at));
    // The first attempt after progress follows at once.
    brought.then_some(Duration::ZERO)
}

/// Returns how many of these times, which ascend, are in a span.
fn within(times: &[Time], since: Time, until: Time) -> u64 {
    let before = times.partition_point(|at| *at < since);
    (times.partition_point(|at| *at <= until) - before) as u64
}

pub(super) fn items_are_lines(story: &Story<'_>) -> Vec<Violation> {
    let most = story.server.line_bytes.max(4);
    let wrong = judged(story.cx).filter_map(|event| {
        let EventKind::Delivered { stream, bytes, .. } = &event.what else { return None };
        story.cx.judges("items_are_lines");
        let violation =
            |kind, data| Some(Violation::new("items_are_lines", stream, event.at, kind, data));
        let text = bytes.whole();
        let line = text.strip_suffix(b"\n").unwrap_or(&text);
        if line.contains(&b'\n') {
            return violation(&LINES, fields! {});
        }
        // The second and later bytes of a character.
        if text.first().is_some_and(|byte| byte & 0xc0 == 0x80) {
            return violation(&HALF, fields! {});
        }
        let (bytes, most) = (text.len() as u64, most as u64);
        (bytes > most).then(|| violation(&TOO_LONG, fields! { bytes, most })).flatten()
    });
    wrong.collect()
}
