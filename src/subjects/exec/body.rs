//! Has the server send HTTP requests, and records what comes of them.
//!
//! A body that the user watches is a stream of the history, named after its call: `h7`. It is complete; or broken off, where that
//! is what its server does; or it failed. Where it failed for the user's own doing, the user has given it up as well: it read too slowly, or
//! gave it less time than the link takes for all that is asked for over it.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::answers::{ExecFailure, ExecObservation, StreamTotals};
use super::operations::ExecOperation;
use super::sum::Sum;
use super::web::{self, WebSetup};
use crate::history::{Answer, Call, Stream};
use crate::schedule::{Operation, Plan};
use crate::subject::Recorder;
use crate::subject::dyn_subject::read;
use reknit_exec::client::{Body, Client, Failure, HttpRequest};
use reknit_exec::wire::http::TOO_LATE;

/// One request of the user's.
pub(super) struct BodyRequest {
    pub(super) call: Call,
    /// The name of its record.
    pub(super) stream: Stream,
    /// Where it is.
    pub(super) url: String,
    /// What it really is.
    pub(super) setup: WebSetup,
    /// How long the link takes for all that its user asks for.
    pub(super) takes: Duration,
    pub(super) record: Recorder,
}

/// Asks for all of it at once. Says what it came to: `closed: h7 500 bytes 0f3a…`.
pub(super) async fn whole(client: &Client, wanted: &BodyRequest) -> Result<Answer, Failure> {
    let response = client.http(HttpRequest::get(&wanted.url)).await?;
    let mut sum = Sum::default();
    sum.put(response.body);
    Ok(StreamTotals(vec![(wanted.stream.clone(), sum.total())]).into())
}

/// How the user reads a body.
#[derive(Clone, Copy)]
pub(super) struct Manner {
    /// How long it pauses after each piece.
    pub(super) pause: Duration,
    /// After how many pieces it has had enough.
    pub(super) drops_after: Option<u64>,
}

/// How much longer than it takes to be made a body may take. Nobody else notices where its server has lost its power: the protocol
/// has a deadline for a body only where its user gives one.
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
    manner: Manner,
) -> Result<(), Failure> {
    let timeout = timeout(&wanted.setup);
    let deadline = Instant::now() + timeout;
    let request = HttpRequest { timeout: Some(timeout), ..HttpRequest::get(&wanted.url) };
    let streaming = client.http_stream(request).await?;
    wanted.record.opened(&wanted.stream, wanted.call);
    wanted.follow(streaming.body, manner, deadline).await;
    Ok(())
}

impl BodyRequest {
    async fn follow(&self, mut body: Body, manner: Manner, deadline: Instant) {
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
            self.record.saw(&self.stream, ExecObservation::AfterTheEnd(format!("{more:?}")));
        }
    }

    /// That a body is broken off is what it really is, or a failure, which may be the user's own doing.
    fn failed(&self, failure: &Failure, bytes: u64, manner: Manner, deadline: Instant) {
        if matches!(failure, Failure::BodyBroken(_))
            && self.setup.breaks_off
            && bytes == self.setup.length()
        {
            return self.record.completed(&self.stream, web::BROKEN_OFF);
        }
        if is_own_doing(failure, manner, self.takes, Instant::now() >= deadline) {
            self.record.gave_up(Some(&self.stream), self.call);
        }
        self.record.broke(&self.stream, ExecFailure(failure.clone()));
    }
}

/// Whoever reads slowly may be told so. Whoever gave a deadline may be told that it has passed, where it has, and where the link takes longer
/// than his patience for all that he asks for.
fn is_own_doing(failure: &Failure, manner: Manner, takes: Duration, is_late: bool) -> bool {
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

    const EAGER: Manner = Manner { pause: Duration::ZERO, drops_after: None };

    #[test]
    fn a_slow_reader_does_itself_what_others_suffer() {
        let slow = Manner { pause: Duration::from_millis(20), ..EAGER };
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
        assert!(!is_own_doing(&other, EAGER, more, true), "it is not what was told");
        assert!(!is_own_doing(&Failure::ConnectionLost, EAGER, more, true));
    }
}
