//! The waits for the outside world, for a long answer, and behind another reader.

use super::*;
use crate::history::{Stream, Time};
use crate::property::{CheckContext, InFlightLimit, ReadingHost};
use crate::schedule::{Operation, Plan};

#[test]
fn a_call_that_the_outside_world_does_not_answer_may_fail_only_after_the_call_wait() {
    let failed = |ms: u64| open().asked(7, 4_000).failed(7, 4_000 + ms, "no answer in time");
    let outside = |scripted: ScriptedRun| {
        scripted.guarantees(|guarantees| {
            (guarantees.outside, guarantees.call_wait) = (&["server"], Duration::from_secs(20))
        })
    };
    judged(&outside(failed(20_000)), Is::Justified);
    judged(&outside(failed(19_999)), Is::Unjustified);
    judged(&failed(20_000), Is::Unjustified);
}

#[test]
fn a_call_may_fail_after_the_call_wait_if_its_answer_may_need_that_long() {
    // A round trip takes 40 ms, and transfers 32 KiB.
    let failed = |bytes: fn(&Plan, &Operation) -> u64, ms: u64| {
        let run = history().asked(7, 4_000).failed(7, 4_000 + ms, "no answer in time");
        run.guarantees(|guarantees| {
            (guarantees.answer_bytes, guarantees.call_wait) = (bytes, Duration::from_secs(1))
        })
    };
    judged(&failed(|_, _| 25 * (32 << 10), 1_000), Is::Justified);
    judged(&failed(|_, _| 25 * (32 << 10), 999), Is::Unjustified);
    judged(&failed(|_, _| 24 * (32 << 10), 1_000), Is::Unjustified);
}

#[test]
fn a_call_of_several_requests_may_wait_behind_the_answers_to_later_calls() {
    // The answers to the later call need 1 s.
    let failed = |verb: &str, later: u64| {
        let run = history().guarantees(|guarantees| {
            guarantees.call_wait = Duration::from_secs(1);
            guarantees.answer_bytes =
                |_, operation| u64::from(operation.verb == "many") * 25 * (32 << 10);
            guarantees.in_flight = Some(InFlightLimit {
                requests: 100,
                of: |_| 1,
                later: |_, operation| operation.verb == "pieces",
            });
        });
        let run = run.asked_as(7, 4_000, Class::Durable, verb, "{}");
        let run = run.asked_as(8, later, Class::Durable, "many", "{}").answered(8, 5_500, "1");
        run.failed(7, 5_200, "no answer in time")
    };
    judged(&failed("pieces", 4_050), Is::Justified);
    judged(&failed("whole", 4_050), Is::Unjustified);
    judged(&failed("pieces", 5_201), Is::Unjustified);
}

#[test]
fn a_fault_and_the_recovery_from_it_leave_less_time_for_a_long_answer() {
    // The answer needs 2 s of the 5 s. The fault begins 0.5 s after the call.
    let failed = |ended: u64| {
        let run = history().asked(7, 104_000).kills(104_500, ended);
        let run = run.failed(7, 109_000, "no answer in time");
        run.guarantees(|guarantees| {
            guarantees.answer_bytes = |_, _| 50 * (32 << 10);
            guarantees.call_wait = Duration::from_secs(5);
        })
    };
    judged(&failed(107_500 - A), Is::Justified);
    judged(&failed(107_499 - A), Is::Unjustified);
    // Of a fault that ended before the call, only the recovery takes time.
    let before = |ended: u64| {
        let run = history().kills(ended - 1_000, ended).asked(7, 104_000);
        let run = run.failed(7, 109_000, "no answer in time");
        run.guarantees(|guarantees| {
            guarantees.answer_bytes = |_, _| 100 * (32 << 10);
            guarantees.call_wait = Duration::from_secs(5);
        })
    };
    judged(&before(103_999), Is::Justified);
    judged(&before(105_000 - A - 1), Is::Unjustified);
}

