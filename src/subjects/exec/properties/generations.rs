//! Properties of the end of a connection. They compare the client's behaviour with the network's
//! record of the connection, and with the data that was read from it.
//!
//! Users hardly notice when a client gives up a good connection, or discards an answer that it has
//! received: the client recovers, and a call in flight may fail with its connection. For this
//! reason these properties check the milestones of product code.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::history::{Connection, Event, EventKind, Side, Time};
use crate::property::violation::{fields, kinds};
use crate::property::{About, CheckContext, Violation, ViolationFields};
use crate::schedule::MilestoneValue;
use crate::subjects::exec::network_fault::NetworkFault;
use crate::subjects::judging::{host, judged, peers_may_lie};

kinds! {
    pub(super) LOST_BY_ITS_OWN_END;
    NOT_OVER = "not-over": "{subject} was treated as lost by its client, but it was still open {moment}";
    NOT_HAD = "not-had": "{subject} was treated as lost by its client, which had not installed it, or had lost it before {moment}";
}

kinds! {
    pub(super) RENOUNCED_IS_OVER;
    SENT = "sent": "{method} was sent over {subject} after the server had reported that connection closed at {since} {moment}";
}

kinds! {
    pub(super) NO_STEALING;
    STOLEN = "stolen": "{subject} was attached to the session of connection {robbed}, which was still attached {moment}";
}

kinds! {
    pub(super) CATCHES_UP_AT_ONCE;
    ONE_BY_ONE = "one-by-one": "{processes} processes caught up one after the other from {since} on, although no fault delayed them {moment}";
}

kinds! {
    pub(super) KEPT_WHILE_HEALTHY;
    NOT_SILENT = "not-silent": "{milestone}: a peer was treated as silent, although no fault blocked its data {moment}";
}

kinds! {
    pub(super) ANSWERS_COUNT;
    CUT_OFF = "cut-off": "request {request} of {subject} was answered, but its client reported it as cut off {moment}";
}

/// Why a client gives up a connection that lives.
const LIVES: [&str; 2] =
    ["the server reported the connection closed", "the server sent an invalid message"];

/// A milestone about one connection of a client.
pub(super) struct ConnMilestone<'a> {
    pub(super) name: &'a str,
    pub(super) conn: u64,
    fields: &'a [(&'static str, MilestoneValue)],
}

impl<'a> ConnMilestone<'a> {
    pub(super) fn of(event: &'a Event) -> Option<Self> {
        let EventKind::Milestone { name, fields } = &event.what else { return None };
        Some(Self { name, conn: MilestoneValue::number(fields, "conn")?, fields })
    }

    /// Returns whether the client gave up a live connection.
    fn gives_up_the_living(&self) -> bool {
        MilestoneValue::text(self.fields, "why").is_some_and(|why| LIVES.contains(&why))
    }
}

/// The connection that a milestone refers to.
fn conn_of(milestone: &ConnMilestone<'_>) -> About {
    About::Named(format!("connection {}", milestone.conn))
}

/// The connection with this number in product code, from 1; 0 is none.
pub(super) fn connection<'a>(cx: &CheckContext<'a>, number: u64) -> Option<&'a Connection> {
    cx.history.conns.get(usize::try_from(number).ok()?.checked_sub(1)?)
}

/// A client gives up an installed connection only if that connection ended, or if the server called
/// it closed or sent an invalid message over it; never because another connection ended. It gives it up
/// once.
pub(super) fn lost_by_its_own_end(cx: &CheckContext<'_>) -> Vec<Violation> {
    let mut over = BTreeSet::new();
    let mut installed = BTreeSet::new();
    let mut found = Vec::new();
    for event in judged(cx) {
        if let EventKind::ConnOver { conn, side: Side::Client, .. } = event.what {
            over.insert(conn.0 as u64 + 1); // product code counts from 1
        }
        let Some(milestone) = ConnMilestone::of(event) else { continue };
        match milestone.name {
            "exec.client.connected" => drop(installed.insert(milestone.conn)),
            "exec.client.lost" => {
                cx.judges("lost_by_its_own_end");
                let is_alive = milestone.gives_up_the_living();
                let wrong = match () {
                    () if !installed.remove(&milestone.conn) => Some(&NOT_HAD),
                    () if !is_alive && !over.contains(&milestone.conn) => Some(&NOT_OVER),
                    () => None,
                };
                found.extend(wrong.map(|kind| {
                    let (conn, data) = (conn_of(&milestone), ViolationFields::default());
                    Violation::new("lost_by_its_own_end", conn, event.at, kind, data)
                }));
            }
            _ => {}
        }
    }
    found
}

