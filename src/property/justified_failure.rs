//! `justified_failure`: a durable stream or call fails only if faults, retention or the user left
//! no other way. Without this property, a protocol that always fails would pass.
//!
//! `A` is [`Path::recovery_window`]: the shortest fault-free interval in which a client is sure to
//! recover, at the worst latency in force. A durable failure at time `t` is justified if one of
//! these is true:
//!
//! - (a) From `t` − recovery to `t`, its path had a fault and no fault-free interval of length `A`.
//!   If the longest such interval is between `A` and 2 `A`, either outcome is correct: the failure
//!   is [`inconclusive`]. If readers [exclude each other](super::Guarantees::takeover), its user may
//!   have to wait for that long after the opening or its last item, the last sign of life of its path,
//!   or the start of a fault: the time of it in which a user of another host, or another connection,
//!   reads the stream is not fault-free.
//! - (b) Beyond the data that its user had, more was produced than is retained, and either its path
//!   had a fault, or that much data had been produced before the opening, or its user is slow (it
//!   reads with pauses, or late) and the protocol does not [slow the producer down for
//!   it](super::guarantees::Guarantees::slow_users), or within one round trip more was produced than the
//!   client [takes at once](super::guarantees::Guarantees::at_once). All parts of the stream's whole count
//!   together.
//!   Alternatively, all parts of its whole had ended so long ago that the server had forgotten the
//!   whole, and its path had no fault-free interval of length `A` between the last end and the time
//!   at which it was forgotten. A slow user for which the protocol does not slow the producer down
//!   needs no fault: it is enough that, `A` before the server forgot the whole, the user had yet to
//!   read more than its client holds ready.
//! - (c) An outage (faulty intervals with less than `A` between them) lasted at least as long as
//!   the session's lifetime. If it was up to 2 `A` shorter, either outcome is correct, because a
//!   client may need that long to reconnect.
//! - (d) A server host of its path died since the session began.
//! - (e) Its user gave it up, or the world closed the client.
//! - (f) A server of its path is a puppet, or a fault changed a message on its path.
//! - (g) It is a call that a host of the outside world had to answer, or that something slow may have
//!   [held](super::Guarantees::held), or whose answer may need that long on the link (with the answers to the
//!   calls whose requests may be before its own), and it had waited without an answer for as long as a call
//!   may wait.
//!   A fault, and `A` after it, leave no time for the answers.
//!
//! A client that failed permanently reports the failure for every later call. Therefore (a), (c)
//! and (d) also apply if they were true before the call was made and its user saw no sign of life
//! since: no item and no answer. The same applies to a user that looked at a stream only some time
//! after opening it (the field `looks-after` of its operation), and to a user that reads it with
//! pauses: a failure that the user sees then may have happened long before.
//!
//! Calls in flight, bound calls, and the streams that bound calls open may fail in one more case: a
//! fault was in force on their path between the call and the failure, or at most detection plus `A`
//! before the call. Their connection died. The subject says [for which
//! reasons](super::Guarantees::is_loss) they can fail so.

use std::time::Duration;

use crate::history::{Class, Data, Ending, Stream, Time};

use super::bounded_ending::{answers, may_wait_for_others_to_act};
use super::facts::{CallEnding, CallFacts, Facts};
use super::findings::Findings;
use super::path::{NEVER, Path, longest_gap};
use super::view::View;
use super::violation::{fields, kinds};
use super::{CheckContext, Phrase, ViolationFields};

kinds! {
    pub(super) KINDS;
    STREAM_FAILED = "stream-failed": "{subject:}it failed ({reason}) after item {items}, unjustified: {why} {moment}";
    CALL_FAILED = "call-failed": "{subject:}it failed ({reason}), unjustified: {why} {moment}";
}

// Parts of these sentences: why nothing justifies a failure.
kinds! {
    NO_FAULT = "no-fault": "no fault had touched its path";
    CALM = "calm": "no fault touched its path from {calm} to {until}; {enough} without a fault are enough to recover";
}

/// How well a failure is justified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Justification {
    Unjustified,
    /// Either outcome would have been correct.
    Inconclusive,
    Justified,
}

/// Reports the failures that nothing justifies.
pub(super) fn check(facts: &Facts<'_>, broken: &mut Findings) {
    let judged = failures(facts).filter(|failure| !failure.is_exempt(facts));
    let judged = judged.inspect(|_| facts.cx.judges("justified_failure"));
    for failure in
        judged.filter(|failure| failure.justification(facts) == Justification::Unjustified)
    {
        let FailureSite { at, reason, .. } = failure;
        let path = facts.path(failure.path);
        let why = failure.why_not(facts, path);
        match failure.what {
            FailedItem::View(view) => {
                let data = fields! { reason, items: view.fit.items, why };
                broken.push(
                    view.stream,
                    at,
                    &STREAM_FAILED,
                    data.with("generation", view.generation_before(failure.index)),
                );
            }
            FailedItem::Call(call) => {
                broken.push(call, at, &CALL_FAILED, fields! { reason, why });
            }
        }
    }
}

