//! The code of seeded bugs that affect the process of a command.

use bytes::Bytes;
use reknit_seams::point;

use super::ProcessTask;
use crate::wire::OutputStream;

impl ProcessTask {
    /// Takes a position for output, and appends it later.
    pub(super) async fn output_in_two_steps(
        &self,
        timestamp: u64,
        stream: OutputStream,
        line: Bytes,
    ) {
        let position = self.running.command().log.reserve();
        point!("sse.server.id-taken").await;
        self.running.change(|command| command.log.output_at(position, timestamp, stream, line));
    }
}
