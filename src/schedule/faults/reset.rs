//! The fault `reset`.

use crate::schedule::fault::prelude::*;

/// A middlebox resets a connection.
#[derive(Clone, Debug, PartialEq)]
pub struct Reset {
    /// The connection.
    pub conn: Conn,
    /// The only end that receives an RST; `None` means both ends.
    pub toward: Option<Host>,
}

impl Definition for Reset {
    const WORD: FaultWord = FaultWord {
        name: "reset",
        does: "The network resets a connection: each end gets an RST, after the data already sent in its direction.",
        fields: &[
            CONN,
            Field { need: Else("both ends"), doc: "Only this end gets an RST.", ..TOWARD },
        ],
        client_sees: "The data already in flight, then `ConnectionReset`. If `toward` is the server: nothing, until the client writes and gets an RST as the answer.",
        server_sees: "The same.",
        outside: "A firewall or load balancer ends idle or unwanted connections.",
        event: Fidelity::Full,
        turmoil: Fidelity::Full,
    };
    const DRAWN: Option<Drawn> =
        Some(Drawn { weight: 3, needs: Needs::Nothing, shape: FaultShape::default });

    fn build(f: &FaultFields) -> Self {
        Self { conn: f.conn("conn"), toward: f.toward() }
    }

    fn fields(&self, parts: &mut Parts) {
        parts.conn(&self.conn).toward(self.toward.as_ref());
    }

    fn sentence(&self) -> String {
        match &self.toward {
            Some(toward) => format!("reset {} toward {toward}", self.conn),
            None => format!("reset {}", self.conn),
        }
    }

    fn draw(from: &FaultDraw<'_>) -> Option<Self> {
        Some(Self { conn: from.conn.clone(), toward: from.toward()? })
    }

    fn effect(&self) -> Effect<'_> {
        Effect::Reset { conn: &self.conn, toward: self.toward.as_ref() }
    }

    fn felt(&self) -> Felt<'_> {
        Felt::InForce
    }
}
