//! The whole test suite: every scenario file, random schedules, and repeated runs.
reknit::tests!(eventsource_peer::subject::EventSourceSubject);
