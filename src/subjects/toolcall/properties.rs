//! What must hold of `toolcall` on top of the generic properties. G1 to G11 are the names that the collected facts give them.
//!
//! | property | | what it is computed from |
//! |---|---|---|
//! | `no_live_client_failed` | G1 | the calls that the host failed, both ends of their owners' connections, and what their users look at |
//! | `gone_is_failed` | G2 | when an owner's last connection was over, and when the agent was told the end of its call |
//! | `returning_keeps` | G3 | the same, and the places in the session that were given up |
//! | `released_at_once` | G2 | what users let go of, and when the agents were told |
//! | `one_outcome` | G4 | how calls ended for their agents, and for every user who looked |
//! | `no_work_for_what_is_over` | G4 | when tools began and ended, and what agents and users knew then |
//! | `results_count` | G4 | when a tool had a result, and when its agent was told |
//! | `replicas_converge` | G5 | digests of what the host has, and of what windows and second connections know |
//! | `replay_is_used` | G5 | how the host took clients back, and what they had been told before |
//! | `actions_once` | G6 | effects of calls, titles that users saw, and what was refused |
//! | `rejections_are_heard` | G6 | the milestones of refused actions, here and there |
//! | `in_order` | G6 | the order in which users see what one window asked for |
//! | `owner_can_run` | G7 | to whom calls were given, and which windows could have run them |
//! | `waits_have_causes` | G8 | for whom the host waits, as it says; who was connected and looked, and which calls were open |
//! | `holds_are_exact` | G9 | the chats that left memory, and who looked at them |
//! | `requests_settle` | G10 | the questions of agents, and the restores of channels |
//! | `authority` | G11 | what came of forgeries |
//! | `client_comes_back` | | connections of clients, and when the network was at fault |
//! | `healthy_is_kept` | | the same |

use crate::property::Property;

mod actions;
mod calls;
mod line;
mod presence;
mod replicas;
mod story;
#[cfg(test)]
mod tests;
mod waits;

/// The properties.
pub(super) const OWN: &[Property] = &[
    Property {
        name: "no_live_client_failed",
        doc: "no call is failed for the absence of an owner that is connected, or of which nothing is known",
        check: presence::no_live_client_failed,
    },
    Property {
        name: "gone_is_failed",
        doc: "a call whose owner is gone is over a grace after the end of its last connection was noticed",
        check: presence::gone_is_failed,
    },
    Property {
        name: "returning_keeps",
        doc: "who is away for less than the grace keeps its calls, and its place in the session",
        check: presence::returning_keeps,
    },
    Property {
        name: "released_at_once",
        doc: "what depended on a channel that its user let go of is given up when the host hears of that",
        check: presence::released_at_once,
    },
    Property {
        name: "one_outcome",
        doc: "a call ends once, in the same way for its agent and for everybody who looks, and nothing comes after it",
        check: calls::one_outcome,
    },
    Property {
        name: "no_work_for_what_is_over",
        doc: "a tool works for its own window's calls, when they may run, and not when they are known to be over",
        check: calls::no_work_for_what_is_over,
    },
    Property {
        name: "results_count",
        doc: "a call whose tool has ended is over as soon as its window could say so",
        check: calls::results_count,
    },
    Property {
        name: "owner_can_run",
        doc: "a call is given to a window that is there and can run it, if there is one; who is told to try again has somebody to try with",
        check: calls::owner_can_run,
    },
    Property {
        name: "replicas_converge",
        doc: "where nothing has happened for a while, every window and every connection knows of a channel what the host has",
        check: replicas::replicas_converge,
    },
    Property {
        name: "replay_is_used",
        doc: "a client that comes back is told what it missed, and not everything, where that is kept",
        check: replicas::replay_is_used,
    },
    Property {
        name: "waits_have_causes",
        doc: "nobody is waited for who is connected and looks, and nobody on whom nothing depends",
        check: waits::waits_have_causes,
    },
    Property {
        name: "holds_are_exact",
        doc: "no chat leaves memory that a connected window looks at",
        check: presence::holds_are_exact,
    },
    Property {
        name: "actions_once",
        doc: "what a user was told that it did not happen did not, and nothing happens twice",
        check: actions::actions_once,
    },
    Property {
        name: "rejections_are_heard",
        doc: "a client whose action was refused hears of that",
        check: actions::rejections_are_heard,
    },
    Property {
        name: "in_order",
        doc: "what one window asks for happens in the order of asking, actions and requests alike",
        check: actions::in_order,
    },
    Property { name: "authority", doc: "no window does what only the host does", check: actions::authority },
    Property {
        name: "requests_settle",
        doc: "a question to a window is over with its connection, or at its deadline; so is a restore",
        check: line::requests_settle,
    },
    Property {
        name: "client_comes_back",
        doc: "a window is connected when all has been well for long enough, and may do again what it might before",
        check: line::client_comes_back,
    },
    Property {
        name: "healthy_is_kept",
        doc: "no connection is lost over which both ends could be heard all the time",
        check: line::healthy_is_kept,
    },
];
