//! The fault `blackhole`.

use crate::schedule::fault::prelude::*;

/// No packets pass on a connection in either direction, and neither end is notified.
#[derive(Clone, Debug, PartialEq)]
pub struct Blackhole {
    /// The connection.
    pub conn: Conn,
    /// The duration; `None` means the rest of the run.
    pub lasts: Option<Duration>,
}

impl Definition for Blackhole {
    const WORD: FaultWord = FaultWord {
        name: "blackhole",
        does: "The network delivers no packets of a connection in either direction, and neither end gets an error.",
        fields: &[CONN, LASTS],
        client_sees: "Silence. After the fault, data written during it arrives late. If the fault never ends, only the client's own timeout detects it.",
        server_sees: "The same.",
        outside: "A NAT or firewall drops the packets of a connection whose state it has lost.",
        event: Fidelity::Full,
        turmoil: Fidelity::Full,
    };
    const DRAWN: Option<Drawn> = Some(Drawn {
        weight: 2,
        needs: Needs::Nothing,
        shape: || {
            // Just below and just above the usual deadlines of 25 s and 30 s.
            let lasts = [(0, 5), (24, 26), (29, 31)];
            let range = |(low, high)| Choice::Range(secs(low), secs(high));
            FaultShape::default().duration("lasts", Choice::OneOf(lasts.map(range).into()))
        },
    });

    fn build(f: &FaultFields) -> Self {
        Self { conn: f.conn("conn"), lasts: f.lasts() }
    }

    fn fields(&self, parts: &mut Parts) {
        parts.conn(&self.conn).time("lasts", self.lasts);
    }

    fn sentence(&self) -> String {
        format!("blackhole {}{}", self.conn, phrases::length(self.lasts))
    }

    fn draw(from: &FaultDraw<'_>) -> Option<Self> {
        Some(Self { conn: from.conn.clone(), lasts: from.lasts() })
    }

    fn effect(&self) -> Effect<'_> {
        Effect::Link {
            place: Place::Conn(&self.conn),
            toward: None,
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
