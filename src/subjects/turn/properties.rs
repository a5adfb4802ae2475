//! The properties of `turn` beyond the generic ones. P1 to P9 name the properties of the issue that
//! the protocol comes from; the generic `bounded_ending` is P1.
//!
//! | property | evidence |
//! |---|---|
//! | `success_is_true` (P2) | the verdict of a user, and what the app-server really reported or answered before |
//! | `failure_is_true` (P2) | the same, in a run without faults up to the verdict |
//! | `status_is_the_verdict` (P2) | the exit status of a command, its verdict, and whether its user cancelled it |
//! | `answer_is_the_answer` (P3, P9) | the answer that a command printed, and the final answer of the agent |
//! | `interruption_is_true` (P2) | the verdict of a user, and who interrupted the turn |
//! | `busy_is_true` (P5) | a command or an interrupt that was refused as busy, and the turns that ran then; when a command without a turn ended |
//! | `ending_is_prompt` (P1) | when the app-server started a turn and was done with it, and when the user saw the verdict |
//! | `abandoned_is_interrupted` (P6) | the end of a client or its verdict, and when the app-server learned of it; the interrupts of its subagent |
//! | `exit_is_true` (P7) | the exit statuses of the broker, and the requests to end it |
//! | `ends_in_order` (P8) | the app-servers that were killed |
//! | `no_thread_is_left` (P8) | the threads of a command, and the thread of its turn |
//! | `one_broker_serves` | when the brokers of a client's machine began and ended to serve |
//! | `account_is_own` | the account of a command, and that of the app-server that it asked |
//! | `fallback_is_taken` | a command that was refused, and whether the broker was ever ready |
//! | `fallback_is_needed` | where a turn ran, and whether the broker was ready and idle |
//! | `refusals_are_true` | a command that got no turn, and what was in its way |
//! | `interrupts_have_a_cause` | an interrupt that the app-server got, and what users asked before |
//! | `report_counts` | what the app-server reported first, and the verdict of the user |
//! | `ended_is_left_alone` | an interrupt that came after the app-server had reported the end of its turn |
//! | `app_server_is_greeted` | the messages that an app-server got, in order |
//! | `ids_are_new` | the messages that an app-server got |
//! | `reports_are_whole` | the work that the app-server reported, and the work that a command listed |
//! | `cancel_is_prompt` | when a user cancelled a command, and when it ended |
//! | `one_client_works`, `threads_are_free` | when the app-server started turns, and when they ended |
//! | `news_stay_private` | the news that a client got of a thread, and the command of the thread |
//! | `start_is_prompt` | when the app-server started a turn, and what else was at work |
//! | `broker_lets_go` | what a broker holds, and the clients that are connected to it; when a client read, and when the broker closed its connection |
//!
//! The properties of jobs are in [`jobs::properties`](super::jobs).

mod brokers;
pub(super) mod endings;
mod greetings;
pub(super) mod interrupts;
mod refusals;
mod reports;
pub(super) mod shared;
mod starts;
#[cfg(test)]
mod tests;
mod threads;
mod verdicts;
mod works;

use super::jobs::{ends, logs, properties as jobs, records};
use super::story::Story;
use crate::subjects::judging::story_properties;