/// Returns whether a run had an inconclusive failure: either outcome would have been correct. Such
/// runs prove less, and are counted.
pub fn inconclusive(cx: &CheckContext<'_>) -> bool {
    is_inconclusive(&Facts::of(cx))
}

pub(super) fn is_inconclusive(facts: &Facts<'_>) -> bool {
    failures(facts).any(|failure| failure.justification(facts) == Justification::Inconclusive)
}

/// A failure of a stream or call.
pub(super) struct FailureSite<'f> {
    pub what: FailedItem<'f>,
    pub path: usize,
    pub index: usize,
    pub at: Time,
    pub reason: &'f Data,
}

/// The stream or call that failed.
pub(super) enum FailedItem<'f> {
    View(&'f View<'f>),
    Call(&'f CallFacts<'f>),
}

/// Returns the failures of a run, streams first.
pub(super) fn failures<'f>(facts: &'f Facts<'_>) -> impl Iterator<Item = FailureSite<'f>> {
    let views = facts.views.iter().filter_map(|view| match view.ending() {
        Some((index, at, Ending::Failed { reason })) => {
            Some(FailureSite { what: FailedItem::View(view), path: view.path, index, at, reason })
        }
        _ => None,
    });
    let calls = facts.calls.iter().filter_map(|call| match *call.endings.first()? {
        (index, at, CallEnding::Failed(reason)) => {
            Some(FailureSite { what: FailedItem::Call(call), path: call.path, index, at, reason })
        }
        _ => None,
    });
    views.chain(calls)
}

