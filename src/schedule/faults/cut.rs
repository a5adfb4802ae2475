//! The fault `cut`.

use crate::schedule::fault::prelude::*;

/// A connection dies, and each end learns of the cut at its own time.
#[derive(Clone, Debug, PartialEq)]
pub struct Cut {
    /// The connection.
    pub conn: Conn,
    /// When each end learns of the cut; a host that is not named learns at once.
    pub learns: BTreeMap<Host, Learns>,
}

impl Definition for Cut {
    const WORD: FaultWord = FaultWord {
        name: "cut",
        does: "The network drops a connection: from now on none of its packets are delivered, and packets in flight are lost. Each end gets an RST when it learns of the cut, or never.",
        fields: &[CONN, LEARNS],
        client_sees: "`ConnectionReset` when the client learns of the cut. Before that, silence: data that it writes is lost.",
        server_sees: "The same, when the server learns of the cut.",
        outside: "A proxy or NAT loses the state of a connection; a laptop changes networks; a gateway restarts.",
        event: Fidelity::Full,
        turmoil: Fidelity::Full,
    };
    const DRAWN: Option<Drawn> =
        Some(Drawn { weight: 10, needs: Needs::Nothing, shape: FaultShape::default });

    fn build(f: &FaultFields) -> Self {
        Self { conn: f.conn("conn"), learns: f.learns() }
    }

    fn fields(&self, parts: &mut Parts) {
        parts.conn(&self.conn).learns(&self.learns);
    }

    fn sentence(&self) -> String {
        format!("cut {}: {}", self.conn, phrases::learns(&self.learns))
    }

    fn draw(from: &FaultDraw<'_>) -> Option<Self> {
        Some(Self { conn: from.conn.clone(), learns: from.learns() })
    }

    fn effect(&self) -> Effect<'_> {
        Effect::Cut { conn: &self.conn, learns: &self.learns }
    }

    fn lateness(&self) -> Lateness {
        Lateness::Unbounded
    }

    fn felt(&self) -> Felt<'_> {
        Felt::InForce
    }
}
