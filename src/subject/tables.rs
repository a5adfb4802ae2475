//! How the tables of a subject are written: a function a row, so that a row is one line that says nothing but what it is about.
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
use crate::schedule::{Limit, LimitValue};

/// A limit: its name, default, least value, and what it limits.
pub const fn limit(
    name: &'static str,
    default: LimitValue,
    least: LimitValue,
    doc: &'static str,
) -> Limit {
    Limit { name, default, least, doc }
}

/// So many seconds.
pub const fn secs(n: u64) -> LimitValue {
    LimitValue::secs(n)
}

/// So many milliseconds.
pub const fn millis(n: u64) -> LimitValue {
    LimitValue::millis(n)
}

/// A milestone that a good subject reaches.
pub const fn milestone(
    name: &'static str,
    fields: &'static [&'static str],
    doc: &'static str,
) -> MilestoneDoc {
    MilestoneDoc { name, fields, doc, only: None }
}

/// A milestone that only this (a defect, or a puppet) can reach.
pub const fn only(by: &'static str, milestone: MilestoneDoc) -> MilestoneDoc {
    MilestoneDoc { only: Some(by), ..milestone }
}

/// A point of the product.
pub const fn point(name: &'static str, doc: &'static str) -> PointDoc {
    PointDoc { name, doc, defect: None }
}

/// A point that stands on the branch of this defect alone.
pub const fn point_of(defect: &'static str, point: PointDoc) -> PointDoc {
    PointDoc { defect: Some(defect), ..point }
}

/// A defect: its name in Rust and in files, the properties of which it breaks at least one, what it does, where it happened.
pub const fn defect(
    rust: &'static str,
    name: &'static str,
    breaks: &'static [&'static str],
    doc: &'static str,
    source: &'static str,
) -> DefectDoc {
    DefectDoc { rust, name, doc, breaks, source }
}

/// A version: its name, the defects that make it up, and what it is like.
pub const fn variant(
    name: &'static str,
    defects: &'static [&'static str],
    doc: &'static str,
) -> VariantDoc {
    VariantDoc { name, defects, doc }
}

/// A rule: its id, the rule, where it comes from.
pub const fn rule(id: &'static str, doc: &'static str, source: &'static str) -> Rule {
    Rule { id, doc, source }
}
