//! `bounded_work`: connection attempts, frames and polls stay within the subject's bounds, whatever
//! the network does.
//!
//! - attempts: connections opened by one client in any virtual second. A user may replace the client of
//!   a host ([`begins_anew`](super::Guarantees::begins_anew)): the next one tries at once. Connections to
//!   the outside world do not count: a user asks for each of them, and the subject bounds how many;
//! - frames: segments with payload sent by one host in any virtual second, in excess of the frames
//!   needed for the actual data ([`Payload`]). Detailed histories list each frame. Other histories
//!   hold only the total number of segments, which is compared with the bound for the whole run;
//! - polls: the average over the run, per segment, item and virtual second.
//!
//! Frames are not counted if a slow link makes segments small: the network then determines their
//! number.

use std::collections::{BTreeMap, VecDeque};
use std::iter::Peekable;
use std::time::Duration;

use crate::history::{ConnIndex, Event, EventKind, Fate, Packet, Side, Time};
use crate::schedule::{Fault, SlowBy, faults};

use super::About;
use super::facts::Facts;
use super::findings::Findings;
use super::violation::{fields, kinds};

kinds! {
    pub(super) KINDS;
    ATTEMPTS = "attempts": "{subject:}{count} connections were opened within a second, more than {most} {moment}";
    FRAMES = "frames": "{subject:}more than {most} frames were sent within a second, besides what items take {moment}";
    SEGMENTS = "segments": "{subject:}{packets} segments were sent in the run, more than {most} {moment}";
    POLLS = "polls": "{subject:}tasks were polled {polls} times in the run, more than {most} {moment}";
}

/// The window in which attempts and frames are counted.
const SECOND: Duration = Duration::from_secs(1);
/// The minimum payload of a segment while more data follows, in bytes.
const SEGMENT: u64 = 1_000;
/// The maximum number of frames that one side sends in a handshake.
const HANDSHAKE: u64 = 8;

/// Reports the first excess of each kind, for each host.
pub(super) fn check(facts: &Facts<'_>, broken: &mut Findings) {
    let history = facts.cx.history;
    check_attempts(facts, broken);
    let detailed = history.events.iter().any(|event| matches!(event.what, EventKind::Packet(_)));
    match () {
        () if makes_small_segments(facts) => {}
        () if detailed => check_frames(facts, broken),
        () => check_segments(facts, broken),
    }
    check_polls(facts, broken);
}

/// The events of the last second.
#[derive(Default)]
struct Window {
    moments: VecDeque<Time>,
    reported: bool,
}

impl Window {
    /// Returns the number of events in the second that ends at `at`.
    fn count(&mut self, at: Time) -> u64 {
        while self.moments.front().is_some_and(|first| at.since(*first) >= SECOND) {
            self.moments.pop_front();
        }
        self.moments.len() as u64
    }
}

fn check_attempts(facts: &Facts<'_>, broken: &mut Findings) {
    let most = facts.guarantees().work.attempts;
    let mut windows: BTreeMap<&str, Window> = BTreeMap::new();
    for event in &facts.cx.history.events {
        if let EventKind::Asked { operation, .. } = &event.what
            && (facts.guarantees().begins_anew)(operation)
        {
            let window = windows.entry(operation.client.as_str()).or_default();
            window.moments.clear();
        }
        let EventKind::ConnOpened { conn } = event.what else { continue };
        let conn = facts.cx.history.conn(conn);
        if facts.guarantees().outside.contains(&conn.server.as_str()) {
            continue;
        }
        let host = conn.client.as_str();
        let (at, window) = (event.at, windows.entry(host).or_default());
        window.moments.push_back(at);
        let count = window.count(at);
        if count > most && !std::mem::replace(&mut window.reported, true) {
            broken.push(About::Host(host.into()), at, &ATTEMPTS, fields! { count, most });
        }
    }
}

fn makes_small_segments(facts: &Facts<'_>) -> bool {
    facts.faults.iter().any(|fault| match fault.what {
        Fault::Slow(faults::Slow { by: SlowBy { bandwidth, segment, window, .. }, .. }) => {
            bandwidth.is_some() || segment.is_some() || window.is_some()
        }
        _ => false,
    })
}

/// The allowance of frames for the actual data: two for each item plus its bytes, and four for each
/// call. Every new connection adds a handshake, and the same allowance again for all items and
/// calls still undelivered. What the outside world has given may be part of each answer and of each
/// new connection.
struct Payload {
    granted: u64,
    items: u64,
    bytes: u64,
    calls: u64,
    /// The later inputs of the outside world, in order: when, and how many bytes.
    given: Peekable<std::vec::IntoIter<(Time, u64)>>,
    /// The bytes that the outside world has given so far.
    state: u64,
}

