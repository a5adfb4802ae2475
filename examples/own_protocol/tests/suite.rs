//! The whole test suite: every scenario file, random schedules, and repeated runs.
reknit::tests!(own_protocol::subject::Chat);
