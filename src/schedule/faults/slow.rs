//! The fault `slow`.

use crate::schedule::fault::prelude::*;

/// A bad link: high latency, low bandwidth, small segments, a small window.
#[derive(Clone, Debug, PartialEq)]
pub struct Slow {
    /// The connection or link that it affects.
    pub place: LinkPlace,
    /// Affects only traffic toward this host; `None` affects both directions.
    pub toward: Option<Host>,
    /// The properties of the bad link.
    pub by: SlowBy,
    /// The duration; `None` means the rest of the run.
    pub lasts: Option<Duration>,
}

/// The properties of a slow link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlowBy {
    /// Additional latency.
    pub latency: Option<Duration>,
    /// The maximum number of bytes per second.
    pub bandwidth: Option<u64>,
    /// The maximum number of bytes per segment.
    pub segment: Option<u64>,
    /// The maximum window that the receiver advertises, in bytes.
    pub window: Option<u64>,
}

impl Definition for Slow {
    const WORD: FaultWord = FaultWord {
        name: "slow",
        does: "A bad link: more latency, low bandwidth, small segments or a small window, at least one of these. Packets that are still queued when the fault ends are delivered at once.",
        fields: &[
            ONE_CONN,
            ONE_LINK,
            BOTH_WAYS,
            Field {
                name: "latency",
                kind: FieldType::Duration,
                need: SomeOf,
                doc: "The additional one-way latency.",
            },
            Field {
                name: "bandwidth",
                kind: FieldType::Size,
                need: SomeOf,
                doc: "The maximum number of bytes per second.",
            },
            Field {
                name: "segment",
                kind: FieldType::Size,
                need: SomeOf,
                doc: "The maximum number of bytes per segment.",
            },
            Field {
                name: "window",
                kind: FieldType::Size,
                need: SomeOf,
                doc: "The maximum window, in bytes, that the receiver advertises.",
            },
            LASTS,
        ],
        client_sees: "Everything, in order, later and in smaller pieces; writes block when the window is full.",
        server_sees: "The same.",
        outside: "A mobile network, a shared uplink, a slow reader behind a proxy.",
        event: Fidelity::Full,
        turmoil: Fidelity::Full,
    };
    const DRAWN: Option<Drawn> = Some(Drawn {
        weight: 2,
        needs: Needs::Nothing,
        shape: || {
            FaultShape::default()
                .duration("latency", Choice::Range(ms(1), secs(10)))
                .number("bandwidth", Choice::Range(100, 100_000))
                .number("segment", Choice::Range(1, 1460))
                .number("window", Choice::Range(1, 16_384))
        },
    });

    fn build(f: &FaultFields) -> Self {
        Self {
            place: f.place(),
            toward: f.toward(),
            by: SlowBy {
                latency: f.maybe("latency"),
                bandwidth: f.number("bandwidth"),
                segment: f.number("segment"),
                window: f.number("window"),
            },
            lasts: f.lasts(),
        }
    }

    fn fields(&self, parts: &mut Parts) {
        let SlowBy { latency, bandwidth, segment, window } = self.by;
        parts.place(&self.place).toward(self.toward.as_ref()).time("latency", latency);
        parts.size("bandwidth", bandwidth).size("segment", segment).size("window", window);
        parts.time("lasts", self.lasts);
    }

    fn sentence(&self) -> String {
        let parts = [
            self.by.latency.map(|latency| format!("{} more latency", phrases::span(latency))),
            self.by.bandwidth.map(|n| format!("{n} B/s")),
            self.by.segment.map(|n| format!("segments of {n} B")),
            self.by.window.map(|n| format!("a window of {n} B")),
        ];
        let parts = parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
        format!("slow {}: {parts}{}", self.place, phrases::bounds(&self.toward, self.lasts))
    }

    fn draw(from: &FaultDraw<'_>) -> Option<Self> {
        let which = below(15, &mut from.rng("slow")) + 1; // at least one is set
        let bad = |bit: u64| which & bit != 0;
        let number = |field, key| from.number(field, key).max(1);
        let by = SlowBy {
            latency: bad(1).then(|| from.duration("latency", "slow.latency")),
            bandwidth: bad(2).then(|| number("bandwidth", "slow.bandwidth")),
            segment: bad(4).then(|| number("segment", "slow.segment")),
            window: bad(8).then(|| number("window", "slow.window")),
        };
        Some(Self { place: from.place(), toward: from.toward()?, by, lasts: from.lasts() })
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
        let least = |a: Option<u64>, b: Option<u64>| a.into_iter().chain(b).min();
        effects.extra += self.by.latency.unwrap_or_default();
        effects.bandwidth = least(effects.bandwidth, self.by.bandwidth);
        effects.segment = least(effects.segment, self.by.segment);
        effects.window = least(effects.window, self.by.window);
    }

    fn lateness(&self) -> Lateness {
        let SlowBy { latency, bandwidth, segment, window } = self.by;
        let alone = bandwidth.is_none() && segment.is_none() && window.is_none();
        Lateness::AtMost { by: latency.unwrap_or_default(), alone }
    }
}
