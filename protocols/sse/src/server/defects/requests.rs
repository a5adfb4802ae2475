//! The code of seeded bugs that affect requests.

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::timeout;

use crate::limits::ServerLimits;
use crate::wire::Refusal;

/// Reads a body. Each piece of it has the time of a whole body.
pub(super) async fn body_by_pieces(
    mut body: Incoming,
    limits: &ServerLimits,
) -> Result<Bytes, Refusal> {
    let mut read = BytesMut::new();
    loop {
        let slow = |_| Refusal::BodyTooSlow(limits.body_deadline);
        let piece = timeout(limits.body_deadline, body.frame()).await.map_err(slow)?;
        let Some(piece) = piece else { return Ok(read.freeze()) };
        let piece = piece.map_err(|_| Refusal::NotSupported("the body is not complete"))?;
        read.extend_from_slice(&piece.into_data().unwrap_or_default());
        if read.len() > limits.body_bytes {
            return Err(Refusal::BodyTooLarge(limits.body_bytes));
        }
    }
}
