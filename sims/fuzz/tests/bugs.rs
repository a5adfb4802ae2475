//! The invariants of `sse` fail for seeded bugs. It needs the feature `sim`, so it is not part of a test of
//! the programs as deployed.

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::rc::Rc;
use std::time::Duration;

use arbitrary::{Arbitrary, Unstructured};
use peers_fuzz::sse;
use reknit_seams::probe::{self, Hold, Prober};
use tokio::time::sleep;

mod kept;

use kept::kept;

thread_local! {
    /// Why the first panic happened.
    static REASON: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// One bug is on. The steps that only bugs have take a moment.
struct OneBug(&'static str);

/// Points that only bugs have.
const POINTS: [&str; 4] = [
    "sse.server.id-taken",
    "sse.server.snapshot-sent",
    "sse.server.attached-unflushed",
    "sse.server.finished",
];

impl Prober for OneBug {
    fn point(&self, name: &'static str, _: &[(&'static str, u64)]) -> Option<Hold> {
        POINTS.contains(&name).then(|| Box::pin(sleep(Duration::from_millis(10))) as Hold)
    }

    fn defect(&self, name: &'static str) -> bool {
        name == self.0
    }
}

/// Returns the first stored script that fails with a bug, and why it fails.
fn first_failure<T: for<'a> Arbitrary<'a>>(
    target: &str,
    bug: &'static str,
    holds: fn(&T),
) -> Option<(String, String)> {
    let _attached = probe::attach(Rc::new(OneBug(bug)));
    kept(target).into_iter().find_map(|(name, bytes)| {
        let script = T::arbitrary_take_rest(Unstructured::new(&bytes)).unwrap();
        REASON.take();
        panic::catch_unwind(AssertUnwindSafe(|| holds(&script))).err()?;
        Some((name, REASON.take().unwrap_or_default()))
    })
}

/// Checks that the stored scripts find these bugs, and no others of the table.
fn finds<T: for<'a> Arbitrary<'a>>(
    target: &str,
    holds: fn(&T),
    found: &[&'static str],
    hidden: &[&'static str],
) {
    panic::set_hook(Box::new(|panic| {
        REASON.with_borrow_mut(|reason| {
            reason.get_or_insert_with(|| panic.to_string());
        });
    }));
    let bugs = found.iter().map(|bug| (*bug, true)).chain(hidden.iter().map(|bug| (*bug, false)));
    let wrong: Vec<_> = std::iter::once(("no bug", false))
        .chain(bugs)
        .filter_map(|(bug, is_found)| {
            let failure = first_failure(target, bug, holds);
            println!("{target} {bug}: {failure:?}");
            (failure.is_some() != is_found).then_some((bug, failure))
        })
        .collect();
    drop(panic::take_hook());
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The others need a restart, a full log with a reader that is late, or two events at the same time.
#[test]
fn the_scripts_for_a_server_find_most_of_its_bugs() {
    let found = [
        "IdBeforeLock",
        "SnapshotThenAttach",
        "AttachThenFlush",
        "FinishedBeforeEnding",
        "LogGoneAfterASecond",
        "OverflowIsSilent",
        "StartRunsTwice",
        "CommandDiesWithConnection",
        "NoWriteDeadline",
        "NoHeartbeatAfterResume",
        "LoserEndsCleanly",
        "NewestAlwaysWins",
        "ForgottenLogLeaks",
        "GarbageCursorIsZero",
        "FutureCursorAccepted",
        "EpochIgnored",
        "BlankLinesDropped",
        "EndingBeforeOutput",
        "CommandsUnbounded",
    ];
    let hidden = [
        "EndedMeansReplayed",
        "OutputBeforeStreamUnlogged",
        "RestartForgetsTheStart",
        "StuckStreamStays",
        "SlowReaderHoldsCommand",
        "StaleCloseDetaches",
        "LossEndsHold",
        "BuffersCountAsRead",
    ];
    finds("sse_server", sse::server::holds, &found, &hidden);
}

#[test]
fn the_scripts_for_a_client_find_all_of_its_bugs() {
    let found = [
        "EndOfStreamIsSuccess",
        "NotFoundIsSuccess",
        "CursorBeforeDelivery",
        "CursorForgottenWithoutEvents",
        "HolesIgnored",
        "DuplicatesDelivered",
        "GapNotReturned",
        "RunNotChecked",
        "BudgetNeverRefilled",
        "BudgetRefilledByConnecting",
        "NoPauses",
        "ConflictIsFatal",
        "SilenceIsTolerated",
        "StartWithoutId",
        "AttemptsNotNumbered",
    ];
    finds("sse_client", sse::client::holds, &found, &[]);
}
