//! Each property of a subject finds a bug that no other property finds. Otherwise, the property would not be
//! needed.

use std::path::Path;
use std::sync::Arc;

use reknit::hunt::judge::{JudgedRun, judge};
use reknit::property;
use reknit::scenario::{Expect, ScenarioFile};
use reknit::subject::DynSubject;
use reknit::subjects::{Exec, Sse, Toolcall, Turn, built_in};
use reknit::world::Options;

/// A property, a bug that only this property finds, and the scenario file that shows it.
type Alone = (&'static str, &'static str, &'static str);

#[rustfmt::skip]
const SSE: &[Alone] = &[
    ("gap_is_exact", "gap-too-long", "more-output-than-the-log-keeps"),
    ("positions_follow", "holes-ignored", "holes-are-noticed"),
    ("hold_is_lossless", "buffers-count-as-read", "a-cut-with-full-buffers"),
    ("server_keeps_the_protocol", "attach-then-flush", "output-during-the-handoff"),
    ("success_has_an_ending", "end-of-stream-is-success", "a-stream-that-ends-early"),
    ("outcomes_stay", "failed-followers-go-on", "a-failure-stays"),
    ("conflict_is_true", "conflict-is-fatal", "two-clients-want-one-stream"),
    ("takeover_is_due", "newest-always-wins", "two-clients-want-one-stream"),
    ("stale_close_is_inert", "stale-close-detaches", "a-late-close-of-an-old-stream"),
    ("producer_is_not_delayed", "slow-reader-holds-command", "a-stuck-reader-delays-no-command"),
    ("command_lives_on", "command-dies-with-connection", "a-follower-vanishes"),
    ("commands_are_bounded", "commands-unbounded", "too-many-commands"),
    ("cursor_is_checked", "epoch-ignored", "a-cursor-of-another-run"),
    ("status_is_true", "killed-is-success", "an-interrupted-command"),
    ("endings_are_true", "grace-is-a-time-limit", "an-interrupt-of-a-stubborn-command"),
    ("logs_are_true", "logs-skip-the-rest", "a-background-command"),
    ("refusal_is_true", "log-gone-after-a-second", "two-followers-after-a-part-of-a-line"),
    ("refusals_are_true", "used-id-is-accepted", "a-used-id"),
    ("ends_when_asked", "interrupt-wakes-no-task", "an-interrupt-of-a-quiet-command"),
    ("streams_stay", "heartbeat-only-once", "a-quiet-command-for-a-minute"),
    ("pauses_grow", "pauses-do-not-grow", "a-server-that-is-away-for-long"),
    ("deadlines_hold", "budget-counts-from-the-last-byte", "a-budget-counts-from-the-loss"),
    ("output_is_prompt", "output-wakes-no-stream", "output-arrives-at-once"),
    ("output_is_whole", "open-errors-are-lost", "the-last-words-of-a-command"),
    ("items_are_lines", "lines-are-joined", "many-lines-at-once"),
    ("sessions_run_one", "lost-stream-frees-the-session", "a-session-whose-command-has-lost-its-stream"),
    ("sessions_are_bounded", "deleted-sessions-count", "more-sessions-than-allowed"),
    ("deleted_is_gone", "idle-session-stays", "a-deleted-session-is-gone"),
    ("server_lets_go", "sweeps-with-the-last", "logs-go-one-by-one"),
];

#[rustfmt::skip]
const EXEC: &[Alone] = &[
    ("in_sequence", "exit-behind-one-chunk", "an-exit-behind-much-output-in-its-pipe"),
    ("reads_are_true", "failed-stream-ends", "a-process-as-a-byte-stream"),
    ("no_orphan", "start-dies-with-connection", "cut-while-a-process-is-launched"),
    ("generations_are_true", "early-events-name-old-connection", "early-events-name-their-connection"),
    ("lost_by_its_own_end", "stale-close-tears-down", "late-close-of-generation-1-at-the-client"),
    ("renounced_is_over", "transport-closed-retried-hot", "server-answers-reads-with-closed-transport"),
    ("no_stealing", "attach-steals", "a-resume-beside-the-old-connection"),
    ("catches_up_at_once", "catches-up-one-by-one", "four-processes-catch-up-on-a-long-link"),
    ("catch_ups_progress", "catch-up-unbounded", "catch-up-longer-than-any-connection"),
    ("answers_count", "close-beats-reply", "a-ping-before-the-last-answer"),
    ("one_reason", "reason-overwritten", "late-calls-to-a-server-without-a-handshake"),
    ("no_call_before_install", "calls-before-install", "mutations-in-flight-are-not-replayed"),
    ("reads_wait", "read-wait-rounded-up", "a-read-whose-wait-is-over"),
    ("answers_are_prompt", "file-requests-one-by-one", "a-file-beside-a-disk-that-hangs"),
    ("ids_are_own", "process-ids-global", "two-clients-use-the-same-process-id"),
    ("ends_as_it_wants", "disconnect-kills", "a-cut-spares-a-dropped-process-with-a-read"),
    ("http_fails_truly", "http-loss-is-gap", "http-body-at-the-cut"),
    ("files_are_true", "link-has-its-own-size", "a-link-to-a-file"),
    ("watches_are_true", "change-ends-all-watches", "a-change-ends-its-own-watch"),
    ("response_before_body", "http-body-before-response", "http-body-whole"),
    ("http_ends_with_its_connection", "http-outlives-connection", "a-body-that-ends-after-its-connection"),
    ("methods_are_kept", "repeated-request-loses-body", "a-post-behind-a-lasting-redirect"),
    ("responses_are_true", "streamed-headers-lost", "responses-with-other-status"),
    ("credentials_stay", "credentials-follow-redirects", "http-redirects"),
    ("redirects_end", "redirects-unbounded", "a-cut-during-many-redirects"),
    ("attempts_are_answered", "handshake-has-one-timeout", "a-handshake-behind-a-slow-opening"),
    ("attached_are_answered", "consumer-after-handshake", "a-held-answer-behind-many-events"),
    ("closed_are_kept", "refused-attach-counts-not", "closed-process-retained-during-refusals"),
    ("kept_while_healthy", "keepalive-lost", "a-quiet-process-on-an-idle-connection"),
    ("silence_is_noticed", "pong-deadline-doubled", "a-silent-connection-is-given-up-in-time"),
    ("refusals_pass", "transient-read-error-is-fatal", "a-read-is-refused-for-a-while"),
    ("processes_fail_truly", "next-seq-is-last-chunk", "an-exit-during-a-long-outage"),
    ("gaps_are_requested", "live-gap-unrepaired", "server-withholds-an-event"),
    ("write_ids_are_own", "write-ids-from-one", "two-clients-write-to-their-own-processes"),
    ("writes_have_a_reader", "write-accepted-after-exit", "a-write-after-the-exit"),
    ("input_arrives", "short-write-is-whole", "a-line-longer-than-a-pipe"),
    ("signals_take_effect", "signals-one-by-one", "a-terminate-behind-many-signals"),
    ("terminates_tell_truth", "held-exit-still-runs", "a-terminate-behind-output-that-waits"),
    ("refusals_are_true", "unknown-is-internal", "a-read-of-a-forgotten-process"),
    ("client_recovers", "recovery-counts-from-ping", "a-silent-connection-leaves-the-whole-recovery-time"),
    ("counts_are_true", "close-starts-no-timer", "a-close-behind-much-output-is-forgotten"),
    ("lost_calls_were_sent", "closed-watch-is-lost", "a-client-is-closed"),
    ("attempts_pause", "still-attached-shortens-pause", "pauses-grow-while-the-server-keeps-an-old-connection"),
    ("repetitions_pause", "refused-read-repeated-at-once", "repetitions-that-are-refused-too"),
    ("sessions_are_shared", "idle-kept-while-room", "a-host-replaces-its-idle-session"),
    ("http_limits_hold", "queued-fetch-has-half-time", "a-request-in-the-queue-has-all-its-time"),
    ("waits_are_whole", "repeated-write-waits-anew", "a-repeated-write-has-one-wait"),
    ("unfollowed_run_on", "unfollowed-counts-as-unread", "a-process-that-nobody-follows-runs-on"),
    ("logs_are_bounded", "full-log-catches-up", "a-full-log-over-several-connections"),
    ("turns_are_fair", "fullest-first", "quiet-processes-have-their-turn-beside-a-flood"),
];

#[rustfmt::skip]
const TOOLCALL: &[Alone] = &[
    ("no_live_client_failed", "unknown-owner-is-gone", "owner-unknown-to-the-host"),
    ("gone_is_failed", "connected-clients-are-awaited", "a-call-of-a-window-that-no-longer-watches-its-chat"),
    ("returning_keeps", "leaving-empties-the-session", "a-window-leaves-and-the-other-stays"),
    ("released_at_once", "leaves-one-chat", "a-window-leaves-the-session"),
    ("one_outcome", "over-is-not-the-end", "a-late-result-in-a-chat-that-is-removed"),
    ("no_work_for_what_is_over", "unwatched-tools-go-on", "a-tool-is-stopped-during-an-outage"),
    ("tools_begin_once", "missed-calls-wait", "a-call-may-run-while-its-window-is-away"),
    ("results_count", "stopped-calls-hang", "a-stopped-call-is-seen-again"),
    ("owner_can_run", "late-subscription-is-kept", "a-subscription-that-is-answered-too-late"),
    ("replicas_converge", "restore-forgets-the-creation", "a-restored-chat-that-was-made-again"),
    ("replay_is_used", "snapshots-keep-the-cursor", "a-restarted-host-counts-its-actions-anew"),
    ("waits_have_causes", "wait-outlives-cause", "cancelled-while-its-owner-is-away"),
    ("holds_are_exact", "close-releases-others", "one-of-two-windows-crashes-beside-an-idle-chat"),
    ("actions_once", "repetition-takes-effect", "a-second-connection-starts-over"),
    ("rejections_are_handled", "late-completion-echoed", "result-after-the-grace-period"),
    ("in_order", "two-queues", "requests-without-a-connection"),
    ("authority", "forged-action-taken", "forged-call-start"),
    ("claims_are_checked", "baseline-not-asked", "client-returns-with-false-claims"),
    ("requests_settle", "reverse-outlives-transport", "host-request-at-the-cut"),
    ("refusals_are_true", "unknown-chats-are-invalid", "a-chat-that-does-not-exist-is-disposed-of"),
    ("confirmed_is_done", "older-token-counts", "a-token-of-an-older-connection-is-late"),
    ("ended_is_stored", "saves-only-at-the-eviction", "a-turn-is-stored-before-its-chat-is-unloaded"),
    ("entries_are_true", "entry-changes-with-its-time", "the-session-lists-a-chat-that-waits-for-its-user"),
    ("states_are_true", "renewed-entries-are-not-saved", "a-turn-beside-a-session-that-is-not-loaded"),
    ("limits_hold", "refused-makes-room", "a-refused-subscription-keeps-its-place"),
    ("views_are_current", "waiting-actions-show-everywhere", "a-turn-that-waits-for-a-connection-is-shown-in-its-chat"),
    ("questions_are_answered", "order-of-connections-is-lost", "a-question-after-the-oldest-of-three-connections"),
    ("unowned_fails", "ownerless-call-waits", "a-tool-that-no-window-offers"),
    ("places_are_wanted", "leaver-joins-again", "a-window-that-left-does-not-join-again"),
    ("news_are_wanted", "new-chats-have-subscribers", "a-chat-that-is-made-again-has-no-subscribers"),
    ("pauses_are_right", "back-off-never-ends", "a-cut-after-a-long-connection"),
    ("silent_is_closed", "close-wakes-nothing", "a-window-that-answers-only-pings"),
    ("ends_are_true", "unknown-tools-succeed", "a-tool-that-its-window-does-not-have"),
    ("requests_end_in_time", "subscriptions-are-lost", "a-subscription-outlives-its-connection"),
    ("silence_is_noticed", "no-inbound-deadline", "silent-on-every-connection"),
    ("live_is_not_missing", "unloaded-is-missing", "an-unloaded-chat-is-not-missing"),
    ("forgotten_in_time", "retention-after-grace", "forgotten-after-its-retention"),
    ("client_comes_back", "tokens-handed-over-once", "tokens-lost-on-their-way"),
    ("healthy_is_kept", "readers-are-behind", "a-window-reads-while-the-log-is-short"),
    ("counts_are_true", "refused-channels-stay", "a-chat-that-cannot-be-watched-takes-no-place"),
];

#[rustfmt::skip]
const TURN: &[Alone] = &[
    ("success_is_true", "early-garbled-lines-are-forgotten", "a-garbled-line-before-the-answer-to-the-start"),
    ("failure_is_true", "garbled-lines-take-the-answer-back", "a-garbled-line-between-the-answer-and-the-exit"),
    ("status_is_the_verdict", "failure-exits-with-zero", "a-failed-turn-through-the-broker"),
    ("answer_is_the_answer", "first-answers-stand", "an-agent-that-answers-several-times"),
    ("busy_is_true", "busy-is-not-awaited", "a-client-with-a-thread-waits-for-a-busy-broker"),
    ("abandoned_is_interrupted", "held-start-outlives-its-client", "a-held-start-whose-client-vanishes"),
    ("interruption_is_true", "later-end-replaces-the-verdict", "a-report-after-the-deadline"),
    ("ending_is_prompt", "old-ends-take-the-room", "a-broker-that-remembers-one-ended-turn"),
    ("app_server_is_greeted", "initialized-is-unsaid", "an-app-server-learns-that-its-broker-is-initialized"),
    ("ids_are_new", "late-numbers-are-used-again", "a-request-after-one-without-an-answer"),
    ("exit_is_true", "waits-for-open-clients", "a-shutdown-beside-a-silent-client"),
    ("ends_in_order", "bad-line-leaves-the-child", "a-line-that-is-no-message"),
    ("no_thread_is_left", "stored-thread-is-left", "an-unused-thread-is-deleted"),
    ("one_broker_serves", "busy-broker-is-replaced", "a-stopped-broker-is-not-replaced"),
    ("account_is_own", "any-account-is-mine", "a-broker-of-another-account"),
    ("fallback_is_taken", "takes-busy-for-a-failure", "a-busy-broker-is-left"),
    ("fallback_is_needed", "running-brokers-are-left", "a-second-command-uses-the-running-broker"),
    ("refusals_are_true", "forwards-each-initialize", "each-client-introduces-itself"),
    ("interrupts_have_a_cause", "unreadable-lines-are-silence", "an-unreadable-line-ends-a-silence"),
    ("report_counts", "last-line-is-dropped", "a-report-without-the-end-of-its-line"),
    ("reports_are_whole", "unmade-changes-listed", "a-report-lists-what-was-done"),
    ("ended_is_left_alone", "adopted-turns-run-on", "an-unanswered-start-of-a-turn-that-ended"),
    ("cancel_is_prompt", "cancel-has-no-deadline", "a-cancel-on-a-dead-way"),
    ("one_client_works", "answers-free-the-broker", "a-client-waits-for-a-subagent-that-outlasts-the-answer"),
    ("news_stay_private", "abandoned-news-are-shared", "the-news-of-an-abandoned-turn-stay-private"),
    ("start_is_prompt", "refused-start-stays-live", "a-refused-start-frees-the-broker"),
    ("threads_are_free", "starts-beside-an-abandoned-turn", "a-task-on-the-thread-of-an-abandoned-turn"),
    ("broker_lets_go", "late-names-run-on", "a-detached-review-that-is-answered-after-its-end"),
    ("end_absorbs", "updates-without-lock", "a-cancel-beside-news"),
    ("record_is_true", "unrecorded-news-replace-newer", "newer-news-of-a-job-are-kept"),
    ("dead_is_over", "locked-records-believe-the-dead", "a-worker-dies-while-the-records-are-locked"),
    ("no_job_is_lost", "wipes-broken-records", "a-damaged-record-is-kept"),
    ("cancel_is_asked", "jobs-without-a-session-belong-to-all", "a-session-ends-before-the-worker-of-another-job-begins"),
    ("job_end_is_true", "unconfirmed-cancels-fail", "a-stopped-worker-and-a-stubborn-app-server"),
    ("cancel_interrupts", "interrupts-only-known-turns", "a-cancel-before-the-turn-is-known"),
    ("cancels_reach_all", "queued-jobs-are-spared", "a-session-ends-before-a-worker-begins"),
    ("ended_job_stops", "stubborn-workers-are-spared", "a-session-ends-with-a-stubborn-worker"),
    ("job_waits_are_true", "wait-ends-at-once", "a-user-waits-for-a-job"),
    ("old_jobs_are_pruned", "prunes-by-creation", "a-job-that-ended-last-is-kept"),
    ("log_is_complete", "log-keeps-no-room", "a-short-line-after-the-log-of-a-job-is-full"),
    ("job_is_undisturbed", "refusal-hides-the-turn", "a-start-that-is-refused-after-its-turn-ended"),
    ("no_stranger_is_signalled", "signals-any-process-with-the-id", "a-stranger-has-the-id-of-a-worker"),
];

/// The same for the generic properties, with the name of the subject.
#[rustfmt::skip]
const GENERIC: &[(&str, Alone)] = &[
    ("counter", ("no_panic", "panics-without-hello", "connection-without-hello")),
    ("counter", ("no_livelock", "spins-while-waiting", "a-client-that-waits-after-a-long-stream")),
    ("counter", ("gap_free", "live-before-catch-up", "five-outages-in-a-row")),
    ("counter", ("one_ending", "eof-is-completion", "partition-just-over-the-deadline")),
    ("exec", ("bounded_delivery", "output-without-wake-up", "output-after-long-pauses")),
    ("counter", ("bounded_ending", "lost-wake-up", "five-outages-in-a-row")),
    ("counter", ("justified_failure", "snapshot-then-attach", "held-between-snapshot-and-attach")),
    ("counter", ("at_most_once", "dedupes-after-unlock", "add-held-between-lookup-and-effect")),
    ("counter", ("isolation", "adds-wait-for-leases", "an-add-beside-a-lease-of-a-lost-client")),
    ("counter", ("stale_generation_inert", "stale-close-disconnects", "half-open-toward-the-client")),
    ("counter", ("no_residue", "fenced-connection-kept", "all-resources-are-released")),
    ("counter", ("bounded_work", "no-back-off", "refused-hung-and-closed-while-recovering")),
    ("counter", ("bounded_memory", "retention-unbounded", "retention-exceeded-with-a-neighbour")),
];

/// Returns the violated properties of a file with a bug, in the order of their first violations. These are those of
/// its first run that fails.
fn broken(subject: &Arc<dyn DynSubject>, bug: &str, file: &str) -> Vec<&'static str> {
    let folder = format!("{}/scenarios/{}", env!("CARGO_MANIFEST_DIR"), subject.name());
    let path = format!("{folder}/{file}.toml");
    let scenario = ScenarioFile::load(Path::new(&path), std::slice::from_ref(subject)).unwrap();
    let broken = scenario.plans().into_iter().map(|mut plan| {
        plan.defects.push(bug.to_owned());
        let run = JudgedRun { subject, plan: &plan, expect: &Expect::default() };
        let judged = judge(run, &Options::default(), |_| true).unwrap();
        let mut properties: Vec<_> = judged.broken.iter().map(|broken| broken.property).collect();
        properties.dedup();
        properties
    });
    broken.into_iter().find(|properties| !properties.is_empty()).unwrap_or_default()
}

