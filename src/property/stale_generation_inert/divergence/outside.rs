//! Computes from when on two runs differ because of the outside world, which is not always the same
//! for both:
//!
//! - The product waits for a thing of the outside world, longer than a packet takes. For that time it
//!   lacks the thing. If it has the thing in the other run, the runs may differ.
//! - The producer of a stream asks the product something and gets no answer, in one run only or at
//!   another time. Until the stream has ended in both runs, its producer is further in one of them.
//!
//! Such a difference explains only the end of a call or of a stream that
//! [depends](crate::property::Guarantees::depends) on that thing or producer, and only in that time:
//! the call was in progress, or the stream ended. From then on users may ask for different things.

use std::collections::{BTreeMap, BTreeSet};

use super::super::pairs::Pairs;
use crate::history::{EventKind, Stream, Time};
use crate::property::facts::{CallFacts, Facts};
use crate::property::path::NEVER;
use crate::property::view::View;
use crate::property::{Dependent, Thing};

/// A time in which a part of the outside world is not the same in both runs.
struct Difference<'a> {
    thing: Thing<'a>,
    from: Time,
    to: Time,
}

/// Returns when a call or a stream first ended differently because of such a difference.
pub(super) fn since((here, there): (&Facts<'_>, &Facts<'_>), pairs: &Pairs<'_>) -> Option<Time> {
    let differences = fetches(here, there).into_iter().chain(producers(here, there));
    let since = differences.filter_map(|difference| {
        let calls = pairs.calls.iter().filter_map(|pair| difference.of_call(here, *pair));
        let views = pairs.views.iter().filter_map(|pair| difference.of_view(here, *pair));
        calls.chain(views).min()
    });
    since.min()
}

impl Difference<'_> {
    /// Returns when a call diverged that was in progress, and that ended differently.
    fn of_call(
        &self,
        facts: &Facts<'_>,
        (here, there): (&CallFacts<'_>, &CallFacts<'_>),
    ) -> Option<Time> {
        let [end, other] = [here, there].map(|call| call.endings.first());
        let ended = [end, other].map(|end| end.map_or(NEVER, |(_, at, _)| *at));
        let from = here.at.max(self.from);
        let is_explained = end.map(|(.., how)| how) != other.map(|(.., how)| how)
            && here.at <= self.to
            && ended.iter().any(|ended| *ended >= from)
            && self.concerns(facts, Dependent::Operation(here.operation));
        is_explained.then_some(from)
    }

    /// Returns when a stream diverged that ended differently in this time. The news of an end may
    /// cross the network twice.
    fn of_view(&self, facts: &Facts<'_>, (here, there): (&View<'_>, &View<'_>)) -> Option<Time> {
        let how = |view: &View<'_>| view.ending().map(|(.., ending)| ending.clone());
        let until = self.to + facts.cx.plan.latency.1 * 2;
        let ended = [here, there].into_iter().filter_map(|view| view.ending().map(|(_, at, _)| at));
        let first = ended.min().filter(|at| (self.from..=until).contains(at))?;
        let is_explained =
            how(here) != how(there) && self.concerns(facts, Dependent::Stream(here.stream));
        is_explained.then_some(first)
    }

    fn concerns(&self, facts: &Facts<'_>, dependent: Dependent<'_>) -> bool {
        (facts.guarantees().depends)(facts.cx.plan, dependent, self.thing)
    }
}

/// Returns the times in which the product lacked a thing in one of the runs only.
fn fetches<'a>(here: &Facts<'a>, there: &Facts<'a>) -> Vec<Difference<'a>> {
    let (here, there) = (slow_fetches(here), slow_fetches(there));
    let things: BTreeSet<&str> = here.keys().chain(there.keys()).copied().collect();
    let only = things.into_iter().flat_map(|what| {
        let [here, there] = [&here, &there].map(|all| all.get(what).map_or(&[][..], Vec::as_slice));
        let spans = without(here, there).into_iter().chain(without(there, here));
        spans.map(move |(from, to)| Difference { thing: Thing::Fetched(what), from, to })
    });
    only.collect()
}

