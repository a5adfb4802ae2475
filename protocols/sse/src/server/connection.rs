//! One connection: hyper reads its requests and writes their answers, until one end closes it.
//!
//! The server closes it if a request does not arrive in time, if it takes no bytes, if another stream
//! has taken its place, or if another connection needs its place.

use std::convert::Infallible;
use std::sync::Arc;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use reknit_resume::EVER;
use reknit_seams::net::Stream;
use reknit_seams::{defect, milestone, point};

use super::link::{Closed, Link, Watched};
use super::requests::{Attachments, Requests};
use super::shared::Shared;

/// The smallest buffer that hyper accepts.
const LEAST_BUFFER: usize = 8192;

/// Serves one connection until its end.
pub(super) async fn serve(shared: Arc<Shared>, stream: Stream, link: Arc<Link>) {
    let limits = shared.limits;
    let attachments = Attachments::default();
    let requests =
        Requests { shared: shared.clone(), link: link.clone(), attachments: attachments.clone() };
    let service = service_fn(move |request| {
        let requests = requests.clone();
        async move { Ok::<_, Infallible>(requests.answer(request).await) }
    });
    let write_deadline = if defect!(NoWriteDeadline) { EVER } else { limits.write_deadline };
    {
        let mut connection = std::pin::pin!(
            http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(limits.head_deadline)
                .max_buf_size(limits.write_buffer.max(LEAST_BUFFER))
                .auto_date_header(false)
                .serve_connection(TokioIo::new(Watched::new(stream, link.clone())), service)
        );
        tokio::select! {
            biased;
            why = link.closed(write_deadline) => report(&link, why),
            served = &mut connection => if let Err(error) = served {
                if error.is_timeout() {
                    milestone!("sse.server.slow-head", conn = link.conn().0);
                } else if error.is_parse() {
                    milestone!("sse.server.malformed", conn = link.conn().0);
                }
                tracing::debug!(%error, conn = link.conn().0, "connection");
            },
        }
    }
    shared.leave(&link);
    point!("sse.server.detach", conn = link.conn().0).await;
    detach(&link, &attachments);
    shared.changed.notify_one();
}

fn report(link: &Link, why: Closed) {
    let conn = link.conn().0;
    match why {
        Closed::Replaced => milestone!("sse.server.replaced", conn),
        Closed::Stuck => milestone!("sse.server.stuck", conn),
        Closed::Evicted => milestone!("sse.server.evicted", conn),
    }
}

/// Releases the streams of a connection that has ended.
fn detach(link: &Link, attachments: &Attachments) {
    let streams = std::mem::take(&mut *attachments.lock().expect("nothing panics under the lock"));
    let conn = link.conn().0;
    for (running, generation) in streams {
        let own = running.change(|command| command.detach(generation));
        running.was_read();
        if own {
            milestone!("sse.server.detached", generation, conn);
        } else {
            milestone!("sse.server.late-close", generation, conn);
        }
        if defect!(CommandDiesWithConnection) {
            running.change(|command| command.interrupt());
        }
    }
}
