//! The suite of the built-in subject `turn`: every file under `scenarios/turn`, and their combined
//! coverage.

reknit::tests!(reknit::subjects::Turn);