/// Returns the times of the fetches that take longer than a packet, by thing.
fn slow_fetches<'a>(facts: &Facts<'a>) -> BTreeMap<&'a str, Vec<(Time, Time)>> {
    let packet = facts.cx.plan.latency.1;
    let mut fetches: BTreeMap<&str, Vec<(Time, Time)>> = BTreeMap::new();
    for event in &facts.cx.history.events {
        if let EventKind::Fetched { what, takes } = &event.what
            && *takes > packet
        {
            fetches.entry(what).or_default().push((event.at, event.at + *takes));
        }
    }
    fetches
}

/// Returns what is left of spans without the others.
fn without(spans: &[(Time, Time)], others: &[(Time, Time)]) -> Vec<(Time, Time)> {
    others.iter().fold(spans.to_vec(), |left, &(began, ended)| {
        let cut = left.into_iter().flat_map(|(from, to)| {
            let before = (from, to.min(began));
            let after = (from.max(ended), to);
            [before, after].into_iter().filter(|(from, to)| from < to)
        });
        cut.collect()
    })
}

/// Returns the times in which the producer of a stream was further in one of the runs.
fn producers<'a>(here: &Facts<'a>, there: &Facts<'a>) -> Vec<Difference<'a>> {
    let (mine, others) = (unanswered(here), unanswered(there));
    let streams: BTreeSet<&Stream> = mine.keys().chain(others.keys()).copied().collect();
    let differences = streams.into_iter().filter_map(|stream| {
        let [mine, others] =
            [&mine, &others].map(|all| all.get(stream).map_or(&[][..], Vec::as_slice));
        let from = first_difference(mine, others)?;
        let to = ended(here, stream).max(ended(there, stream));
        Some(Difference { thing: Thing::Producer(stream), from, to })
    });
    differences.collect()
}

/// Returns the times at which the producer of a stream got no answer, by stream.
fn unanswered<'a>(facts: &Facts<'a>) -> BTreeMap<&'a Stream, Vec<Time>> {
    let mut unanswered: BTreeMap<&Stream, Vec<Time>> = BTreeMap::new();
    for event in &facts.cx.history.events {
        if let EventKind::Unanswered { stream, .. } = &event.what {
            unanswered.entry(stream).or_default().push(event.at);
        }
    }
    unanswered
}

/// Returns the first time that is in one of two ordered lists only.
fn first_difference(here: &[Time], there: &[Time]) -> Option<Time> {
    let same = here.iter().zip(there).take_while(|(here, there)| here == there).count();
    here.get(same).into_iter().chain(there.get(same)).min().copied()
}

/// Returns when a stream really ended.
fn ended(facts: &Facts<'_>, stream: &Stream) -> Time {
    let source = facts.sources.iter().find(|source| source.stream == stream);
    source.and_then(|source| source.ended()).unwrap_or(NEVER)
}

#[cfg(test)]
mod tests {
    use crate::history::Class;
    use crate::property::scripted::{ScriptedRun, history};

    /// A call about c1 waits from 2.6 s to 2.7 s.
    fn call(scripted: ScriptedRun, fields: &str, result: &'static str) -> ScriptedRun {
        let asked = scripted.asked_as(7, 2_600, Class::Durable, "read", fields);
        asked.answered(7, 2_700, result)
    }

