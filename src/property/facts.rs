//! The facts of a run, which all generic properties read: its entries, sorted by stream and by call
//! in one pass.
//!
//! This module judges nothing. It keeps user entries that name no host, and entries about calls
//! that were never made, so that a property can report them.

use std::cell::OnceCell;
use std::time::Duration;

use crate::history::{Call, Class, Time};
use crate::schedule::Fault;

use super::path::{Down, FaultSpan, Path, full_intervals};
use super::view::{Fit, Item, Source, View};
use super::{CheckContext, Guarantees, SlowUsers};

mod calls;
mod gather;

pub use calls::{CallEnding, CallFacts, Effect};

/// The facts of a run.
#[derive(Debug)]
pub struct Facts<'a> {
    /// The input of the properties.
    pub cx: CheckContext<'a>,
    /// The streams as they were produced.
    pub sources: Vec<Source<'a>>,
    /// The streams as each user saw them.
    pub views: Vec<View<'a>>,
    /// The calls, by number.
    pub calls: Vec<CallFacts<'a>>,
    /// Endings of calls that were never made.
    pub unasked: Vec<(Call, Time)>,
    /// The effects, in order.
    pub effects: Vec<Effect<'a>>,
    /// The faults, in order.
    pub faults: Vec<FaultSpan<'a>>,
    /// The intervals in which hosts were dead.
    pub downs: Vec<Down<'a>>,
    /// For each connection, when its client installed the generation: the first milestone that
    /// names both.
    pub installed: Vec<Option<Time>>,
    /// The paths.
    pub paths: Vec<Path<'a>>,
    /// For each path, the signs of life that its users saw: entry and time.
    contact: OnceCell<Vec<Vec<(usize, Time)>>>,
    /// The time at which the world closed the clients. Everything that happens to users later is an
    /// effect of that.
    pub horizon: Time,
}

impl<'a> Facts<'a> {
    /// Collects the facts of a run.
    pub fn of(cx: &CheckContext<'a>) -> Self {
        let facts = Facts {
            cx: *cx,
            sources: Vec::new(),
            views: Vec::new(),
            calls: Vec::new(),
            unasked: Vec::new(),
            effects: Vec::new(),
            faults: Vec::new(),
            downs: Vec::new(),
            installed: vec![None; cx.history.conns.len()],
            paths: Vec::new(),
            contact: OnceCell::new(),
            horizon: Time::from(cx.plan.horizon),
        };
        let mut facts = gather::gather(facts);
        facts.find_beginnings();
        facts.find_paths();
        facts.find_fits();
        facts
    }

    /// Returns the end of the time in which users' entries are judged: the horizon, or the end of
    /// the run if that came first.
    pub fn judged_until(&self) -> Time {
        self.horizon.min(self.cx.history.end)
    }

