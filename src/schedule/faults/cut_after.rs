//! The fault `cut-after`.

use crate::schedule::fault::prelude::*;

/// A connection dies as soon as a given amount of data has arrived at a host, even in the
/// middle of a frame.
#[derive(Clone, Debug, PartialEq)]
pub struct CutAfter {
    /// The connection.
    pub conn: Conn,
    /// The host toward which the counted data flows.
    pub toward: Host,
    /// The amount of data that arrives, counted from the start of the connection.
    pub count: TrafficCount,
    /// When each end learns of the cut; a host that is not named learns at once.
    pub learns: BTreeMap<Host, Learns>,
}

impl Definition for CutAfter {
    const WORD: FaultWord = FaultWord {
        name: "cut-after",
        does: "The network drops a connection, as with `cut`, as soon as a given amount of data has arrived at a host, also in the middle of a frame. Data after that never arrives.",
        fields: &[
            CONN,
            Field { doc: "Count data toward this host.", ..TOWARD },
            Field {
                name: "bytes",
                kind: FieldType::Count,
                need: OneOf,
                doc: "The number of bytes that arrive, counted from the start of the connection.",
            },
            Field {
                name: "messages",
                kind: FieldType::Count,
                need: OneOf,
                doc: "The number of messages that arrive, as the subject's dissector counts them. No byte of the next message arrives.",
            },
            LEARNS,
        ],
        client_sees: "The data that arrived before the cut, then the same as after a `cut`.",
        server_sees: "The same.",
        outside: "As for `cut`, but at a position instead of a time. The amounts of data written, delivered and processed differ; this fault fixes the delivered amount.",
        event: Fidelity::Full,
        turmoil: Fidelity::Full,
    };
    const DRAWN: Option<Drawn> = Some(Drawn {
        weight: 4,
        needs: Needs::Nothing,
        shape: || {
            FaultShape::default()
                .number("bytes", Choice::Range(0, 4096))
                .number("messages", Choice::Range(0, 20))
        },
    });

    fn build(f: &FaultFields) -> Self {
        Self {
            conn: f.conn("conn"),
            toward: f.host("toward"),
            count: match (f.number("bytes"), f.number("messages")) {
                (Some(bytes), _) => TrafficCount::Bytes(bytes),
                (None, messages) => TrafficCount::Messages(messages.expect(CHECKED)),
            },
            learns: f.learns(),
        }
    }

    fn fields(&self, parts: &mut Parts) {
        parts.conn(&self.conn).toward(Some(&self.toward)).learns(&self.learns);
        match self.count {
            TrafficCount::Bytes(n) => parts.push("bytes", FieldValue::Count(n)),
            TrafficCount::Messages(n) => parts.push("messages", FieldValue::Count(n)),
        };
    }

    fn sentence(&self) -> String {
        let Self { conn, toward, count, learns } = self;
        let amount = match *count {
            TrafficCount::Bytes(n) => phrases::count(n, "byte"),
            TrafficCount::Messages(n) => phrases::count(n, "message"),
        };
        format!("cut {conn} after {amount} toward {toward}: {}", phrases::learns(learns))
    }

    fn draw(from: &FaultDraw<'_>) -> Option<Self> {
        let mut rng = from.rng("count");
        let count = if below(2, &mut rng) == 0 {
            TrafficCount::Bytes(from.shape.numbers["bytes"].draw(&mut rng))
        } else {
            TrafficCount::Messages(from.shape.numbers["messages"].draw(&mut rng))
        };
        let toward = from.one_way()?;
        Some(Self { conn: from.conn.clone(), toward, count, learns: from.learns() })
    }

    fn effect(&self) -> Effect<'_> {
        Effect::CutAfter {
            conn: &self.conn,
            toward: &self.toward,
            count: self.count,
            learns: &self.learns,
        }
    }

    fn lateness(&self) -> Lateness {
        Lateness::Unbounded
    }

    fn felt(&self) -> Felt<'_> {
        Felt::Struck(&self.learns)
    }
}