impl Payload {
    fn of(facts: &Facts<'_>) -> Self {
        let mut given = (facts.guarantees().given)(&facts.cx);
        given.sort_unstable();
        let given = given.into_iter().peekable();
        Self { granted: 0, items: 0, bytes: 0, calls: 0, given, state: 0 }
    }

    fn read(&mut self, event: &Event) {
        while let Some((_, bytes)) = self.given.next_if(|(at, _)| *at <= event.at) {
            self.granted += 2 + bytes / SEGMENT;
            self.state += bytes;
        }
        match &event.what {
            EventKind::Produced { bytes, .. } => {
                self.granted += 2 + bytes.len() as u64 / SEGMENT;
                self.items += 1;
                self.bytes += bytes.len() as u64;
            }
            EventKind::Delivered { bytes, .. } => {
                self.items = self.items.saturating_sub(1);
                self.bytes = self.bytes.saturating_sub(bytes.len() as u64);
            }
            EventKind::Asked { .. } => {
                self.granted += 4 + self.state / SEGMENT;
                self.calls += 1;
            }
            EventKind::Answered { .. } | EventKind::Failed { .. } => {
                self.calls = self.calls.saturating_sub(1)
            }
            EventKind::ConnOpened { .. } => {
                let bytes = self.bytes + self.state;
                self.granted += HANDSHAKE + 2 * self.items + bytes / SEGMENT + 4 * self.calls
            }
            _ => {}
        }
    }
}

fn check_frames(facts: &Facts<'_>, broken: &mut Findings) {
    let history = facts.cx.history;
    let most = facts.guarantees().work.frames;
    let users = u64::from(facts.cx.plan.clients.max(1));
    let mut payload = Payload::of(facts);
    let mut windows: BTreeMap<&str, (Window, u64)> = BTreeMap::new();
    let mut sent: BTreeMap<(ConnIndex, Side), u64> = BTreeMap::new();
    for event in &history.events {
        payload.read(event);
        let EventKind::Packet(packet) = &event.what else { continue };
        if !is_new(packet, &mut sent) {
            continue;
        }
        let conn = history.conn(packet.conn);
        let host = if packet.from == Side::Client { &conn.client } else { &conn.server };
        let (window, carried) = windows.entry(host.as_str()).or_default();
        let at = event.at;
        // Use up the bound of this second first: unlike the payload allowance, it expires.
        if window.count(at) < most {
            window.moments.push_back(at);
        } else if *carried < payload.granted * users {
            *carried += 1;
        } else if !std::mem::replace(&mut window.reported, true) {
            broken.push(About::Host(host.clone()), at, &FRAMES, fields! { most });
        }
    }
}

/// Returns whether a segment carries new payload. A segment that was held appears in the history
/// twice.
fn is_new(packet: &Packet, sent: &mut BTreeMap<(ConnIndex, Side), u64>) -> bool {
    let end = packet.offset + u64::from(packet.len);
    let sent = sent.entry((packet.conn, packet.from)).or_default();
    let is_new = packet.len > 0 && end > *sent && packet.fate != Fate::Lost;
    *sent = end.max(*sent);
    is_new
}

/// Checks the total number of segments. Each frame may get a separate acknowledgement, and opening
/// and closing a connection takes some segments.
fn check_segments(facts: &Facts<'_>, broken: &mut Findings) {
    let history = facts.cx.history;
    let hosts = facts.cx.servers.len() as u64 + u64::from(facts.cx.plan.clients);
    let mut payload = Payload::of(facts);
    history.events.iter().for_each(|event| payload.read(event));
    let frames =
        facts.guarantees().work.frames.saturating_mul(hosts).saturating_mul(seconds(facts));
    let most = frames
        .saturating_add(payload.granted * hosts)
        .saturating_add(HANDSHAKE * history.conns.len() as u64)
        .saturating_mul(2);
    if history.packets > most {
        broken.push(About::Run, history.end, &SEGMENTS, fields! { packets: history.packets, most });
    }
}

fn check_polls(facts: &Facts<'_>, broken: &mut Findings) {
    let history = facts.cx.history;
    let items = facts.sources.iter().map(|source| source.items.len() as u64).sum::<u64>();
    let most =
        facts.guarantees().work.polls.saturating_mul(history.packets + items + seconds(facts));
    if history.polls > most {
        broken.push(About::Run, history.end, &POLLS, fields! { polls: history.polls, most });
    }
}

/// Returns the length of the run in virtual seconds, including the last, incomplete one.
fn seconds(facts: &Facts<'_>) -> u64 {
    facts.cx.history.end.0 / 1_000 + 1
}

#[cfg(test)]
mod tests {
    use super::super::scripted::{ScriptedRun, history};
    use crate::history::{Class, Time};

