//! Their client and our host in a world: every scenario file, random schedules, and a repetition of
//! the same runs.
reknit::tests!(toolcall_ahp::subject::AhpSubject);