    /// Returns the subject's guarantees.
    pub fn guarantees(&self) -> &'a Guarantees {
        self.cx.guarantees
    }

    /// Returns the call with this number.
    pub fn call(&self, call: Call) -> Option<&CallFacts<'a>> {
        self.calls.binary_search_by_key(&call, |facts| facts.call).ok().map(|at| &self.calls[at])
    }

    /// Returns the call that opened a view, if the call is bound to its connection. The stream is
    /// then bound too.
    pub fn bound(&self, view: &View<'_>) -> Option<&CallFacts<'a>> {
        let (.., call) = view.opened?;
        self.call(call).filter(|call| call.class == Class::Bound)
    }

    /// Returns a view together with the views of the other parts of the same whole that the same
    /// call opened.
    pub fn parts<'f>(&'f self, view: &'f View<'a>) -> impl Iterator<Item = &'f View<'a>> {
        let whole = |view: &'f View<'a>| self.guarantees().whole(view.stream);
        let opener = |view: &View<'_>| view.opened.map(|(.., call)| call);
        self.views.iter().filter(move |other| {
            std::ptr::eq(*other, view)
                || other.host == view.host
                    && whole(other) == whole(view)
                    && opener(other) == opener(view)
        })
    }

    /// Returns when all parts of the whole of a view's stream had ended. Returns `None` if any of
    /// them has not.
    pub fn over(&self, view: &View<'a>) -> Option<Time> {
        let ended = |part: &View<'a>| self.sources[part.source].ended();
        self.parts(view).try_fold(Time::ZERO, |last, part| Some(last.max(ended(part)?)))
    }

    /// Returns when the user of a view began to look at it: at the opening plus the field
    /// `looks-after` of its operation.
    pub fn looked(&self, view: &View<'a>) -> Option<Time> {
        let (_, opened, call) = view.opened?;
        Some(opened + self.call(call).map_or(Duration::ZERO, |call| call.operation.looks_after()))
    }

    /// Returns whether the user of a view pauses while it reads, or before it begins to read.
    pub fn reads_slowly(&self, view: &View<'a>) -> bool {
        let call = view.opened.and_then(|(.., call)| self.call(call));
        call.is_some_and(|call| {
            call.operation.pauses().is_some() || !call.operation.looks_after().is_zero()
        })
    }

    /// Returns what the protocol guarantees to the user of a view, if the user reads slowly and the
    /// protocol does not slow the producer down for it.
    pub fn slow_user(&self, view: &View<'a>) -> Option<SlowUsers> {
        self.guarantees().slow_users.filter(|_| self.reads_slowly(view))
    }

    /// Returns the items and bytes of a view's stream that its user had not read at a given time,
    /// including what was produced later.
    pub fn unread(&self, view: &View<'a>, at: Time) -> (u64, u64) {
        let source = &self.sources[view.source];
        let delivered = view.delivered.iter().filter(|item| item.at <= at);
        let read = source.bytes_of(view.fit.start)
            + delivered.map(|item| item.bytes.len() as u64).sum::<u64>();
        let had = source.items.partition_point(|item| item.end <= read);
        let all = source.items.len();
        ((all - had) as u64, source.bytes_of(all).saturating_sub(read))
    }

    /// Returns how long the user of a view has paused since a given time. The user pauses after
    /// items of all streams that the call opened, as [`Operation::pauses`](crate::schedule::Operation::pauses)
    /// says. During a pause
    /// the user accepts nothing, even if data has arrived.
    pub fn paused(&self, view: &View<'a>, since: Time) -> Duration {
        self.paused_before(view, since, usize::MAX)
    }

    /// As [`paused`](Self::paused), but counts only pauses that began before an entry.
    pub fn paused_before(&self, view: &View<'a>, since: Time, entry: usize) -> Duration {
        let call = view.opened.and_then(|(.., call)| self.call(call));
        let Some((pause, every)) = call.and_then(|call| call.operation.pauses()) else {
            return Duration::ZERO;
        };
        let items = self.parts(view).flat_map(|part| &part.delivered);
        let mut items: Vec<_> =
            items.map(|item| (item.index, item.at, item.bytes.len() as u64)).collect();
        items.sort_unstable();
        let (mut until, mut paused, mut unpaused) = (since, Duration::ZERO, 0);
        for (_, item, bytes) in items.into_iter().take_while(|(index, ..)| *index < entry) {
            unpaused += bytes;
            if unpaused >= every {
                unpaused = 0;
                let goes_on = (item + pause).max(until);
                paused += goes_on.since(item.max(until));
                until = goes_on;
            }
        }
        paused
    }

    /// Returns the holds of tasks on a host.
    pub fn holds_on<'s>(&'s self, host: &'s str) -> impl Iterator<Item = &'s FaultSpan<'a>> {
        let holds = self.faults.iter().filter(|fault| matches!(fault.what, Fault::Hold { .. }));
        holds.filter(move |fault| fault.scope.hosts.iter().any(|held| held.as_str() == host))
    }

    /// Returns when another client of a host first opens a connection after a time: a reloaded window or
    /// a restarted host starts again from the first generation.
    pub fn begins_anew(&self, host: &str, from: Time) -> Option<Time> {
        let own = self.cx.history.conns.iter().filter(|conn| conn.client.as_str() == host);
        let anew = own.filter(|conn| conn.opened >= from && conn.generation == Some(1));
        anew.map(|conn| conn.opened).min()
    }

    /// Returns the path of a view or call.
    pub fn path(&self, path: usize) -> &Path<'a> {
        &self.paths[path]
    }

    /// Returns the last time at which a path's server was alive, according to what its users saw
    /// before an entry: the production of the last item they saw, or the last answered call.
    pub fn last_contact(&self, path: usize, index: usize) -> Option<Time> {
        let contact = &self.contact.get_or_init(|| self.find_contact())[path];
        let before = contact.partition_point(|(at, _)| *at < index);
        before.checked_sub(1).map(|last| contact[last].1)
    }

    fn find_contact(&self) -> Vec<Vec<(usize, Time)>> {
        let mut contact = vec![Vec::new(); self.paths.len()];
        for view in &self.views {
            // An item that was in flight when its host died may arrive after the death. It shows
            // only that the host was alive when it produced the item.
            let source = &self.sources[view.source];
            let base = source.bytes_of(view.fit.start);
            let produced = |end: u64| {
                source
                    .items
                    .get(source.items.partition_point(|item| item.end < base + end))
                    .map(|item| item.at)
            };
            let lived = |item: &Item<'_>| {
                (item.index, produced(item.end).map_or(item.at, |at| at.min(item.at)))
            };
            contact[view.path].extend(view.delivered.iter().map(lived));
        }
        let is_local = self.guarantees().is_local;
        let calls = self.calls.iter().filter(|call| !is_local(call.operation));
        for call in calls.filter(|call| !call.closes && call.gave_up.is_none()) {
            // An answer at the same time as its call did not cross the network: the client answered
            // on its own.
            let answers = call.endings.iter().filter(|(_, at, how)| {
                *at > call.at && matches!(how, CallEnding::Answered(answer) if answer.shows_life())
            });
            // An answer may have been in flight too. It shows only that the server was alive at the
            // time of the call, or of its effect.
            let effect = self
                .effects
                .iter()
                .rev()
                .find(|effect| effect.call == call.call)
                .map(|effect| effect.at);
            let lived = effect.map_or(call.at, |effect| effect.max(call.at));
            contact[call.path].extend(answers.map(|(index, at, _)| (*index, lived.min(*at))));
        }
        for contact in &mut contact {
            contact.sort_unstable();
            let mut latest = Time::ZERO;
            for (_, at) in contact {
                latest = latest.max(*at);
                *at = latest;
            }
        }
        contact
    }

    /// A stream that has produced nothing yet belongs to the host on which the effect of its call
    /// occurred.
    fn find_beginnings(&mut self) {
        for source in self.sources.iter_mut().filter(|source| source.host.is_none()) {
            let whole = self.cx.guarantees.whole(source.stream);
            source.host = self
                .effects
                .iter()
                .find(|effect| effect.target == whole)
                .and_then(|effect| effect.host);
        }
    }

    fn find_paths(&mut self) {
        let mut known: Vec<(&str, Option<&str>)> = Vec::new();
        let cx = self.cx;
        let Facts {
            cx: CheckContext { plan, history, servers, guarantees, .. },
            sources,
            views,
            calls,
            faults,
            downs,
            paths,
            ..
        } = self;
        let mut path = |client: &'a str, producer: Option<&'a str>| {
            let producer = if servers.len() == 1 { None } else { producer };
            known.iter().position(|key| *key == (client, producer)).unwrap_or_else(|| {
                known.push((client, producer));
                let hosts = servers_behind(client, producer, history, servers);
                let mut path = Path::new(client, hosts, plan, history, faults, downs);
                path.wait_for_places(full_intervals(history, client, guarantees.connections));
                path.wait_for_places((guarantees.no_room)(&cx, client));
                paths.push(path);
                paths.len() - 1
            })
        };
        for view in views.iter_mut() {
            view.path = path(view.host, sources[view.source].host);
        }
        for call in calls.iter_mut() {
            call.path = path(call.host, None);
        }
        let around = guarantees.around;
        let bytes = |source: usize| {
            let items = sources[source].items.len();
            sources[source].bytes_of(items).saturating_add(around.saturating_mul(items as u64))
        };
        // A stream that was never opened reaches users in answers, and its recipients are unknown.
        // Count it on every path.
        let unopened =
            (0..sources.len()).filter(|source| !views.iter().any(|view| view.source == *source));
        let in_answers: u64 = unopened.map(bytes).sum();
        for path in paths.iter_mut() {
            let opened = views.iter().filter(|view| view.host == path.client);
            path.load = in_answers + opened.map(|view| bytes(view.source)).sum::<u64>();
        }
    }

    fn find_fits(&mut self) {
        for number in 0..self.views.len() {
            if self.views[number].resumes.is_some() {
                let earlier = self.views[..number].iter().rev();
                let earlier = earlier.filter(|view| {
                    view.source == self.views[number].source && view.host == self.views[number].host
                });
                // A view without items has moved nothing: the position is that of the one before it.
                let stopped = |view: &View<'_>| match view.resumes {
                    Some(position) if view.delivered.is_empty() => position,
                    _ => view.fit.start + view.fit.items,
                };
                self.views[number].resumes = earlier.map(stopped).next();
            }
            let view = &self.views[number];
            let call = view.opened.and_then(|(.., call)| self.call(call));
            let asked = call.map_or(0, |call| call.index);
            self.views[number].fit = Fit::best(&self.sources[view.source], view, asked);
        }
    }
}

/// Returns the servers that may take part in the traffic between a client and a producer. If the
/// client ever opened a connection to the producer, this is the producer alone. Otherwise it is all
/// servers that the client's connections can reach; if there are none, all servers.
fn servers_behind<'a>(
    client: &str,
    producer: Option<&'a str>,
    history: &'a crate::history::History,
    servers: &[&'static str],
) -> Vec<&'a str> {
    let opened = |from: &str, to: &str| {
        history.conns.iter().any(|conn| conn.client.as_str() == from && conn.server.as_str() == to)
    };
    if let Some(producer) = producer.filter(|producer| opened(client, producer)) {
        return vec![producer];
    }
    let mut reached: Vec<&str> = Vec::new();
    while let Some(next) = servers.iter().find(|server| {
        !reached.contains(*server)
            && (opened(client, server) || reached.iter().any(|from| opened(from, server)))
    }) {
        reached.push(next);
    }
    if reached.is_empty() { servers.to_vec() } else { reached }
}