impl FailureSite<'_> {
    pub(super) fn justification(&self, facts: &Facts<'_>) -> Justification {
        let path = facts.path(self.path);
        if self.is_exempt(facts) || self.lost_its_connection(facts, path) {
            return Justification::Justified;
        }
        if self.may_have_waited_so_long(facts) {
            return Justification::Justified;
        }
        let contact = facts.last_contact(self.path, self.index);
        let since = self.asked().min(contact.unwrap_or(Time::ZERO));
        // (d). `exec/server-restarts-after-a-crash.toml` needs it: the outage is short, and the time before it
        // was long enough to recover, but the session is gone.
        if path.deaths.iter().any(|death| (since..=self.at).contains(death)) {
            return Justification::Justified;
        }
        let of_stream = match self.what {
            FailedItem::View(view) => {
                self.retention(facts, path, view).max(self.forgotten(facts, path, view))
            }
            FailedItem::Call(_) => Justification::Unjustified,
        };
        of_stream
            .max(self.no_recovery_window(facts, path, contact))
            .max(self.session(facts, path, since))
    }

    /// Returns whether the faults left so little time that failure or success was a matter of
    /// chance: (a) and (c).
    pub(super) fn is_chance(&self, facts: &Facts<'_>) -> bool {
        let path = facts.path(self.path);
        let contact = facts.last_contact(self.path, self.index);
        let since = self.asked().min(contact.unwrap_or(Time::ZERO));
        self.no_recovery_window(facts, path, contact).max(self.session(facts, path, since))
            > Justification::Unjustified
    }

    /// Returns whether (e) or (f) applies: the failure shows nothing about the protocol.
    pub(super) fn is_exempt(&self, facts: &Facts<'_>) -> bool {
        self.at >= facts.horizon || self.is_given_up() || facts.path(self.path).has_false_peer()
    }

    /// Returns whether its user gave it up, or has died.
    fn is_given_up(&self) -> bool {
        match self.what {
            FailedItem::View(view) => view.is_abandoned(self.at),
            FailedItem::Call(call) => call.is_abandoned(self.at),
        }
    }

    /// Returns whether (g) applies.
    fn may_have_waited_so_long(&self, facts: &Facts<'_>) -> bool {
        let wait = facts.guarantees().call_wait;
        let FailedItem::Call(call) = self.what else { return false };
        // Streams are no excuse: an answer overtakes the output that the server has not sent yet.
        !wait.is_zero()
            && self.at.since(call.at) >= wait
            && (may_wait_for_others_to_act(facts, call)
                || answers(facts, call) >= self.undisturbed(facts, wait))
    }

    /// Returns how much of the last `wait` before the failure the faults left for answers. After a
    /// fault, the client may need `A` until it receives answers again.
    fn undisturbed(&self, facts: &Facts<'_>, wait: Duration) -> Duration {
        let path = facts.path(self.path);
        let from = self.at.before(wait);
        let recovery_window = path.recovery_window(facts.guarantees(), from, self.at);
        let (mut since, mut left) = (from, Duration::ZERO);
        for (began, ended) in path.faulty().iter().filter(|(began, _)| *began <= self.at) {
            left += began.since(since);
            since = since.max(*ended + recovery_window);
        }
        left + self.at.since(since)
    }

    fn asked(&self) -> Time {
        match self.what {
            FailedItem::View(view) => view.opened.map_or(Time::ZERO, |(_, at, _)| at),
            FailedItem::Call(call) => call.at,
        }
    }

    /// Returns whether it may fail with its connection, and the connection may have died.
    fn lost_its_connection(&self, facts: &Facts<'_>, path: &Path<'_>) -> bool {
        let call = match self.what {
            FailedItem::Call(call) => call,
            FailedItem::View(view) => match facts.bound(view) {
                Some(call) => call,
                None => return false,
            },
        };
        let before = facts.guarantees().detection
            + path.recovery_window(facts.guarantees(), Time::ZERO, self.at);
        call.class != Class::Durable
            && (facts.guarantees().is_loss)(self.reason)
            && path.is_touched(call.at.before(before), self.at)
    }

    /// Returns when its user began to look.
    fn looked(&self, facts: &Facts<'_>) -> Time {
        match self.what {
            FailedItem::View(view) => facts.looked(view).unwrap_or(Time::ZERO),
            FailedItem::Call(_) => self.asked(),
        }
    }

    /// Evaluates (a) at the failure, and at the end of each outage before the user looked, if there
    /// was no sign of life after that.
    fn no_recovery_window(
        &self,
        facts: &Facts<'_>,
        path: &Path<'_>,
        contact: Option<Time>,
    ) -> Justification {
        let looked = self.looked(facts);
        let asked = match self.what {
            _ if self.at <= looked => looked,
            // All items before the failure were delivered first, with the user's pauses.
            FailedItem::View(view) if facts.reads_slowly(view) => self.at,
            _ => self.asked(),
        };
        let outages = path.faulty().iter().map(|(_, ended)| *ended).filter(|ended| *ended < asked);
        let ends = outages.flat_map(|ended| {
            [
                ended,
                (ended + path.recovery_window(facts.guarantees(), Time::ZERO, ended)).min(asked),
            ]
        });
        let busy = path.faulty_or(self.other_readers(facts, path, contact));
        let ends = ends.filter(|end| contact.is_none_or(|contact| contact <= *end));
        ends.chain([self.at])
            .map(|end| no_recovery_window_until(facts, path, end, contact, &busy))
            .max()
            .unwrap_or(Justification::Unjustified)
    }

    /// Returns the intervals in which users of other hosts, or readers of its own host that do not follow the
    /// stream, keep its user from reading it.
    fn other_readers(
        &self,
        facts: &Facts<'_>,
        path: &Path<'_>,
        contact: Option<Time>,
    ) -> Vec<(Time, Time)> {
        let guarantees = facts.guarantees();
        if guarantees.takeover.is_zero() {
            return Vec::new();
        }
        // The last sign of life of the path may belong to another stream.
        let own = self.last_item().unwrap_or(Time::ZERO).max(self.asked());
        let last = own.max(contact.unwrap_or(Time::ZERO));
        let faults = path.fault_begins().filter(|began| *began > last);
        let waits: Vec<_> = [own, last]
            .into_iter()
            .chain(faults)
            .map(|at| (at, at + guarantees.takeover))
            .collect();
        let (host, streams) = match self.what {
            FailedItem::View(view) => (view.host, vec![view.stream.clone()]),
            FailedItem::Call(call) => (call.host, streams_read_by(facts, call)),
        };
        let others = facts.views.iter();
        let others = others.filter(|other| other.host != host && streams.contains(other.stream));
        let held = others.filter_map(|other| {
            let (_, opened, _) = other.opened?;
            let ended = other.ending().map(|(_, at, _)| at);
            let ended = [ended, other.gave_up, other.orphaned].into_iter().flatten().min();
            Some((opened, ended.unwrap_or(NEVER)))
        });
        let more = streams.iter().flat_map(|stream| (guarantees.also_reads)(&facts.cx, stream));
        let more = more.filter(|other| other.host != host || !other.is_follower);
        let more = more.map(|other| (other.from, other.to));
        let waited = held.chain(more).flat_map(|(opened, ended)| {
            waits.iter().map(move |(from, to)| (opened.max(*from), ended.min(*to)))
        });
        waited.filter(|(from, to)| from < to).collect()
    }

    /// Returns when its user received the last item of the stream before the failure.
    fn last_item(&self) -> Option<Time> {
        let FailedItem::View(view) = self.what else { return None };
        let before = view.delivered.iter().take_while(|item| item.index < self.index);
        before.last().map(|item| item.at)
    }

    /// Evaluates (b) while the producer lives.
    fn retention(&self, facts: &Facts<'_>, path: &Path<'_>, view: &View<'_>) -> Justification {
        let exceeds = |(items, bytes): (usize, u64)| {
            facts.guarantees().retention.is_exceeded(items as u64, bytes)
        };
        let sum = |of: fn(&Self, &Facts<'_>, &View<'_>) -> (usize, u64)| {
            let parts = facts.parts(view).map(|part| of(self, facts, part));
            parts.fold((0, 0), |sum, part| (sum.0 + part.0, sum.1 + part.1))
        };
        let away = facts.guarantees().detection + facts.guarantees().recovery;
        let justified = exceeds(sum(Self::missed))
            && (path.is_touched(self.asked().before(away), self.at)
                || exceeds(sum(Self::made_before))
                || facts.slow_user(view).is_some()
                || self.came_at_once(facts, path, view));
        if justified { Justification::Justified } else { Justification::Unjustified }
    }

    /// Returns whether more was produced within one round trip than the client takes at once, around the
    /// first item that its user lacks. TCP may deliver all of that in one moment: a late packet holds back
    /// the later ones.
    fn came_at_once(&self, facts: &Facts<'_>, path: &Path<'_>, view: &View<'_>) -> bool {
        let within = path.worst_latency(Time::ZERO, self.at) * 2;
        let at_once = facts.guarantees().at_once;
        let produced = |part: &View<'_>| {
            let source = &facts.sources[part.source];
            &source.items[..source.produced_before(self.index)]
        };
        let lacks = facts.parts(view).filter_map(|part| {
            produced(part).get(part.fit.start + part.fit.items).map(|item| item.at)
        });
        let Some(lacks) = lacks.min() else { return false };
        let items = facts.parts(view).flat_map(produced);
        let items =
            items.filter(|item| item.at >= lacks.before(within) && item.at <= lacks + within);
        let mut items: Vec<_> = items.map(|item| (item.at, item.bytes.len() as u64)).collect();
        items.sort_unstable();
        (0..items.len()).any(|first| {
            let until = items[first].0 + within;
            let together = items[first..].iter().take_while(|(at, _)| *at <= until);
            let bytes = together.clone().map(|(_, bytes)| bytes).sum();
            at_once.is_exceeded(together.count() as u64, bytes)
        })
    }

    /// Returns the items and bytes of a view's stream that were produced but had not reached its
    /// user.
    fn missed(&self, facts: &Facts<'_>, view: &View<'_>) -> (usize, u64) {
        let source = &facts.sources[view.source];
        let produced = source.produced_before(self.index);
        let (start, had) = (view.fit.start, view.fit.start + view.fit.items);
        let beyond =
            source.bytes_of(produced).saturating_sub(source.bytes_of(start) + view.fit.bytes);
        (produced.saturating_sub(had), beyond)
    }

    /// Returns the items and bytes of a view's stream that had been produced before it was opened.
    fn made_before(&self, facts: &Facts<'_>, view: &View<'_>) -> (usize, u64) {
        let source = &facts.sources[view.source];
        let start = view.fit.start;
        let at_opening =
            view.opened.map_or(0, |(index, ..)| source.produced_before(index)).max(start);
        (at_opening - start, source.bytes_of(at_opening) - source.bytes_of(start))
    }

    /// Evaluates (b) after the producer's end.
    fn forgotten(&self, facts: &Facts<'_>, path: &Path<'_>, view: &View<'_>) -> Justification {
        let Some(ended) = facts.over(view) else { return Justification::Unjustified };
        if self.was_too_slow(facts, path, view, ended) {
            return Justification::Justified;
        }
        let forgotten = ended + facts.guarantees().closed_retention;
        let from = ended.max(self.asked());
        match () {
            () if self.at < forgotten => Justification::Unjustified,
            () if from >= forgotten => Justification::Justified,
            () => compare(facts, path, (from, forgotten), Duration::ZERO, path.faulty()),
        }
    }

    /// Returns whether the server forgot a whole, which ended at `ended`, before its slow user had
    /// read enough of it.
    fn was_too_slow(
        &self,
        facts: &Facts<'_>,
        path: &Path<'_>,
        view: &View<'_>,
        ended: Time,
    ) -> bool {
        facts.slow_user(view).is_some_and(|slow_users| {
            let forgotten = ended + slow_users.closed_retention;
            let last_read =
                forgotten.before(path.recovery_window(facts.guarantees(), ended, forgotten));
            let unread = facts.parts(view).map(|part| facts.unread(part, last_read));
            let (items, bytes) = unread.fold((0, 0), |sum, part| (sum.0 + part.0, sum.1 + part.1));
            self.at >= forgotten && slow_users.ahead.is_exceeded(items, bytes)
        })
    }

    /// Evaluates (c).
    fn session(&self, facts: &Facts<'_>, path: &Path<'_>, since: Time) -> Justification {
        let recovery_window = path.recovery_window(facts.guarantees(), Time::ZERO, self.at);
        let outages = path.outages(recovery_window);
        let lengths = outages.iter().filter(|(began, ended)| *began <= self.at && *ended >= since);
        let Some(longest) = lengths.map(|(began, ended)| (*ended).min(self.at).since(*began)).max()
        else {
            return Justification::Unjustified;
        };
        match facts.guarantees().session {
            session if longest >= session => Justification::Justified,
            session if longest + recovery_window * 2 >= session => Justification::Inconclusive,
            _ => Justification::Unjustified,
        }
    }

    /// Returns the reason why nothing justifies the failure.
    fn why_not(&self, facts: &Facts<'_>, path: &Path<'_>) -> Phrase {
        let from = self.at.before(facts.guarantees().recovery);
        if !path.is_touched(Time::ZERO, self.at) {
            return Phrase::new(&NO_FAULT, ViolationFields::default());
        }
        let (calm, until) = path.longest_calm(from, self.at);
        let enough = Time::from(path.recovery_window(facts.guarantees(), from, self.at));
        Phrase::new(&CALM, fields! { calm, until, enough })
    }
}

