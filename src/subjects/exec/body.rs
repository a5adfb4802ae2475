//! Makes the server send HTTP requests, and records their outcomes.
//!
//! A body that the user reads piece by piece is a stream of the history, named after its call:
//! `h7`. The body completes, or it is broken off if `[web.NAME]` declares that, or it fails. If the
//! user caused the failure, the record also notes that the user gave up. The user causes it by
//! reading too slowly, or by setting a deadline that is shorter than the link needs for everything
//! that the user asked for.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::answers::{ExecFailure, ExecObservation, StreamTotals};
use super::operations::{ExecOperation, HeadOptions};
use super::sum::Sum;
use super::web::{self, WebMethod, WebSetup};
use crate::history::{Answer, Call, Stream};
use crate::schedule::{Operation, Plan};
use crate::subject::Recorder;
use crate::subject::dyn_subject::read;
use reknit_exec::client::{Body, Client, Failure, HttpRequest, Response};
use reknit_exec::wire::http::{RedirectPolicy, RequestHeader, TOO_LATE};

/// One HTTP request of the user.
pub(super) struct BodyRequest {
    pub(super) call: Call,
    /// The name of its stream in the history.
    pub(super) stream: Stream,
    /// The URL of the body.
    pub(super) url: String,
    /// The body as the scenario declares it.
    pub(super) setup: WebSetup,
    /// The time that the link needs for everything that the user asks for, and that the request may wait
    /// for others.
    pub(super) takes: Duration,
    pub(super) record: Recorder,
}

/// Requests the whole body at once. Returns its total: `closed: h7 500 bytes 0f3a…`, or the head of the
/// response, if the user has set the request's head.
/// `timeout`: the deadline of the request at the server.
pub(super) async fn whole(
    client: &Client,
    wanted: &BodyRequest,
    timeout: Option<Duration>,
    head: Option<HeadOptions>,
) -> Result<Answer, Failure> {
    let mut request = HttpRequest { timeout, ..wanted.request() };
    if let Some(head) = head {
        head.add_to(&mut request);
        return Ok(shown(&client.http(request).await?).into());
    }
    let response = client.http(request).await?;
    wanted.check_head(response.status, &response.headers);
    let mut sum = Sum::default();
    sum.put(response.body);
    Ok(StreamTotals(vec![(wanted.stream.clone(), sum.total())]).into())
}

/// Returns the head of a response, with the length of its body.
fn shown(response: &Response) -> String {
    let headers = response.headers.iter().map(|(name, value)| format!("{name}: {value}; "));
    format!("{}; {}{} bytes", response.status, headers.collect::<String>(), response.body.len())
}

impl HeadOptions {
    fn add_to(self, request: &mut HttpRequest) {
        if self.stops {
            request.redirect_policy = RedirectPolicy::Stop;
        }
        let plain = self.headers.into_iter().map(|(name, value)| RequestHeader::new(name, value));
        let secret = |(name, variable)| RequestHeader::new(name, "").then_variable(variable);
        request.headers.extend(plain.chain(self.variables.into_iter().map(secret)));
    }
}

/// The way in which the user reads a body.
#[derive(Clone, Copy)]
pub(super) struct BodyReadOptions {
    /// The pause after each piece.
    pub(super) pause: Duration,
    /// The number of pieces after which the user drops the body.
    pub(super) drops_after: Option<u64>,
}

/// The time that a body may take beyond the time that the HTTP server needs to produce it. This
/// deadline is necessary: the protocol limits the duration of a body only if the user sets a
/// deadline, so otherwise the loss of power at the HTTP server would go unnoticed.
const PATIENCE: Duration = Duration::from_secs(8);

/// The deadline that the user gives a body.
fn timeout(setup: &WebSetup) -> Duration {
    setup.lasts() + PATIENCE
}

/// How long the user of an operation waits for what it asked for.
pub(super) fn wait(plan: &Plan, operation: &Operation) -> Duration {
    match read::<ExecOperation>(operation) {
        Ok(ExecOperation::HttpStream { body, .. }) => timeout(&WebSetup::declared(plan, &body)),
        _ => operation.wait(),
    }
}

/// Asks for it, and records it piece by piece, to its end.
pub(super) async fn watch(
    client: &Client,
    wanted: &BodyRequest,
    manner: BodyReadOptions,
) -> Result<(), Failure> {
    let timeout = timeout(&wanted.setup);
    let deadline = Instant::now() + timeout;
    let request = HttpRequest { timeout: Some(timeout), ..wanted.request() };
    let streaming = client.http_stream(request).await?;
    wanted.record.opened(&wanted.stream, wanted.call);
    wanted.check_head(streaming.status, &streaming.headers);
    wanted.follow(streaming.body, manner, deadline).await;
    Ok(())
}

