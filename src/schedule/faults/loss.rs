//! The fault `loss`.

use crate::schedule::fault::prelude::*;

/// A share of the segments is lost, and sent again after TCP's back-off.
#[derive(Clone, Debug, PartialEq)]
pub struct Loss {
    /// The connection or link that it affects.
    pub place: LinkPlace,
    /// Affects only segments toward this host; `None` affects both directions.
    pub toward: Option<Host>,
    /// The share of the segments, in percent.
    pub percent: u64,
    /// The duration; `None` means the rest of the run.
    pub lasts: Option<Duration>,
}

/// Why it is not exactly what Linux does.
const LATE: &str = "a lost segment is noticed only when TCP's timer expires; Linux often notices it earlier, because later segments arrive. A lost RST is sent again; Linux sends it once";

impl Definition for Loss {
    const WORD: FaultWord = FaultWord {
        name: "loss",
        does: "A share of the packets is lost. TCP sends a lost segment again after 200 ms, doubling (a SYN after 1 s), and each of these can be lost again. The data stays in order. A lost acknowledgement without data arrives as late, unless a newer one arrives before.",
        fields: &[
            ONE_CONN,
            ONE_LINK,
            BOTH_WAYS,
            Field {
                name: "percent",
                kind: FieldType::Count,
                need: Always,
                doc: "The share of the packets that are lost, in percent. With 100 or more, all are lost.",
            },
            LASTS,
        ],
        client_sees: "Everything, in order, with pauses of 200 ms and more. If too much is lost: `TimedOut`, as with a `blackhole`.",
        server_sees: "The same.",
        outside: "A bad radio link, a full queue, a damaged cable.",
        event: Fidelity::Partly(LATE),
        turmoil: Fidelity::Partly(LATE),
    };
    const DRAWN: Option<Drawn> = Some(Drawn {
        weight: 0, // with a weight, all seeds would draw other schedules
        needs: Needs::Nothing,
        shape: || FaultShape::default().number("percent", Choice::Range(1, 50)),
    });

    fn build(f: &FaultFields) -> Self {
        let percent = f.number("percent").expect(CHECKED);
        Self { place: f.place(), toward: f.toward(), percent, lasts: f.lasts() }
    }

    fn fields(&self, parts: &mut Parts) {
        parts.place(&self.place).toward(self.toward.as_ref());
        parts.push("percent", FieldValue::Count(self.percent)).time("lasts", self.lasts);
    }

    fn sentence(&self) -> String {
        let Self { place, toward, percent, lasts } = self;
        format!("lose {percent} % of the packets of {place}{}", phrases::bounds(toward, *lasts))
    }

    fn draw(from: &FaultDraw<'_>) -> Option<Self> {
        let percent = from.number("percent", "percent");
        Some(Self { place: from.place(), toward: from.toward()?, percent, lasts: from.lasts() })
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
        let Some(leaving) = segment.leaving else { return };
        let arrives = |(n, wait): &(usize, Duration)| {
            let is_over = leaving.until.is_some_and(|until| leaving.now + *wait >= until);
            is_over || leaving.below("loss", *n as u64, 100) >= self.percent
        };
        match transmissions(segment.handshake).enumerate().find(arrives) {
            Some((_, wait)) => effects.extra += wait,
            None => effects.blocked = true, // TCP gives up
        }
    }

    fn lateness(&self) -> Lateness {
        Lateness::Unbounded
    }
}
