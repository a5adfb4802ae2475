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
//! | `actions_once` | G6 | effects of calls, titles that users saw, and refusals |
//! | `rejections_are_heard` | G6 | the milestones of refused actions, at the host and at the client |
//! | `in_order` | G6 | the order in which users see the actions of one window |
//! | `owner_can_run` | G7 | the owners of calls, and the windows that could have run them |
//! | `waits_have_causes` | G8 | the clients that the host waits for, as its milestones report; the connected and watching clients, and the open calls |
//! | `holds_are_exact` | G9 | the chats that left memory, and the clients that watched them |
//! | `requests_settle` | G10 | the questions of agents, and the restores of channels |
//! | `authority` | G11 | the outcomes of forgeries |
//! | `claims_are_checked` | G5 | the outcomes of false claims |
//! | `client_comes_back` | | connections of clients, and the fault intervals |
//! | `healthy_is_kept` | | the same |

use story::Story;

use crate::property::{CheckContext, Property, Violation};

mod actions;
mod calls;
mod line;
mod presence;
mod replicas;
mod story;
#[cfg(test)]
mod tests;
mod waits;

/// Generates the list of properties, and the function that checks all of them, from the same rows.
macro_rules! own {
    ($($name:literal as $module:ident::$check:ident, $kinds:ident: $doc:literal;)*) => {
        /// The properties.
        pub(super) const OWN: &[Property] =
            &[$(Property {
                name: $name,
                doc: $doc,
                kinds: $module::$kinds,
                check: |cx| $module::$check(&Story::of(cx)),
            }),*];

        /// Checks all of these properties. They share one [`Story`], so the history is read only
        /// once.
        pub(super) fn breaks(cx: &CheckContext<'_>) -> Vec<Violation> {
            let story = Story::of(cx);
            let mut all = Vec::new();
            $(all.append(&mut $module::$check(&story));)*
            all
        }
    };
}

own! {
    "no_live_client_failed" as presence::no_live_client_failed, NO_LIVE_CLIENT_FAILED:
        "no call is failed for the absence of an owner that is connected, or of which nothing is known";
    "gone_is_failed" as presence::gone_is_failed, GONE_IS_FAILED:
        "a call whose owner is gone is over a grace after the end of its last connection was noticed";
    "returning_keeps" as presence::returning_keeps, RETURNING_KEEPS:
        "who is away for less than the grace keeps its calls, and its place in the session";
    "released_at_once" as presence::released_at_once, RELEASED_AT_ONCE:
        "what depended on a channel that its user let go of is given up when the host hears of that";
    "one_outcome" as calls::one_outcome, ONE_OUTCOME:
        "a call ends once, in the same way for its agent and for everybody who looks, and nothing comes after it";
    "no_work_for_what_is_over" as calls::no_work_for_what_is_over, NO_WORK_FOR_WHAT_IS_OVER:
        "a tool works for its own window's calls, when they may run, and not when they are known to be over";
    "results_count" as calls::results_count, RESULTS_COUNT:
        "a call whose tool has ended is over as soon as its window could say so";
    "owner_can_run" as calls::owner_can_run, OWNER_CAN_RUN:
        "a call is given to a window that is there and can run it, if there is one; who is told to try again has somebody to try with";
    "replicas_converge" as replicas::replicas_converge, REPLICAS_CONVERGE:
        "where nothing has happened for a while, every window and every connection knows of a channel what the host has";
    "replay_is_used" as replicas::replay_is_used, REPLAY_IS_USED:
        "a client that comes back is told what it missed, and not everything, where that is kept";
    "waits_have_causes" as waits::waits_have_causes, WAITS_HAVE_CAUSES:
        "nobody is waited for who is connected and looks, and nobody on whom nothing depends";
    "holds_are_exact" as presence::holds_are_exact, HOLDS_ARE_EXACT:
        "no chat leaves memory that a connected window looks at";
    "actions_once" as actions::actions_once, ACTIONS_ONCE:
        "what a user was told that it did not happen did not, and nothing happens twice";
    "rejections_are_heard" as actions::rejections_are_heard, REJECTIONS_ARE_HEARD:
        "a client whose action was refused hears of that";
    "in_order" as actions::in_order, IN_ORDER:
        "what one window asks for happens in the order of asking, actions and requests alike";
    "authority" as actions::authority, AUTHORITY:
        "no window does what only the host does";
    "claims_are_checked" as actions::claims_are_checked, CLAIMS_ARE_CHECKED:
        "who claims what cannot be is not told what it missed, upon a state that it does not have";
    "requests_settle" as line::requests_settle, REQUESTS_SETTLE:
        "a question to a window is over with its connection, or at its deadline; so is a restore";
    "client_comes_back" as line::client_comes_back, CLIENT_COMES_BACK:
        "a window is connected when all has been well for long enough, and may do again what it might before";
    "healthy_is_kept" as line::healthy_is_kept, HEALTHY_IS_KEPT:
        "no connection is lost over which both ends could be heard all the time";
}
