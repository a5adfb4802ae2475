//! The properties of `exec` beyond the generic ones.
//!
//! | property | evidence |
//! |---|---|
//! | `in_sequence` | the events that the user saw: each number directly follows the one before it, and the exit follows the real end of the process and the output before it, and has the number that the server gave it |
//! | `reads_are_true` | the totals of a page-wise read, of a byte stream or of a further subscription, the real output of the process, and the events that its user has received before |
//! | `no_orphan` | the effect of a start, its outcome for the user, and the real end of the started process |
//! | `generations_are_true` | the generations of the items that users received, the times at which these were printed, the connections, and the milestone of a failed client |
//! | `lost_by_its_own_end` | the ends of connections, and the milestones of a connection that the client installed and gave up |
//! | `renounced_is_over` | the milestones that the server calls a connection closed, and that a call was sent over it |
//! | `no_stealing` | the milestones of connections that attach to a session or detach from it, and the ends of connections |
//! | `catches_up_at_once` | the milestones around a catch-up, and the fault intervals |
//! | `catch_ups_progress` | the milestones around a catch-up, the faults that cut a connection after a number of bytes, and the items that the user received |
//! | `answers_count` | the milestones of answers that were read, and of calls that were cut off |
//! | `one_reason` | the reasons and the effects of calls to a client that had failed permanently, and the reason of that failure |
//! | `no_call_before_install` | the messages of calls, and the milestone that a generation is installed |
//! | `reads_wait` | the event that a read may wait for, when it really happened, and when the read was answered |
//! | `answers_are_prompt` | the times of requests and answers on a live connection, and the fault intervals |
//! | `ids_are_own` | the earlier starts of the user whose start was refused |
//! | `ends_as_it_wants` | the real end of a process, and whether its user or the end of its session caused it |
//! | `http_fails_truly` | the reasons of failed requests and bodies, and the ends of their client's connections |
//! | `files_are_true` | the contents that users read, the changes that the server's files recorded, and the answers that tasks with files must have |
//! | `watches_are_true` | the answers to watches, the writes of all users, and the changes that the server's files recorded |
//! | `response_before_body` | the milestone that a piece arrived before its response |
//! | `methods_are_kept` | the methods of the requests that the HTTP server received, and the lengths of their bodies |
//! | `credentials_stay` | the credentials that the HTTP server received at an origin that they do not belong to |
//! | `redirects_end` | the connections that the server opened, and the requests of its users |
//! | `http_ends_with_its_connection` | the connections that the server opened, and the ends of the connections that it had accepted |
//! | `attempts_are_answered` | the milestone of a failed attempt, and the fault intervals |
//! | `kept_while_healthy` | the milestones that call a peer silent, and the fault intervals |
//! | `silence_is_noticed` | the last data that reached each client, the ends of connections, and the faults of hosts |
//! | `refusals_pass` | the milestones of refused reads, and of failed processes |
//! | `processes_fail_truly` | the reasons for which a client fails processes, the output, and the retention |
//! | `attached_are_answered` | the milestones of an attach, at the server and at the client, and the fault intervals |
//! | `closed_are_kept` | the milestones of forgotten processes, and the connections that were attached then |
//! | `gaps_are_requested` | the events that a client holds back, and the milestone that it asks for missing ones |
//! | `write_ids_are_own` | the milestone with the id of a write |
//! | `writes_have_a_reader` | the exits that users received, and their later writes |
//! | `input_arrives` | the lines that were accepted, and the lines that each process read |
//! | `signals_take_effect` | the answers to terminates and interrupts, and the real end of each process |
//! | `terminates_tell_truth` | the answers to terminates, and the real end of each process |
//! | `refusals_are_true` | the refusals, the real ends of processes, the changes of files, and the limits |
//! | `client_recovers` | the connections of a client, the milestones of its recovery, and the fault intervals |
//! | `counts_are_true` | the resource counts of client and server, and what is open by the network, the users and the outside world |
//! | `lost_calls_were_sent` | the reasons of failed calls, and the ends of their client's connections |
//! | `attempts_pause` | the connections that a client opened, the ends of those without an answer, and the milestones of those that failed and that the server attached |
//! | `repetitions_pause` | the milestones of reads and terminates that the server refused, and the connections |
//! | `sessions_are_shared` | the milestones of new and refused sessions, and the hosts of their connections |
//! | `http_limits_hold` | the lengths of whole bodies, the deadlines and the redirects of requests, the faults, and the connections that the server opened |
//! | `waits_are_whole` | the times of calls that the client gave up, and their waits |
//! | `unfollowed_run_on` | the real ends of processes that their users dropped, the connections, and the faults |
//! | `logs_are_bounded` | the greatest sizes of the client's logs, and what their users have received |
//! | `turns_are_fair` | when each process printed each piece or exited, and the order in which its user received that |

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::answers::ExecFailure;
use super::files::TARGET;
use super::web;
use crate::history::{Answer, Call, Ending, EventKind, Stream, Time};
use crate::property::violation::{fields, kinds};
use crate::property::{CheckContext, Property, Violation};
use crate::schedule::MilestoneValue;
use crate::subjects::judging::{host, judged};
use reknit_exec::client::Failure;

