//! The ledger: what `toolcall` keeps to, sentence by sentence, with its constant and its source.

use crate::subject::Rule;

/// The rules.
pub const RULES: &[Rule] = &[];
