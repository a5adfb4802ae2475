//! Tests of when a client may count a connection as lost.

use super::super::generations::kept_while_healthy;
use super::{milestone, violations};
use crate::property::scripted::{ScriptedRun, history};

#[test]
fn a_peer_counts_as_silent_only_after_a_fault() {
    let silent = |scripted: ScriptedRun, ms| {
        milestone(scripted, ms, "exec.client.lost", &[("why", "silent")])
    };
    assert_eq!(
        violations(&silent(history(), 16_000), kept_while_healthy),
        [
            "exec.client.lost: a peer was treated as silent, although no fault blocked its data (at 16.000 s)"
        ]
    );
    assert!(
        violations(&silent(history().slows(1_000, 5_000), 22_000), kept_while_healthy).is_empty()
    );
    assert_eq!(
        violations(&silent(history().slows(1_000, 5_000), 22_001), kept_while_healthy).len(),
        1
    );
    assert!(
        violations(
            &milestone(history(), 500, "exec.client.lost", &[("why", "closed by the peer")]),
            kept_while_healthy
        )
        .is_empty()
    );
}
