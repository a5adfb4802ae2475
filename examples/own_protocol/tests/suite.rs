//! The whole test suite: every scenario file, random schedules, and the same runs again.
reknit::tests!(own_protocol::subject::Chat);