impl BodyRequest {
    /// The request, with credentials for the origin of its URL.
    fn request(&self) -> HttpRequest {
        let mut request = HttpRequest::get(&self.url);
        request
            .headers
            .push(RequestHeader::new("authorization", format!("Bearer {}", self.stream)));
        if self.setup.method != WebMethod::Get {
            request.method = self.setup.method.name().into();
            request.body = Some(self.stream.0.as_bytes().to_vec().into());
        }
        request
    }

    /// Records a response whose head is not as the scenario declares it.
    fn check_head(&self, status: u16, headers: &[(String, String)]) {
        let length = headers.iter().find(|(name, _)| name == "content-length");
        if !self.setup.answers_with(status, length.map(|(_, length)| length.as_str())) {
            self.record.observed(&self.stream, ExecObservation::OtherHead);
        }
    }

    async fn follow(&self, mut body: Body, manner: BodyReadOptions, deadline: Instant) {
        let (mut pieces, mut bytes) = (0, 0);
        loop {
            match body.next().await {
                Some(Ok(piece)) => {
                    (pieces, bytes) = (pieces + 1, bytes + piece.len() as u64);
                    self.record.delivered(&self.stream, piece, None);
                    if manner.drops_after == Some(pieces) {
                        return self.record.gave_up(Some(&self.stream), self.call);
                    }
                    sleep(manner.pause).await;
                }
                Some(Err(failure)) => {
                    self.failed(&failure, bytes, manner, deadline);
                    break;
                }
                None => {
                    self.record.completed(&self.stream, web::COMPLETE);
                    break;
                }
            }
        }
        if let Some(more) = body.next().await {
            self.record.observed(&self.stream, ExecObservation::AfterTheEnd(format!("{more:?}")));
        }
    }

    /// Records a broken body as complete if the scenario declares that it breaks off there.
    /// Otherwise records a failure, and whether the user caused it.
    fn failed(&self, failure: &Failure, bytes: u64, manner: BodyReadOptions, deadline: Instant) {
        if matches!(failure, Failure::BodyBroken(_))
            && self.setup.breaks_off
            && bytes == self.setup.length()
        {
            return self.record.completed(&self.stream, web::BROKEN_OFF);
        }
        if is_own_doing(failure, manner, self.takes, Instant::now() >= deadline) {
            self.record.gave_up(Some(&self.stream), self.call);
        }
        self.record.failed_stream(&self.stream, ExecFailure(failure.clone()));
    }
}

/// Returns whether the user caused the failure. A slow reader may cause an overrun. A passed
/// deadline is the user's fault if it has really passed and the link needs longer than [`PATIENCE`]
/// for everything that the user asked for.
fn is_own_doing(
    failure: &Failure,
    manner: BodyReadOptions,
    takes: Duration,
    is_late: bool,
) -> bool {
    match failure {
        Failure::BodyOverrun => !manner.pause.is_zero(),
        Failure::BodyBroken(why) => why == TOO_LATE && is_late && takes > PATIENCE,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const EAGER: BodyReadOptions = BodyReadOptions { pause: Duration::ZERO, drops_after: None };

    #[test]
    fn a_slow_reader_causes_its_own_overrun() {
        let slow = BodyReadOptions { pause: Duration::from_millis(20), ..EAGER };
        assert!(is_own_doing(&Failure::BodyOverrun, slow, Duration::ZERO, false));
        assert!(!is_own_doing(&Failure::BodyOverrun, EAGER, Duration::ZERO, false));
    }

    #[test]
    fn the_user_of_a_body_waits_for_as_long_as_it_takes_to_be_made_and_its_patience() {
        let mut plan = Plan::new("exec");
        plan.setup.insert("web".into(), json!({ "w1": { "pieces": 216, "every": "100ms" } }));
        let wait = |verb: &str, fields: serde_json::Value| {
            let fields = fields.as_object().expect("fields").clone();
            wait(&plan, &Operation { verb: verb.into(), client: "client".into(), fields })
        };
        let stream = wait("http-stream", json!({ "body": "w1" }));
        assert_eq!(stream, Duration::from_millis(21_600) + PATIENCE);
        let read = wait("read", json!({ "process": "p1", "wait": "5s" }));
        assert_eq!(read, Duration::from_secs(5));
    }

    #[test]
    fn a_deadline_is_the_users_own_doing_where_it_has_passed_and_the_link_is_too_slow() {
        let late = Failure::BodyBroken(TOO_LATE.into());
        let more = PATIENCE + Duration::from_millis(1);
        assert!(is_own_doing(&late, EAGER, more, true));
        assert!(!is_own_doing(&late, EAGER, PATIENCE, true), "the link was not too slow");
        assert!(!is_own_doing(&late, EAGER, more, false), "the deadline has not passed");
        let other = Failure::BodyBroken("connection reset".into());
        assert!(
            !is_own_doing(&other, EAGER, more, true),
            "it is another outcome than the user received"
        );
        assert!(!is_own_doing(&Failure::ConnectionLost, EAGER, more, true));
    }
}
