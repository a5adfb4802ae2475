//! The tables of jobs: milestones, points, defects, rules. The subject appends them to
//! [its own](crate::subjects::turn::tables).

use crate::subject::tables::{defect, milestone, point, point_of, rule};
use crate::subject::{DefectDoc, MilestoneDoc, PointDoc, Rule};

/// The milestones of the job records and of the runner.
#[rustfmt::skip]
pub const MILESTONES: &[MilestoneDoc] = &[
    milestone("turn.jobs.created", &["job"], "a job is recorded, and queued"),
    milestone("turn.jobs.claimed", &["job"], "a worker has made a queued job its own"),
    milestone("turn.jobs.finished", &["job", "state"], "a worker has recorded the end of its job"),
    milestone("turn.jobs.cancelled", &["job"], "a job is cancelled, and its worker may still work"),
    milestone("turn.jobs.reconciled", &["job"], "a reader has found a job whose process is dead, and recorded its failure"),
    milestone("turn.jobs.pruned", &["job"], "the record of an old job is removed"),
    milestone("turn.runner.lost", &["job"], "a worker has found that its job is over, and interrupts its turn"),
    milestone("turn.runner.stopped", &["job"], "the worker of a cancelled job has ended"),
    milestone("turn.runner.session-ended", &["jobs"], "the jobs of a session are cancelled, and their workers have ended"),
];

/// The points at which a task can be held.
#[rustfmt::skip]
pub const POINTS: &[PointDoc] = &[
    point("turn.jobs.create", "a command records a new job next"),
    point("turn.jobs.created", "a new job is recorded, and its worker is not launched yet"),
    point("turn.jobs.launched", "the worker of a job is launched, and its record does not name it yet"),
    point("turn.jobs.change", "a process changes the record of a job next"),
    point("turn.jobs.changed", "a process has changed the record of a job, and does not know it yet"),
    point("turn.jobs.read", "a process has read the record of a job, and checks next whether the job's process is alive"),
    point("turn.runner.cancelled", "a job is cancelled; its turn is not interrupted yet, and its worker does not know it"),
    point_of("updates-without-lock", point("turn.jobs.change.unlocked", "a process has read the record of a job, and changes it next")),
    point_of("writes-in-two-steps", point("turn.jobs.half-written", "a record contains the end of the job, but no report")),
];

