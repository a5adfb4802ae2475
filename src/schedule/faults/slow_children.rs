//! The fault `slow-children`.

use crate::schedule::fault::prelude::*;

/// The child processes of a host run slowly.
#[derive(Clone, Debug, PartialEq)]
pub struct SlowChildren {
    /// The host.
    pub host: Host,
    /// The pause before each step of a child process.
    pub by: Duration,
    /// The duration; `None` means the rest of the run.
    pub lasts: Option<Duration>,
}

impl Definition for SlowChildren {
    const WORD: FaultWord = FaultWord {
        name: "slow-children",
        does: "All processes of a host except its root run slowly, also those that it launches meanwhile: each pauses before each of its steps.",
        fields: &[
            HOST,
            Field { name: "by", kind: FieldType::Duration, need: Always, doc: "The pause." },
            LASTS,
        ],
        client_sees: "If the host is a client: everything from its child processes, later. If it is the server: the reaction of the server.",
        server_sees: "The same, with the roles exchanged.",
        outside: "A machine under load, a small CPU quota.",
        event: Fidelity::Full,
        turmoil: Fidelity::Full,
    };
    const DRAWN: Option<Drawn> = Some(Drawn {
        weight: 2,
        needs: Needs::Children,
        shape: || FaultShape::default().duration("by", Choice::Range(ms(1), ms(200))),
    });

    fn build(f: &FaultFields) -> Self {
        Self { host: f.host("host"), by: f.duration("by"), lasts: f.lasts() }
    }

    fn fields(&self, parts: &mut Parts) {
        parts.host(&self.host).time("by", Some(self.by)).time("lasts", self.lasts);
    }

    fn sentence(&self) -> String {
        format!(
            "slow down the child processes of {}: a pause of {} before each step{}",
            self.host,
            phrases::span(self.by),
            phrases::length(self.lasts)
        )
    }

    fn draw(from: &FaultDraw<'_>) -> Option<Self> {
        let by = from.duration("by", "by");
        Some(Self { host: from.host()?, by, lasts: from.lasts() })
    }

    fn effect(&self) -> Effect<'_> {
        let what = ChildEffect::Change(ChildFault::Slow(self.by), self.lasts);
        Effect::Children { host: &self.host, what }
    }
}
