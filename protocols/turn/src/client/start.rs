//! The requests up to the turn, and the turn.

use std::future::Future;

use reknit_seams::{defect, milestone, point};
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep};

use super::error::Stop;
use super::follow::Followed;
use super::{ClientError, News, Run};
use crate::capture::Report;
use crate::command::{Fallback, Next, NotStarted, Refusal, Request, StartSequence};
use crate::upstream::Upstream;

/// How the client copes with a broker that has a thread of the command and is busy.
struct Busy {
    /// Whether there is another server.
    can_move: bool,
    /// When the client gives up.
    until: Instant,
    /// Whether the client tried to remove its thread since it asked for the turn.
    tried_to_remove: bool,
}

/// The next step at a busy broker.
enum Step {
    /// Remove the thread of the command.
    Remove,
    /// Ask for the turn again, after a pause.
    AskAgain,
    /// Give the command up.
    GiveUp,
}

impl Busy {
    fn next(&mut self, leaves_a_thread: bool) -> Step {
        // The bug: the client asks only once.
        let is_over = Instant::now() >= self.until || defect!(BusyIsNotAwaited);
        // The bug: the client asks as long as its thread is at the broker.
        let gives_up = is_over && !(leaves_a_thread && defect!(LeftThreadsAreAwaited));
        if leaves_a_thread && !self.tried_to_remove && (self.can_move || is_over) {
            self.tried_to_remove = true;
            Step::Remove
        } else if gives_up {
            Step::GiveUp
        } else {
            self.tried_to_remove = false;
            Step::AskAgain
        }
    }
}

impl<C: Future<Output = ()>, N: FnMut(News)> Run<'_, C, N> {
    /// Starts the turn, and follows it to its report.
    pub(super) async fn turn(
        &mut self,
        upstream: &mut Upstream,
        can_move: bool,
    ) -> Result<Report, Stop> {
        let mut sequence = StartSequence::new(self.command.clone(), self.settings.clone());
        let until = Instant::now() + self.limits.busy;
        let mut busy = Busy { can_move, until, tried_to_remove: false };
        loop {
            if self.cancel.has_come() {
                sequence.cancel();
            }
            match sequence.next() {
                Next::Request(request) => {
                    let answer = self.ask(upstream, request).await;
                    sequence.answered(answer);
                    point!("turn.client.asked").await;
                }
                Next::Turn { thread, request } => {
                    (self.news)(News::Thread(thread.clone()));
                    match self.follow(upstream, thread, request).await {
                        // The bug: a turn without an id did not start.
                        Followed::Report(report)
                            if report.turn.is_none() && defect!(RunsAgainAfterALostStart) =>
                        {
                            sequence.turn_refused(Refusal::Unknown(report.summary()));
                        }
                        Followed::Report(report) => return Ok(report),
                        Followed::Refused(refusal) => sequence.turn_refused(refusal),
                    }
                }
                Next::NotStarted(why) if why.fallback == Fallback::SameServer => {
                    match busy.next(why.left_behind.is_some()) {
                        Step::Remove => sequence.remove_thread(),
                        Step::GiveUp => return Err(self.stop(why)),
                        Step::AskAgain => {
                            self.pause().await;
                            milestone!("turn.client.asks_again");
                            sequence.retry();
                        }
                    }
                }
                Next::NotStarted(why) => return Err(self.stop(why)),
            }
        }
    }

    /// Sends a request that starts no turn. After the user has cancelled the command, it waits only a
    /// limited time for the answer.
    async fn ask(
        &mut self,
        upstream: &mut Upstream,
        request: Request,
    ) -> Result<Box<RawValue>, Refusal> {
        let call = upstream.call(request.method, Some(request.params));
        match self.cancel.patiently(call).await {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(Refusal::Unknown("no answer in time".into())),
        }
    }

    async fn pause(&mut self) {
        tokio::select! {
            biased;
            // The bug: a command that waits for a busy broker does not notice the cancel.
            () = self.cancel.wait(), if !defect!(PausesIgnoreTheCancel) => {}
            () = sleep(self.limits.busy_pause) => {}
        }
    }

    fn stop(&self, why: NotStarted) -> Stop {
        let may_move = why.fallback == Fallback::OtherServer;
        milestone!("turn.client.not_started", why = %why.refusal);
        let error = if self.cancel.has_come() {
            ClientError::Cancelled { left_behind: why.left_behind }
        } else {
            ClientError::NotStarted(why)
        };
        Stop { error, may_move }
    }
}
