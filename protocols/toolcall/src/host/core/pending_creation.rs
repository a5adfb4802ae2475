//! A session that is being created.

use reknit_seams::net::ConnId;

use crate::wire::{CreateSessionParams, RequestId};

/// A request to create a session.
pub(super) struct PendingCreation {
    pub(super) conn: ConnId,
    pub(super) id: RequestId,
    pub(super) client: String,
    pub(super) params: CreateSessionParams,
}
