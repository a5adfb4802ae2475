//! The facts of a run: its entries, sorted by stream and by call in one pass, which all generic properties read.
//!
//! Nothing is judged here. Entries of a user that name no host, and of things that nobody asked for, are kept where a property
//! can say so.

use std::cell::OnceCell;
use std::time::Duration;

use crate::history::{Call, Class, Time};
use crate::schedule::Fault;

use super::path::{Down, FaultSpan, Path};
use super::view::{Fit, Item, Source, View};
use super::{CheckContext, Guarantees};

mod calls;
mod gather;

pub use calls::{CallEnding, CallFacts, Effect};

/// All that the generic properties read.
#[derive(Debug)]
pub struct Facts<'a> {
    /// The evidence itself.
    pub cx: CheckContext<'a>,
    /// The truth of each stream.
    pub sources: Vec<Source<'a>>,
    /// Each stream as a user saw it.
    pub views: Vec<View<'a>>,
    /// The calls, by number.
    pub calls: Vec<CallFacts<'a>>,
    /// Endings of calls that nobody asked for.
    pub unasked: Vec<(Call, Time)>,
    /// The effects, in order.
    pub effects: Vec<Effect<'a>>,
    /// The faults, in order.
    pub faults: Vec<FaultSpan<'a>>,
    /// When hosts were dead.
    pub downs: Vec<Down<'a>>,
    /// When the client of each connection installed its generation, as its first milestone with both says.
    pub installed: Vec<Option<Time>>,
    /// The paths.
    pub paths: Vec<Path<'a>>,
    /// The signs of life that the users of each path saw: entry and time.
    contact: OnceCell<Vec<Vec<(usize, Time)>>>,
    /// When the clients were closed: what happens to users from then on was the world's doing.
    pub horizon: Time,
}

impl<'a> Facts<'a> {
    /// Gathers the facts.
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

    /// The end of what is judged of users: the horizon, or the end of the run if that came first.
    pub fn judged_until(&self) -> Time {
        self.horizon.min(self.cx.history.end)
    }

    /// What the subject guarantees.
    pub fn guarantees(&self) -> &'a Guarantees {
        self.cx.guarantees
    }

    /// The call of this number.
    pub fn call(&self, call: Call) -> Option<&CallFacts<'a>> {
        self.calls.binary_search_by_key(&call, |facts| facts.call).ok().map(|at| &self.calls[at])
    }

    /// The call that opened a view, if that is bound to its connection: then the stream is, too.
    pub fn bound(&self, view: &View<'_>) -> Option<&CallFacts<'a>> {
        let (.., call) = view.opened?;
        self.call(call).filter(|call| call.class == Class::Bound)
    }

    /// A view, and those of the other parts of its stream's whole that were opened by the same call.
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

    /// When what a view shows was over: when the last part of its stream's whole had ended, if all have.
    pub fn over(&self, view: &View<'a>) -> Option<Time> {
        let ended = |part: &View<'a>| self.sources[part.source].ended();
        self.parts(view).try_fold(Time::ZERO, |last, part| Some(last.max(ended(part)?)))
    }

    /// When the user of a view began to look at it: the field `looks-after` of its operation after the opening.
    pub fn looked(&self, view: &View<'a>) -> Option<Time> {
        let (_, opened, call) = view.opened?;
        Some(opened + self.call(call).map_or(Duration::ZERO, |call| call.operation.looks_after()))
    }

    /// How long the user of a view has paused since a moment: the field `pause` of its operation, after each item of all that this
    /// opened. In that time the user takes nothing, whatever has come.
    pub fn paused(&self, view: &View<'a>, since: Time) -> Duration {
        let call = view.opened.and_then(|(.., call)| self.call(call));
        let Some(pause) = call.map(|call| call.operation.pause()).filter(|pause| !pause.is_zero())
        else {
            return Duration::ZERO;
        };
        let mut items: Vec<Time> =
            self.parts(view).flat_map(|part| part.delivered.iter().map(|item| item.at)).collect();
        items.sort_unstable();
        let (_, paused) =
            items.into_iter().fold((since, Duration::ZERO), |(until, paused), item| {
                let goes_on = (item + pause).max(until);
                (goes_on, paused + goes_on.since(item.max(until)))
            });
        paused
    }

    /// The holds of tasks of a host.
    pub fn holds_on<'s>(&'s self, host: &'s str) -> impl Iterator<Item = &'s FaultSpan<'a>> {
        let holds = self.faults.iter().filter(|fault| matches!(fault.what, Fault::Hold { .. }));
        holds.filter(move |fault| fault.scope.hosts.iter().any(|held| held.as_str() == host))
    }

    /// A path of a view or call.
    pub fn path(&self, path: usize) -> &Path<'a> {
        &self.paths[path]
    }

    /// When a path's server last lived, as far as its users could see before an entry: when the last item that they saw was
    /// produced, or when a call was last answered.
    pub fn last_contact(&self, path: usize, index: usize) -> Option<Time> {
        let contact = &self.contact.get_or_init(|| self.find_contact())[path];
        let before = contact.partition_point(|(at, _)| *at < index);
        before.checked_sub(1).map(|last| contact[last].1)
    }

    fn find_contact(&self) -> Vec<Vec<(usize, Time)>> {
        let mut contact = vec![Vec::new(); self.paths.len()];
        for view in &self.views {
            // What was under way when a host died may come after its death: it shows that the host lived when it was produced.
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
        for call in self.calls.iter().filter(|call| !call.closes && call.gave_up.is_none()) {
            // What is answered in the moment of its asking did not cross the network: the client itself has answered.
            let answers = call.endings.iter().filter(|(_, at, how)| {
                *at > call.at && matches!(how, CallEnding::Answered(answer) if answer.shows_life())
            });
            // So is an answer: all that it shows is life since the asking, or since the effect.
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

    /// What began on a host and has shown nothing yet is that host's, too.
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
                paths.push(Path::new(client, hosts, plan, history, faults, downs));
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
        // What nobody opened as a stream comes in answers, who knows to whom.
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
                self.views[number].resumes =
                    earlier.map(|view| view.fit.start + view.fit.items).next();
            }
            self.views[number].fit =
                Fit::best(&self.sources[self.views[number].source], &self.views[number]);
        }
    }
}

/// The servers that can have a part in what flows between a client and a producer: the producer alone if the client ever
/// opened a connection to it, otherwise all that the client's connections can reach, otherwise all.
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
