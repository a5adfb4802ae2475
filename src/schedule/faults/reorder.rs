//! The fault `reorder`.

use crate::schedule::fault::prelude::*;

/// Packets overtake each other: each takes a drawn additional time.
#[derive(Clone, Debug, PartialEq)]
pub struct Reorder {
    /// The connection or link that it affects.
    pub place: LinkPlace,
    /// Affects only packets toward this host; `None` affects both directions.
    pub toward: Option<Host>,
    /// The greatest additional time.
    pub by: Duration,
    /// The duration; `None` means the rest of the run.
    pub lasts: Option<Duration>,
}

impl Definition for Reorder {
    const WORD: FaultWord = FaultWord {
        name: "reorder",
        does: "Each packet takes an additional time, drawn up to a maximum. So packets of different connections overtake each other, and acknowledgements without data overtake data. The data of a connection arrives in order, because TCP sorts it.",
        fields: &[
            ONE_CONN,
            ONE_LINK,
            BOTH_WAYS,
            Field {
                name: "by",
                kind: FieldType::Duration,
                need: Always,
                doc: "The greatest additional latency of a packet.",
            },
            LASTS,
        ],
        client_sees: "Everything; of one connection in order, of several connections in any order.",
        server_sees: "The same.",
        outside: "Several paths between two hosts, a radio link that sends lost frames again, a change of route.",
        event: Fidelity::Full,
        turmoil: Fidelity::Full,
    };
    const DRAWN: Option<Drawn> = Some(Drawn {
        weight: 0, // with a weight, all seeds would draw other schedules
        needs: Needs::Nothing,
        shape: || FaultShape::default().duration("by", Choice::Range(ms(1), secs(2))),
    });

    fn build(f: &FaultFields) -> Self {
        Self { place: f.place(), toward: f.toward(), by: f.duration("by"), lasts: f.lasts() }
    }

    fn fields(&self, parts: &mut Parts) {
        parts.place(&self.place).toward(self.toward.as_ref());
        parts.time("by", Some(self.by)).time("lasts", self.lasts);
    }

    fn sentence(&self) -> String {
        let Self { place, toward, by, lasts } = self;
        let bounds = phrases::bounds(toward, *lasts);
        format!("reorder the packets of {place} by up to {}{bounds}", phrases::span(*by))
    }

    fn draw(from: &FaultDraw<'_>) -> Option<Self> {
        Some(Self {
            place: from.place(),
            toward: from.toward()?,
            by: from.duration("by", "by"),
            lasts: from.lasts(),
        })
    }

    fn effect(&self) -> Effect<'_> {
        Effect::Link {
            place: self.place.as_place(),
            toward: self.toward.as_ref(),
            lasts: self.lasts,
            nature: Nature::Slows,
        }
    }

    fn pass(&self, segment: &Passing, effects: &mut LinkEffects) {
        if let Some(leaving) = segment.leaving {
            effects.extra += ms(leaving.below("reorder", 0, self.by.as_millis() as u64 + 1));
        }
    }

    fn lateness(&self) -> Lateness {
        Lateness::AtMost { by: self.by, alone: true }
    }
}
