//! The fault `restart`.

use crate::schedule::fault::prelude::*;

/// A host that is down restarts.
#[derive(Clone, Debug, PartialEq)]
pub struct Restart {
    /// The host.
    pub host: Host,
}

impl Definition for Restart {
    const WORD: FaultWord = FaultWord {
        name: "restart",
        does: "A host that is down starts again, with empty memory. No effect on a host that is up.",
        fields: &[HOST],
        client_sees: "If a server restarts: connects succeed again.",
        server_sees: "If a client restarts: a new client connects.",
        outside: "A supervisor.",
        event: Fidelity::Full,
        turmoil: Fidelity::Full,
    };

    fn build(f: &FaultFields) -> Self {
        Self { host: f.host("host") }
    }

    fn fields(&self, parts: &mut Parts) {
        parts.host(&self.host);
    }

    fn sentence(&self) -> String {
        format!("restart {}", self.host)
    }

    fn effect(&self) -> Effect<'_> {
        Effect::Restart(&self.host)
    }
}
