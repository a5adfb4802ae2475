//! The fault `partition`.

use crate::schedule::fault::prelude::*;

/// No packets pass between two hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct Partition {
    /// The two hosts.
    pub hosts: (Host, Host),
    /// Blocks only packets toward this host; `None` blocks both directions.
    pub toward: Option<Host>,
    /// The duration; `None` means the rest of the run.
    pub lasts: Option<Duration>,
}

impl Definition for Partition {
    const WORD: FaultWord = FaultWord {
        name: "partition",
        does: "The network delivers no packets between two hosts, neither for open connections nor for new ones. This includes packets in flight.",
        fields: &[
            HOSTS,
            Field {
                need: Else("both ways"),
                doc: "Only packets toward this host are affected.",
                ..TOWARD
            },
            LASTS,
        ],
        client_sees: "Silence. After the partition, data written during it arrives late, and a connect that is still waiting succeeds.",
        server_sees: "The same.",
        outside: "A broken cable or route, a firewall rule, a mobile network without coverage.",
        event: Fidelity::Full,
        turmoil: Fidelity::Full,
    };
    const DRAWN: Option<Drawn> = Some(Drawn {
        weight: 5,
        needs: Needs::Nothing,
        shape: || {
            // Just below and just above the usual deadlines of 25 s and 30 s.
            let lasts = [(0, 5), (24, 26), (29, 31)];
            let range = |(low, high)| Choice::Range(secs(low), secs(high));
            FaultShape::default().duration("lasts", Choice::OneOf(lasts.map(range).into()))
        },
    });

    fn build(f: &FaultFields) -> Self {
        Self { hosts: f.hosts(), toward: f.toward(), lasts: f.lasts() }
    }

    fn fields(&self, parts: &mut Parts) {
        parts.hosts(&self.hosts).toward(self.toward.as_ref()).time("lasts", self.lasts);
    }

    fn sentence(&self) -> String {
        let (a, b) = &self.hosts;
        format!("partition {a} and {b}{}", phrases::bounds(&self.toward, self.lasts))
    }

    fn draw(from: &FaultDraw<'_>) -> Option<Self> {
        let hosts = (from.conn.host.clone(), from.server.clone());
        Some(Self { hosts, toward: from.toward()?, lasts: from.lasts() })
    }

    fn effect(&self) -> Effect<'_> {
        Effect::Link {
            place: Place::Link(&self.hosts.0, &self.hosts.1),
            toward: self.toward.as_ref(),
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
