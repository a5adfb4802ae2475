//! Functions that build the rows of a subject's tables, so that each row is one short line.
//!
//! ```
//! use reknit::schedule::{Limit, LimitValue};
//! use reknit::subject::MilestoneDoc;
//! use reknit::subject::tables::{limit, milestone, secs};
//!
//! const LIMITS: &[Limit] = &[limit("client.patience", secs(25), secs(0), "how long a client waits; 0: not at all")];
//! const MILESTONES: &[MilestoneDoc] = &[milestone("chat.client.joined", &["conn"], "a client was let in")];
//! # assert_eq!((LIMITS[0].default, MILESTONES[0].only), (LimitValue::secs(25), None));
//! ```

use super::{DefectDoc, MilestoneDoc, PointDoc, Rule, VariantDoc};
use crate::schedule::{Limit, LimitProfile, LimitValue};

/// A limit: its name, default, least value, and a description.
pub const fn limit(
    name: &'static str,
    default: LimitValue,
    least: LimitValue,
    doc: &'static str,
) -> Limit {
    Limit { name, default, least, doc }
}

/// A profile of limits: its name, a description, and the values that it sets.
pub const fn limit_profile(
    name: &'static str,
    doc: &'static str,
    values: &'static [(&'static str, LimitValue)],
) -> LimitProfile {
    LimitProfile { name, doc, values }
}

/// A number of seconds.
pub const fn secs(n: u64) -> LimitValue {
    LimitValue::secs(n)
}

/// A number of milliseconds.
pub const fn millis(n: u64) -> LimitValue {
    LimitValue::millis(n)
}

/// A milestone that a subject without defects reaches.
pub const fn milestone(
    name: &'static str,
    fields: &'static [&'static str],
    doc: &'static str,
) -> MilestoneDoc {
    MilestoneDoc { name, fields, doc, only: None }
}

/// A milestone that only `by` (a defect or a puppet) can reach.
pub const fn only(by: &'static str, milestone: MilestoneDoc) -> MilestoneDoc {
    MilestoneDoc { only: Some(by), ..milestone }
}

/// A point of the product code.
pub const fn point(name: &'static str, doc: &'static str) -> PointDoc {
    PointDoc { name, doc, defect: None }
}

/// A point that exists only on the branch of this defect.
pub const fn point_of(defect: &'static str, point: PointDoc) -> PointDoc {
    PointDoc { defect: Some(defect), ..point }
}

/// A defect: its names in Rust and in files, the properties of which it violates at least one, a
/// description, and where it happened.
pub const fn defect(
    rust: &'static str,
    name: &'static str,
    breaks: &'static [&'static str],
    doc: &'static str,
    source: &'static str,
) -> DefectDoc {
    DefectDoc { rust, name, doc, breaks, source }
}

/// A version: its name, the defects that make it up, and a description.
pub const fn variant(
    name: &'static str,
    defects: &'static [&'static str],
    doc: &'static str,
) -> VariantDoc {
    VariantDoc { name, defects, doc }
}

/// A rule: its id, its text, and its source.
pub const fn rule(id: &'static str, doc: &'static str, source: &'static str) -> Rule {
    Rule { id, doc, source }
}