story_properties! {
    Story;
    "success_is_true" as verdicts::success_is_true, verdicts::SUCCESS_IS_TRUE:
        "a turn completes for its user only if the app-server reported that, or the agent gave its final answer and no work was open";
    "failure_is_true" as verdicts::failure_is_true, verdicts::FAILURE_IS_TRUE:
        "without a fault, a turn that the app-server completed does not fail for its user; nor does a turn whose app-server exited after the final answer";
    "status_is_the_verdict" as verdicts::status_is_the_verdict, verdicts::STATUS_IS_THE_VERDICT:
        "a command exits with 0 if and only if its turn completed, and with 130 if and only if its user cancelled it";
    "answer_is_the_answer" as verdicts::answer_is_the_answer, verdicts::ANSWER_IS_THE_ANSWER:
        "a command prints the final answer of its own turn, and no other text";
    "busy_is_true" as brokers::busy_is_true, brokers::BUSY_IS_TRUE:
        "the broker refuses a command as busy only while a turn of another client runs, and a command asks a busy broker only for so long";
    "abandoned_is_interrupted" as endings::abandoned_is_interrupted, endings::ABANDONED_IS_INTERRUPTED:
        "a turn whose client is gone, or has cancelled it or given it up, does not run on, nor do its subagents";
    "interruption_is_true" as verdicts::interruption_is_true, verdicts::INTERRUPTION_IS_TRUE:
        "a turn that its own client interrupted because of a deadline fails; it does not count as interrupted by another";
    "ending_is_prompt" as endings::ending_is_prompt, endings::ENDING_IS_PROMPT:
        "without a fault, the user of a turn has its verdict soon after the app-server is done with it, or the turn has taken too long";
    "app_server_is_greeted" as greetings::app_server_is_greeted, greetings::APP_SERVER_IS_GREETED:
        "an app-server gets no request before its client has said that it is initialized";
    "ids_are_new" as greetings::ids_are_new, greetings::IDS_ARE_NEW:
        "each request to an app-server has an id of its own";
    "exit_is_true" as endings::exit_is_true, endings::EXIT_IS_TRUE:
        "the broker exits with 0 if and only if it was asked to end, and then it exits in time";
    "ends_in_order" as endings::ends_in_order, endings::ENDS_IN_ORDER:
        "without a fault, an app-server that ends after the end of its input, or after SIGTERM, is not killed";
    "no_thread_is_left" as threads::no_thread_is_left, threads::NO_THREAD_IS_LEFT:
        "a command that moves to another app-server removes its thread from the first";
    "one_broker_serves" as brokers::one_broker_serves, brokers::ONE_BROKER_SERVES:
        "at most one broker serves a machine at a time";
    "account_is_own" as brokers::account_is_own, brokers::ACCOUNT_IS_OWN:
        "a command asks only an app-server of its own account";
    "fallback_is_taken" as brokers::fallback_is_taken, brokers::FALLBACK_IS_TAKEN:
        "a command that may run without the broker does so if the broker is busy, or its app-server is never ready";
    "fallback_is_needed" as refusals::fallback_is_needed, refusals::FALLBACK_IS_NEEDED:
        "a command leaves a broker only if it is busy or not ready, and starts the broker of its machine if there is none";
    "refusals_are_true" as refusals::refusals_are_true, refusals::REFUSALS_ARE_TRUE:
        "a command that gets no turn was refused, cancelled, or found no server";
    "interrupts_have_a_cause" as interrupts::interrupts_have_a_cause, interrupts::INTERRUPTS_HAVE_A_CAUSE:
        "a turn is interrupted only if a user asked for its end, its client is gone, or a deadline has passed";
    "report_counts" as interrupts::report_counts, interrupts::REPORT_COUNTS:
        "the verdict of a turn is what the app-server reports, unless something else ended the turn before";
    "reports_are_whole" as reports::reports_are_whole, reports::REPORTS_ARE_WHOLE:
        "the report of a completed turn lists the commands and changes of its agent and subagents";
    "ended_is_left_alone" as interrupts::ended_is_left_alone, interrupts::ENDED_IS_LEFT_ALONE:
        "a turn is not interrupted after the app-server has reported its end";
    "cancel_is_prompt" as interrupts::cancel_is_prompt, interrupts::CANCEL_IS_PROMPT:
        "a command that its user cancelled ends in the time that its client has for that";
    "one_client_works" as works::one_client_works, works::ONE_CLIENT_WORKS:
        "one client of a broker works at a time";
    "news_stay_private" as works::news_stay_private, works::NEWS_STAY_PRIVATE:
        "the news of a command's thread, and of its subagents, reach the client of no other command";
    "start_is_prompt" as starts::start_is_prompt, starts::START_IS_PROMPT:
        "the turn of a command starts soon if no other command is at work";
    "threads_are_free" as works::threads_are_free, works::THREADS_ARE_FREE:
        "a turn starts on a thread only after the turn before it has ended there";
    "broker_lets_go" as works::broker_lets_go, works::BROKER_LETS_GO:
        "a broker holds nothing of clients that are gone, once their turns have had the time to end, and never more than its limits; it keeps a client that reads";
    "end_absorbs" as ends::end_absorbs, ends::END_ABSORBS:
        "a job that is over never changes";
    "record_is_true" as records::record_is_true, records::RECORD_IS_TRUE:
        "the record of a job names its turn, its times are true, and its worker exits as the record says";
    "dead_is_over" as jobs::dead_is_over, jobs::DEAD_IS_OVER:
        "a user does not see a job as active once its worker has ended";
    "no_job_is_lost" as jobs::no_job_is_lost, jobs::NO_JOB_IS_LOST:
        "a user sees each job that was started and not pruned, and finds it by its id; no active job is pruned";
    "cancel_is_asked" as jobs::cancel_is_asked, jobs::CANCEL_IS_ASKED:
        "a job is cancelled only if a user cancelled it or ended its session";
    "job_end_is_true" as jobs::job_end_is_true, jobs::JOB_END_IS_TRUE:
        "a job that completed has the answer of its turn, which the app-server really completed or answered";
    "cancel_interrupts" as jobs::cancel_interrupts, jobs::CANCEL_INTERRUPTS:
        "the cancel of a job interrupts its turn, and lets its worker end by itself";
    "cancels_reach_all" as jobs::cancels_reach_all, jobs::CANCELS_REACH_ALL:
        "after the end of a session, or the cancel of a turn, none of its jobs is active";
    "ended_job_stops" as jobs::ended_job_stops, jobs::ENDED_JOB_STOPS:
        "the turn of a job that was cancelled, or whose worker was killed, does not run on, and the worker of a cancelled job gets a signal and ends";
    "job_waits_are_true" as jobs::job_waits_are_true, jobs::JOB_WAITS_ARE_TRUE:
        "a user who waits for a job sees it when it is over, or when the wait is";
    "old_jobs_are_pruned" as jobs::old_jobs_are_pruned, jobs::OLD_JOBS_ARE_PRUNED:
        "as many jobs that are over keep their records as the limit says, and these are the newest";
    "log_is_complete" as logs::log_is_complete, logs::LOG_IS_COMPLETE:
        "the log of a completed job has a line for each item of its turn";
    "job_is_undisturbed" as jobs::job_is_undisturbed, jobs::JOB_IS_UNDISTURBED:
        "a job that its user leaves alone is not interrupted, and completes if its turn does";
    "no_stranger_is_signalled" as jobs::no_stranger_is_signalled, jobs::NO_STRANGER_IS_SIGNALLED:
        "a command that ends a job sends signals only to its worker";
}
