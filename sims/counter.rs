//! The suite of the built-in subject `counter`: every file under `scenarios/counter`, and what they show together.

reknit::tests!(reknit::subjects::Counter);