/// Returns the streams that a call may read, as the earlier calls of its host name them. A host that died
/// as it was asked may not remember the call.
fn streams_read_by(facts: &Facts<'_>, call: &CallFacts<'_>) -> Vec<Stream> {
    let earlier = facts.calls.iter().take_while(|other| other.call < call.call);
    let own: Vec<_> = earlier.filter(|other| other.host == call.host).collect();
    let has_effect =
        |other: &CallFacts<'_>| facts.effects.iter().any(|effect| effect.call == other.call);
    let is_kept = |other: &CallFacts<'_>| other.orphaned != Some(other.at) || has_effect(other);
    let all: Vec<_> = own.iter().map(|other| other.operation).collect();
    let kept: Vec<_> =
        own.iter().filter(|other| is_kept(other)).map(|other| other.operation).collect();
    let reads = facts.guarantees().reads;
    [all, kept].iter().filter_map(|earlier| reads(call.host, earlier, call.operation)).collect()
}

/// Evaluates (a) for a client that fails at `end`. The time before the run counts as fault-free.
/// The exception is a client that never saw a sign of life: it may give up its first attempt.
fn no_recovery_window_until(
    facts: &Facts<'_>,
    path: &Path<'_>,
    end: Time,
    contact: Option<Time>,
    busy: &[(Time, Time)],
) -> Justification {
    let recovery = facts.guarantees().recovery;
    let before_the_world =
        contact.map_or(Duration::ZERO, |_| recovery.saturating_sub(end.since(Time::ZERO)));
    compare(facts, path, (end.before(recovery), end), before_the_world, busy)
}

/// Compares the longest interval that is not `busy` with `A` and 2 `A`. The first interval is longer
/// by `more`, which lies before `from`.
fn compare(
    facts: &Facts<'_>,
    path: &Path<'_>,
    (from, to): (Time, Time),
    more: Duration,
    busy: &[(Time, Time)],
) -> Justification {
    if !path.is_touched(from, to) {
        return Justification::Unjustified;
    }
    let recovery_window = path.recovery_window(facts.guarantees(), from, to);
    let (calm, until) = longest_gap(busy, from, to);
    let leading = busy.iter().find(|(_, ended)| *ended >= from).map_or(to, |(began, _)| *began);
    match until.since(calm).max(leading.since(from) + more) {
        longest if longest < recovery_window => Justification::Justified,
        longest if longest <= recovery_window * 2 => Justification::Inconclusive,
        _ => Justification::Unjustified,
    }
}

#[cfg(test)]
mod tests;
