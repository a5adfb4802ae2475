//! The fault `flap`.

use crate::schedule::fault::prelude::*;

/// The link of two hosts is down and up alternately.
#[derive(Clone, Debug, PartialEq)]
pub struct Flap {
    /// The two hosts.
    pub hosts: (Host, Host),
    /// How long the link is down each time.
    pub down: Duration,
    /// How long the link is up each time.
    pub up: Duration,
    /// The duration; `None` means the rest of the run.
    pub lasts: Option<Duration>,
}

/// Why it is not exactly what Linux does.
const LATE: &str = "a lost segment is noticed only when TCP's timer expires; Linux often notices it earlier, because later segments arrive. Packets in flight when the link goes down arrive. A lost RST is sent again; Linux sends it once";

impl Definition for Flap {
    const WORD: FaultWord = FaultWord {
        name: "flap",
        does: "The link of two hosts is down and up alternately; it is down first. A packet that is sent while it is down is lost. TCP sends a lost segment again after 200 ms, doubling (a SYN after 1 s), until the link is up at such a time. The data stays in order.",
        fields: &[
            HOSTS,
            Field {
                name: "down",
                kind: FieldType::Duration,
                need: Always,
                doc: "How long the link is down each time.",
            },
            Field {
                name: "up",
                kind: FieldType::Duration,
                need: Always,
                doc: "How long the link is up each time.",
            },
            LASTS,
        ],
        client_sees: "Everything, in order, in bursts with pauses that may be much longer than `down`, because TCP waits longer after each loss. A connect may succeed only at a later attempt. If every attempt of TCP is lost: `TimedOut`, as with a `blackhole`.",
        server_sees: "The same.",
        outside: "A loose cable, a mobile network at the edge of its coverage, a route that changes again and again.",
        event: Fidelity::Partly(LATE),
        turmoil: Fidelity::Partly(LATE),
    };
    const DRAWN: Option<Drawn> = Some(Drawn {
        weight: 0, // with a weight, all seeds would draw other schedules
        needs: Needs::Nothing,
        shape: || {
            FaultShape::default()
                .duration("down", Choice::Range(ms(50), secs(5)))
                .duration("up", Choice::Range(ms(50), secs(5)))
                .duration("lasts", Choice::Range(secs(1), secs(30)))
        },
    });

    fn build(f: &FaultFields) -> Self {
        let (down, up) = (f.duration("down"), f.duration("up"));
        Self { hosts: f.hosts(), down, up, lasts: f.lasts() }
    }

    fn fields(&self, parts: &mut Parts) {
        parts.hosts(&self.hosts).time("down", Some(self.down)).time("up", Some(self.up));
        parts.time("lasts", self.lasts);
    }

    fn sentence(&self) -> String {
        let Self { hosts: (a, b), down, up, lasts } = self;
        let (down, up) = (phrases::span(*down), phrases::span(*up));
        let length = phrases::length(*lasts);
        format!("the link of {a} and {b} flaps, {down} down and {up} up{length}")
    }

    fn draw(from: &FaultDraw<'_>) -> Option<Self> {
        Some(Self {
            hosts: (from.conn.host.clone(), from.server.clone()),
            down: from.duration("down", "flap.down"),
            up: from.duration("up", "flap.up"),
            lasts: from.lasts(),
        })
    }

    // A client can connect whenever the link is up, so its recovery may begin anew each time: bounds
    // count from the end of the fault.
    fn effect(&self) -> Effect<'_> {
        Effect::Link {
            place: Place::Link(&self.hosts.0, &self.hosts.1),
            toward: None,
            lasts: self.lasts,
            nature: Nature::Slows,
        }
    }

    fn pass(&self, segment: &Passing, effects: &mut LinkEffects) {
        let Some(leaving) = segment.leaving else { return };
        let arrives = |wait: &Duration| {
            let at = leaving.now + *wait;
            let is_over = leaving.until.is_some_and(|until| at >= until);
            is_over || self.is_up(at.saturating_sub(leaving.since))
        };
        match transmissions(segment.handshake).find(arrives) {
            Some(wait) => effects.extra += wait,
            None => effects.blocked = true, // TCP gives up
        }
    }

    fn lateness(&self) -> Lateness {
        Lateness::Unbounded
    }
}

impl Flap {
    /// Returns whether the link is up this long after the start of the fault.
    fn is_up(&self, after: Duration) -> bool {
        let (down, both) = (self.down.as_millis(), (self.down + self.up).as_millis());
        both == 0 || after.as_millis() % both >= down
    }
}