    /// Returns how many differences are reported if a call on c1 has another result in the other run.
    fn differ(
        here: impl Fn(ScriptedRun) -> ScriptedRun,
        there: fn(ScriptedRun) -> ScriptedRun,
    ) -> usize {
        let of_c1 = |scripted, result| call(scripted, r#"{"chat":"c1"}"#, result);
        let scripted = of_c1(here(history()), "5").control(of_c1(there(history()), "6"));
        scripted.violations("stale_generation_inert").len()
    }

    #[test]
    fn a_call_may_end_differently_while_the_product_lacks_its_thing_in_one_run() {
        let nothing = |run: ScriptedRun| run;
        assert_eq!(differ(|run| run.fetched(2_500, "c1", 300), nothing), 0);
        assert_eq!(differ(nothing, |run| run.fetched(2_500, "c1", 300)), 0);
        assert_eq!(differ(|run| run.fetched(2_500, "c2", 300), nothing), 1, "another thing");
        assert_eq!(differ(|run| run.fetched(2_000, "c1", 300), nothing), 1, "it has it again");
        assert_eq!(differ(|run| run.fetched(2_750, "c1", 300), nothing), 1, "it still had it");
        assert_eq!(differ(|run| run.fetched(2_595, "c1", 10), nothing), 1, "as fast as a packet");
        let later = |run: ScriptedRun| run.fetched(2_650, "c1", 300);
        assert_eq!(differ(|run| run.fetched(2_500, "c1", 300), later), 0);
        let nearly = |run: ScriptedRun| run.fetched(2_550, "c1", 300);
        assert_eq!(differ(|run| run.fetched(2_500, "c1", 300), nearly), 1, "both lack it");
    }

    #[test]
    fn only_what_follows_an_explained_difference_is_not_compared() {
        let scripted = |fetched: bool, of: &str, result: &'static str, then: &'static str| {
            let run = history();
            let run = if fetched { run.fetched(2_500, "c1", 300) } else { run };
            let run = call(run, of, result).asked_as(8, 4_000, Class::Durable, "read", "{}");
            run.answered(8, 4_100, then)
        };
        let differ = |of: &str, result, then| {
            let there = scripted(false, of, "6", "b");
            scripted(true, of, result, then)
                .control(there)
                .violations("stale_generation_inert")
                .len()
        };
        assert_eq!(differ(r#"{"chat":"c1"}"#, "5", "a"), 0);
        assert_eq!(differ(r#"{"chat":"c1"}"#, "6", "a"), 1, "nothing differed in time");
        assert_eq!(differ(r#"{"chat":"c2"}"#, "5", "b"), 1, "another thing");
    }

    #[test]
    fn a_stream_may_end_differently_while_the_product_lacks_it_in_one_run() {
        let opened = |stream: &str| history().opened(stream, 1, 0).ended(stream, 2_000, "total 2");
        let differ = |stream: &str, ms| {
            let there = opened(stream).completed(stream, ms, "total 2");
            let here =
                opened(stream).fetched(2_500, "c1", 300).failed_stream(stream, ms, "missing");
            here.control(there).violations("stale_generation_inert").len()
        };
        assert_eq!(differ("c1", 2_600), 0);
        assert_eq!(differ("c2", 2_600), 1);
        assert_eq!(differ("c1", 2_499), 1);
        assert_eq!(differ("c1", 2_840), 0, "the news crosses the network");
        assert_eq!(differ("c1", 2_841), 1);
    }

    #[test]
    fn a_call_may_end_differently_while_a_producer_is_further_in_one_run() {
        let differ = |here: Option<u64>, there: Option<u64>, ended, of: &str| {
            let scripted = |unanswered: Option<u64>, result| {
                let run = history().opened("s1", 1, 0);
                let run = unanswered.into_iter().fold(run, |run, ms| run.unanswered(ms, "s1"));
                call(run.ended("s1", ended, "total 0"), of, result)
            };
            let there = scripted(there, "6");
            scripted(here, "5").control(there).violations("stale_generation_inert").len()
        };
        let of_s1 = r#"{"stream":"s1"}"#;
        assert_eq!(differ(Some(2_500), None, 3_000, of_s1), 0);
        assert_eq!(differ(None, Some(2_500), 3_000, of_s1), 0);
        assert_eq!(differ(Some(2_500), Some(2_501), 3_000, of_s1), 0);
        assert_eq!(differ(Some(2_500), Some(2_500), 3_000, of_s1), 1, "it got none in both runs");
        assert_eq!(differ(Some(2_500), None, 2_550, of_s1), 1, "it had ended in both runs");
        assert_eq!(differ(Some(2_750), None, 3_000, of_s1), 1, "it had not asked yet");
        assert_eq!(differ(Some(2_500), None, 3_000, r#"{"stream":"s2"}"#), 1);
    }
}
