//! A turn, from its start request to its verdict.

use std::future::Future;

use reknit_seams::{defect, milestone, point};
use tokio::time::{Instant, sleep_until};

use super::{News, Run};
use crate::capture::{Capture, Input, Interrupt, Output, Raw, Report};
use crate::command::{Refusal, Request};
use crate::upstream::{RequestFailure, RequestNumber, Upstream, UpstreamEvent};
use crate::wire::{TurnInterruptParams, method};

/// How a request for a turn ended.
pub(super) enum Followed {
    /// The turn has a verdict.
    Report(Report),
    /// No turn started.
    Refused(Refusal),
}

/// A turn that is followed.
struct Turn {
    capture: Capture,
    /// The request that starts it.
    start: RequestNumber,
    /// The request that interrupts it, until it is answered, and how long to wait for that.
    interrupt: Option<(RequestNumber, Instant)>,
    /// Whether the connection has ended.
    has_ended: bool,
}

impl<C: Future<Output = ()>, N: FnMut(News)> Run<'_, C, N> {
    /// Starts a turn, and follows it.
    pub(super) async fn follow(
        &mut self,
        upstream: &mut Upstream,
        thread: String,
        request: Request,
    ) -> Followed {
        // The capture exists before the request is sent: a notification may precede the answer.
        let capture = Capture::new(self.command.kind(), thread, self.limits.turn, Instant::now());
        let start = match upstream.request(request.method, Some(request.params)) {
            Ok(start) => start,
            Err(not_connected) => return Followed::Refused(not_connected.into()),
        };
        milestone!("turn.client.started");
        point!("turn.client.started").await;
        let mut turn = Turn { capture, start, interrupt: None, has_ended: false };
        loop {
            self.carry_out(&mut turn, upstream);
            if turn.capture.is_over() {
                break;
            }
            let due = turn.capture.due();
            tokio::select! {
                biased;
                // First, so that a server that sends without end cannot hide it. A report that is
                // already there still counts.
                () = self.cancel.wait() => turn.capture.handle(Input::Cancel, Instant::now()),
                event = upstream.next(), if !turn.has_ended => {
                    if let Some(refusal) = turn.on_event(event) {
                        return Followed::Refused(refusal);
                    }
                }
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    turn.capture.wake(Instant::now());
                }
            }
        }
        point!("turn.client.verdict").await;
        turn.await_interrupt(upstream).await;
        let report = turn.capture.into_report().expect("a capture that is over has a verdict");
        let (thread, turn) = (report.thread.as_str(), report.turn.as_deref().unwrap_or_default());
        milestone!("turn.client.verdict", thread, turn, verdict = report.verdict.name());
        Followed::Report(report)
    }

    /// Carries out the outputs of the capture.
    fn carry_out(&mut self, turn: &mut Turn, upstream: &mut Upstream) {
        while let Some(output) = turn.capture.output() {
            match output {
                Output::Interrupt(interrupt) => {
                    let until = Instant::now() + self.limits.turn.interrupt;
                    turn.interrupt = send(upstream, interrupt).map(|number| (number, until));
                }
                Output::Progress(progress) => (self.news)(News::Turn(progress)),
                // A connection has one turn, so this is news of the server itself.
                Output::Foreign(raw) => tracing::debug!(method = raw.method, "a notification"),
            }
        }
    }
}

impl Turn {
    /// Hands an event of the connection to the capture. Returns the refusal of the turn, if it is
    /// one.
    fn on_event(&mut self, event: UpstreamEvent) -> Option<Refusal> {
        let now = Instant::now();
        match event {
            UpstreamEvent::Answered { number, outcome } if number == self.start => {
                if matches!(outcome, Err(RequestFailure::Refused(_)))
                    && self.capture.verdict().is_none()
                    && !self.capture.has_begun()
                {
                    return outcome.err().map(Refusal::from);
                }
                if let Some(input) = Input::from_outcome(outcome) {
                    self.capture.handle(input, now);
                }
            }
            UpstreamEvent::Late { number, result } if number == self.start => {
                if let Some(input @ Input::Answer(_)) = Input::from_outcome(Ok(result)) {
                    self.capture.handle(input, now);
                }
            }
            UpstreamEvent::Answered { number, outcome } => {
                self.interrupt_answered(number, outcome.err())
            }
            UpstreamEvent::Late { .. } => {}
            // The bug: the handler of notifications is installed when the answer is there.
            UpstreamEvent::Notification { .. }
                if self.capture.turn().is_none() && defect!(ListensAfterTheStart) => {}
            UpstreamEvent::Notification { method, params } => {
                self.capture.handle(Input::Notification(Raw { method, params }), now);
            }
            UpstreamEvent::Unreadable { why } => {
                tracing::debug!(why, "an unreadable line");
                self.capture.handle(Input::Unreadable, now);
            }
            UpstreamEvent::Ended(end) => {
                self.has_ended = true;
                self.interrupt = None;
                self.capture.handle(Input::End { why: end.to_string() }, now);
            }
        }
        None
    }

    fn interrupt_answered(&mut self, number: RequestNumber, failure: Option<RequestFailure>) {
        if self.interrupt.is_some_and(|(interrupt, _)| interrupt == number) {
            self.interrupt = None;
            if let Some(why) = failure {
                tracing::warn!(%why, "the turn was not interrupted");
            }
        }
    }

    /// Waits until the server has interrupted the turn, in bounded time, unless the turn is over.
    async fn await_interrupt(&mut self, upstream: &mut Upstream) {
        let is_over = self.capture.verdict().is_some_and(|verdict| verdict.is_reported());
        while let Some((_, until)) = self.interrupt
            && !is_over
            && !defect!(LeavesBeforeTheInterrupt)
        {
            tokio::select! {
                biased;
                () = sleep_until(until) => self.interrupt = None,
                event = upstream.next() => drop(self.on_event(event)),
            }
        }
    }
}

/// Sends the interrupt. After the end of the connection, there is nothing to interrupt.
fn send(upstream: &mut Upstream, interrupt: Interrupt) -> Option<RequestNumber> {
    // The app-server takes the empty id for the turn that runs on the thread.
    let Interrupt { thread: thread_id, turn } = interrupt;
    let params = TurnInterruptParams { thread_id, turn_id: turn.unwrap_or_default() };
    let params = serde_json::value::to_raw_value(&params).expect("the parameters are plain data");
    upstream.request(method::TURN_INTERRUPT, Some(params)).ok()
}