/// If the server answers any request by calling the connection closed, the client stops using that
/// connection: the next request waits for another one.
pub(super) fn renounced_is_over(cx: &CheckContext<'_>) -> Vec<Violation> {
    let mut renounced: BTreeMap<u64, Time> = BTreeMap::new();
    let mut found = Vec::new();
    for event in judged(cx) {
        let Some(milestone) = ConnMilestone::of(event) else { continue };
        match (milestone.name, renounced.get(&milestone.conn)) {
            ("exec.client.renounced", None) => {
                cx.judges("renounced_is_over");
                renounced.insert(milestone.conn, event.at);
            }
            ("exec.client.sent", Some(since)) => {
                let method = MilestoneValue::text(milestone.fields, "method").unwrap_or_default();
                let data = fields! { method, since };
                found.push(Violation::new(
                    "renounced_is_over",
                    conn_of(&milestone),
                    event.at,
                    &SENT,
                    data,
                ));
            }
            _ => {}
        }
    }
    found.truncate(5);
    found
}

/// The connections of the session that each client host last used.
#[derive(Default)]
struct Sessions<'a> {
    /// Connections that the server attached to a new session. Each may become the first one of its
    /// session.
    fresh: BTreeSet<u64>,
    /// Connections of the session that the host last received.
    of: BTreeMap<&'a str, BTreeSet<u64>>,
    detached: BTreeSet<u64>,
    /// Connections that the server closes because their handshake took too long.
    closing: BTreeSet<u64>,
    /// The connections that the living client of each host has opened.
    opened: BTreeMap<&'a str, BTreeSet<u64>>,
    /// For each connection of a client that died, the connections of the session of that client.
    orphaned: BTreeMap<u64, BTreeSet<u64>>,
}

/// A connection never takes a session from another attached one. A resume always names the session
/// that the client last received. The server detaches a connection after its own end of it is over, or while
/// it says goodbye after a handshake that took too long: another milestone does not count. The resume of a
/// client that died names the session of that client, and may reach the server when the next client of
/// the host has another one.
pub(super) fn no_stealing(cx: &CheckContext<'_>) -> Vec<Violation> {
    if !cx.is_honest() {
        return Vec::new();
    }
    let mut sessions = Sessions::default();
    let mut found = Vec::new();
    for event in judged(cx) {
        match event.what {
            EventKind::ConnOpened { conn } => {
                let client = cx.history.conn(conn).client.as_str();
                sessions.opened.entry(client).or_default().insert(conn.0 as u64 + 1);
            }
            EventKind::Died { .. } => {
                let opened = sessions.opened.remove(host(event)).unwrap_or_default();
                let own = sessions.of.remove(host(event)).unwrap_or_default();
                sessions.orphaned.extend(opened.into_iter().map(|conn| (conn, own.clone())));
            }
            _ => {}
        }
        let Some(milestone) = ConnMilestone::of(event) else { continue };
        let Some(client) = connection(cx, milestone.conn).map(|conn| conn.client.as_str()) else {
            continue;
        };
        match milestone.name {
            "exec.server.attached"
                if MilestoneValue::number(milestone.fields, "resumed") == Some(0) =>
            {
                sessions.fresh.insert(milestone.conn);
            }
            "exec.client.initialized" if sessions.fresh.contains(&milestone.conn) => {
                sessions.of.insert(client, BTreeSet::from([milestone.conn]));
            }
            "exec.server.attached" => {
                let orphaned = sessions.orphaned.get_mut(&milestone.conn);
                let own = orphaned.unwrap_or_else(|| sessions.of.entry(client).or_default());
                if !own.is_empty() {
                    cx.judges("no_stealing");
                }
                if let Some(robbed) = own.iter().find(|conn| !sessions.detached.contains(*conn)) {
                    let data = fields! { robbed: *robbed };
                    found.push(Violation::new(
                        "no_stealing",
                        conn_of(&milestone),
                        event.at,
                        &STOLEN,
                        data,
                    ));
                }
                own.insert(milestone.conn);
            }
            "exec.server.no-handshake" => drop(sessions.closing.insert(milestone.conn)),
            "exec.server.detached" => {
                let over = connection(cx, milestone.conn).and_then(|conn| conn.over.1);
                if over.is_some_and(|over| over <= event.at)
                    || sessions.closing.contains(&milestone.conn)
                {
                    sessions.detached.insert(milestone.conn);
                }
            }
            _ => {}
        }
    }
    found.truncate(5);
    found
}

