//! The fault `stop-children`.

use crate::schedule::fault::prelude::*;

/// The child processes of a host are suspended.
#[derive(Clone, Debug, PartialEq)]
pub struct StopChildren {
    /// The host.
    pub host: Host,
    /// The duration; `None` means the rest of the run.
    pub lasts: Option<Duration>,
}

impl Definition for StopChildren {
    const WORD: FaultWord = FaultWord {
        name: "stop-children",
        does: "All processes of a host except its root are suspended, also those that it launches meanwhile. They take no step until the fault ends; only signal 9 ends one.",
        fields: &[HOST, LASTS],
        client_sees: "If the host is a client: its child processes read and write nothing. If it is the server: the reaction of the server.",
        server_sees: "The same, with the roles exchanged.",
        outside: "SIGSTOP, a debugger, a machine that swaps, a frozen control group.",
        event: Fidelity::Full,
        turmoil: Fidelity::Full,
    };
    const DRAWN: Option<Drawn> =
        Some(Drawn { weight: 2, needs: Needs::Children, shape: FaultShape::default });

    fn build(f: &FaultFields) -> Self {
        Self { host: f.host("host"), lasts: f.lasts() }
    }

    fn fields(&self, parts: &mut Parts) {
        parts.host(&self.host).time("lasts", self.lasts);
    }

    fn sentence(&self) -> String {
        format!("stop the child processes of {}{}", self.host, phrases::length(self.lasts))
    }

    fn draw(from: &FaultDraw<'_>) -> Option<Self> {
        Some(Self { host: from.host()?, lasts: from.lasts() })
    }

    fn effect(&self) -> Effect<'_> {
        let what = ChildEffect::Change(ChildFault::Stop, self.lasts);
        Effect::Children { host: &self.host, what }
    }
}
