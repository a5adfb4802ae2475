//! `gap_free`: for each stream, the delivered bytes are a prefix of the produced bytes, in order
//! and unchanged, and only a user that opened the stream receives them.
//!
//! Item boundaries need not be preserved. The violation names the produced item that contains the
//! first difference. Data from a puppet is not checked, because nothing was really produced.

use bytes::Buf;

use crate::history::Stream;

use super::facts::Facts;
use super::findings::Findings;
use super::view::{Difference, Item, Source, View};
use super::violation::{fields, kinds};
use super::{Phrase, ViolationFields, ViolationKind};

kinds! {
    pub(super) KINDS;
    UNOPENED = "unopened": "{subject:}an item was delivered to {host}, which had not opened it {moment}";
    MISSING = "missing": "{subject:}item {item} was delivered {place}; {missing} {moment}";
    REORDERED = "reordered": "{subject:}item {item} was delivered before item {next} {moment}";
    AGAIN = "again": "{subject:}item {item} was delivered again, {place} {moment}";
    FOREIGN = "foreign": "{subject:}item {item} of {other} was delivered {place} {moment}";
    TOO_EARLY = "too-early": "{subject:}item {item} was delivered before it was produced {moment}";
    INVENTED = "invented": "{subject:}{bytes} bytes that no producer wrote were delivered {place} {moment}";
    CORRUPT = "corrupt": "{subject:}item {item} was delivered with byte {byte} wrong {moment}";
    TORN = "torn": "{subject:}item {item} was delivered after {bytes} bytes of item {torn}; the rest of that never was {moment}";
}

// Parts of these sentences: where an item was delivered, and which items were not.
kinds! {
    FIRST = "first": "first";
    AFTER = "after": "after item {item}";
    ONE = "one": "{first} never was";
    MANY = "many": "{first} to {last} never were";
}

/// Reports the first difference of each view.
pub(super) fn check(facts: &Facts<'_>, broken: &mut Findings) {
    for view in &facts.views {
        if facts.path(view.path).puppet || view.delivered.is_empty() {
            continue;
        }
        facts.cx.judges("gap_free");
        if let (None, Some(item)) = (view.opened, view.delivered.first()) {
            let data = fields! { host: view.host }.with("generation", item.generation);
            broken.push(view.stream, item.at, &UNOPENED, data);
        } else if let Some(difference) = view.fit.difference {
            let item = &view.delivered[difference.delivered];
            let (kind, data) = report(facts, view, difference);
            broken.push(view.stream, item.at, kind, data.with("generation", item.generation));
        }
    }
}

/// Describes the first difference. Items are numbered from the first item of the view.
fn report(
    facts: &Facts<'_>,
    view: &View<'_>,
    difference: Difference,
) -> (&'static ViolationKind, ViolationFields) {
    let source = &facts.sources[view.source];
    let chunk = &view.delivered[difference.delivered];
    let number = |item: usize| item + 1 - view.fit.start;
    let wanted = difference.produced;
    let place = place(wanted - view.fit.start);
    let known = source.produced_before(chunk.index);
    let Some(begins) = difference.begins else {
        return split(source, chunk, difference, known, number(wanted));
    };
    let found = chunk.bytes.reading().skip(begins);
    let is = |item: &Item<'_>| {
        let item = item.bytes.reading();
        item.has_remaining() && (found.starts_with(item) || item.starts_with(found))
    };
    if let Some(later) = (wanted + 1..known).find(|item| is(&source.items[*item])) {
        return skipped(view, source, difference, later);
    }
    if let Some(earlier) =
        (view.fit.start..wanted.min(known)).rev().find(|item| is(&source.items[*item]))
    {
        return (&AGAIN, fields! { item: number(earlier), place });
    }
    if let Some((stream, item)) = foreign(facts, view.stream, is) {
        return (&FOREIGN, fields! { item, other: stream, place });
    }
    if source.items.get(wanted).is_some_and(is) {
        return (&TOO_EARLY, fields! { item: number(wanted) });
    }
    if wanted >= known {
        return (&INVENTED, fields! { bytes: found.remaining(), place });
    }
    (&CORRUPT, fields! { item: number(wanted), byte: difference.byte + 1 })
}