/// The seeded bugs.
#[rustfmt::skip]
pub const DEFECTS: &[DefectDoc] = &[
    defect("UpdatesWithoutLock", "updates-without-lock", &["end_absorbs"], "two processes change the record of a job at the same time, and one change is lost", "issue 458; facts, 12"),
    defect("WritesInTwoSteps", "writes-in-two-steps", &["job_end_is_true"], "the end of a job is recorded before its report", "facts, 46"),
    defect("WipesBrokenRecords", "wipes-broken-records", &["no_job_is_lost"], "a record that cannot be read is removed", "issue 517; facts, 13"),
    defect("PrunesActiveJobs", "prunes-active-jobs", &["no_job_is_lost"], "an old job that still runs is pruned", "facts, 45"),
    defect("FindsOnlyFinishedJobs", "finds-only-finished-jobs", &["no_job_is_lost"], "an active job is not found by its id", "facts, 44"),
    defect("BelievesTheDead", "believes-the-dead", &["dead_is_over"], "a job whose worker died runs forever", "issues 222 and 432; facts, 14"),
    defect("RecordsAfterTheStart", "records-after-the-start", &["dead_is_over"], "a worker starts before its job is recorded", "facts, 40"),
    defect("ClaimsCancelledJobs", "claims-cancelled-jobs", &["end_absorbs"], "a worker starts a job that is cancelled", "the review of pull request 738; facts, 18"),
    defect("UpdatesAfterTheEnd", "updates-after-the-end", &["end_absorbs"], "a worker records news of a job that is over", "the review of pull request 623; facts, 17"),
    defect("OverwritesTheEnd", "overwrites-the-end", &["end_absorbs"], "the end that a worker records replaces a cancel", "facts, 41"),
    defect("WorksOnACancelledJob", "works-on-a-cancelled-job", &["ended_job_stops"], "a worker that learns of a cancel from the record goes on", "facts, 42"),
    defect("KillsWithoutAnInterrupt", "kills-without-an-interrupt", &["cancel_interrupts"], "a cancel kills the worker, and interrupts nothing", "facts, 35"),
    defect("EndsOtherSessions", "ends-other-sessions", &["cancel_is_asked"], "the end of a session cancels the jobs of all sessions", "issue 540; facts, 9"),
    defect("JobsWithoutASessionBelongToAll", "jobs-without-a-session-belong-to-all", &["cancel_is_asked"], "the end of a session cancels the jobs that have no session", "derived"),
    defect("QueuedJobsAreSpared", "queued-jobs-are-spared", &["cancels_reach_all"], "the end of a session, or a cancel, spares a job that its worker has not claimed yet", "derived from facts, 9"),
    defect("EndsAreTimedEarly", "ends-are-timed-early", &["record_is_true"], "the record of a job says that it ended when its worker began", "derived"),
    defect("SubagentThreadsAreRecorded", "subagent-threads-are-recorded", &["record_is_true"], "the record of a job names the thread of a subagent", "derived"),
    defect("WorkersExitWithZero", "workers-exit-with-zero", &["record_is_true"], "a worker whose job failed exits with 0", "facts, rule 10"),
    defect("LogKeepsNoRoom", "log-keeps-no-room", &["log_is_complete"], "a full log does not say that lines are missing", "derived"),
    defect("WaitEndsAtOnce", "wait-ends-at-once", &["job_waits_are_true"], "the wait for a job ends at once, although the job is active", "derived from facts, A.6"),
    defect("KeepsOneJobLess", "keeps-one-job-less", &["old_jobs_are_pruned"], "one job fewer than the limit keeps its record", "derived from facts, 45"),
    defect("KeepsOneJobMore", "keeps-one-job-more", &["old_jobs_are_pruned"], "one job more than the limit keeps its record", "derived from facts, 45"),
    defect("PrunesByCreation", "prunes-by-creation", &["old_jobs_are_pruned"], "the jobs that were created first are pruned first, not those that ended first", "derived"),
    defect("ReaderLooksOnce", "reader-looks-once", &[], "a reader does not check again under the lock whether the process of a job is dead", "derived"),
    defect("AssignsAClaimedJob", "assigns-a-claimed-job", &["job_is_undisturbed"], "a launcher queues a job again that its fast worker has claimed", "derived"),
    defect("UnstartedJobStaysQueued", "unstarted-job-stays-queued", &["dead_is_over"], "a job whose worker cannot be started stays queued", "derived"),
    defect("LastNewsAreLost", "last-news-are-lost", &["log_is_complete"], "a worker does not record the news that come right before its end", "derived"),
    defect("SignalsAnyProcessWithTheId", "signals-any-process-with-the-id", &["no_stranger_is_signalled"], "a cancel sends signals to another process that has the id of the worker", "facts, 43"),
    defect("UnconfirmedCancelsFail", "unconfirmed-cancels-fail", &["job_end_is_true"], "a job whose worker is stopped has failed if its app-server does not confirm the end of its turn", "derived from facts, 35"),
    defect("DetailsHideTheTurn", "details-hide-the-turn", &["expect"], "the page of a job does not name its turn", "derived"),
    defect("AnyMatchIsMeant", "any-match-is-meant", &["expect"], "the beginning of several ids finds one of the jobs", "derived"),
    defect("OrdersHaveNoLimit", "orders-have-no-limit", &["expect"], "a job whose order is longer than the limit is created", "derived"),
    defect("ReportsAreCutAsMessages", "reports-are-cut-as-messages", &["expect"], "the limit of a message cuts a report", "derived"),
    defect("LeftoversStay", "leftovers-stay", &["expect"], "a prune leaves the files of jobs without a record", "derived"),
    defect("ReviewThreadUnrecorded", "review-thread-unrecorded", &["expect"], "the record of a detached review names the thread of the request, and a cancel interrupts nothing there", "derived"),
    defect("CancelPlansEarly", "cancel-plans-early", &["expect"], "a cancel does what the record said before the lock, so it does not end a worker that has just claimed the job", "derived from facts, 18"),
    defect("MembersAreDropped", "members-are-dropped", &["expect"], "a change of a record loses the members that the program does not know", "derived"),
    defect("MissingOrdersAreIgnored", "missing-orders-are-ignored", &["expect"], "a job without an order gets no end from its worker", "derived"),
    defect("LaterRecordsAreRead", "later-records-are-read", &["expect"], "a record of a later version is read", "derived"),
    defect("LocksAreAwaited", "locks-are-awaited", &["expect"], "a process waits for the lock of the records as long as another one holds it", "derived"),
    defect("LockedRecordsBelieveTheDead", "locked-records-believe-the-dead", &["dead_is_over"], "a job whose worker died is active for a reader that cannot take the lock", "derived from facts, 14"),
    defect("SessionsEndJobByJob", "sessions-end-job-by-job", &["expect"], "the end of a session cancels a job only when the worker of the one before has ended", "derived from facts, 9"),
    defect("GapsAreUnsaid", "gaps-are-unsaid", &["log_is_complete"], "a log does not say that lines are missing because they came too fast", "derived"),
    defect("RecordsHaveNoLimit", "records-have-no-limit", &["expect"], "a worker writes a record that is too long to be read", "derived"),
    defect("SessionFailuresAreUnsaid", "session-failures-are-unsaid", &["expect"], "the end of a session does not say which jobs it could not cancel", "derived"),
    defect("UnrecordedNewsAreLost", "unrecorded-news-are-lost", &["expect"], "the thread and the turn of a job are lost if its record is locked when they come", "a walk through the code"),
    defect("StubbornWorkersAreSpared", "stubborn-workers-are-spared", &["ended_job_stops"], "a cancel leaves a worker alone that does not end in time", "derived from facts, 35"),
    defect("UnrecordedNewsReplaceNewer", "unrecorded-news-replace-newer", &["record_is_true"], "news of a job that could not be recorded replace those that came meanwhile", "derived"),
    defect("FewLinesWait", "few-lines-wait", &["log_is_complete"], "a log lacks lines, and says so, although they did not come too fast", "derived"),
    defect("CancelsNeedABroker", "cancels-need-a-broker", &["ended_job_stops"], "a cancel sends the worker no signal if no broker runs", "derived from facts, 35"),
];

/// The ledger.
#[rustfmt::skip]
pub const RULES: &[Rule] = &[
    rule("turn.job-states", "a job is queued, then running, then completed, failed or cancelled; the last three never change", "facts, A.6, and P4"),
    rule("turn.job-records", "a change of a record is atomic, excludes other changes, and survives a crash; a job is recorded before its worker starts", "facts, A.6, and P8"),
    rule("turn.job-pruning", "only jobs that are over are pruned, the oldest first; an unreadable record stays", "facts, A.6, and P8"),
    rule("turn.dead-worker", "a job whose process is dead has failed, for each reader", "facts, A.6, 14"),
    rule("turn.job-cancel", "a cancel is recorded first; then the turn is interrupted, and the worker ends or is killed", "facts, A.6, and P6"),
    rule("turn.session-end", "the end of a session cancels its jobs, and no others", "facts, A.5"),
    rule("turn.strangers", "no signal reaches a process that is not the worker of the job", "facts, 43"),
];
