//! The properties of `toolcall` beyond the generic ones. G1 to G11 are their names in the collected
//! facts.
//!
//! | property | | evidence |
//! |---|---|---|
//! | `no_live_client_failed` | G1 | the calls that the host failed, both ends of their owners' connections, and the channels that their users watch |
//! | `gone_is_failed` | G2 | the end of an owner's last connection, and the time at which the agent received the end of its call |
//! | `returning_keeps` | G3 | the same, and the lost places in the session |
//! | `released_at_once` | G2 | the channels that users stopped watching, and the times at which the agents were notified |
//! | `one_outcome` | G4 | the ends of calls for their agents, and for every user that watched |
//! | `no_work_for_what_is_over` | G4 | the times at which tools began and ended, and the knowledge of agents and users then |
//! | `results_count` | G4 | the time of a tool's result, and the time at which its agent was notified |
//! | `replicas_converge` | G5 | digests of the host's state, and of the states of windows and second connections |
//! | `replay_is_used` | G5 | the way in which the host accepted a returning client, and the data that the client had already received |
//! | `actions_once` | G6 | effects of calls, titles that users saw, calls that agents may go on with, and refusals |
//! | `rejections_are_handled` | G6 | the milestones of refused actions, at the host and at the client |
//! | `in_order` | G6 | the order in which users see the actions of one window |
//! | `owner_can_run` | G7 | the owners of calls, and the windows that could have run them |
//! | `waits_have_causes` | G8 | the clients that the host waits for, as its milestones report; the connected and watching clients, and the open calls |
//! | `holds_are_exact` | G9 | the chats that left memory, and the clients that watched them |
//! | `requests_settle` | G10 | the questions of agents, and the restores of channels |
//! | `authority` | G11 | the outcomes of forgeries |
//! | `claims_are_checked` | G5 | the outcomes of false claims |
//! | `tools_begin_once` | G4 | the begins of tools |
//! | `forgotten_in_time` | | the ends of a client's connections, and the answers to its next handshake |
//! | `refusals_are_true` | | the answers of users, the host's storage, the agents' turns, and the limits |
//! | `confirmed_is_done` | | the answers of users, the host's storage, the agents' turns, and the titles that users see |
//! | `ended_is_stored` | | the ends of turns that users see, and the host's storage |
//! | `entries_are_true` | | the host's states of the session and its chats |
//! | `states_are_true` | | the host's states and its storage, the answers of users, agents and tools |
//! | `limits_hold` | | the host's states and its storage, and the operations that wait |
//! | `views_are_current` | | the titles that users give, and the states that they read |
//! | `questions_are_answered` | | the outcomes of questions, and the connections of their clients |
//! | `unowned_fails` | | the ends of calls without an owner |
//! | `places_are_wanted` | | the places that users see, and what the users asked for |
//! | `news_are_wanted` | | the actions that a window receives for channels that it does not watch, or after an answer that includes them, and the chats that it saw removed |
//! | `pauses_are_right` | | the begins and ends of connections |
//! | `silent_is_closed` | | the same |
//! | `ends_are_true` | | the ends of calls for their agents, the tools, and the replies of users |
//! | `requests_end_in_time` | | the outcomes of requests, and the ends of connections |
//! | `silence_is_noticed` | | the data that arrived over connections, and their ends |
//! | `live_is_not_missing` | G5 | the channels that a window counts as removed, and the host's storage |
//! | `client_comes_back` | | connections of clients, and the fault intervals |
//! | `healthy_is_kept` | | the same |
//! | `counts_are_true` | | the resource counts of host and clients, and what is open by the network, the users, the agents and the storage |

use story::Story;

pub(super) use bounds::results;
pub(super) use line::no_room;

use crate::subjects::judging::story_properties;

mod actions;
mod attempts;
mod bounds;
mod calls;
mod chats;
mod counts;
mod deadlines;
mod existence;
mod facts;
mod grants;
mod leaving;
mod line;
mod lookups;
mod memory;
mod outcomes;
mod places;
mod presence;
mod questions;
mod refusals;
mod replicas;
mod room;
mod states;
mod storage;
mod story;
#[cfg(test)]
mod tests;
mod views;
mod waits;

