//! The properties of `sse` beyond the generic ones.
//!
//! | property | evidence |
//! |---|---|
//! | `gap_is_exact` | the gaps that a user saw, what came after them, and what the process really printed |
//! | `positions_follow` | the position of each event that a user received |
//! | `hold_is_lossless` | the gaps of a user, what it had received before, and the ends of its connections |
//! | `server_keeps_the_protocol` | what a client found wrong with a stream, and the reasons of its failure |
//! | `success_has_an_ending` | a follower that said that its command has ended |
//! | `outcomes_stay` | what a follower said that had ended or failed, and what it said when it was asked again |
//! | `conflict_is_true` | a user that was refused because of another reader, and the readers of the command |
//! | `takeover_is_due` | the streams that replaced others |
//! | `stale_close_is_inert` | the late end of a connection, and the end of the newer one |
//! | `producer_is_not_delayed` | when a process printed, and how long its script takes |
//! | `command_lives_on` | the end of a process, and who asked for it |
//! | `cursor_is_checked` | the answers to requests with all kinds of cursors |
//! | `status_is_true` | the state that the server reported, and the real one |
//! | `endings_are_true` | the endings that users received, the time limits and the interrupts |
//! | `logs_are_true` | the logs that a user read, and what the process really printed |
//! | `commands_are_bounded` | how many processes ran at the same time |
//! | `refusal_is_true` | commands that the server did not have, and their launches and ends |
//! | `refusals_are_true` | the answers to requests that the server must refuse, and all other refusals |
//! | `ends_when_asked` | when a user or a time limit ended a command, and when its process ended |
//! | `streams_stay` | the connections that a follower lost, although nothing was in the way or they took bytes |
//! | `pauses_grow` | when the followers of a host began attempts, and the ends of their connections |
//! | `deadlines_hold` | the failures of followers, and the ends of their connections and the last bytes over these |
//! | `output_is_prompt` | when a process printed a line, and when a user received it |
//! | `output_is_whole` | what a user has of a command that has ended, and what the process really printed |
//! | `items_are_lines` | the items that a user received |
//! | `sessions_run_one` | when the processes of a shell session ran, and the commands that were refused because of that |
//! | `sessions_are_bounded` | the shell sessions that there were, and the new ones that were refused |
//! | `deleted_is_gone` | the sessions that the server had deleted, and its answers to later requests for them |
//! | `server_lets_go` | what the server held, and the connections and commands that there were |

use super::story::Story;
use crate::subjects::judging::story_properties;

mod asked;
mod deadlines;
mod delivery;
mod followers;
mod gaps;
mod held;
mod logs;
pub(super) mod readers;
mod refusals;
mod server;
mod sessions;
#[cfg(test)]
mod tests;