mod accepted;
mod attempts;
mod carriers;
mod catch_up;
mod counts;
mod files;
mod generations;
mod held_tasks;
mod http;
mod http_bounds;
mod logs;
mod lost;
mod pauses;
mod prompt;
mod reads;
mod recovery;
mod refusals;
mod repair;
mod sequence;
mod served;
mod shares;
mod silence;
mod targets;
#[cfg(test)]
mod tests;
mod turns;
mod unfollowed;
mod waits;
mod wanted_ending;
mod watches;

kinds! {
    NO_ORPHAN;
    STILL_LIVES = "still-lives": "{subject} still runs, although its start or stream failed for its user by {since} ({call})";
}

kinds! {
    NO_CALL_BEFORE_INSTALL;
    CARRIED_EARLY = "early": "generation {number} carried a call before it was installed (at {at})";
    INSTALLED_AGAIN = "again": "generation {number} was installed a second time (at {at})";
}

kinds! {
    ONE_REASON;
    OTHER_REASON = "other": "{subject:}it failed ({reason}), although its client had already failed for another reason ({first}) {moment}";
    TOOK_EFFECT = "effect": "{subject:}it took effect, although its client had failed before the call ({first}) {moment}";
}

/// The properties.
pub(super) const OWN: &[Property] = &[
    Property {
        name: "in_sequence",
        doc: "the user of a process receives its events in the order 1, 2, 3, …, with one exit behind what the process had printed before it, and the close last",
        kinds: sequence::IN_SEQUENCE,
        check: sequence::in_sequence,
    },
    Property {
        name: "reads_are_true",
        doc: "paged reads of a process and further subscriptions, up to its close, return exactly what it printed, each read returns an event as the first one did, and no read leaves out what the server retains",
        kinds: reads::READS_ARE_TRUE,
        check: reads::reads_are_true,
    },
    Property {
        name: "no_orphan",
        doc: "a process does not keep running if it failed for its user, or if its user cancelled its start",
        kinds: NO_ORPHAN,
        check: no_orphan,
    },
    Property {
        name: "generations_are_true",
        doc: "the client names for each item a generation whose connection could carry it, and a failed client receives nothing new",
        kinds: carriers::GENERATIONS_ARE_TRUE,
        check: carriers::generations_are_true,
    },
    Property {
        name: "lost_by_its_own_end",
        doc: "the client gives up an installed connection once, and only if that connection ended or the server rejected it",
        kinds: generations::LOST_BY_ITS_OWN_END,
        check: generations::lost_by_its_own_end,
    },
    Property {
        name: "renounced_is_over",
        doc: "the client sends no request over a connection that the server reported closed",
        kinds: generations::RENOUNCED_IS_OVER,
        check: generations::renounced_is_over,
    },
    Property {
        name: "no_stealing",
        doc: "a session has one connection at a time: a resume attaches a connection only after the earlier one ended",
        kinds: generations::NO_STEALING,
        check: generations::no_stealing,
    },
    Property {
        name: "catches_up_at_once",
        doc: "all processes catch up in parallel: it takes one round trip for any number of processes, and one more for each page after a lost catch-up",
        kinds: generations::CATCHES_UP_AT_ONCE,
        check: generations::catches_up_at_once,
    },
    Property {
        name: "catch_ups_progress",
        doc: "a client that loses several catch-ups in a row receives events over at least one of them, if each connection carried enough",
        kinds: catch_up::CATCH_UPS_PROGRESS,
        check: catch_up::catch_ups_progress,
    },
    Property {
        name: "answers_count",
        doc: "if the client read the response to a call before the connection ended, the call is answered",
        kinds: generations::ANSWERS_COUNT,
        check: generations::answers_count,
    },
    Property {
        name: "one_reason",
        doc: "after a client failed permanently, its calls fail with the client's reason, and take no effect",
        kinds: ONE_REASON,
        check: one_reason,
    },
    Property {
        name: "no_call_before_install",
        doc: "the client sends no call of its user over a generation before it is installed, which happens once",
        kinds: NO_CALL_BEFORE_INSTALL,
        check: no_call_before_install,
    },
    Property {
        name: "reads_wait",
        doc: "the server answers a long-poll when a new event exists, not before and not only at the deadline, and otherwise at the deadline",
        kinds: served::READS_WAIT,
        check: served::reads_wait,
    },
    Property {
        name: "answers_are_prompt",
        doc: "a start, an interrupt, a terminate, a read that does not wait, a write that has room and a request for a file are answered at once, whatever other requests of the client wait for; those of an outage are answered when it is over",
        kinds: prompt::ANSWERS_ARE_PROMPT,
        check: prompt::answers_are_prompt,
    },
    Property {
        name: "ids_are_own",
        doc: "a process id is taken only for the client that started a process with this id",
        kinds: served::IDS_ARE_OWN,
        check: served::ids_are_own,
    },
    Property {
        name: "ends_as_it_wants",
        doc: "the server kills a process only if its user terminated it, or after its session ended",
        kinds: wanted_ending::ENDS_AS_IT_WANTS,
        check: wanted_ending::ends_as_it_wants,
    },
    Property {
        name: "http_fails_truly",
        doc: "an HTTP request or body fails because of a lost connection only if it was its own connection, and never because of a missing piece",
        kinds: http::HTTP_FAILS_TRULY,
        check: http::fail_truly,
    },
    Property {
        name: "files_are_true",
        doc: "a user reads from a file the complete content of one write, which no later change had replaced when the user asked",
        kinds: files::FILES_ARE_TRUE,
        check: files::are_true,
    },
    Property {
        name: "watches_are_true",
        doc: "a watch says that its file appeared, or exists, only if a user has written it, and soon after that",
        kinds: watches::WATCHES_ARE_TRUE,
        check: watches::watches_are_true,
    },
    Property {
        name: "response_before_body",
        doc: "the response to an HTTP request precedes the first piece of its body",
        kinds: http::RESPONSE_BEFORE_BODY,
        check: http::response_before_body,
    },
    Property {
        name: "http_ends_with_its_connection",
        doc: "the server ends an HTTP request when the connection of that request ends",
        kinds: http::HTTP_ENDS_WITH_ITS_CONNECTION,
        check: http::end_with_their_connection,
    },
    Property {
        name: "methods_are_kept",
        doc: "a request and its redirects have the methods and the bodies that their user and RFC 9110 demand",
        kinds: http::METHODS_ARE_KEPT,
        check: http::methods_are_kept,
    },
    Property {
        name: "responses_are_true",
        doc: "a user receives a response with the status and the length that the HTTP server sent",
        kinds: http::RESPONSES_ARE_TRUE,
        check: http::responses_are_true,
    },
    Property {
        name: "credentials_stay",
        doc: "a redirect to another origin does not carry the credentials of the user",
        kinds: http::CREDENTIALS_STAY,
        check: http::credentials_stay,
    },
    Property {
        name: "redirects_end",
        doc: "the server follows at most 10 redirects of an HTTP request",
        kinds: http::REDIRECTS_END,
        check: http::redirects_end,
    },
    Property {
        name: "attempts_are_answered",
        doc: "the client abandons a connection attempt without a response only if a fault delayed the response",
        kinds: attempts::ATTEMPTS_ARE_ANSWERED,
        check: attempts::attempts_are_answered,
    },
    Property {
        name: "attached_are_answered",
        doc: "the client receives the response at once after the server attached its connection",
        kinds: attempts::ATTACHED_ARE_HEARD,
        check: attempts::attached_are_answered,
    },
    Property {
        name: "closed_are_kept",
        doc: "the server forgets a closed process only after its client was attached for the retention time",
        kinds: served::CLOSED_ARE_KEPT,
        check: served::closed_are_kept,
    },
    Property {
        name: "kept_while_healthy",
        doc: "a side treats its peer as silent only if a fault blocked the peer's data",
        kinds: generations::KEPT_WHILE_HEALTHY,
        check: generations::kept_while_healthy,
    },
    Property {
        name: "silence_is_noticed",
        doc: "a client gives up a connection over which it receives nothing when its detection time is over",
        kinds: silence::SILENCE_IS_NOTICED,
        check: silence::silence_is_noticed,
    },
    Property {
        name: "refusals_pass",
        doc: "a temporary error of a read does not fail the process",
        kinds: repair::REFUSALS_PASS,
        check: repair::refusals_pass,
    },
    Property {
        name: "processes_fail_truly",
        doc: "a process fails because of a gap only if its output exceeded the retention, and never because of a slow subscriber or contradictory data",
        kinds: repair::PROCESSES_FAIL_TRULY,
        check: repair::processes_fail_truly,
    },
    Property {
        name: "gaps_are_requested",
        doc: "while connected, a client that holds back events requests the missing ones",
        kinds: repair::HOLES_ARE_ASKED_FOR,
        check: repair::gaps_are_requested,
    },
    Property {
        name: "write_ids_are_own",
        doc: "no two clients use the same write id",
        kinds: repair::WRITE_IDS_ARE_OWN,
        check: repair::write_ids_are_own,
    },
    Property {
        name: "writes_have_a_reader",
        doc: "a write that is requested after its user received the exit of the process is not accepted",
        kinds: shares::WRITES_HAVE_A_READER,
        check: shares::writes_have_a_reader,
    },
    Property {
        name: "input_arrives",
        doc: "a process that lives reads each line that the server accepted for it",
        kinds: accepted::INPUT_ARRIVES,
        check: accepted::input_arrives,
    },
    Property {
        name: "signals_take_effect",
        doc: "a process ends soon after a terminate, or an interrupt that it does not ignore, was answered",
        kinds: accepted::SIGNALS_TAKE_EFFECT,
        check: accepted::signals_take_effect,
    },
    Property {
        name: "terminates_tell_truth",
        doc: "the answer to a terminate says that the process was running if, and only if, it had not exited",
        kinds: accepted::TERMINATES_TELL_TRUTH,
        check: accepted::terminates_tell_truth,
    },
    Property {
        name: "refusals_are_true",
        doc: "a call is refused only if its process or file is not there, or a limit is reached",
        kinds: refusals::REFUSALS_ARE_TRUE,
        check: refusals::refusals_are_true,
    },
    Property {
        name: "client_recovers",
        doc: "a client without a connection has one again, or has failed permanently, within the recovery time after the last fault, and does not fail before its recovery time is over",
        kinds: recovery::CLIENT_RECOVERS,
        check: recovery::client_recovers,
    },
    Property {
        name: "counts_are_true",
        doc: "client and server count what is open: closed processes, sessions, bodies, calls, requests and files are forgotten in time, and not earlier",
        kinds: counts::COUNTS_ARE_TRUE,
        check: counts::counts_are_true,
    },
    Property {
        name: "lost_calls_were_sent",
        doc: "a call fails because of a lost connection only if a connection ended that could have carried it",
        kinds: lost::LOST_CALLS_WERE_SENT,
        check: lost::lost_calls_were_sent,
    },
    Property {
        name: "attempts_pause",
        doc: "the pauses between attempts to connect that get no answer, or are refused, double, up to their limit",
        kinds: pauses::ATTEMPTS_PAUSE,
        check: pauses::attempts_pause,
    },
    Property {
        name: "repetitions_pause",
        doc: "the client repeats a refused read of missing events, or a refused terminate, over the same connection only after its pause",
        kinds: pauses::REPETITIONS_PAUSE,
        check: pauses::repetitions_pause,
    },
    Property {
        name: "sessions_are_shared",
        doc: "the server refuses a session for lack of room only to a host that has its share of the sessions",
        kinds: shares::SESSIONS_ARE_SHARED,
        check: shares::sessions_are_shared,
    },
    Property {
        name: "http_limits_hold",
        doc: "the server refuses a whole body exactly if it is longer than the limit, and no request as late before its deadline, follows exactly so many redirects, and a connection has only so many HTTP requests at a time",
        kinds: http_bounds::HTTP_LIMITS_HOLD,
        check: http_bounds::http_limits_hold,
    },
    Property {
        name: "waits_are_whole",
        doc: "the client gives up a call without an answer when its wait is over, and not before",
        kinds: waits::WAITS_ARE_WHOLE,
        check: waits::waits_are_whole,
    },
    Property {
        name: "unfollowed_run_on",
        doc: "a process that its user does not follow any more is not held",
        kinds: unfollowed::UNFOLLOWED_RUN_ON,
        check: unfollowed::unfollowed_run_on,
    },
    Property {
        name: "logs_are_bounded",
        doc: "a client whose log has more than its limit reads no more of a process before the user has read half of the log",
        kinds: logs::LOGS_ARE_BOUNDED,
        check: logs::logs_are_bounded,
    },
    Property {
        name: "turns_are_fair",
        doc: "the output and the exit of a process do not wait for what another process of its client prints later",
        kinds: turns::TURNS_ARE_FAIR,
        check: turns::turns_are_fair,
    },
];

