//! The faults that count: those that touch the path of the failure.

use super::*;
use crate::history::{Nature, Scope};
use crate::schedule::{Conn, Fault, Learns, TrafficCount, faults};

#[test]
fn a_fault_of_another_client_justifies_nothing() {
    judged(&fails(open().by("client2").kills(2_000, 90_000).by("client"), 40_000), Is::Unjustified);
}

#[test]
fn faults_count_by_host_and_by_connection_too() {
    let cut =
        || Fault::Cut(faults::Cut { conn: Conn::number("client", 1), learns: Default::default() });
    let with = |scope| {
        fails(open().conn(1, 0, None).fault_in(2_000, None, Nature::Kills, cut(), scope), 40_000)
    };
    let hosts = |host: &str| Scope { hosts: vec![host.into()], ..Scope::default() };
    judged(&with(hosts("server")), Is::Justified);
    judged(&with(hosts("client")), Is::Justified);
    judged(&with(hosts("client2")), Is::Unjustified);
    judged(
        &with(Scope { conns: vec![crate::history::ConnIndex(0)], ..Scope::default() }),
        Is::Justified,
    );
    // A connection that was not open yet is identified by its name.
    judged(&with(Scope::default()), Is::Justified);
}

#[test]
fn a_fault_on_another_clients_connection_justifies_nothing() {
    let cut =
        Fault::Cut(faults::Cut { conn: Conn::number("client2", 1), learns: Default::default() });
    let scripted = open().fault_in(2_000, None, Nature::Kills, cut, Scope::default());
    judged(&fails(scripted, 40_000), Is::Unjustified);
}

/// A fault on `client#1`, in force from 2 s on, with a failure at 40 s.
fn on_first_conn(
    scripted: ScriptedRun,
    fault: Fault,
    nature: Nature,
    ended: Option<u64>,
) -> ScriptedRun {
    fails(scripted.fault_in(2_000, ended, nature, fault, Scope::default()), 40_000)
}

#[test]
fn a_fault_on_a_connection_counts_only_while_it_is_open() {
    let stall = Fault::Stall(faults::Stall {
        conn: Conn::number("client", 1),
        toward: "client".into(),
        lasts: None,
    });
    let judge = |scripted: ScriptedRun, expected| {
        judged(&on_first_conn(scripted, stall.clone(), Nature::Kills, None), expected)
    };
    judge(open(), Is::Unjustified);
    judge(open().conn(1, 0, None), Is::Justified);
    judge(open().conn(1, 0, Some(1_000)), Is::Unjustified);
    judge(open().conn(1, 0, Some(10_000)), Is::Unjustified);
    judge(open().conn(1, 38_000, None), Is::Unjustified);
}

/// A fault may name a connection that is not open yet, by its number among all connections of its
/// host, whatever their label.
#[test]
fn a_labelled_connection_is_numbered_among_all_of_its_host() {
    let judge = |n, expected| {
        let stall = Fault::Stall(faults::Stall {
            conn: Conn::number("client", n),
            toward: "client".into(),
            lasts: None,
        });
        let scripted = open().conn(1, 0, Some(1_000)).conn_labelled("http", 1, 3_000, None);
        judged(&on_first_conn(scripted, stall, Nature::Kills, None), expected);
    };
    judge(1, Is::Unjustified); // it was over
    judge(2, Is::Justified);
    judge(3, Is::Unjustified); // it never came
}

#[test]
fn a_cut_after_counts_only_if_it_struck() {
    let learns = [("client".into(), Learns::After(Duration::from_secs(30)))].into();
    let cut = Fault::CutAfter(faults::CutAfter {
        conn: Conn::number("client", 1),
        toward: "client".into(),
        count: TrafficCount::Bytes(9),
        learns,
    });
    let judge = |scripted: ScriptedRun, ended, expected| {
        judged(&on_first_conn(scripted, cut.clone(), Nature::Kills, ended), expected)
    };
    // The fault struck, and the client learned of it 30 s later, at 40 s.
    judge(open().conn(1, 0, Some(40_000)), Some(40_000), Is::Justified);
    // The connection ended for another reason, or is still open.
    judge(open().conn(1, 0, Some(14_000)), None, Is::Unjustified);
    judge(open().conn(1, 0, None), None, Is::Unjustified);
}

#[test]
fn a_cut_after_counts_even_if_one_end_had_already_closed() {
    let learns = [("client".into(), Learns::After(Duration::from_secs(30)))].into();
    let cut = Fault::CutAfter(faults::CutAfter {
        conn: Conn::number("client", 1),
        toward: "client".into(),
        count: TrafficCount::Bytes(0),
        learns,
    });
    let judge = |scripted: ScriptedRun, ended, expected| {
        judged(&on_first_conn(scripted, cut.clone(), Nature::Kills, ended), expected)
    };
    // The fault struck data that the server had left in flight, at 2 s or later, and the client
    // learned of it at 40 s.
    judge(open().conn_closed(1, 0, 1_000, Some(40_000)), Some(40_000), Is::Justified);
    // The fault never struck: the client read all data in flight, until 20 s.
    judge(open().conn_closed(1, 0, 1_000, Some(20_000)), None, Is::Unjustified);
    // The fault never struck either if both ends were over before it.
    judge(open().conn_closed(1, 0, 1_000, Some(1_900)), None, Is::Unjustified);
    // The fault struck, but long before the failure.
    let learned_at_once = Fault::CutAfter(faults::CutAfter {
        conn: Conn::number("client", 1),
        toward: "client".into(),
        count: TrafficCount::Bytes(0),
        learns: Default::default(),
    });
    let early = open().conn_closed(1, 0, 1_000, Some(9_000));
    judged(&on_first_conn(early, learned_at_once, Nature::Kills, Some(9_000)), Is::Unjustified);
}

#[test]
fn a_delayed_close_counts_only_after_a_close() {
    let late = Fault::DelayClose(faults::DelayClose {
        conn: Conn::number("client", 1),
        toward: "server".into(),
        by: Duration::from_secs(30),
    });
    let judge = |scripted: ScriptedRun, expected| {
        judged(&on_first_conn(scripted, late.clone(), Nature::Slows, None), expected)
    };
    judge(open().conn(1, 0, None), Is::Unjustified);
    judge(open().conn_half_over(1, 0, 10_000), Is::Justified);
    judge(open().conn_half_over(1, 0, 30_000), Is::Unjustified);
    // A close from before the fault may still be delayed by it, but not if the other end has
    // already learned of the close.
    judge(open().conn_half_over(1, 0, 1_000), Is::Justified);
    judge(open().conn_closed(1, 0, 1_000, Some(1_900)), Is::Unjustified);
}

#[test]
fn a_jump_of_the_wall_clock_justifies_nothing() {
    let jump = Fault::ClockJump(faults::ClockJump { host: "client".into(), by_ms: 60_000 });
    judged(&fails(open().fault(2_000, None, Nature::Harmless, jump), 40_000), Is::Unjustified);
}
