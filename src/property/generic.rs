//! The generic properties: their table, and the check of all of them.

use super::context::{CheckContext, Property};
use super::facts::Facts;
use super::findings::Findings;
use super::violation::Violation;
use super::{
    at_most_once, bounded_delivery, bounded_ending, bounded_memory, bounded_work, gap_free,
    isolation, justified_failure, no_panic, no_residue, one_ending, stale_generation_inert,
};

/// Generates both the table of generic properties and the function that checks them all from the
/// same rows.
macro_rules! generic {
    ($($module:ident :: $check:ident, $kinds:ident as $name:literal: $doc:literal;)*) => {
        /// The generic properties, in the order in which they are reported.
        pub const GENERIC: &[Property] = &[$(Property {
            name: $name,
            doc: $doc,
            kinds: $module::$kinds,
            check: |cx| {
                let mut broken = Findings::new($name);
                $module::$check(&Facts::of(cx), &mut broken);
                broken.list
            },
        }),*];

        /// Returns all violations of generic properties. Collects the facts only once.
        pub fn check(cx: &CheckContext<'_>) -> Vec<Violation> {
            let facts = Facts::of(cx);
            let mut all = Vec::new();
            $({
                let mut broken = Findings::new($name);
                $module::$check(&facts, &mut broken);
                all.append(&mut broken.list);
            })*
            all
        }
    };
}

generic! {
    no_panic::no_panic, PANICS as "no_panic": "no task of the subject panics";
    no_panic::no_livelock, LIVELOCKS as "no_livelock": "virtual time advances: no task blocks it";
    gap_free::check, KINDS as "gap_free": "the delivered bytes are a prefix of the produced bytes: no gap, no duplicate, no foreign byte";
    one_ending::check, KINDS as "one_ending": "each stream and call ends exactly once, complete or with a reason; nothing follows its end";
    bounded_delivery::check, KINDS as "bounded_delivery": "an item reaches the user of its open stream in bounded time";
    bounded_ending::check, KINDS as "bounded_ending": "streams and calls end for their user in bounded time; no call hangs";
    justified_failure::check, KINDS as "justified_failure": "a durable call or stream fails only if faults, retention or the user made success impossible";
    at_most_once::check, KINDS as "at_most_once": "a mutating operation takes effect at most once, exactly once if acknowledged, in the order of issue";
    isolation::check, KINDS as "isolation": "a failure of one stream, session or client affects no other";
    stale_generation_inert::check, KINDS as "stale_generation_inert": "after a newer generation is installed, packets of an older one change nothing that the user sees";
    no_residue::check, KINDS as "no_residue": "at the end, no task, socket, process, session, timer or buffer remains, and a host owns every resource";
    bounded_work::check, KINDS as "bounded_work": "connection attempts, frames and polls stay under the subject's bounds";
    bounded_memory::check, KINDS as "bounded_memory": "retained bytes and queue lengths stay under the subject's bounds at all times";
}

/// Name and definition of the property that a single history cannot show. The code that repeats a
/// run checks it.
pub const SAME_DIGEST: (&str, &str) =
    ("same_digest", "the same run again has the same digest and the same verdict");

/// Returns name and definition of all properties of a subject with these own properties, in the
/// order in which they are reported.
pub fn list(own: &'static [Property]) -> impl Iterator<Item = (&'static str, &'static str)> {
    GENERIC.iter().chain(own).map(|property| (property.name, property.doc)).chain([SAME_DIGEST])
}

#[cfg(test)]
mod tests {
    use crate::property::findings::HANDFUL;
    use crate::property::scripted::history;

    use super::*;

    #[test]
    fn every_property_is_listed_once() {
        let mut names: Vec<_> = list(&[]).map(|(name, _)| name).collect();
        assert_eq!((names.len(), names[2], names[13]), (14, "gap_free", "same_digest"));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 14);
    }

    #[test]
    fn every_kind_of_a_property_has_a_unique_name() {
        for property in GENERIC {
            let mut names: Vec<_> = property.kinds.iter().map(|kind| kind.name).collect();
            names.sort_unstable();
            names.dedup();
            assert!(!names.is_empty() && names.len() == property.kinds.len(), "{property:?}");
        }
    }

    #[test]
    fn checking_all_properties_equals_checking_each_one() {
        let scripted = history()
            .opened("s1", 1, 0)
            .produced("s1", 1_000, "a")
            .delivered("s1", 1_010, "b")
            .panicked(2_000, "oh");
        let together: Vec<_> = scripted.with(check);
        let alone: Vec<_> =
            scripted.with(|cx| GENERIC.iter().flat_map(|property| (property.check)(cx)).collect());
        assert_eq!(together, alone);
        assert_eq!(
            together.iter().map(|broken| broken.property).collect::<Vec<_>>(),
            ["no_panic", "gap_free"]
        );
    }

    #[test]
    fn a_repeated_violation_is_reported_only_a_few_times() {
        let scripted = (0..20).fold(history(), |scripted, n| scripted.panicked(n, "oh"));
        assert_eq!(scripted.violations("no_panic").len(), HANDFUL);
    }
}
