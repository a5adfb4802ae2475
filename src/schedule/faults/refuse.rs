//! The fault `refuse`.

use crate::schedule::fault::prelude::*;

/// New connections to a host are refused.
#[derive(Clone, Debug, PartialEq)]
pub struct Refuse {
    /// The host.
    pub host: Host,
    /// The duration; `None` means the rest of the run.
    pub lasts: Option<Duration>,
}

impl Definition for Refuse {
    const WORD: FaultWord = FaultWord {
        name: "refuse",
        does: "New connections to a host are refused: a SYN is answered with an RST. Open connections continue.",
        fields: &[HOST, LASTS],
        client_sees: "`ConnectionRefused`, one round trip after its SYN.",
        server_sees: "Nothing.",
        outside: "No process is listening: the server restarts, or the load balancer has no backend.",
        event: Fidelity::Full,
        turmoil: Fidelity::Full,
    };
    const DRAWN: Option<Drawn> =
        Some(Drawn { weight: 2, needs: Needs::Nothing, shape: FaultShape::default });

    fn build(f: &FaultFields) -> Self {
        Self { host: f.host("host"), lasts: f.lasts() }
    }

    fn fields(&self, parts: &mut Parts) {
        parts.host(&self.host).time("lasts", self.lasts);
    }

    fn sentence(&self) -> String {
        format!("refuse connections to {}{}", self.host, phrases::length(self.lasts))
    }

    fn draw(from: &FaultDraw<'_>) -> Option<Self> {
        Some(Self { host: from.host()?, lasts: from.lasts() })
    }

    fn effect(&self) -> Effect<'_> {
        Effect::on_openings(&self.host, self.lasts)
    }

    fn pass(&self, segment: &Passing, effects: &mut LinkEffects) {
        if segment.opens {
            effects.opening = SynFate::Refused;
        }
    }
}