/// Returns whether an effect on this target is the start of a process.
fn is_start(target: &str) -> bool {
    !target.ends_with("/stdin") && !target.ends_with(web::EFFECT) && !target.starts_with(TARGET)
}

fn no_orphan(cx: &CheckContext<'_>) -> Vec<Violation> {
    // A client cannot end a process of whose start it never heard.
    if cx.was_tampered() {
        return Vec::new();
    }
    // The time for which the client may still try to reconnect, and the server may wait for it,
    // plus a moment to use the new connection.
    let patience = cx.guarantees.reconnects_within() + Duration::from_secs(2);
    let mut unwanted: BTreeMap<Call, Time> = BTreeMap::new();
    let mut failed: BTreeMap<&str, Time> = BTreeMap::new();
    let mut asked: BTreeMap<Call, &str> = BTreeMap::new();
    // The name of each process, its start, and its host.
    let mut started: BTreeMap<Call, (&str, Time, &str)> = BTreeMap::new();
    let mut ended: BTreeMap<&str, Time> = BTreeMap::new();
    // The starts that are not judged. A client that died cleans nothing up. The processes of a server that died
    // are gone.
    let mut died: BTreeSet<Call> = BTreeSet::new();
    for event in judged(cx) {
        match &event.what {
            EventKind::Asked { call, operation, .. } if operation.verb == "start" => {
                asked.insert(*call, host(event));
            }
            EventKind::Failed { call, .. } => drop(unwanted.insert(*call, event.at)),
            EventKind::Answered { call, answer: Answer::GivenUp } => {
                unwanted.insert(*call, event.at);
            }
            EventKind::StreamEnded { stream, ending: Ending::Failed { reason } }
                if ExecFailure::is_gap(reason) =>
            {
                failed.entry(&stream.0).or_insert(event.at);
            }
            EventKind::Effect { call, target } if is_start(target) => {
                started.insert(*call, (target, event.at, host(event)));
            }
            EventKind::Ended { stream, .. } => drop(ended.insert(&stream.0, event.at)),
            EventKind::Died { .. } => {
                let clients = asked.iter().map(|(call, on)| (*call, *on));
                let servers = started.iter().map(|(call, (.., on))| (*call, *on));
                let its = clients.chain(servers).filter(|(_, on)| *on == host(event));
                died.extend(its.map(|(call, _)| call));
            }
            _ => {}
        }
    }
    let judged = started.iter().filter(|(call, _)| !died.contains(*call));
    let over = judged.filter_map(|(call, (name, at, _))| {
        let since = [unwanted.get(call), failed.get(name)].into_iter().flatten().min()?;
        Some((call, *name, *since.max(at)))
    });
    let due = over.filter(|(.., since)| *since + patience < Time::from(cx.plan.horizon));
    let lived = due.filter(|(_, name, since)| ended.get(name).is_none_or(|at| at > since));
    let lived = lived.inspect(|_| cx.judges("no_orphan"));
    let late = lived.filter(|(_, name, _)| !ended.contains_key(name));
    let late = late.map(|(call, name, since)| {
        Violation::new(
            "no_orphan",
            &Stream::from(name),
            since + patience,
            &STILL_LIVES,
            fields! { since, call: *call },
        )
    });
    late.collect()
}

