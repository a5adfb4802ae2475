//! Their client and our host in a world: every scenario file, random schedules, and the same runs again.
reknit::tests!(toolcall_ahp::subject::Theirs);