/// Checks the table of a subject: it names all of its properties, each finds its bug, and no other one does.
fn each_finds_a_bug_alone(subject: Arc<dyn DynSubject>, table: &[Alone]) {
    let named: Vec<_> = table.iter().map(|(property, ..)| *property).collect();
    let all: Vec<_> = subject.properties().iter().map(|property| property.name).collect();
    assert_eq!(named, all);
    let wrong = table.iter().filter_map(|(property, bug, file)| {
        let found = broken(&subject, bug, file);
        (found != [*property]).then(|| format!("{property}: {bug} in {file} breaks {found:?}"))
    });
    assert_eq!(wrong.collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn each_property_of_exec_finds_a_bug_alone() {
    each_finds_a_bug_alone(Arc::new(Exec), EXEC);
}

#[test]
fn each_property_of_sse_finds_a_bug_alone() {
    each_finds_a_bug_alone(Arc::new(Sse), SSE);
}

#[test]
fn each_property_of_toolcall_finds_a_bug_alone() {
    each_finds_a_bug_alone(Arc::new(Toolcall), TOOLCALL);
}

#[test]
fn each_property_of_turn_finds_a_bug_alone() {
    each_finds_a_bug_alone(Arc::new(Turn), TURN);
}

#[test]
fn each_generic_property_finds_a_bug_alone() {
    let named: Vec<_> = GENERIC.iter().map(|(_, (property, ..))| *property).collect();
    let all: Vec<_> = property::GENERIC.iter().map(|property| property.name).collect();
    assert_eq!(named, all);
    let wrong = GENERIC.iter().filter_map(|(name, (property, bug, file))| {
        let subject = built_in().into_iter().find(|subject| subject.name() == *name).unwrap();
        let found = broken(&subject, bug, file);
        (found != [*property]).then(|| format!("{property}: {bug} in {file} breaks {found:?}"))
    });
    assert_eq!(wrong.collect::<Vec<_>>(), [""; 0]);
}
