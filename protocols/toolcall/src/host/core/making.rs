//! A session that is being made.

use reknit_seams::net::ConnId;

use crate::wire::{CreateSessionParams, RequestId};

/// A session that somebody wants to make.
pub(super) struct Making {
    pub(super) conn: ConnId,
    pub(super) id: RequestId,
    pub(super) client: String,
    pub(super) params: CreateSessionParams,
}
