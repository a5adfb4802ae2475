//! The server: it runs commands, keeps their output, and streams it.
//!
//! - `lines`: bytes of a pipe to lines. `log`: the numbered events of one command. `command`: the log
//!   and its stream. `registry`: all commands. `sessions`: shell sessions. These modules use no clock,
//!   socket or task.
//! - `shared`: what all connections share. `process`: the task of one process. `link`: the life of one connection. `stream`: the body that
//!   sends a log.
//! - `connection`: one connection, one task. `requests`, `session_requests`: what the requests do. `route`: what a request
//!   asks for. `answer`: answers.
//!
//! A stream pulls its events from the log by position. So a client that reads slowly delays neither
//! the command (unless the operator sets [`hold`](ServerLimits::hold)) nor other clients. No lock is held across an await. Every task has an owner: the server
//! owns the connections and the processes. Dropping [`Server::serve`] ends all of them and kills every
//! process.
//!
//! # Windows that are closed
//! An original execd loses events in these cases; each can be switched on as a seeded bug.
//!
//! | window | seeded bug | what goes wrong with it |
//! |---|---|---|
//! | A | `IdBeforeLock` | two pipes take positions before they append: the older one is dropped |
//! | B | `SnapshotThenAttach` | events between the replay and the attachment are lost |
//! | B′ | `AttachThenFlush` | events between the attachment and the flush come early, and twice |
//! | C | `EndedMeansReplayed` | the command ends during the replay: the stream ends without the rest |
//! | C | `FinishedBeforeEnding` | the command counts as finished before its ending is in the log |
//! | D | `LogGoneAfterASecond` | the log is dropped one second after the ending |
//! | E | `OverflowIsSilent` | lost events are not reported |
//! | F | `OutputBeforeStreamUnlogged` | output before the first stream is ready cannot be replayed |
//! | G | `StartRunsTwice` | a repeated start runs the command again |
//! | G | `RestartForgetsTheStart` | a repeated start runs the command again on a restarted server |
//! | G | `CommandDiesWithConnection` | the end of a connection before the first event ends the command |
//! | H | `StuckStreamStays` | a stream without progress is never replaced |
//! | H | `NoWriteDeadline` | a connection may be blocked forever |
//! | H | `SlowReaderHoldsCommand` | a slow reader delays its command |
//! | H | `NoHeartbeatAfterResume` | a resumed stream sends no sign of life |
//! | I | `LoserEndsCleanly` | a stream that is replaced ends like a complete one |
//! | I | `NewestAlwaysWins` | two clients take the stream from each other forever |
//! | I | `StaleCloseDetaches` | the late end of an old connection ends the new stream |
//! | J | `ForgottenLogLeaks` | a forgotten log stays in memory |
//! | K | `GarbageCursorIsZero` | a malformed cursor repeats everything |
//! | K | `FutureCursorAccepted` | a cursor in the future skips events |
//! | K | `EpochIgnored` | a cursor of another run is accepted |
//! | – | `BlankLinesDropped` | empty lines are not sent |
//! | – | `EndingBeforeOutput` | the ending is appended before the last output |
//! | – | `CommandsUnbounded` | any number of commands may run |
//! | – | `LossEndsHold` | a command that waits for its reader goes on when the connection is lost |
//! | – | `BuffersCountAsRead` | bytes in the buffers of a connection count as received |
//! | – | `GapTooLong` | a gap also covers the oldest event that is there |
//! | – | `KilledIsSuccess` | the state of a killed command says that it exited with 0 |
//! | – | `LogsSkipTheRest` | the cursor after a part of the logs is that of their end |
//! | – | `UsedIdIsAccepted` | a start with a used id finds the command, although it is another request |
//! | – | `SweepsWithTheLast` | a log is kept until the newest log goes |
//! | – | `InterruptWakesNoTask` | an interrupt takes effect only when the command prints something |
//! | – | `HeartbeatOnlyOnce` | a stream sends one sign of life, and no more |
//! | – | `LinesAreJoined` | all lines that arrive together are one event |
//! | – | `GraceIsATimeLimit` | a command that is killed after an interrupt is reported as timed out |
//! | – | `EarlyInterruptLost` | an interrupt during the launch has no effect |
//! | – | `TimeLimitDelaysTheKill` | a command with a time limit is not killed after an interrupt |
//! | – | `HoldNeverEnds` | the time that output waits for its client begins again whenever it is over |
//! | – | `SessionCommandOutlivesStream` | a command of a session does not end with its stream |
//! | – | `DeletedSessionRunsOn` | the command of a deleted session runs on |
//! | – | `LostStreamFreesTheSession` | a session runs another command while one whose stream is lost has not ended |
//! | – | `InterruptedIsIdle` | a session runs another command while one that was asked to end has not ended |
//! | – | `SplitsCharacters` | a long line is split inside a character |
//! | – | `ParameterBeforeHeader` | the position in the address counts more than the last event that arrived |
//! | – | `CursorFreesNothing` | a command goes on waiting for a client that returns with all events |
//! | – | `TookIsInSeconds` | the time that a command took is sent in seconds |
//! | – | `BatchSharesAnId` | all events that are sent together have the id of the last one |
//! | – | `OldEndForgetsTheLoss` | the late end of a replaced stream ends the hold for the newer one, which is lost |
//! | – | `EndIsTheStart` | the state of an ended command has its start as its end |
//! | – | `IdleSessionIsUnknown` | the interrupt of a session that runs nothing is refused as one of an unknown command |
//! | – | `RetryIsTheWhole` | a refused client learns the whole time of a takeover, not the rest of it |
//! | – | `HeartbeatKeepsItsPace` | an event does not delay the next sign of life |
//! | – | `PingsForgetThePosition` | the id of a sign of life is the start of the log |
//! | – | `CommandIsTheRequest` | a repeated start finds the command, although it differs in another field |
//! | – | `AnsweredStaysBusy` | a connection whose request was answered does not give way to another one |
//! | – | `PathsBeforeToken` | a client without the token learns which paths exist |
//! | – | `AllKnowNoContent` | a client of execd gets an answer that it does not know after the ending |
//! | – | `RequestsWeighNothing` | the requests of ended commands do not count toward what the server holds |
//! | – | `FolderIgnored` | a command runs in the folder of the server |
//! | – | `ReturnsAreText` | a carriage return does not end a line |
//! | – | `NothingFollowsAnyRun` | after the ending of a command, nothing follows a cursor of another run or of the future either |
//! | – | `LimitCountsFromTheLaunch` | the time limit of a command counts from the end of its launch |
//! | – | `ForgottenIsUnknown` | a start of a client that has events of a forgotten command is refused as one of an unknown command |
//! | – | `RunWithoutEventsIsNew` | a start of a client that knows a run, but has no events of it, starts another run |
//! | – | `EachPieceHasItsTime` | each piece of a body has the time of the whole body |
//! | – | `AgeMeetsTheRequest` | the age of a repeated start is compared with the time of its request, not of its connection |
//! | – | `QuestionsOfAllRunsCount` | the server takes an age that answers a question of an earlier server |
//! | – | `FirstAcceptCounts` | only the first of several headers says what a client accepts |
//! | – | `DetachedInFramesOfExecd` | a standard client gets the answer to a start in the background in the frames of execd |
//! | – | `StateGoesBeforeTheEnd` | the state of a deleted session is removed while its command can still write it |
//! | – | `OwnerAfterTheStart` | a command of a session with a malformed owner runs, although it is refused |
//! | – | `FirstCommandStays` | a session takes its first command for the one that it runs |
//! | – | `SessionsRunBeside` | the commands of sessions do not count as running |
//! | – | `EachWriteBlocksAnew` | each write moves the deadline of a blocked connection |
//! | – | `LostStreamHasAll` | a lost stream counts as received up to what it took last |
//! | – | `ReplacedStaysOpen` | the connection of a stream that was replaced is not closed |
//! | – | `ReadsWakeNoTask` | a command that waits for its client does not notice that its stream takes events |
//! | – | `EndWakesNoSweep` | the time of a log begins only with the next change of a connection |
//! | – | `LostSessionHolds` | the output of a session command whose stream is lost waits, although no other stream can come |
//! | – | `CrowdingCountsOnce` | when a log goes for lack of room, all other logs go with it |
//! | – | `AllOutputIsLate` | what a command printed before its end counts toward the output that the server reads after it |
//! | – | `StrangeHeaderIsNone` | the position in a header with other characters is ignored |
//! | – | `OldestIsTheFirst` | the head of a stream names the first event as the oldest one that is there |
//! | – | `ChunkedBodiesAreFree` | a body that does not say its length may have any |
//! | – | `GraceCountsFromTheRequest` | the grace of an interrupted command counts from the request, although its launch takes long |
//! | – | `ReturnAtTheLimitWaits` | a carriage return that is the last byte of an event waits for the next one forever |
//! | – | `RunningLogsCrowd` | the logs of running commands count toward what the server holds of ended ones |
//! | – | `WaitsForThePipes` | a command ends only when the processes that it has left behind close its pipes |
//! | – | `OverheadIsFree` | output that may wait is let into the log as if it had no overhead |
//! | – | `TakeoverCountsFromTheAttachment` | the time after which another client can take a stream counts from its attachment |
//! | – | `NewestLogGoes` | for lack of room, the log of the command that ended last goes |
//! | – | `LogsSkipAfterGaps` | after a gap, the logs leave out the oldest event that is there |
//! | – | `InterruptHasNoGrace` | an interrupted command is killed at once |
//! | – | `HoldCountsFromTheStart` | the time that output waits for its client counts from the start of the command |
//! | – | `OutputWakesNoStream` | output reaches its client only with the next sign of life of the stream |
//! | – | `StateStaysWithTheStream` | after the loss of a stream, the state of the command names the last event that the stream took |
//! | – | `EndingHasNoRoom` | output that may wait leaves no room in the log for the ending, which removes an event that the client lacks |
//! | – | `IdleSessionStays` | a session that runs nothing stays when it is deleted |
//! | – | `WrongCursorEndsTheStream` | a request whose cursor is refused ends the stream that is there |
//! | – | `OthersAreSuperseded` | a client is refused for good while another one has the stream |
//! | – | `NewestErrorsFirst` | in the logs, the newest line of the standard error comes first |
//! | – | `EndedStartsNeedRoom` | a repeated start of a command that has ended is refused while the server is full |
//! | – | `KilledHasNoCode` | the state of a killed command has no exit code |
//! | – | `OpenErrorsAreLost` | the last line of the standard error is lost if it has no end, and another process holds the pipe |
//! | – | `DeletedSessionsCount` | a session that was deleted does not give its place back |
//! | – | `StartsAreWholeSeconds` | the state of a command names the second in which it started, not the millisecond |
//! | – | `HoldCountsFromTheAttachment` | the time that output waits for its client counts from the beginning of the stream |
//! | – | `LogsWaitForMore` | output that does not fill an answer with logs is not in it while its command runs |
//! | – | `UnreadSessionRunsOn` | a command of a session does not end with a stream that has brought nothing |
//! | – | `SlowSessionRunsOn` | a command of a session does not end with a stream that lacks output |
//! | – | `FirstBlockCounts` | the deadline of a blocked connection counts from the first time that it was blocked |
//! | – | `NextStreamHasIt` | what a lost stream took counts as received by the client of the next one |
//! | – | `PullLostWakeUp` | an event between the check of a stream and its wait reaches the client only with the next sign of life |
//! | – | `HoldLostWakeUp` | output that waits for its client does not notice what the stream takes between its check and its wait |
//!
//! The branch of execd has all of them except B, the last 83, and `CommandDiesWithConnection`,
//! `NewestAlwaysWins` and `StaleCloseDetaches`.