#[test]
fn another_reader_leaves_less_time_where_readers_exclude_each_other() {
    // Another client reads until 20 s, then comes a fault until the recovery deadline.
    let run = |takeover| {
        let run = history().guarantees(|guarantees| guarantees.takeover = takeover);
        let run = run.by("client2").opened("s1", 2, 0).produced("s1", 400, "a");
        let run = run.delivered("s1", 410, "a").completed("s1", 20_000, "exit 0");
        let run = run.by("client").opened("s1", 1, 5_000).kills(21_000, 31_000);
        fails(run, 31_000)
    };
    judged(&run(Duration::from_secs(30)), Is::Justified);
    judged(&run(Duration::ZERO), Is::Unjustified);
    // A wait behind another reader ends after the takeover: then the time up to the fault is calm.
    judged(&run(Duration::from_millis(16_000 - A + 1)), Is::Justified);
    judged(&run(Duration::from_millis(16_000 - A)), Is::Inconclusive);
    judged(&run(Duration::from_millis(16_000 - 2 * A - 1)), Is::Unjustified);
    // Each fault may make it wait again, and so does the loss of a stream that it had.
    let again = |takeover, began, read| {
        let run = history().guarantees(|guarantees| guarantees.takeover = takeover);
        let run = run.by("client2").opened("s1", 2, 0).completed("s1", 53_500, "exit 0");
        let run = run.by("client").opened("s1", 1, 1_000).produced("s1", read, "a");
        let run = run.delivered("s1", read + 10, "a").kills(began, began).kills(54_000, 55_000);
        fails(run, 55_000)
    };
    let takeover = Duration::from_secs(22);
    judged(&again(takeover, 31_000, 30_000), Is::Justified);
    judged(&again(takeover, 29_000, 20_000), Is::Unjustified);
    judged(&again(takeover, 29_000, 31_000), Is::Justified);
    // An answer to another call of the same user ends no wait of a call.
    let other = |waits_for: fn(&str, &[&Operation], &Operation) -> Option<Stream>| {
        let run = history().guarantees(|guarantees| {
            guarantees.takeover = Duration::from_secs(30);
            guarantees.reads = waits_for;
        });
        let run = run.by("client2").opened("s1", 2, 0).completed("s1", 20_000, "exit 0");
        let run = run.by("client").asked(7, 5_000).asked(6, 19_000).answered(6, 19_500, "1");
        run.kills(20_500, 30_000).failed(7, 30_000, "lost")
    };
    judged(&other(|_, _, _| Some("s1".into())), Is::Justified);
    judged(&other(|_, _, _| None), Is::Unjustified);
    // A call that opened nothing reads the stream that its operation names.
    let call = |stream: fn(&str, &[&Operation], &Operation) -> Option<Stream>| {
        let run = run(Duration::from_secs(30)).guarantees(|guarantees| guarantees.reads = stream);
        run.asked(6, 4_000).asked(7, 5_000).failed(7, 31_000, "lost")
    };
    judged(&call(|_, _, _| Some("s1".into())), Is::Justified);
    judged(&call(|_, _, _| None), Is::Unjustified);
    judged(&call(|_, earlier, _| (earlier.len() == 2).then(|| "s1".into())), Is::Justified);
    // Without a fault, the other reader excuses nothing.
    let calm = history().guarantees(|guarantees| guarantees.takeover = Duration::from_secs(30));
    let calm = calm.by("client2").opened("s1", 2, 0).by("client").opened("s1", 1, 5_000);
    judged(&fails(calm, 31_000), Is::Unjustified);
}

/// A host reads from the beginning of the run.
fn reading(host: &str, is_follower: bool, until: u64) -> Vec<ReadingHost> {
    let (host, to) = (host.to_owned(), Time::from(Duration::from_secs(until)));
    vec![ReadingHost { host, from: Time::ZERO, to, is_follower }]
}

#[test]
fn a_reader_without_an_open_stream_leaves_less_time() {
    // The other user gave the stream up.
    let on = |reads_on: fn(&CheckContext<'_>, &Stream) -> Vec<ReadingHost>| {
        let run = history().guarantees(|guarantees| {
            (guarantees.takeover, guarantees.also_reads) = (Duration::from_secs(30), reads_on);
        });
        let run = run.by("client2").opened("s1", 2, 0).gave_up(2, Some("s1"), 100);
        fails(run.by("client").opened("s1", 1, 5_000).kills(21_000, 31_000), 31_000)
    };
    judged(&on(|_, _| Vec::new()), Is::Unjustified);
    judged(&on(|_, _| reading("client2", true, 20)), Is::Justified);
    judged(&on(|_, _| reading("client2", true, 10)), Is::Unjustified);
    // Its own follower does not keep it from the stream, but another reader of its host does.
    judged(&on(|_, _| reading("client", true, 20)), Is::Unjustified);
    judged(&on(|_, _| reading("client", false, 20)), Is::Justified);
}

#[test]
fn a_host_that_died_as_it_was_asked_may_not_remember_the_call() {
    // A call reads the stream with the number of the calls before it. Another client reads `s1`.
    let run = |asked| {
        let run = history().guarantees(|guarantees| {
            guarantees.takeover = Duration::from_secs(30);
            guarantees.reads = |_, earlier, _| Some(format!("s{}", earlier.len()).as_str().into());
        });
        let run = run.by("client2").opened("s1", 2, 0).completed("s1", 20_000, "exit 0");
        let run = run.by("client").asked(3, 1_000).asked(5, asked);
        let run = run.died("client", 4_000).started("client", 4_010);
        run.asked(7, 5_000).kills(21_000, 31_000).failed(7, 31_000, "lost")
    };
    judged(&run(4_000), Is::Justified);
    judged(&run(3_999), Is::Unjustified);
    // With an effect, it was asked for before the death.
    judged(&run(4_000).effect(5, 4_000, "s2"), Is::Unjustified);
}
