//! The fault `hold`.

use crate::schedule::fault::prelude::*;

/// A task that reaches the point of the step's trigger is held there.
#[derive(Clone, Debug, PartialEq)]
pub struct Hold {
    /// The end of the hold.
    pub end: HoldEnd,
}

impl Definition for Hold {
    const WORD: FaultWord = FaultWord {
        name: "hold",
        does: "A task that reaches the point in the step's `after` stops there; all other tasks continue. The step's `after` must be a point.",
        fields: &[
            Field {
                name: "lasts",
                kind: FieldType::Duration,
                need: OneOf,
                doc: "The time for which the task stays.",
            },
            Field {
                name: "until",
                kind: FieldType::Trigger,
                need: OneOf,
                doc: "The task stays until this is reached.",
            },
            Field {
                name: "then",
                kind: FieldType::Duration,
                need: WithElse("until", "the task continues at once"),
                doc: "The time for which the task stays after `until` is reached.",
            },
            Field {
                name: "at-most",
                kind: FieldType::Duration,
                need: With("until"),
                doc: "The longest hold: the task continues after this time in any case.",
            },
        ],
        client_sees: "If the point is in the client, one of its tasks is late. Otherwise, the effects of a late server.",
        server_sees: "The same, with the roles exchanged.",
        outside: "A thread is preempted between two steps; a garbage collector; a machine under load.",
        event: Fidelity::Full,
        turmoil: Fidelity::Full,
    };
    const DRAWN: Option<Drawn> = Some(Drawn {
        weight: 4,
        needs: Needs::Point,
        shape: || FaultShape::default().duration("lasts", Choice::Range(ms(1), secs(2))),
    });

    fn build(f: &FaultFields) -> Self {
        let Some(FieldValue::Trigger(until)) = f.0.get("until") else {
            return Self { end: HoldEnd::After(f.duration("lasts")) };
        };
        let trigger = Box::new(until.clone().delay(f.maybe("then").unwrap_or_default()));
        Self { end: HoldEnd::Until { trigger, at_most: f.duration("at-most") } }
    }

    fn fields(&self, parts: &mut Parts) {
        match &self.end {
            HoldEnd::After(time) => parts.time("lasts", Some(*time)),
            HoldEnd::Until { trigger, at_most } => {
                let then = Some(trigger.delay).filter(|then| !then.is_zero());
                let until = trigger.as_ref().clone().delay(Duration::ZERO);
                parts
                    .push("until", FieldValue::Trigger(until))
                    .time("then", then)
                    .time("at-most", Some(*at_most))
            }
        };
    }

    fn sentence(&self) -> String {
        match &self.end {
            HoldEnd::After(after) => format!("hold the task for {}", phrases::span(*after)),
            HoldEnd::Until { trigger, at_most } => format!(
                "hold the task until {}, at most {}",
                phrases::trigger(trigger),
                phrases::span(*at_most)
            ),
        }
    }

    fn draw(from: &FaultDraw<'_>) -> Option<Self> {
        let mut rng = from.rng("hold");
        let lasts = from.lasts().unwrap_or_default();
        // Two of three end after a duration, the third when a milestone is reached.
        let until = if below(3, &mut rng) == 0 { (from.source.milestone)(&mut rng) } else { None };
        let end = match until {
            Some(trigger) => HoldEnd::Until { trigger: Box::new(trigger), at_most: lasts },
            None => HoldEnd::After(lasts),
        };
        Some(Self { end })
    }

    fn effect(&self) -> Effect<'_> {
        Effect::Hold(&self.end)
    }
}