/// The product reports calls of the user with the milestone `exec.client.sent`, which names the
/// generation and the connection that carry the call. A restarted client counts its generations anew.
fn no_call_before_install(cx: &CheckContext<'_>) -> Vec<Violation> {
    let mut installed: BTreeMap<(&str, u64), Option<u64>> = BTreeMap::new();
    let mut found = Vec::new();
    for event in judged(cx) {
        let client = host(event);
        if let EventKind::Died { .. } = event.what {
            installed.retain(|(of, _), _| *of != client);
        }
        let EventKind::Milestone { name, fields } = &event.what else { continue };
        let number = |field| MilestoneValue::number(fields, field);
        let Some(generation) = number("generation") else { continue };
        let (key, conn) = ((client, generation), number("conn"));
        let wrong = match *name {
            "exec.client.connected" => {
                installed.insert(key, conn).is_some().then_some(&INSTALLED_AGAIN)
            }
            "exec.client.sent" => {
                cx.judges("no_call_before_install");
                (installed.get(&key) != Some(&conn)).then_some(&CARRIED_EARLY)
            }
            _ => None,
        };
        found.extend(wrong.map(|kind| {
            let (host, data) = (event.host.as_ref(), fields! { number: generation });
            Violation::new("no_call_before_install", host, event.at, kind, data)
        }));
    }
    found.truncate(5);
    found
}

