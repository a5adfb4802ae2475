//! The fault `power-loss`.

use crate::schedule::fault::prelude::*;

/// A host dies together with its kernel; its peers are not notified.
#[derive(Clone, Debug, PartialEq)]
pub struct PowerLoss {
    /// The host.
    pub host: Host,
    /// Whether its files lose data that was not synced.
    pub unsynced: Unsynced,
    /// The time until the host restarts; `None` means never.
    pub lasts: Option<Duration>,
}

impl Definition for PowerLoss {
    const WORD: FaultWord = FaultWord {
        name: "power-loss",
        does: "A host dies with its kernel and its processes, without a FIN or RST. Data that its peers send is answered with an RST only after the restart.",
        fields: &[
            HOST,
            DOWN,
            Field {
                name: "unsynced",
                kind: FieldType::Name(Unsynced::LIST),
                need: Else("nothing is lost"),
                doc: "The fate of data in files that was not synced. With `lost`, each file keeps its synced content, or all of it, or a part of the rest; and each folder keeps its synced entries, or all of them.",
            },
        ],
        client_sees: "If a server loses power: silence. After the restart, `ConnectionReset` at the client's next retransmission; without a restart, only the client's own timeout detects it.",
        server_sees: "The same, if a client crashes.",
        outside: "A pulled plug, a hypervisor failure, a kernel panic, an empty battery.",
        event: Fidelity::Full,
        turmoil: Fidelity::Full,
    };
    const DRAWN: Option<Drawn> = Some(Drawn {
        weight: 1,
        needs: Needs::Nothing,
        shape: || FaultShape::default().duration("lasts", Choice::Range(ms(0), secs(5))),
    });

    fn build(f: &FaultFields) -> Self {
        Self {
            host: f.host("host"),
            unsynced: f.named("unsynced").unwrap_or_default(),
            lasts: f.lasts(),
        }
    }

    fn fields(&self, parts: &mut Parts) {
        parts.host(&self.host).time("lasts", self.lasts);
        parts.unusual("unsynced", self.unsynced);
    }

    fn sentence(&self) -> String {
        let lost = match self.unsynced {
            Unsynced::Kept => "",
            Unsynced::Lost => ", unsynced data can be lost",
        };
        format!("power loss of {}{}{lost}", self.host, phrases::downtime(self.lasts))
    }

    fn draw(from: &FaultDraw<'_>) -> Option<Self> {
        // Only a subject with programs keeps files that must survive.
        let lost = from.source.programs && below(2, &mut from.rng("unsynced")) == 0;
        let unsynced = if lost { Unsynced::Lost } else { Unsynced::Kept };
        Some(Self { host: from.host()?, unsynced, lasts: from.lasts() })
    }

    fn effect(&self) -> Effect<'_> {
        Effect::Death(Death {
            host: &self.host,
            lasts: self.lasts,
            kernel: true,
            orphans: Orphans::Die,
            unsynced: self.unsynced,
        })
    }
}
