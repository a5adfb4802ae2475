//! The violations of one property in one run.

use crate::history::Time;

use super::violation::{About, Violation, ViolationFields, ViolationKind};

/// The violations of one property. The number is limited, so that a mistake with a thousand
/// violations stays readable.
pub(super) struct Findings {
    property: &'static str,
    pub(super) list: Vec<Violation>,
}

/// The number of violations kept per property.
pub(super) const HANDFUL: usize = 5;

impl Findings {
    pub(super) fn new(property: &'static str) -> Self {
        Self { property, list: Vec::new() }
    }

    pub(super) fn push(
        &mut self,
        subject: impl Into<About>,
        at: Time,
        kind: &'static ViolationKind,
        data: ViolationFields,
    ) {
        if self.list.len() < HANDFUL {
            self.list.push(Violation::new(self.property, subject, at, kind, data));
        }
    }
}