story_properties! {
    Story;
    "no_live_client_failed" as presence::no_live_client_failed, presence::NO_LIVE_CLIENT_FAILED:
        "the host never fails a call as disconnected if its owner is connected or unknown";
    "gone_is_failed" as presence::gone_is_failed, presence::GONE_IS_FAILED:
        "a call of an absent owner ends one grace period after the host detected the end of the owner's last connection, and a call of a connected owner that does not watch the chat one grace period after the owner's return";
    "returning_keeps" as presence::returning_keeps, presence::RETURNING_KEEPS:
        "a client that is absent for less than the grace period keeps its calls and its place in the session";
    "released_at_once" as presence::released_at_once, presence::RELEASED_AT_ONCE:
        "when a client unsubscribes from a channel, the host ends its calls in that channel at once";
    "one_outcome" as calls::one_outcome, calls::ONE_OUTCOME:
        "a call ends once, with the same result for its agent and all subscribers, and nothing follows its end";
    "no_work_for_what_is_over" as calls::no_work_for_what_is_over, calls::NO_WORK_FOR_WHAT_IS_OVER:
        "a window runs tools only for calls that it owns, only after they are permitted, and not after it knows that they ended, or after its user stopped watching";
    "tools_begin_once" as calls::tools_begin_once, calls::TOOLS_BEGIN_ONCE:
        "a tool begins once for its call, however often its window reconnects";
    "results_count" as calls::results_count, calls::RESULTS_COUNT:
        "a call whose tool ended is over as soon as its window could report the result";
    "owner_can_run" as calls::owner_can_run, calls::OWNER_CAN_RUN:
        "the host assigns a call to a connected window that can run it, if one exists, and to none that does not watch the chat; it suggests a retry only if another such window exists";
    "replicas_converge" as replicas::replicas_converge, replicas::REPLICAS_CONVERGE:
        "after a quiet period, every window and connection has the same channel state as the host";
    "replay_is_used" as replicas::replay_is_used, replicas::REPLAY_IS_USED:
        "a reconnecting client gets a replay instead of snapshots if the host still keeps the missed actions, and counts no action as seen that the host has not performed";
    "waits_have_causes" as waits::waits_have_causes, waits::WAITS_HAVE_CAUSES:
        "the host waits only for a client that is absent or not subscribed, and on which something depends";
    "holds_are_exact" as presence::holds_are_exact, presence::HOLDS_ARE_EXACT:
        "the host unloads no chat to which a connected window is subscribed";
    "actions_once" as actions::actions_once, actions::ACTIONS_ONCE:
        "a refused action did not take effect, and no action takes effect twice";
    "rejections_are_handled" as actions::rejections_are_handled, actions::REJECTIONS_ARE_HEARD:
        "a client receives the refusal of its action";
    "in_order" as actions::in_order, actions::IN_ORDER:
        "actions and requests of one window take effect in the order in which the window made them";
    "authority" as actions::authority, actions::AUTHORITY:
        "no window performs an action that is reserved for the host";
    "claims_are_checked" as actions::claims_are_checked, actions::CLAIMS_ARE_CHECKED:
        "a client with a false claim gets no replay onto a state that it does not have";
    "requests_settle" as line::requests_settle, line::REQUESTS_SETTLE:
        "a request to a window ends with its connection or at its deadline; a restore ends at its deadline";
    "refusals_are_true" as refusals::refusals_are_true, refusals::REFUSALS_ARE_TRUE:
        "the host refuses a request, an action, a reply or a returning client only for a reason that is true, with the code of that reason, or because a limit is reached";
    "confirmed_is_done" as grants::confirmed_is_done, grants::CONFIRMED_IS_DONE:
        "what the host confirms to a user has happened";
    "ended_is_stored" as storage::ended_is_stored, storage::ENDED_IS_STORED:
        "the storage contains a turn before a user sees its end";
    "entries_are_true" as storage::entries_are_true, storage::ENTRIES_ARE_TRUE:
        "after a quiet period, the session lists each chat as the chat is";
    "states_are_true" as states::states_are_true, states::STATES_ARE_TRUE:
        "after a quiet period, each field of the host's states is what users, agents and tools did";
    "limits_hold" as bounds::limits_hold, bounds::LIMITS_HOLD:
        "sessions, chats, turns, parts, active clients, tools, subscriptions and what waits never exceed their limits";
    "views_are_current" as views::views_are_current, views::VIEWS_ARE_CURRENT:
        "a window shows what the host confirmed, and what its user has done since";
    "questions_are_answered" as questions::questions_are_answered, questions::QUESTIONS_ARE_ANSWERED:
        "a question to a client goes over the client's newest connection, is answered if that can carry it, and never by the answer to another question";
    "unowned_fails" as calls::unowned_fails, calls::UNOWNED_FAILS:
        "a call that no client can run fails at once";
    "places_are_wanted" as places::places_are_wanted, places::PLACES_ARE_WANTED:
        "a window takes part in the session only if its user wants it since the user last unsubscribed";
    "news_are_wanted" as places::news_are_wanted, places::NEWS_ARE_WANTED:
        "a window receives no actions of a channel from which its user has unsubscribed, or of a removed chat, and none after an answer that includes it";
    "pauses_are_right" as attempts::pauses_are_right, attempts::PAUSES_ARE_RIGHT:
        "a client pauses between two attempts as long as its limits say: not at all after a long connection";
    "silent_is_closed" as attempts::silent_is_closed, attempts::SILENT_IS_CLOSED:
        "the host closes a connection that says nothing at the deadline of its handshake";
    "ends_are_true" as outcomes::ends_are_true, outcomes::ENDS_ARE_TRUE:
        "a call ends as its tool and its user decide, or for a reason of the host that is true";
    "requests_end_in_time" as deadlines::requests_end_in_time, deadlines::REQUESTS_END_IN_TIME:
        "a request of a user ends with its connection or at its deadline at the latest, ends at once if no fault is near, and fails only for a reason that is true";
    "silence_is_noticed" as deadlines::silence_is_noticed, deadlines::SILENCE_IS_NOTICED:
        "a client gives up an attempt in time, and each end closes a connection that is silent for too long";
    "live_is_not_missing" as existence::live_is_not_missing, existence::LIVE_IS_NOT_MISSING:
        "a window counts a channel as removed only if the channel was deleted, or cannot be restored in time";
    "forgotten_in_time" as memory::forgotten_in_time, memory::FORGOTTEN_IN_TIME:
        "the host remembers an absent client for its retention, not shorter and not longer";
    "client_comes_back" as line::client_comes_back, line::CLIENT_COMES_BACK:
        "after a period without faults, a window is connected again, and has the same permissions and the same place as before";
    "healthy_is_kept" as line::healthy_is_kept, line::HEALTHY_IS_KEPT:
        "no connection is lost while both ends can receive each other's data, and a host sends nothing that a window must refuse";
    "counts_are_true" as counts::counts_are_true, counts::COUNTS_ARE_TRUE:
        "while they run, host and clients hold no more than is open, and no less";
}
