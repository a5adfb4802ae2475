//! Nothing but its test: the client of the crate `ahp` against reknit's agent host.
