//! The fault `kill-children`.

use crate::schedule::fault::prelude::*;

/// The child processes of a host are killed.
#[derive(Clone, Debug, PartialEq)]
pub struct KillChildren {
    /// The host.
    pub host: Host,
}

impl Definition for KillChildren {
    const WORD: FaultWord = FaultWord {
        name: "kill-children",
        does: "All processes of a host except its root are killed, with signal 9: its child processes, and the programs that were launched detached. The pipes that they hold end.",
        fields: &[HOST],
        client_sees: "If the host is a client: its child processes exit. If it is the server: the reaction of the server.",
        server_sees: "The same, with the roles exchanged.",
        outside: "The kernel runs out of memory; a user kills a process; a crash.",
        event: Fidelity::Full,
        turmoil: Fidelity::Full,
    };
    const DRAWN: Option<Drawn> =
        Some(Drawn { weight: 3, needs: Needs::Children, shape: FaultShape::default });

    fn build(f: &FaultFields) -> Self {
        Self { host: f.host("host") }
    }

    fn fields(&self, parts: &mut Parts) {
        parts.host(&self.host);
    }

    fn sentence(&self) -> String {
        format!("kill the child processes of {}", self.host)
    }

    fn draw(from: &FaultDraw<'_>) -> Option<Self> {
        Some(Self { host: from.host()? })
    }

    fn effect(&self) -> Effect<'_> {
        Effect::Children { host: &self.host, what: ChildEffect::Kill }
    }
}