/// A catch-up of several processes takes no longer than that of one. The property checks only
/// connections that had no fault since their opening, in runs with little output: then each process
/// needs one read, and its answer arrives at once.
pub(super) fn catches_up_at_once(cx: &CheckContext<'_>) -> Vec<Violation> {
    if !cx.is_honest() {
        return Vec::new();
    }
    let round_trip = cx.plan.latency.1 * 2;
    let mut network_fault = NetworkFault::default();
    let mut begun: BTreeMap<u64, (u64, Time)> = BTreeMap::new();
    // The pages of each process in the catch-up of its host.
    let mut pages: BTreeMap<(&str, &str), u32> = BTreeMap::new();
    let mut found = Vec::new();
    for event in judged(cx) {
        network_fault.pass(event);
        if let EventKind::Milestone { name: "exec.client.page", fields } = &event.what {
            let process = MilestoneValue::text(fields, "process").unwrap_or_default();
            *pages.entry((host(event), process)).or_default() += 1;
        }
        let Some(milestone) = ConnMilestone::of(event) else { continue };
        match milestone.name {
            "exec.client.initialized" => {
                let processes =
                    MilestoneValue::number(milestone.fields, "processes").unwrap_or_default();
                begun.insert(milestone.conn, (processes, event.at));
                pages.retain(|(client, _), _| *client != host(event));
            }
            "exec.client.caught-up" => {
                let own = pages.iter().filter(|((client, _), _)| *client == host(event));
                // After a lost catch-up, each page of a process takes a round trip more.
                let rounds = 1 + own.map(|(_, pages)| *pages).max().unwrap_or_default();
                let enough = round_trip * rounds + Duration::from_millis(20);
                let opened = connection(cx, milestone.conn).map(|conn| conn.opened);
                let calm = network_fault.in_force == 0
                    && network_fault.last <= opened
                    && network_fault.printed <= LITTLE;
                if let Some((processes, since)) = begun.get(&milestone.conn)
                    && *processes > 1
                    && calm
                {
                    cx.judges("catches_up_at_once");
                    if event.at > *since + enough {
                        let data = fields! { processes: *processes, since };
                        found.push(Violation::new(
                            "catches_up_at_once",
                            event.host.as_ref(),
                            event.at,
                            &ONE_BY_ONE,
                            data,
                        ));
                    }
                }
            }
            _ => {}
        }
    }
    found.truncate(5);
    found
}

/// An end may call its peer silent only if a cause prevented it from receiving data: a fault, the
/// death of a host, or a puppet.
pub(super) fn kept_while_healthy(cx: &CheckContext<'_>) -> Vec<Violation> {
    if !cx.is_honest() {
        return Vec::new();
    }
    let grace = cx.guarantees.detection + Duration::from_secs(1);
    let mut network_fault = NetworkFault::default();
    let mut healthy: BTreeSet<u64> = BTreeSet::new();
    let mut found = Vec::new();
    for event in judged(cx) {
        network_fault.pass(event);
        let EventKind::Milestone { name, fields } = &event.what else { continue };
        let why = || MilestoneValue::text(fields, "why");
        let silent = match *name {
            "exec.client.received" => false,
            "exec.server.silent" => true,
            "exec.client.lost" if why() == Some("silent") => true,
            _ => continue,
        };
        let is_recent = network_fault.last.is_some_and(|at| at + grace >= event.at);
        if network_fault.in_force > 0 || is_recent {
            continue;
        }
        // A side must not call such a connection silent. It counts even if no side does.
        let conn = MilestoneValue::number(fields, "conn");
        if conn.is_some_and(|conn| healthy.insert(conn)) {
            cx.judges("kept_while_healthy");
        }
        if silent {
            let data = fields! { milestone: *name };
            found.push(Violation::new(
                "kept_while_healthy",
                event.host.as_ref(),
                event.at,
                &NOT_SILENT,
                data,
            ));
        }
    }
    found.truncate(5);
    found
}