/// The reason why a client failed permanently, from its milestone.
fn reason(name: &str, fields: &[(&'static str, MilestoneValue)]) -> Option<String> {
    match name {
        "exec.client.failed-deadline" => Some(Failure::RecoveryDeadline.to_string()),
        "exec.client.failed-permanent" => MilestoneValue::text(fields, "why").map(str::to_owned),
        _ => None,
    }
}

/// A restarted host has a new client, so a death clears the reason. A failed client sends nothing, so its
/// later calls take no effect.
fn one_reason(cx: &CheckContext<'_>) -> Vec<Violation> {
    let mut reasons: BTreeMap<&str, String> = BTreeMap::new();
    let mut owed: BTreeMap<Call, String> = BTreeMap::new();
    let mut found = Vec::new();
    for event in judged(cx) {
        let host = host(event);
        match &event.what {
            EventKind::Milestone { name, fields } => {
                reasons.extend(reason(name, fields).map(|reason| (host, reason)))
            }
            EventKind::Died { .. } => drop(reasons.remove(host)),
            EventKind::Asked { call, .. } => {
                owed.extend(reasons.get(host).map(|reason| (*call, reason.clone())))
            }
            EventKind::Failed { call, reason } => {
                let first = owed.get(call).inspect(|_| cx.judges("one_reason"));
                if let Some(first) = first.filter(|first| **first != reason.to_string()) {
                    found.push(Violation::new(
                        "one_reason",
                        *call,
                        event.at,
                        &OTHER_REASON,
                        fields! { reason, first },
                    ));
                }
            }
            EventKind::Effect { call, .. } => {
                let first = owed.get(call).inspect(|_| cx.judges("one_reason"));
                found.extend(first.map(|first| {
                    let data = fields! { first };
                    Violation::new("one_reason", *call, event.at, &TOOK_EFFECT, data)
                }));
            }
            _ => {}
        }
    }
    found.truncate(5);
    found
}
