//! The fault `delay-close`.

use crate::schedule::fault::prelude::*;

/// The close of a connection (its FIN or RST) arrives late in one direction.
#[derive(Clone, Debug, PartialEq)]
pub struct DelayClose {
    /// The connection.
    pub conn: Conn,
    /// The host toward which the close is delayed.
    pub toward: Host,
    /// The additional delay.
    pub by: Duration,
}

impl Definition for DelayClose {
    const WORD: FaultWord = FaultWord {
        name: "delay-close",
        does: "The FIN or RST of a connection arrives late in one direction. Data before it arrives on time.",
        fields: &[
            CONN,
            TOWARD,
            Field {
                name: "by",
                kind: FieldType::Duration,
                need: Always,
                doc: "The additional delay of the FIN or RST.",
            },
        ],
        client_sees: "Toward the client: the connection looks alive for this time after the server has closed it.",
        server_sees: "The same, if the fault is toward the server.",
        outside: "A proxy keeps the other half open; an onClose event arrives after the next connection is open.",
        event: Fidelity::Full,
        turmoil: Fidelity::Full,
    };
    const DRAWN: Option<Drawn> =
        Some(Drawn { weight: 3, needs: Needs::Nothing, shape: FaultShape::default });

    fn build(f: &FaultFields) -> Self {
        Self { conn: f.conn("conn"), toward: f.host("toward"), by: f.duration("by") }
    }

    fn fields(&self, parts: &mut Parts) {
        parts.conn(&self.conn).toward(Some(&self.toward)).time("by", Some(self.by));
    }

    fn sentence(&self) -> String {
        let Self { conn, toward, by } = self;
        format!("delay the close of {conn} toward {toward} by {}", phrases::span(*by))
    }

    fn draw(from: &FaultDraw<'_>) -> Option<Self> {
        Some(Self {
            conn: from.conn.clone(),
            toward: from.one_way()?,
            by: from.duration("by", "by"),
        })
    }

    fn effect(&self) -> Effect<'_> {
        Effect::Link {
            place: Place::Conn(&self.conn),
            toward: Some(&self.toward),
            lasts: None,
            nature: Nature::Slows,
        }
    }

    fn pass(&self, segment: &Passing, effects: &mut LinkEffects) {
        if segment.closes {
            effects.extra += self.by;
        }
    }

    fn felt(&self) -> Felt<'_> {
        Felt::FromClose
    }
}
