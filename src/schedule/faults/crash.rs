//! The fault `crash`.

use crate::schedule::fault::prelude::*;

/// A host's process dies, and its kernel closes its sockets.
#[derive(Clone, Debug, PartialEq)]
pub struct Crash {
    /// The host.
    pub host: Host,
    /// The time until the host restarts; `None` means never.
    pub lasts: Option<Duration>,
    /// Whether the processes that it launched die or live on.
    pub processes: Orphans,
}

impl Definition for Crash {
    const WORD: FaultWord = FaultWord {
        name: "crash",
        does: "The process of a host dies: its root future is dropped, and its kernel closes its sockets. The child processes that it launched are killed, unless `processes` is `live`.",
        fields: &[
            HOST,
            DOWN,
            Field {
                name: "processes",
                kind: FieldType::Name(Orphans::LIST),
                need: Else("they die"),
                doc: "The fate of the child processes. With `live` they continue as orphans: the other ends of their pipes are closed, and the host does not know them after its restart.",
            },
        ],
        client_sees: "If a server crashes: end of file, or `ConnectionReset` if the server had unread data. The client gets an RST for data sent later, and for new connections until the restart.",
        server_sees: "The same, if a client crashes.",
        outside: "A panic, a kill, a deployment.",
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
            lasts: f.lasts(),
            processes: f.named("processes").unwrap_or_default(),
        }
    }

    fn fields(&self, parts: &mut Parts) {
        parts.host(&self.host).time("lasts", self.lasts);
        parts.unusual("processes", self.processes);
    }

    fn sentence(&self) -> String {
        let survive = match self.processes {
            Orphans::Die => "",
            Orphans::Live => ", its processes survive",
        };
        format!("crash {}{}{survive}", self.host, phrases::downtime(self.lasts))
    }

    fn draw(from: &FaultDraw<'_>) -> Option<Self> {
        Some(Self { host: from.host()?, lasts: from.lasts(), processes: Orphans::Die })
    }

    fn effect(&self) -> Effect<'_> {
        Effect::Death(Death {
            host: &self.host,
            lasts: self.lasts,
            kernel: false,
            orphans: self.processes,
            unsynced: Unsynced::Kept,
        })
    }
}