story_properties! {
    Story;
    "gap_is_exact" as gaps::gap_is_exact, gaps::GAP_IS_EXACT:
        "a gap names exactly the events that are lost, and only events that the server may drop";
    "positions_follow" as gaps::positions_follow, gaps::POSITIONS_FOLLOW:
        "a user receives each event once and in order, and learns of each position that is left out";
    "hold_is_lossless" as gaps::hold_is_lossless, gaps::HOLD_IS_LOSSLESS:
        "a command that may wait for its client loses nothing while the client takes bytes, or if it is back in time";
    "server_keeps_the_protocol" as server::server_keeps_the_protocol, server::SERVER_KEEPS_THE_PROTOCOL:
        "a stream has no hole, no repetition, and no clean end before the ending of its command";
    "success_has_an_ending" as asked::success_has_an_ending, asked::SUCCESS_HAS_AN_ENDING:
        "a user that is told that a command has ended is told how";
    "outcomes_stay" as asked::outcomes_stay, asked::OUTCOMES_STAY:
        "a follower that has ended or failed says the same each time it is asked";
    "conflict_is_true" as server::conflict_is_true, server::CONFLICT_IS_TRUE:
        "a user is refused because of another stream only while there is one, and waits for as long as its budget allows";
    "takeover_is_due" as server::takeover_is_due, server::TAKEOVER_IS_DUE:
        "a client takes the stream of another client, or of its own newer attempt, only after that has made no progress for the stated time";
    "stale_close_is_inert" as server::stale_close_is_inert, server::STALE_CLOSE_IS_INERT:
        "the late end of an old connection does not end the stream that replaced its own";
    "producer_is_not_delayed" as server::producer_is_not_delayed, server::PRODUCER_IS_NOT_DELAYED:
        "no reader delays a command, unless the operator allows it";
    "command_lives_on" as server::command_lives_on, server::COMMAND_LIVES_ON:
        "a command ends by itself, unless a user or a time limit ends it";
    "commands_are_bounded" as server::commands_are_bounded, server::COMMANDS_ARE_BOUNDED:
        "no more commands run at the same time than the limit says";
    "cursor_is_checked" as asked::cursor_is_checked, asked::CURSOR_IS_CHECKED:
        "a malformed cursor, one of another run, and one in the future are three refusals";
    "status_is_true" as asked::status_is_true, asked::STATUS_IS_TRUE:
        "the state of a command is the real one";
    "endings_are_true" as asked::endings_are_true, asked::ENDINGS_ARE_TRUE:
        "a user learns that a command ended because of its time limit exactly if it did";
    "logs_are_true" as logs::logs_are_true, logs::LOGS_ARE_TRUE:
        "the logs of a command are what it printed, in order";
    "refusal_is_true" as asked::refusal_is_true, asked::REFUSAL_IS_TRUE:
        "a server that runs on has each command that it started, and its log for the stated time";
    "refusals_are_true" as refusals::refusals_are_true, refusals::REFUSALS_ARE_TRUE:
        "the server refuses what it must refuse, for the right reason, and nothing else";
    "ends_when_asked" as server::ends_when_asked, server::ENDS_WHEN_ASKED:
        "a command ends soon after a user has interrupted it or its time is over, and one of a session after the end of that session or of its stream";
    "streams_stay" as followers::streams_stay, followers::STREAMS_STAY:
        "a follower keeps its connection without a fault, and also a slow one as long as it takes bytes";
    "pauses_grow" as followers::pauses_grow, followers::PAUSES_GROW:
        "the attempts of a follower that makes no progress become rare, and the first one after progress follows at once";
    "deadlines_hold" as deadlines::deadlines_hold, deadlines::DEADLINES_HOLD:
        "a follower fails for lack of progress only when its whole budget is over, and gives up a silent connection in time";
    "output_is_prompt" as delivery::output_is_prompt, delivery::OUTPUT_IS_PROMPT:
        "output reaches a user that reads at once as soon as it is printed, if nothing is in the way";
    "output_is_whole" as delivery::output_is_whole, delivery::OUTPUT_IS_WHOLE:
        "a user that follows a command from its start to its end has all its output, also if a process that it has left behind holds its pipes";
    "items_are_lines" as followers::items_are_lines, followers::ITEMS_ARE_LINES:
        "an item contains at most one line, and no more bytes than the limit says";
    "sessions_run_one" as sessions::sessions_run_one, sessions::SESSIONS_RUN_ONE:
        "a shell session runs one command at a time, and refuses another one only meanwhile";
    "sessions_are_bounded" as sessions::sessions_are_bounded, sessions::SESSIONS_ARE_BOUNDED:
        "no more shell sessions exist than the limit says, and a new one is refused only then";
    "deleted_is_gone" as sessions::deleted_is_gone, sessions::DELETED_IS_GONE:
        "a shell session that was deleted takes no more requests";
    "server_lets_go" as held::server_lets_go, held::SERVER_LETS_GO:
        "a server holds a connection while it is open, and a log while its command runs and for the stated time";
}
