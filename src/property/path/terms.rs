//! The terms of a bound. A violation lists them, so that a person sees why the bound is where it is.

use std::time::Duration;

use crate::history::Time;
use crate::property::violation::{fields, kinds};
use crate::property::{Guarantees, Phrase, ViolationFields, ViolationKind};

use super::{NEVER, Path};

kinds! {
    SUM = "sum": "{cause} + {detection} detection + {recovery} recovery + {attempt} attempt + {margin} + {catch_up} catch-up";
    SUM_AND_WAIT = "sum-and-wait": "{cause} + {detection} detection + {recovery} recovery + {attempt} attempt + {margin} + {catch_up} catch-up + {wait} waits and pauses";
    CALM_SUM = "calm-sum": "{cause} + {margin} + {catch_up} catch-up";
    CALM_SUM_AND_WAIT = "calm-sum-and-wait": "{cause} + {margin} + {catch_up} catch-up + {wait} waits and pauses";
}

/// The time that each bound adds for the work of the processes themselves.
pub const MARGIN: Duration = Duration::from_secs(1);

impl Path<'_> {
    /// Returns the terms of a [bound](Path::bound) that includes this `wait`.
    pub fn terms(&self, guarantees: &Guarantees, bound: Time, wait: Duration) -> Phrase {
        let Guarantees { detection, recovery, attempt, .. } = *guarantees;
        let cause = before(bound, self.allowance(guarantees) + wait);
        let catch_up = self.recovery_window(guarantees, Time::ZERO, NEVER);
        let fields = fields! { cause, detection, recovery, attempt, margin: MARGIN, catch_up };
        with_wait([&SUM, &SUM_AND_WAIT], fields, wait)
    }

    /// Returns the terms of a bound on a path without faults: there is nothing to detect and
    /// nothing to recover.
    pub fn calm_terms(&self, guarantees: &Guarantees, bound: Time, wait: Duration) -> Phrase {
        let catch_up = self.recovery_window(guarantees, Time::ZERO, NEVER);
        let cause = before(bound, MARGIN + catch_up + wait);
        with_wait(
            [&CALM_SUM, &CALM_SUM_AND_WAIT],
            fields! { cause, margin: MARGIN, catch_up },
            wait,
        )
    }
}

fn before(bound: Time, allowance: Duration) -> Time {
    bound.since(Time::ZERO).saturating_sub(allowance).into()
}

fn with_wait(
    kinds: [&'static ViolationKind; 2],
    fields: ViolationFields,
    wait: Duration,
) -> Phrase {
    let [without, with] = kinds;
    if wait.is_zero() {
        Phrase::new(without, fields)
    } else {
        Phrase::new(with, fields.with("wait", Some(wait)))
    }
}
