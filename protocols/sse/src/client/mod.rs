//! The client: one logical stream of a command over many connections.
//!
//! - [`Client`]: starts commands, and follows them.
//! - [`Follower`]: the stream. [`Item`]: what it returns. [`Failure`]: why it could not go on.
//! - [`Client::status`], [`Client::logs`], [`Client::interrupt`]: requests with a short answer.
//! - `core`: the rules of resumption. It uses no clock, socket or task. `http`: one attempt.
//!
//! The follower pulls: it reads from its connection only while its user waits in [`Follower::next`],
//! so it holds at most what one read returns.
//!
//! # Rules
//! - Every start has an id, so that a repeated start finds the command that the first one started. A
//!   server that was restarted in between refuses it: the command may have run, and does not run again.
//! - The cursor moves when [`Follower::next`] returns the event, and not before. A stored
//!   [`Follower::cursor`] never skips an event that was not returned.
//! - Positions ascend by one. A repeated position is dropped. If a position is left out without a gap,
//!   the follower resumes from its cursor. If the server leaves it out again, that is
//!   [`Failure::Hole`].
//! - Only the ending of the command is an ending. The end of a stream without it is a loss, and 404 is
//!   a failure.
//! - A loss starts the budget of [`ClientLimits`]. Progress ends it. The attempts pause between each
//!   other, longer each time, with jitter.
//! - 408, 425, 502, 503, 504 and every refusal with a time may pass: the follower tries again. Every other
//!   refusal is a failure.
//! - Each attempt has a higher number than all before it, so that it replaces their streams at once.
//!
//! # An original execd
//! With [`Dialect::Execd`] the client sends no header or field that execd does not have, and makes the
//! best of its answers. Compared with a server of this crate, these promises do not hold:
//! - A lost answer to a start is [`Failure::StartUnknown`], because a repetition could run the command
//!   twice. Only an attempt without a connection is repeated.
//! - A restarted server can have another command with the same positions. The client sees no
//!   difference.
//! - Events that execd lost are reported as a gap, but not events after the last one that it sent.
//! - execd drops a command one second after its end. The end of a command during an outage is then
//!   [`Failure::NotFound`]. The rest of its output and its exit code are lost.
//! - execd sends no sign of life on a resumed stream. The follower gives up a quiet connection and
//!   resumes, and cannot distinguish a quiet command from a dead network. Then it tries forever.
//! - Another stream of the same follower can be refused (409) until execd notices the loss.
//! - execd drops empty lines, and does not say how a line ended.
//! - An execd without resumption sends no positions. Every loss is then [`Failure::NotResumable`].
//!
//! # Seeded bugs
//! Each can be switched on in a simulation.
//!
//! | seeded bug | what goes wrong with it |
//! |---|---|
//! | `EndOfStreamIsSuccess` | a stream that ends without the ending counts as complete |
//! | `NotFoundIsSuccess` | 404 on a resume counts as complete |
//! | `CursorBeforeDelivery` | the cursor moves when an event arrives, before the user has it |
//! | `CursorForgottenWithoutEvents` | two losses without an event in between forget the cursor |
//! | `HolesIgnored` | a position that is left out is not noticed |
//! | `DuplicatesDelivered` | a repeated event is returned again |
//! | `GapNotReturned` | a gap moves the cursor, and the user does not learn of it |
//! | `RunNotChecked` | the events of another run continue the stream |
//! | `BudgetNeverRefilled` | the budget counts all losses together, despite progress |
//! | `BudgetRefilledByConnecting` | a server that accepts and closes is tried forever |
//! | `NoPauses` | the attempts follow each other at once |
//! | `ConflictIsFatal` | 409 is a failure, although the other stream may be dead |
//! | `SilenceIsTolerated` | a dead connection is never given up |
//! | `StartWithoutId` | a repeated start runs the command again |
//! | `PausesDoNotGrow` | all pauses between attempts are short |
//! | `RequestsAreRushed` | a single request has no time for its answer |
//! | `LogsForgetTheRun` | the cursor after a page of logs names no run |
//! | `AttemptsNotNumbered` | a new attempt does not replace the stream of the one before |
//! | `BadGatewayIsFatal` | 502 is a failure |
//! | `RetryTimeIgnored` | the next attempt does not wait for the time that the server names |
//! | `GapsAreNotCut` | a gap also names events that the user has |
//! | `OtherNameIsTaken` | the events of another command count as those of the own one |
//! | `AgeIsInSeconds` | the age of a repeated start is sent in seconds |
//! | `NewStreamsHaveNoTime` | a stream that begins at the end of the budget has no time to show that it is alive |
//! | `ProxyRefusalsHaveNoEffect` | a start that a proxy refused counts as one that did not run |
//! | `UnsentStartsAge` | the age of a start counts from an attempt that had no connection |
//! | `AgeEndsAtTheAttempt` | the age of a repeated start is that at the beginning of the attempt, not at its connection |
//! | `FollowersLearnNoRun` | a follower that began without the name of a run does not learn it |
//! | `PausesOfUsersAreSilence` | a connection counts as silent because its user was away |
//! | `RetryTimeIsThePause` | the pause before an attempt is as short as the time that the server names |
//! | `UnsentStartIsUnknown` | an original execd may have run a command whose start was never sent |
//! | `EarlyEndIsABreak` | a stream that ends early is reported as a connection that broke |
//! | `TimeoutBeforeBudget` | a failure names the attempt that the budget cut short, not the one before it |
//! | `BudgetCountsFromTheLastByte` | the budget counts from the last byte of a lost connection, not from the loss |
//! | `SilenceLastsTwice` | a dead connection is given up after twice the time |
//! | `PausesOutliveProgress` | the pauses between attempts do not begin anew after progress |
//! | `FailedFollowersGoOn` | a follower that has failed tries again when its user asks again |
//! | `CallsAreSigns` | each call of the user counts as a sign of life of the connection |
//! | `RequestsHaveTheBudget` | a single request has the time of the whole budget for its answer |
//! | `FirstPieceIsTheRefusal` | the first piece of a refusal counts as the whole of it |
//! | `UnansweredStartsDidNotRun` | a start that has no answer in time counts as one that did not run |
//! | `ToldAgesHaveNoOwner` | a start that tells its age again does not say whose stream it opens |
//! | `RefusedStartsAge` | a start that a full server refused counts as one that may have run |

