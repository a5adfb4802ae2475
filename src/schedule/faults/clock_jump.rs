//! The fault `clock-jump`.

use crate::schedule::fault::prelude::*;

/// A host's wall clock jumps.
#[derive(Clone, Debug, PartialEq)]
pub struct ClockJump {
    /// The host.
    pub host: Host,
    /// The size of the jump in milliseconds; a negative value is a jump back.
    pub by_ms: i64,
}

impl Definition for ClockJump {
    const WORD: FaultWord = FaultWord {
        name: "clock-jump",
        does: "The wall clock of a host jumps forward or back. Timers are not affected: they use the monotonic clock.",
        fields: &[
            HOST,
            Field {
                name: "by",
                kind: FieldType::Jump,
                need: Always,
                doc: "The size of the jump. A negative value jumps back.",
            },
        ],
        client_sees: "Nothing, unless the code measures time with the wall clock.",
        server_sees: "The same.",
        outside: "NTP, a resumed virtual machine, a manual change.",
        event: Fidelity::Full,
        turmoil: Fidelity::Full,
    };
    const DRAWN: Option<Drawn> = Some(Drawn {
        weight: 1,
        needs: Needs::Nothing,
        shape: || FaultShape::default().duration("by", Choice::Range(ms(1), secs(3600))),
    });

    fn build(f: &FaultFields) -> Self {
        Self { host: f.host("host"), by_ms: f.jump("by") }
    }

    fn fields(&self, parts: &mut Parts) {
        parts.host(&self.host).push("by", FieldValue::Jump(self.by_ms));
    }

    fn sentence(&self) -> String {
        let way = if self.by_ms < 0 { "back" } else { "forward" };
        let by = Duration::from_millis(self.by_ms.unsigned_abs());
        format!("wall clock of {} jumps {way} by {}", self.host, phrases::span(by))
    }

    fn draw(from: &FaultDraw<'_>) -> Option<Self> {
        let mut rng = from.rng("jump");
        let by = from.shape.durations["by"].draw(&mut rng).as_millis();
        let by = i64::try_from(by).unwrap_or(i64::MAX);
        let by_ms = if below(2, &mut rng) == 0 { by } else { -by };
        Some(Self { host: from.host()?, by_ms })
    }

    fn effect(&self) -> Effect<'_> {
        Effect::ClockJump { host: &self.host, by_ms: self.by_ms }
    }
}
