//! The fault `accept-then-close`.

use crate::schedule::fault::prelude::*;

/// A middlebox accepts new connections to a host and closes them at once.
#[derive(Clone, Debug, PartialEq)]
pub struct AcceptThenClose {
    /// The host.
    pub host: Host,
    /// The duration; `None` means the rest of the run.
    pub lasts: Option<Duration>,
}

impl Definition for AcceptThenClose {
    const WORD: FaultWord = FaultWord {
        name: "accept-then-close",
        does: "The network accepts new connections in place of a host and closes them at once: a TCP handshake, then a FIN. Open connections continue.",
        fields: &[HOST, LASTS],
        client_sees: "A connect that succeeds, then end of file.",
        server_sees: "Nothing.",
        outside: "A load balancer or an SSH tunnel without its backend.",
        event: Fidelity::Full,
        turmoil: Fidelity::None("it needs a SYN-ACK that turmoil cannot send"),
    };
    const DRAWN: Option<Drawn> =
        Some(Drawn { weight: 2, needs: Needs::Nothing, shape: FaultShape::default });

    fn build(f: &FaultFields) -> Self {
        Self { host: f.host("host"), lasts: f.lasts() }
    }

    fn fields(&self, parts: &mut Parts) {
        parts.host(&self.host).time("lasts", self.lasts);
    }

    fn sentence(&self) -> String {
        format!(
            "accept connections to {}, then close them{}",
            self.host,
            phrases::length(self.lasts)
        )
    }

    fn draw(from: &FaultDraw<'_>) -> Option<Self> {
        Some(Self { host: from.host()?, lasts: from.lasts() })
    }

    fn effect(&self) -> Effect<'_> {
        Effect::on_openings(&self.host, self.lasts)
    }

    fn pass(&self, segment: &Passing, effects: &mut LinkEffects) {
        if segment.opens {
            effects.opening = SynFate::AcceptedThenClosed;
        }
    }
}