/// The maximum output, in bytes, for which a catch-up takes only a few round trips.
pub(super) const LITTLE: usize = 32 << 10;

/// An answer that was read before the connection's end counts: the client must not report its call
/// as cut off. Runs with a false server are excluded, because it may answer a request that was not sent
/// yet, or answer twice.
pub(super) fn answers_count(cx: &CheckContext<'_>) -> Vec<Violation> {
    if peers_may_lie(cx) {
        return Vec::new();
    }
    let mut answers: BTreeMap<u64, BTreeSet<&MilestoneValue>> = BTreeMap::new();
    let mut found = Vec::new();
    for event in judged(cx) {
        let Some(milestone) = ConnMilestone::of(event) else { continue };
        match (milestone.name, MilestoneValue::of(milestone.fields, "id")) {
            ("exec.client.received", Some(id)) => {
                answers.entry(milestone.conn).or_default().insert(id);
            }
            // Data after the message that ended the connection does not count.
            ("exec.client.lost", _) if milestone.gives_up_the_living() => {
                drop(answers.remove(&milestone.conn))
            }
            ("exec.client.cut-off", Some(id)) => {
                let Some(answers) = answers.get(&milestone.conn) else { continue };
                cx.judges("answers_count");
                if answers.contains(id) {
                    let data = fields! { request: id.to_string() };
                    found.push(Violation::new(
                        "answers_count",
                        conn_of(&milestone),
                        event.at,
                        &CUT_OFF,
                        data,
                    ));
                }
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{ConnEnd, ConnIndex, History};
    use crate::property::{Guarantees, Judgements};
    use crate::schedule::Plan;
    use crate::subjects::exec::limits::LIMITS;

    fn milestone(name: &'static str, conn: u64, more: (&'static str, MilestoneValue)) -> EventKind {
        EventKind::Milestone { name, fields: [("conn", MilestoneValue::Number(conn)), more].into() }
    }

    fn lost(conn: u64, why: &str) -> EventKind {
        milestone("exec.client.lost", conn, ("why", MilestoneValue::Text(why.into())))
    }

    fn connected(conn: u64) -> EventKind {
        milestone("exec.client.connected", conn, ("generation", MilestoneValue::Number(1)))
    }

    fn answer_read(conn: u64, id: u64) -> EventKind {
        milestone("exec.client.received", conn, ("id", MilestoneValue::Number(id)))
    }

    fn cut_off(conn: u64, id: u64) -> EventKind {
        milestone("exec.client.cut-off", conn, ("id", MilestoneValue::Number(id)))
    }

    /// The client's end of the connection with this number in product code is over.
    fn over(conn: usize) -> EventKind {
        EventKind::ConnOver { conn: ConnIndex(conn - 1), side: Side::Client, how: ConnEnd::Eof }
    }

    /// The server's milestone about one of the client's four connections.
    fn attached(conn: u64, resumed: u64) -> EventKind {
        milestone("exec.server.attached", conn, ("resumed", MilestoneValue::Number(resumed)))
    }

    fn detached(conn: u64) -> EventKind {
        milestone("exec.server.detached", conn, ("resumed", MilestoneValue::Number(0)))
    }

    fn initialized(conn: u64) -> EventKind {
        milestone("exec.client.initialized", conn, ("generation", MilestoneValue::Number(1)))
    }

    fn judge(
        check: fn(&CheckContext<'_>) -> Vec<Violation>,
        entries: impl IntoIterator<Item = EventKind>,
    ) -> Vec<String> {
        judge_events(
            check,
            entries.into_iter().map(|what| Event { at: Time(5), host: None, what }).collect(),
        )
    }

    /// Checks events in a run with four connections that were opened at 0.9 s. At the server, all but the
    /// last one are over when the events of the other tests happen.
    fn judge_events(
        check: fn(&CheckContext<'_>) -> Vec<Violation>,
        events: Vec<Event>,
    ) -> Vec<String> {
        let conn = |n| Connection {
            over: (None, (n < 4).then_some(Time(5))),
            ..Connection::new(format!("client#{n}"), "client".into(), "server".into(), Time(900))
        };
        let history = History { events, conns: (1..5).map(conn).collect(), ..History::default() };
        let (plan, guarantees) = (Plan::new("exec"), Guarantees::default());
        let servers = &["server"];
        let cx = CheckContext {
            plan: &plan,
            limits: &plan.limits.over(LIMITS),
            history: &history,
            guarantees: &guarantees,
            milestones: &[],
            servers,
            control: None,
            judgements: &Judgements::default(),
        };
        check(&cx).iter().map(crate::report::sentence).collect()
    }

    #[test]
    fn only_an_ended_connection_is_lost() {
        let of = |entries: [EventKind; 2]| {
            let installed = [connected(1), connected(2)].into_iter();
            judge(lost_by_its_own_end, installed.chain(entries))
        };
        assert_eq!(of([over(1), lost(1, "closed by the peer")]), [""; 0]);
        let wrong =
            ["connection 2 was treated as lost by its client, but it was still open (at 0.005 s)"];
        assert_eq!(of([over(1), lost(2, "closed by the peer")]), wrong);
        assert_eq!(of([lost(2, "silent"), over(2)]), wrong, "it was over only afterwards");
    }

    #[test]
    fn a_server_may_call_a_connection_closed() {
        for why in LIVES {
            assert_eq!(judge(lost_by_its_own_end, [connected(1), lost(1, why)]), [""; 0]);
        }
    }

    #[test]
    fn a_connection_is_lost_once_and_after_it_was_installed() {
        let lost = || lost(1, LIVES[0]);
        let wrong = [
            "connection 1 was treated as lost by its client, which had not installed it, or had lost it before (at 0.005 s)",
        ];
        assert_eq!(judge(lost_by_its_own_end, [lost(), connected(1)]), wrong);
        assert_eq!(judge(lost_by_its_own_end, [connected(1), lost(), lost()]), wrong);
        assert_eq!(judge(lost_by_its_own_end, [connected(2), lost()]), wrong);
    }

    #[test]
    fn an_answered_call_is_not_cut_off() {
        let of = |entries| judge(answers_count, entries);
        let wrong = [
            "request 3 of connection 1 was answered, but its client reported it as cut off (at 0.005 s)",
        ];
        assert_eq!(of([answer_read(1, 3), lost(1, "dead"), cut_off(1, 3)]), wrong);
        assert_eq!(of([answer_read(1, 3), lost(1, "dead"), cut_off(1, 4)]), [""; 0]);
        assert_eq!(
            of([answer_read(1, 3), lost(2, "dead"), cut_off(2, 3)]),
            [""; 0],
            "ids count anew on each connection"
        );
    }

    #[test]
    fn a_resume_does_not_take_an_attached_session() {
        let of = |more: &[EventKind]| {
            let first = [attached(1, 0), initialized(1)];
            judge(no_stealing, first.into_iter().chain(more.iter().cloned()))
        };
        let wrong = [
            "connection 2 was attached to the session of connection 1, which was still attached (at 0.005 s)",
        ];
        assert_eq!(of(&[attached(2, 1), detached(1)]), wrong);
        assert_eq!(of(&[detached(1), attached(2, 1), detached(2), attached(3, 1)]), [""; 0]);
        assert_eq!(of(&[detached(1), attached(2, 1), attached(3, 1)]).len(), 1);
        let anew = [attached(2, 0), initialized(2), detached(2), attached(3, 1)];
        assert_eq!(of(&anew), [""; 0], "connection 1 has another session");
        let open = [detached(1), attached(4, 1), detached(4), attached(2, 1)];
        assert_eq!(of(&open).len(), 1, "the server's end of connection 4 is not over");
        let late = milestone("exec.server.no-handshake", 4, ("why", MilestoneValue::Number(0)));
        let closing = [detached(1), attached(4, 1), late, detached(4), attached(2, 1)];
        assert_eq!(of(&closing), [""; 0], "the server closes connection 4");
        let unheard = [attached(2, 0), detached(1), attached(3, 1)];
        assert_eq!(of(&unheard), [""; 0], "nobody was told of the session of connection 2");
    }

    #[test]
    fn a_resume_of_a_client_that_died_may_come_late() {
        let of = |dies: &str, number: usize| {
            let opened = EventKind::ConnOpened { conn: ConnIndex(number - 1) };
            let before = [("client", opened), (dies, EventKind::Died { kernel: false })];
            let before =
                before.map(|(host, what)| Event { at: Time(4), host: Some(host.into()), what });
            let next = [attached(3, 0), initialized(3), attached(2, 1)];
            let next = next.map(|what| Event { at: Time(5), host: None, what });
            judge_events(no_stealing, before.into_iter().chain(next).collect())
        };
        assert_eq!(of("client", 2), [""; 0]);
        assert_eq!(of("client", 1).len(), 1, "connection 2 is of the client that lives");
        assert_eq!(of("server", 2).len(), 1, "the client did not die");
        // It takes the session of its own client from a connection that is attached.
        let stolen = |detaches: bool| {
            let opened = |number: usize| EventKind::ConnOpened { conn: ConnIndex(number - 1) };
            let own = [opened(1), attached(1, 0), initialized(1), opened(2)].into_iter();
            let died = EventKind::Died { kernel: false };
            let next = [attached(3, 0), initialized(3)].into_iter();
            let detached = detaches.then(|| detached(1));
            let all = own.chain([died]).chain(next).chain(detached).chain([attached(2, 1)]);
            let host = || Some("client".into());
            judge_events(
                no_stealing,
                all.map(|what| Event { at: Time(5), host: host(), what }).collect(),
            )
        };
        assert_eq!([stolen(true).len(), stolen(false).len()], [0, 1]);
    }

    #[test]
    fn processes_catch_up_side_by_side() {
        let with_pages = |processes: u64, pages: &[&str], ms: u64, fault_at: u64| {
            let entry = |at, what| Event { at: Time(at), host: None, what };
            let mut events = vec![
                entry(fault_at, EventKind::Died { kernel: false }),
                entry(
                    1_000,
                    milestone(
                        "exec.client.initialized",
                        1,
                        ("processes", MilestoneValue::Number(processes)),
                    ),
                ),
                entry(
                    1_000 + ms,
                    milestone(
                        "exec.client.caught-up",
                        1,
                        ("generation", MilestoneValue::Number(2)),
                    ),
                ),
            ];
            for process in pages {
                let fields = [("process", MilestoneValue::Text((*process).into()))].into();
                let what = EventKind::Milestone { name: "exec.client.page", fields };
                events.insert(2, entry(1_001, what));
            }
            judge_events(catches_up_at_once, events)
        };
        let of = |processes, ms, fault_at| with_pages(processes, &[], ms, fault_at);
        let wrong = "2 processes caught up one after the other from 1.000 s on, although no fault delayed them (at 1.061 s)";
        assert_eq!((of(2, 60, 900), of(2, 61, 900)), (vec![], vec![wrong.to_owned()]));
        assert_eq!(
            (of(1, 61, 899), of(2, 61, 901)),
            (vec![], vec![]),
            "one alone, and one with trouble"
        );
        // Each page of a process takes a round trip of 40 ms more.
        assert_eq!(with_pages(2, &["p1", "p2"], 100, 900), [""; 0]);
        assert_eq!(with_pages(2, &["p1", "p2"], 101, 900).len(), 1);
        assert_eq!(with_pages(2, &["p1", "p1", "p2"], 140, 900), [""; 0]);
    }

    #[test]
    fn a_connection_that_the_server_calls_closed_is_not_used() {
        let of = |name, conn| {
            milestone(name, conn, ("method", MilestoneValue::Text("process/read".into())))
        };
        let entries = |conn| {
            [
                of("exec.client.sent", 1),
                of("exec.client.renounced", 1),
                of("exec.client.sent", conn),
            ]
        };
        assert_eq!(judge(renounced_is_over, entries(2)), [""; 0]);
        let wrong = "process/read was sent over connection 1 after the server had reported that connection closed at 0.005 s (at 0.005 s)";
        assert_eq!(judge(renounced_is_over, entries(1)), [wrong]);
    }

    #[test]
    fn data_after_the_message_that_ends_a_connection_does_not_count() {
        assert_eq!(
            judge(answers_count, [answer_read(1, 3), lost(1, LIVES[0]), cut_off(1, 3)]),
            [""; 0]
        );
    }
}
