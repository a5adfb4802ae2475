//! The suite of the built-in subject `toolcall`: every file under `scenarios/toolcall`, and what they show together.

reknit::tests!(reknit::subjects::Toolcall);
