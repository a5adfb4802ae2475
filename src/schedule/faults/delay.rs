//! The fault `delay`.

use crate::schedule::fault::prelude::*;

/// Packets take longer.
#[derive(Clone, Debug, PartialEq)]
pub struct Delay {
    /// The connection or link that it affects.
    pub place: LinkPlace,
    /// Delays only packets toward this host; `None` delays both directions.
    pub toward: Option<Host>,
    /// The additional delay.
    pub by: Duration,
    /// The duration; `None` means the rest of the run.
    pub lasts: Option<Duration>,
}

impl Definition for Delay {
    const WORD: FaultWord = FaultWord {
        name: "delay",
        does: "Packets take longer, but stay in order. Packets sent while the fault is active keep their delay.",
        fields: &[
            ONE_CONN,
            ONE_LINK,
            BOTH_WAYS,
            Field {
                name: "by",
                kind: FieldType::Duration,
                need: Always,
                doc: "The additional latency of a packet.",
            },
            LASTS,
        ],
        client_sees: "Everything, later.",
        server_sees: "Everything, later.",
        outside: "A satellite link, a queue that fills up, a proxy under load.",
        event: Fidelity::Full,
        turmoil: Fidelity::Full,
    };
    const DRAWN: Option<Drawn> =
        Some(Drawn { weight: 4, needs: Needs::Nothing, shape: FaultShape::default });

    fn build(f: &FaultFields) -> Self {
        Self { place: f.place(), toward: f.toward(), by: f.duration("by"), lasts: f.lasts() }
    }

    fn fields(&self, parts: &mut Parts) {
        parts
            .place(&self.place)
            .toward(self.toward.as_ref())
            .time("by", Some(self.by))
            .time("lasts", self.lasts);
    }

    fn sentence(&self) -> String {
        let bounds = phrases::bounds(&self.toward, self.lasts);
        format!("delay {} by {}{bounds}", self.place, phrases::span(self.by))
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

    fn pass(&self, _: &Passing, effects: &mut LinkEffects) {
        effects.extra += self.by;
    }

    fn lateness(&self) -> Lateness {
        Lateness::AtMost { by: self.by, alone: true }
    }
}