use reknit_seams::Env;
use reknit_seams::net::Endpoint;
use tokio::time::Instant;

use crate::limits::ClientLimits;
use crate::wire::{CommandId, Cursor, InvalidRequest, RunCommand};

mod core;
mod failure;
mod follower;
mod http;
mod requests;

pub use self::core::Item;
use self::core::{Core, Names, Target};
pub use failure::{Failure, Loss, Refused};
pub use follower::Follower;
pub use requests::{Logs, RequestError};

/// The kind of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// A server of this crate.
    #[default]
    Reknit,
    /// An original execd. See the [module](self) for the promises that do not hold.
    Execd,
}

/// The facts about its server that a client needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientConfig {
    /// The secret of the server, if it has one.
    pub access_token: Option<String>,
    /// The kind of the server.
    pub dialect: Dialect,
}

/// Runs and follows the commands of one server.
#[derive(Clone, Debug)]
pub struct Client {
    env: Env,
    server: Endpoint,
    config: ClientConfig,
    limits: ClientLimits,
}

impl Client {
    /// Creates a client. It does not connect yet.
    pub fn new(env: &Env, server: Endpoint, config: ClientConfig, limits: ClientLimits) -> Self {
        Self { env: env.clone(), server, config, limits }
    }

    /// Runs a command. Without an `operation_id`, the client chooses a random one. The follower sends
    /// the request when its user waits for the first item. The output of a background command is
    /// followed like that of any other.
    ///
    /// # Errors
    /// If the request is wrong in itself.
    pub fn run(&self, mut request: RunCommand) -> Result<Follower, InvalidRequest> {
        request.check()?;
        if request.id()?.is_none() && self.config.dialect == Dialect::Reknit {
            request.operation_id = Some(CommandId::random(self.random()).to_string());
        }
        Ok(self.follower(Target::Start(Box::new(request)), Cursor::START))
    }

    /// Follows a command that was started before, from a cursor of an earlier follower or from
    /// [`Cursor::START`].
    pub fn follow(&self, id: CommandId, cursor: Cursor) -> Follower {
        self.follower(Target::Known(id), cursor)
    }

    fn follower(&self, target: Target, cursor: Cursor) -> Follower {
        let names = Names {
            dialect: self.config.dialect,
            client: format!("{:032x}", self.random()),
            entropy: self.env.entropy.clone(),
        };
        let core = Core::new(self.limits, names, target, cursor, Instant::now());
        Follower::new(self.clone(), core)
    }

    fn random(&self) -> u128 {
        let mut bytes = [0; 16];
        self.env.entropy.fill(&mut bytes);
        u128::from_le_bytes(bytes)
    }
}