/// Describes the number of items that were delivered before.
fn place(after: usize) -> Phrase {
    if after == 0 {
        Phrase::new(&FIRST, ViolationFields::default())
    } else {
        Phrase::new(&AFTER, fields! { item: after })
    }
}

/// Describes missing items before a later one.
fn skipped(
    view: &View<'_>,
    source: &Source<'_>,
    difference: Difference,
    later: usize,
) -> (&'static ViolationKind, ViolationFields) {
    let number = |item: usize| item + 1 - view.fit.start;
    let wanted = difference.produced;
    let chunk = &view.delivered[difference.delivered];
    let comes = view.delivered[difference.delivered..].iter().any(|other| {
        let begins = if other.index == chunk.index { difference.begins.unwrap_or(0) } else { 0 };
        other.bytes.reading().skip(begins) == source.items[wanted].bytes.reading()
    });
    if comes {
        return (&REORDERED, fields! { item: number(later), next: number(wanted) });
    }
    let missing = match (number(wanted), number(later) - 1) {
        (first, last) if first == last => Phrase::new(&ONE, fields! { first }),
        (first, last) => Phrase::new(&MANY, fields! { first, last }),
    };
    (&MISSING, fields! { item: number(later), place: place(wanted - view.fit.start), missing })
}

/// Describes an item that was delivered in part and continues incorrectly.
fn split(
    source: &Source<'_>,
    chunk: &Item<'_>,
    difference: Difference,
    known: usize,
    number: usize,
) -> (&'static ViolationKind, ViolationFields) {
    let is = |item: &Item<'_>| {
        !item.bytes.is_empty() && chunk.bytes.reading().starts_with(item.bytes.reading())
    };
    let next = (difference.produced + 1..known).find(|item| is(&source.items[*item]));
    match next {
        Some(later) => {
            let later = number + later - difference.produced;
            (&TORN, fields! { item: later, bytes: difference.byte, torn: number })
        }
        None => (&CORRUPT, fields! { item: number, byte: difference.byte + 1 }),
    }
}

