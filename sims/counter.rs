//! The suite of the built-in subject `counter`: every file under `scenarios/counter`, and their
//! combined coverage.

reknit::tests!(reknit::subjects::Counter);
