//! `bounded_work`: connection attempts, frames and polls stay within the subject's bounds, whatever
//! the network does.
//!
//! - attempts: connections opened by one client in any virtual second, and in any virtual minute. The
//!   second shows a client that does not pause, the minute one whose pauses do not grow while its link
//!   flaps. A user may replace the client of a host ([`begins_anew`](super::Guarantees::begins_anew)):
//!   the next one tries at once. Connections to the outside world do not count: a user asks for each of
//!   them, and the subject bounds how many. In a minute, a call of a user may take one more attempt.
//!   Both begin anew when a host dies: its next client tries at once. An item that a connection may
//!   have brought allows more if the subject says so ([`attempts_per_item`](super::WorkBounds::attempts_per_item));
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
    ATTEMPTS_A_MINUTE = "attempts-a-minute": "{subject:}{count} connections were opened within a minute, more than {most} {moment}";
    FRAMES = "frames": "{subject:}more than {most} frames were sent within a second, besides what items take {moment}";
    SEGMENTS = "segments": "{subject:}{packets} segments were sent in the run, more than {most} {moment}";
    POLLS = "polls": "{subject:}tasks were polled {polls} times in the run, more than {most} {moment}";
}

/// The window in which attempts and frames are counted.
const SECOND: Duration = Duration::from_secs(1);
/// The longer window in which attempts are counted.
const MINUTE: Duration = Duration::from_secs(60);
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

/// The latest events.
#[derive(Default)]
struct Window {
    moments: VecDeque<Time>,
    reported: bool,
}

impl Window {
    /// Returns the number of events in the window of this length that ends at `at`.
    fn count(&mut self, at: Time, length: Duration) -> u64 {
        while self.moments.front().is_some_and(|first| at.since(*first) >= length) {
            self.moments.pop_front();
        }
        self.moments.len() as u64
    }
}

fn check_attempts(facts: &Facts<'_>, broken: &mut Findings) {
    let (most, most_a_minute) =
        (facts.guarantees().work.attempts, facts.guarantees().work.attempts_a_minute);
    // Of the last second, and of the last minute.
    let mut windows: BTreeMap<&str, (Window, Window)> = BTreeMap::new();
    for event in &facts.cx.history.events {
        match (&event.what, &event.host) {
            (EventKind::Asked { operation, .. }, _)
                if (facts.guarantees().begins_anew)(operation) =>
            {
                let (second, minute) = windows.entry(operation.client.as_str()).or_default();
                second.moments.clear();
                minute.moments.clear();
            }
            (EventKind::Died { .. }, Some(host)) => {
                let (second, minute) = windows.entry(host.as_str()).or_default();
                second.moments.clear();
                minute.moments.clear();
            }
            _ => {}
        }
        let EventKind::ConnOpened { conn } = event.what else { continue };
        let conn = facts.cx.history.conn(conn);
        if facts.guarantees().outside.contains(&conn.server.as_str()) {
            continue;
        }
        let host = conn.client.as_str();
        let (at, (second, minute)) = (event.at, windows.entry(host).or_default());
        facts.cx.judges("bounded_work");
        second.moments.push_back(at);
        let count = second.count(at, SECOND);
        if count > most && !std::mem::replace(&mut second.reported, true) {
            broken.push(About::Host(host.into()), at, &ATTEMPTS, fields! { count, most });
        }
        // A puppet opens as many connections as its schedule says.
        if facts.cx.plan.puppets.contains_key(&conn.client) {
            continue;
        }
        minute.moments.push_back(at);
        let count = minute.count(at, MINUTE);
        if count <= most_a_minute || minute.reported {
            continue;
        }
        let most = most_a_minute.saturating_add(more_attempts(facts, host, at));
        if count > most {
            minute.reported = true;
            let data = fields! { count, most };
            broken.push(About::Host(host.into()), at, &ATTEMPTS_A_MINUTE, data);
        }
    }
}

/// Returns how many more connections a host may open in the minute that ends at a time: one for each call
/// of its users, and some for each item that a connection may have brought. An item may reach a slow user
/// long after it reached the client, so all items count that the user had not received before. The exit
/// and the close of a stream count as items, too.
fn more_attempts(facts: &Facts<'_>, host: &str, at: Time) -> u64 {
    let from = at.before(MINUTE);
    let calls = facts.calls.iter().filter(|call| call.host == host);
    let calls = calls.filter(|call| (from..=at).contains(&call.at)).count() as u64;
    let views = facts.views.iter().filter(|view| view.host == host);
    let open = views.filter(|view| view.ending().is_none_or(|(_, ended, _)| ended >= from));
    let items = open.map(|view| {
        let produced = facts.sources[view.source].items.iter().filter(|item| item.at <= at);
        let received = view.delivered.iter().filter(|item| item.at <= at);
        let before = received.clone().filter(|item| item.at < from).count();
        // Nothing is known to be produced by a puppet.
        produced.count().max(received.count()).saturating_sub(before) as u64 + 2
    });
    calls + facts.guarantees().work.attempts_per_item.saturating_mul(items.sum::<u64>())
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
        facts.cx.judges("bounded_work");
        let (window, carried) = windows.entry(host.as_str()).or_default();
        let at = event.at;
        // Use up the bound of this second first: unlike the payload allowance, it expires.
        if window.count(at, SECOND) < most {
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
    facts.cx.judges("bounded_work");
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
    facts.cx.judges("bounded_work");
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

    /// Attempts at a fixed interval. The guarantees in tests allow 5 attempts in a second and 100 in a
    /// minute, 10 frames and 20 polls.
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
    fn attempts_in_a_minute_have_a_bound_too() {
        attempts(600, 150).holds("bounded_work");
        assert_eq!(
            attempts(599, 150).violations("bounded_work"),
            ["client: 101 connections were opened within a minute, more than 100 (at 61.499 s)"]
        );
    }

    #[test]
    fn a_call_and_a_death_of_a_host_allow_more_attempts_in_a_minute() {
        let scripted = attempts(590, 101);
        assert_eq!(scripted.violations("bounded_work").len(), 1);
        scripted.clone().asked(1, 30_000).holds("bounded_work");
        scripted.clone().died("client", 30_000).holds("bounded_work");
        // A call of an earlier minute, and of another host.
        assert_eq!(scripted.clone().asked(1, 500).violations("bounded_work").len(), 1);
        let of_another = scripted.by("client2").asked(1, 30_000);
        assert_eq!(of_another.violations("bounded_work").len(), 1);
    }

    #[test]
    fn items_that_a_connection_may_have_brought_allow_more_attempts_in_a_minute() {
        let scripted = |attempts_per_item, n| {
            let opened = attempts(590, n).opened("s1", 1, 0).produced("s1", 30_000, "a");
            opened.guarantees(|guarantees| guarantees.work.attempts_per_item = attempts_per_item)
        };
        // Three items: what was produced, the exit and the close.
        scripted(0, 100).holds("bounded_work");
        scripted(1, 101).holds("bounded_work");
        assert_eq!(scripted(0, 101).violations("bounded_work").len(), 1);
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
    fn the_next_client_of_a_host_that_died_tries_at_once() {
        let scripted = |host| {
            let first = attempts(50, 5).died(host, 1_300).started(host, 1_301);
            (6..=10_u32)
                .fold(first, |scripted, i| scripted.attempt(i - 5, 1_310 + u64::from(i - 5) * 50))
        };
        scripted("client").holds("bounded_work");
        assert_eq!(scripted("server").violations("bounded_work").len(), 1);
        // Each client by itself is bounded.
        assert_eq!(scripted("client").attempt(6, 1_600).violations("bounded_work").len(), 1);
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