    /// Attempts at a fixed interval. The guarantees in tests allow 5 attempts, 10 frames and 20
    /// polls.
    fn attempts(every: u64, n: u64) -> ScriptedRun {
        (1..=n).fold(history(), |scripted, i| scripted.attempt(i as u32, 1_000 + i * every))
    }

    fn frames(scripted: ScriptedRun, n: u64) -> ScriptedRun {
        (0..n).fold(scripted.conn(1, 0, None), |scripted, i| {
            scripted.frame(1, 2_000 + i * 10, i * 100, 100)
        })
    }

    #[test]
    fn attempts_at_the_bound_are_fine_and_one_more_is_not() {
        attempts(200, 50).holds("bounded_work");
        assert_eq!(
            attempts(199, 50).violations("bounded_work"),
            ["client: 6 connections were opened within a second, more than 5 (at 2.194 s)"]
        );
    }

    #[test]
    fn two_hosts_have_a_bound_each() {
        let scripted = attempts(200, 5).by("client2");
        (6..=10)
            .fold(scripted, |scripted, i| scripted.attempt(i, 1_000 + u64::from(i - 5) * 200))
            .holds("bounded_work");
    }

    #[test]
    fn two_clients_of_one_host_have_a_bound_each() {
        let scripted = |verb| {
            let first = attempts(50, 5).asked_as(1, 1_300, Class::Durable, verb, "{}");
            let both = (6..=10_u32)
                .fold(first, |scripted, i| scripted.attempt(i - 5, 1_300 + u64::from(i - 5) * 50));
            both.guarantees(|guarantees| {
                guarantees.begins_anew = |operation| operation.verb == "reload";
            })
        };
        scripted("reload").holds("bounded_work");
        assert_eq!(scripted("watch").violations("bounded_work").len(), 1);
        // Each client by itself is bounded.
        assert_eq!(scripted("reload").attempt(6, 1_600).violations("bounded_work").len(), 1);
    }

    #[test]
    fn frames_at_the_bound_are_fine_and_one_more_is_not() {
        frames(history(), 10).holds("bounded_work");
        assert_eq!(
            frames(history(), 11).violations("bounded_work"),
            [
                "client: more than 10 frames were sent within a second, besides what items take (at 2.100 s)"
            ]
        );
    }

    #[test]
    fn items_add_to_the_frame_allowance_even_if_sent_later() {
        let scripted = history().produced("s1", 500, "a").produced("s1", 501, "b");
        frames(scripted.clone(), 10 + 4).holds("bounded_work");
        assert_eq!(frames(scripted, 10 + 5).violations("bounded_work").len(), 1);
    }

    #[test]
    fn what_the_outside_world_gives_adds_to_the_frame_allowance() {
        let given =
            history().guarantees(|guarantees| guarantees.given = |_| vec![(Time(2_050), 3_000)]);
        // 10 of the second, 2 for the message, 3 for its bytes.
        frames(given.clone(), 10 + 5).holds("bounded_work");
        assert_eq!(frames(given.clone(), 10 + 6).violations("bounded_work").len(), 1);
        // A new connection has a handshake, and may carry the bytes again.
        let again = given.attempt(2, 2_060);
        frames(again.clone(), 10 + 5 + 8 + 3).holds("bounded_work");
        assert_eq!(frames(again, 10 + 5 + 8 + 4).violations("bounded_work").len(), 1);
    }

    #[test]
    fn a_segment_that_was_held_counts_once() {
        let scripted = frames(history(), 10).frame(1, 2_500, 0, 100).frame(1, 2_500, 100, 0);
        scripted.holds("bounded_work");
    }

    #[test]
    fn undelivered_payload_may_be_sent_again_on_a_new_connection() {
        let scripted = history().produced("s1", 500, "a").attempt(2, 1_000);
        // 10 of the second, 2 for the item, 2 to send it again, 8 for the handshake.
        frames(scripted.clone(), 22).holds("bounded_work");
        assert_eq!(frames(scripted, 23).violations("bounded_work").len(), 1);
    }

    #[test]
    fn without_detail_all_segments_are_compared_with_the_whole_run() {
        // 2 hosts × 10 frames × 11 seconds, each acknowledged.
        let scripted = history().end(10_500);
        scripted.clone().packets(440).holds("bounded_work");
        assert_eq!(
            scripted.packets(441).violations("bounded_work"),
            ["441 segments were sent in the run, more than 440 (at 10.500 s)"]
        );
    }

    #[test]
    fn polls_are_bounded_on_average() {
        // 20 × (100 segments + 1 item + 11 seconds)
        let scripted = history().produced("s1", 500, "a").packets(100).end(10_500);
        scripted.clone().polls(2_240).holds("bounded_work");
        assert_eq!(
            scripted.polls(2_241).violations("bounded_work"),
            ["tasks were polled 2241 times in the run, more than 2240 (at 10.500 s)"]
        );
    }
}
