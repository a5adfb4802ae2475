//! The fault `hang`.

use crate::schedule::fault::prelude::*;

/// New connections to a host get no answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Hang {
    /// The host.
    pub host: Host,
    /// The duration; `None` means the rest of the run.
    pub lasts: Option<Duration>,
}

impl Definition for Hang {
    const WORD: FaultWord = FaultWord {
        name: "hang",
        does: "New connections to a host are not answered: SYNs are dropped, and retransmitted after 1 s, doubling. Open connections continue.",
        fields: &[HOST, LASTS],
        client_sees: "A connect that waits until the fault ends, or fails with `TimedOut` after 127 s.",
        server_sees: "Nothing.",
        outside: "A firewall drops packets; the accept queue is full.",
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
        format!("do not answer connections to {}{}", self.host, phrases::length(self.lasts))
    }

    fn draw(from: &FaultDraw<'_>) -> Option<Self> {
        Some(Self { host: from.host()?, lasts: from.lasts() })
    }

    fn effect(&self) -> Effect<'_> {
        Effect::on_openings(&self.host, self.lasts)
    }

    fn pass(&self, segment: &Passing, effects: &mut LinkEffects) {
        if segment.opens {
            effects.blocked = true;
        }
    }
}
