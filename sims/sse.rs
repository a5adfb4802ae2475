//! The suite of the built-in subject `sse`: every file under `scenarios/sse`, and their combined
//! coverage.

reknit::tests!(reknit::subjects::Sse);
