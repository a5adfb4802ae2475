//! The variants of `turn`: versions in the history of the change that the protocol comes from.
//!
//! "facts" are the rules and defects of the plugin's code; "#243" is the change.

use crate::subject::VariantDoc;
use crate::subject::tables::variant;

/// The bugs that the change left alone, after those that are given.
macro_rules! with_the_rest {
    ($($first:literal),*) => {
        &[
            $($first,)*
            "waits-after-an-error",
            "waits-for-ever-for-a-turn-id",
            "request-without-deadline",
            "close-without-deadline",
            "exit-before-the-last-lines",
            "infers-while-items-are-open",
            "reports-the-last-message",
            "abandons-without-an-interrupt",
            "registers-every-thread",
            "drops-threads-announced-early",
            "keeps-the-first-turn-of-a-subagent",
            "forgets-ended-turns",
            "runs-again-beside-its-thread",
            "fast-turn-stays-live",
            "start-of-a-gone-client-stays-live",
            "abandoned-turn-runs-on",
            "owner-per-socket",
            "interrupt-is-busy",
            "requests-are-not-counted",
            "admission-ends-with-the-thread",
            "shared-line-buffer",
            "waits-for-open-clients",
            "start-without-lock",
            "busy-broker-is-replaced",
            "any-account-is-mine",
            "updates-without-lock",
            "writes-in-two-steps",
            "wipes-broken-records",
            "prunes-active-jobs",
            "finds-only-finished-jobs",
            "believes-the-dead",
            "records-after-the-start",
            "claims-cancelled-jobs",
            "updates-after-the-end",
            "overwrites-the-end",
            "works-on-a-cancelled-job",
            "kills-without-an-interrupt",
            "ends-other-sessions",
            "signals-any-process-with-the-id",
        ]
    };
}

/// The versions.
#[rustfmt::skip]
pub const VARIANTS: &[VariantDoc] = &[
    variant("v1.0.5", with_the_rest!("ignores-the-end-of-the-server", "broker-outlives-the-app-server", "request-after-the-end", "answers-without-the-app-server"), "the end of the app-server decides nothing: the turn waits forever, and the broker lives on"),
    variant("first-fix", with_the_rest!("fails-at-every-end-of-the-server", "shutdown-looks-like-a-crash", "answers-without-the-app-server"), "the first version of the change: each end of the app-server is a failure, also after the final answer, and also if the broker was asked to end"),
    variant("pr243", with_the_rest!("answers-without-the-app-server"), "the change: the end of the app-server after a final answer completes the turn, and a broker that was asked to end exits with 0"),
    variant("reknit", &[], "one authority order for all that ends a turn, deadlines for the rest, and a broker that owns turns instead of sockets"),
];
