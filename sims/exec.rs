//! The suite of the built-in subject `exec`: every file under `scenarios/exec`, and their combined
//! coverage.

reknit::tests!(reknit::subjects::Exec);