/// Finds the item of another stream that was delivered, numbered from 1.
fn foreign<'a>(
    facts: &Facts<'a>,
    own: &Stream,
    is: impl Fn(&Item<'_>) -> bool,
) -> Option<(&'a Stream, usize)> {
    let others = facts.sources.iter().filter(|source| source.stream != own);
    others
        .into_iter()
        .find_map(|source| Some((source.stream, source.items.iter().position(&is)? + 1)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::scripted::{ScriptedRun, history};

    /// An open stream `s1`, with these items produced at 100 ms, 200 ms, …
    fn produced(items: &[&str]) -> ScriptedRun {
        items.iter().zip(1..).fold(history().opened("s1", 1, 0), |scripted, (item, n)| {
            scripted.produced("s1", n * 100, item)
        })
    }

    fn delivered(scripted: ScriptedRun, items: &[&str]) -> ScriptedRun {
        items
            .iter()
            .zip(0..)
            .fold(scripted, |scripted, (item, n)| scripted.delivered_in(2, "s1", 4_231 + n, item))
    }

    fn violations(made: &[&str], came: &[&str]) -> Vec<String> {
        delivered(produced(made), came).violations("gap_free")
    }

    #[test]
    fn all_or_a_part_in_order_is_fine() {
        for came in [&[][..], &["41"], &["41", "42", "43"], &["4", "14", "2"], &["414243"]] {
            assert_eq!(violations(&["41", "42", "43"], came), [""; 0], "{came:?}");
        }
    }

    #[test]
    fn a_gap_is_reported_with_the_missing_items() {
        assert_eq!(
            violations(&["40", "41", "42"], &["40", "42"]),
            ["s1: item 3 was delivered after item 1; 2 never was (generation 2, at 4.232 s)"]
        );
        assert_eq!(
            violations(&["40", "41", "42"], &["42"]),
            ["s1: item 3 was delivered first; 1 to 2 never were (generation 2, at 4.231 s)"]
        );
    }

    #[test]
    fn a_duplicate_item_is_reported() {
        assert_eq!(
            violations(&["40", "41", "42"], &["40", "41", "41", "42"]),
            ["s1: item 2 was delivered again, after item 2 (generation 2, at 4.233 s)"]
        );
    }

    #[test]
    fn a_wrong_order_is_reported() {
        assert_eq!(
            violations(&["40", "41", "42"], &["40", "42", "41"]),
            ["s1: item 3 was delivered before item 2 (generation 2, at 4.232 s)"]
        );
    }

    #[test]
    fn a_wrong_byte_is_reported() {
        assert_eq!(
            violations(&["40", "hello", "42"], &["40", "hexlo"]),
            ["s1: item 2 was delivered with byte 3 wrong (generation 2, at 4.232 s)"]
        );
        assert_eq!(
            violations(&["40", "hello", "42"], &["40he", "xlo"]),
            ["s1: item 2 was delivered with byte 3 wrong (generation 2, at 4.232 s)"]
        );
    }

    #[test]
    fn an_item_that_stops_in_the_middle_is_reported() {
        assert_eq!(
            violations(&["40", "hello", "42"], &["40", "hel", "42"]),
            [
                "s1: item 3 was delivered after 3 bytes of item 2; the rest of that never was (generation 2, at 4.233 s)"
            ]
        );
    }

    #[test]
    fn bytes_that_were_never_produced_are_reported() {
        assert_eq!(
            violations(&["40"], &["40", "xyz"]),
            [
                "s1: 3 bytes that no producer wrote were delivered after item 1 (generation 2, at 4.232 s)"
            ]
        );
    }

    #[test]
    fn an_item_of_another_stream_is_reported() {
        let scripted = produced(&["40", "41"])
            .opened("s2", 2, 0)
            .produced("s2", 1, "x")
            .produced("s2", 2, "other");
        assert_eq!(
            delivered(scripted, &["40", "other"]).violations("gap_free"),
            ["s1: item 2 of s2 was delivered after item 1 (generation 2, at 4.232 s)"]
        );
    }

    #[test]
    fn an_item_is_not_delivered_before_it_is_produced() {
        let scripted =
            history().opened("s1", 1, 0).delivered("s1", 50, "a").produced("s1", 100, "a");
        assert_eq!(
            scripted.violations("gap_free"),
            ["s1: item 1 was delivered before it was produced (generation 1, at 0.050 s)"]
        );
    }

    #[test]
    fn a_user_that_did_not_open_a_stream_gets_no_items() {
        let scripted = produced(&["a"]).by("client2").delivered("s1", 500, "a");
        assert_eq!(
            scripted.violations("gap_free"),
            [
                "s1: an item was delivered to client2, which had not opened it (generation 1, at 0.500 s)"
            ]
        );
    }

    #[test]
    fn two_users_each_get_the_whole_stream() {
        let scripted = produced(&["a", "b"]).delivered("s1", 500, "a").delivered("s1", 510, "b");
        let scripted = scripted
            .by("client2")
            .opened("s1", 2, 0)
            .delivered("s1", 500, "a")
            .delivered("s1", 520, "b");
        scripted.holds("gap_free");
    }

    #[test]
    fn a_restarted_producer_may_begin_again() {
        let first = produced(&["a", "b", "c"]).died("server", 1_000).started("server", 2_000);
        let scripted = first.produced("s1", 3_000, "a").produced("s1", 3_100, "x");
        delivered(scripted.clone(), &["a", "x"]).holds("gap_free");
        delivered(scripted.clone(), &["a", "b", "c", "a", "x"]).holds("gap_free");
        assert_eq!(
            delivered(scripted, &["a", "b", "x"]).violations("gap_free"),
            ["s1: item 5 was delivered after item 2; 3 to 4 never were (generation 2, at 4.233 s)"]
        );
    }

    #[test]
    fn a_user_that_asks_after_the_restart_gets_nothing_of_the_first_life() {
        let first = produced(&["a", "b"]).died("server", 1_000).started("server", 2_000);
        let again = first.produced("s1", 3_000, "x").by("client2").opened("s1", 2, 4_000);
        delivered(again.clone(), &["x"]).holds("gap_free");
        assert_eq!(
            delivered(again, &["a", "b"]).violations("gap_free"),
            ["s1: item 1 was delivered with byte 1 wrong (generation 2, at 4.231 s)"]
        );
    }

    #[test]
    fn a_producer_that_lives_again_after_its_end_may_begin_again() {
        let scripted = produced(&["a", "b"]).ended("s1", 2_000, "total 2");
        let again = scripted.clone().produced("s1", 3_000, "").produced("s1", 3_100, "x");
        delivered(again, &["x"]).holds("gap_free");
        let late = scripted.produced("s1", 3_100, "x");
        assert_eq!(delivered(late, &["x"]).violations("gap_free").len(), 1);
    }

    #[test]
    fn a_reopened_stream_continues_or_begins_again() {
        let scripted = produced(&["a", "b", "c"])
            .delivered("s1", 500, "a")
            .gave_up(2, Some("s1"), 600)
            .failed_stream("s1", 600, "closed");
        let scripted = scripted.opened("s1", 3, 700).produced("s1", 800, "d");
        for came in [["b", "c", "d"].as_slice(), &["a", "b"], &["d"]] {
            delivered(scripted.clone(), came).holds("gap_free");
        }
        assert_eq!(delivered(scripted, &["c"]).violations("gap_free").len(), 1);
    }

    #[test]
    fn a_stream_that_was_reopened_in_vain_continues_where_it_was() {
        let scripted = produced(&["a", "b"])
            .delivered("s1", 500, "a")
            .gave_up(2, Some("s1"), 600)
            .failed_stream("s1", 600, "closed")
            .opened("s1", 3, 700)
            .gave_up(3, Some("s1"), 800)
            .failed_stream("s1", 800, "closed");
        let scripted = scripted.produced("s1", 850, "c").opened("s1", 4, 900);
        for came in [["b", "c"].as_slice(), &["a", "b"]] {
            delivered(scripted.clone(), came).holds("gap_free");
        }
        assert_eq!(delivered(scripted, &["c"]).violations("gap_free").len(), 1);
    }

    #[test]
    fn data_from_a_puppet_is_not_checked() {
        delivered(produced(&[]).puppet("server"), &["lies"]).holds("gap_free");
    }

    fn items() -> impl Strategy<Value = Vec<String>> {
        // All items differ, so that every mistake is visible.
        (1..20_usize).prop_map(|n| (0..n).map(|i| format!("item {i}\n")).collect())
    }

    fn come(made: &[String], came: &[String]) -> Vec<String> {
        let (made, came): (Vec<_>, Vec<_>) =
            (made.iter().map(|s| &**s).collect(), came.iter().map(|s| &**s).collect());
        violations(&made, &came)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

        #[test]
        fn any_prefix_in_any_division_is_fine(made in items(), upto in any::<prop::sample::Index>(), size in 1..9_usize) {
            let all = made.concat();
            let prefix = &all.as_bytes()[..upto.index(all.len() + 1)];
            let came: Vec<_> = prefix.chunks(size).map(|chunk| String::from_utf8_lossy(chunk).into_owned()).collect();
            prop_assert_eq!(come(&made, &came), Vec::<String>::new());
        }

        #[test]
        fn dropping_duplicating_or_swapping_one_item_is_a_violation(made in items(), which in any::<prop::sample::Index>()) {
            let at = which.index(made.len());
            let mut doubled = made.clone();
            doubled.insert(at, made[at].clone());
            prop_assert_eq!(come(&made, &doubled).len(), 1);
            if at + 1 < made.len() {
                let (mut dropped, mut swapped) = (made.clone(), made.clone());
                dropped.remove(at);
                swapped.swap(at, at + 1);
                prop_assert_eq!(come(&made, &dropped).len(), 1);
                prop_assert_eq!(come(&made, &swapped).len(), 1);
            }
        }
    }
}
