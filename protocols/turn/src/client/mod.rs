//! The client: runs one command on one server.
//!
//! It drives a [`StartSequence`] and a [`Capture`] over a connection. The caller chooses the server, and
//! moves to another one if [`NotStarted`] allows it.

use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::capture::{Capture, Input, Interrupt, Output, Progress, Raw, Report, TurnKind};
use crate::command::{Next, NotStarted, Refusal, Request, StartSequence};
use crate::limits::TurnLimits;
use crate::upstream::{RequestFailure, RequestNumber, Upstream, UpstreamEvent};
use crate::wire::{
    ClientInfo, InitializeAnswer, InitializeParams, StartAnswer, TurnInterruptParams, method,
};

#[cfg(test)]
mod tests;

/// Opens the conversation with a server. Must be done once for each connection.
///
/// # Errors
/// [`RequestFailure`].
pub async fn initialize(
    upstream: &mut Upstream,
    client: ClientInfo,
) -> Result<InitializeAnswer, RequestFailure> {
    let params = raw(&InitializeParams::new(client));
    let answer = upstream.call(method::INITIALIZE, Some(params)).await?;
    upstream.notify(method::INITIALIZED, None);
    Ok(serde_json::from_str(answer.get()).unwrap_or_default())
}

/// Runs a command until its turn has a verdict, and the server has answered an interrupt. `news` gets
/// the progress. The turn is cancelled when `cancel` becomes true; dropping its sender does not cancel.
///
/// # Errors
/// [`NotStarted`], if the server refused the turn or its thread, or if the user cancelled the command
/// before the turn.
pub async fn run(
    upstream: &mut Upstream,
    sequence: &mut StartSequence,
    limits: TurnLimits,
    cancel: &mut watch::Receiver<bool>,
    news: &mut dyn FnMut(Progress),
) -> Result<Report, NotStarted> {
    loop {
        if *cancel.borrow() {
            sequence.cancel();
        }
        match sequence.next() {
            Next::Request(Request { method, params }) => {
                let answer = upstream.call(method, Some(params)).await;
                sequence.answered(answer.map_err(Refusal::from));
            }
            Next::Turn { thread, request } => {
                let kind = sequence.command().kind();
                match Turn::start(upstream, kind, thread, request, limits) {
                    Ok(turn) => match turn.follow(cancel, news).await {
                        Ok(report) => return Ok(report),
                        Err(refusal) => sequence.turn_refused(refusal),
                    },
                    Err(refusal) => sequence.turn_refused(refusal),
                }
            }
            Next::NotStarted(why) => return Err(why),
        }
    }
}

/// A turn on its connection.
struct Turn<'u> {
    upstream: &'u mut Upstream,
    capture: Capture,
    limits: TurnLimits,
    start: RequestNumber,
    refusal: Option<Refusal>,
    /// The interrupt without an answer, and how long to wait for it.
    interrupt: Option<(RequestNumber, Instant)>,
}

impl<'u> Turn<'u> {
    fn start(
        upstream: &'u mut Upstream,
        kind: TurnKind,
        thread: String,
        request: Request,
        limits: TurnLimits,
    ) -> Result<Self, Refusal> {
        let capture = Capture::new(kind, thread, limits, Instant::now());
        let start = upstream.request(request.method, Some(request.params))?;
        Ok(Self { upstream, capture, limits, start, refusal: None, interrupt: None })
    }

    /// Follows the turn to its end.
    async fn follow(
        mut self,
        cancel: &mut watch::Receiver<bool>,
        news: &mut dyn FnMut(Progress),
    ) -> Result<Report, Refusal> {
        let mut is_cancelled = false;
        loop {
            self.carry_out(news);
            let due = match self.interrupt {
                Some((_, until)) if self.capture.is_over() => Some(until),
                None if self.capture.is_over() => break,
                _ => self.capture.due(),
            };
            tokio::select! {
                biased;
                Ok(_) = cancel.wait_for(|cancel| *cancel), if !is_cancelled => {
                    is_cancelled = true;
                    self.capture.handle(Input::Cancel, Instant::now());
                }
                event = self.upstream.next() => self.take(event),
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    self.capture.wake(Instant::now());
                    self.interrupt.take_if(|(_, until)| *until <= Instant::now());
                }
            }
        }
        match self.refusal {
            Some(refusal) => Err(refusal),
            None => self.capture.into_report().ok_or_else(|| Refusal::Unknown("no verdict".into())),
        }
    }

    fn take(&mut self, event: UpstreamEvent) {
        let input = match event {
            UpstreamEvent::Notification { method, params } => {
                Some(Input::Notification(Raw { method, params }))
            }
            UpstreamEvent::Answered { number, outcome } if number == self.start => {
                let input = Input::from_outcome(outcome);
                if let Some(Input::Refused { code, message }) = &input {
                    let (code, message) = (*code, message.clone());
                    self.refusal = Some(Refusal::Error { code, message });
                }
                input
            }
            UpstreamEvent::Answered { number, .. } => {
                self.interrupt.take_if(|(interrupt, _)| *interrupt == number);
                None
            }
            UpstreamEvent::Late { number, result } if number == self.start => {
                serde_json::from_str::<StartAnswer>(result.get()).ok().map(Input::Answer)
            }
            UpstreamEvent::Late { .. } => None,
            UpstreamEvent::Ended(end) => {
                self.interrupt = None;
                Some(Input::End { why: end.to_string() })
            }
        };
        if let Some(input) = input {
            self.capture.handle(input, Instant::now());
        }
    }

    fn carry_out(&mut self, news: &mut dyn FnMut(Progress)) {
        while let Some(output) = self.capture.output() {
            match output {
                Output::Interrupt(Interrupt { thread, turn }) => {
                    let turn_id = turn.unwrap_or_default();
                    let params = TurnInterruptParams { thread_id: thread, turn_id };
                    let sent = self.upstream.request(method::TURN_INTERRUPT, Some(raw(&params)));
                    let until = Instant::now() + self.limits.interrupt;
                    self.interrupt = sent.ok().map(|number| (number, until));
                }
                Output::Progress(progress) => news(progress),
                Output::Foreign(raw) => {
                    tracing::debug!(method = raw.method, "a foreign notification")
                }
            }
        }
    }
}

fn raw(params: &impl serde::Serialize) -> Box<RawValue> {
    to_raw_value(params).expect("the parameters are plain data")
}
