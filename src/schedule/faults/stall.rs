//! The fault `stall`.

use crate::schedule::fault::prelude::*;

/// No packets pass on a connection in one direction.
#[derive(Clone, Debug, PartialEq)]
pub struct Stall {
    /// The connection.
    pub conn: Conn,
    /// The host toward which packets are blocked.
    pub toward: Host,
    /// The duration; `None` means the rest of the run.
    pub lasts: Option<Duration>,
}

impl Definition for Stall {
    const WORD: FaultWord = FaultWord {
        name: "stall",
        does: "The network delivers no packets of a connection in one direction: no data, no acknowledgements and no FIN or RST.",
        fields: &[CONN, TOWARD, LASTS],
        client_sees: "Toward the client: silence, then all data in order. From the client: its writes are not acknowledged, and block when the window is full.",
        server_sees: "The opposite direction.",
        outside: "A half-open link; a proxy that stops forwarding in one direction.",
        event: Fidelity::Full,
        turmoil: Fidelity::Full,
    };
    const DRAWN: Option<Drawn> =
        Some(Drawn { weight: 3, needs: Needs::Nothing, shape: FaultShape::default });

    fn build(f: &FaultFields) -> Self {
        Self { conn: f.conn("conn"), toward: f.host("toward"), lasts: f.lasts() }
    }

    fn fields(&self, parts: &mut Parts) {
        parts.conn(&self.conn).toward(Some(&self.toward)).time("lasts", self.lasts);
    }

    fn sentence(&self) -> String {
        format!("stall {} toward {}{}", self.conn, self.toward, phrases::length(self.lasts))
    }

    fn draw(from: &FaultDraw<'_>) -> Option<Self> {
        Some(Self { conn: from.conn.clone(), toward: from.one_way()?, lasts: from.lasts() })
    }

    fn effect(&self) -> Effect<'_> {
        Effect::Link {
            place: Place::Conn(&self.conn),
            toward: Some(&self.toward),
            lasts: self.lasts,
            nature: Nature::Kills,
        }
    }

    fn pass(&self, _: &Passing, effects: &mut LinkEffects) {
        effects.blocked = true;
    }

    fn lateness(&self) -> Lateness {
        Lateness::Unbounded
    }
}
