//! The suite of the built-in subject `exec`: every file under `scenarios/exec`, and what they show together.

reknit::tests!(reknit::subjects::Exec);