use std::sync::Arc;
use std::time::Duration;

use reknit_seams::Env;
use reknit_seams::milestone;
use reknit_seams::net::Listener;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use crate::limits::ServerLimits;

mod answer;
mod command;
mod connection;
mod lines;
mod link;
mod log;
mod process;
mod registry;
mod requests;
mod resources;
mod route;
mod session_requests;
mod sessions;
mod shared;
mod stream;
#[cfg(test)]
mod tests;

use link::Link;
pub use resources::{Counts, ServerResources};
pub use shared::ServerConfig;
use shared::Shared;

/// How long the server pauses after it failed to accept a connection. The missing resource is usually
/// still missing a moment later.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A server: its commands and their streams.
pub struct Server {
    shared: Arc<Shared>,
}

impl Server {
    /// Creates a server that launches its processes through `env`.
    pub fn new(env: &Env, config: ServerConfig, limits: ServerLimits) -> Self {
        Self { shared: Arc::new(Shared::new(env, config, limits)) }
    }

    /// Returns a handle to the server's resource counts. The handle does not keep the server alive.
    pub fn resources(&self) -> ServerResources {
        ServerResources::of(&self.shared)
    }

    /// Serves all connections until the future is dropped.
    pub async fn serve(self, mut listener: Listener) {
        let shared = &self.shared;
        let mut connections = JoinSet::new();
        loop {
            let due = shared.registry().sweep(Instant::now());
            tokio::select! {
                biased;
                accepted = listener.accept() => match accepted {
                    Ok(stream) => {
                        let link = Arc::new(Link::new(stream.id(), Instant::now()));
                        if shared.enter(link.clone()) {
                            connections.spawn(connection::serve(shared.clone(), stream, link));
                        } else {
                            milestone!("sse.server.refused-full", conn = stream.id().0);
                        }
                    }
                    Err(error) => {
                        tracing::warn!(%error, "accept");
                        sleep(ACCEPT_PAUSE).await;
                    }
                },
                Some(_) = connections.join_next() => {}
                // No wake-up is lost between `sweep` and this wait: only this task waits, so `Notify`
                // stores the permit of a change that comes before the wait.
                () = shared.changed.notified() => {}
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
            }
        }
    }
}

/// Kills every process immediately.
impl Drop for Server {
    fn drop(&mut self) {
        self.shared.shut_down();
    }
}
