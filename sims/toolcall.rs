//! The suite of the built-in subject `toolcall`: every file under `scenarios/toolcall`, and their
//! combined coverage.

reknit::tests!(reknit::subjects::Toolcall);
