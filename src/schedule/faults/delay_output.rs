//! The fault `delay-output`.

use crate::schedule::fault::prelude::*;

/// The output of the child processes of a host arrives late.
#[derive(Clone, Debug, PartialEq)]
pub struct DelayOutput {
    /// The host.
    pub host: Host,
    /// The additional delay.
    pub by: Duration,
    /// The duration; `None` means the rest of the run.
    pub lasts: Option<Duration>,
}

impl Definition for DelayOutput {
    const WORD: FaultWord = FaultWord {
        name: "delay-output",
        does: "The output of the child processes of a host arrives late, in order. The host learns of an exit on time, so it can learn of the exit before it has read the last output.",
        fields: &[
            HOST,
            Field {
                name: "by",
                kind: FieldType::Duration,
                need: Always,
                doc: "The additional delay of the output.",
            },
            LASTS,
        ],
        client_sees: "If the host is a client: the output of its child processes, later. If it is the server: the reaction of the server.",
        server_sees: "The same, with the roles exchanged.",
        outside: "A wrapper or a log collector relays the output; the thread that reads it is preempted.",
        event: Fidelity::Full,
        turmoil: Fidelity::Full,
    };
    const DRAWN: Option<Drawn> =
        Some(Drawn { weight: 3, needs: Needs::Children, shape: FaultShape::default });

    fn build(f: &FaultFields) -> Self {
        Self { host: f.host("host"), by: f.duration("by"), lasts: f.lasts() }
    }

    fn fields(&self, parts: &mut Parts) {
        parts.host(&self.host).time("by", Some(self.by)).time("lasts", self.lasts);
    }

    fn sentence(&self) -> String {
        format!(
            "delay the output of the child processes of {} by {}{}",
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
        let what = ChildEffect::Change(ChildFault::DelayOutput(self.by), self.lasts);
        Effect::Children { host: &self.host, what }
    }
}
