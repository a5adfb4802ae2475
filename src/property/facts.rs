//! The facts of a run: its entries, sorted by stream and by call in one pass, which all generic properties read.
//!
//! Nothing is judged here. Entries of a user that name no host, and of things that nobody asked for, are kept where a property
//! can say so.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use crate::history::{Call, Class, Event, Stream, Time, What};
use crate::schedule::Operation;

use super::path::{Down, InForce, NEVER, Path};
use super::view::{Fit, Item, Source, View};
use super::{Evidence, Promise};

/// A call, from its asking to its ending.
#[derive(Debug)]
pub struct CallFacts<'a> {
    /// Its number.
    pub call: Call,
    /// Its entry.
    pub index: usize,
    /// When it was asked for.
    pub at: Time,
    /// On which host.
    pub host: &'a str,
    /// What is promised of it.
    pub class: Class,
    /// What was asked for.
    pub operation: &'a Operation,
    /// Its path, by number.
    pub path: usize,
    /// How it came back, each time: entry, time, how.
    pub endings: Vec<(usize, Time, CallEnding<'a>)>,
    /// Whether it opened a stream, which then stands for it.
    pub opened: bool,
    /// When its user gave it up, by closing its stream or the client.
    pub gave_up: Option<Time>,
    /// When its user's host died.
    pub orphaned: Option<Time>,
    /// Whether it closed a stream or the client.
    pub closes: bool,
}

/// How a call came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEnding<'a> {
    /// With a result.
    Answered(&'a str),
    /// With a failure, for this reason.
    Failed(&'a str),
}

impl CallFacts<'_> {
    /// Whether nothing is owed to its user any more at a moment.
    pub fn is_abandoned(&self, at: Time) -> bool {
        [self.gave_up, self.orphaned].into_iter().flatten().any(|since| since <= at)
    }

    /// How a sentence names it: `call 7 (add)`.
    pub fn name(&self) -> String {
        format!("{} ({})", self.call, self.operation.verb)
    }
}

/// The effect of a mutating call.
#[derive(Clone, Copy, Debug)]
pub struct Effect<'a> {
    /// When.
    pub at: Time,
    /// The call that asked for it.
    pub call: Call,
    /// On what.
    pub target: &'a str,
}

/// All that the generic properties read.
#[derive(Debug)]
pub struct Facts<'a> {
    /// The evidence itself.
    pub evidence: Evidence<'a>,
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
    pub faults: Vec<InForce<'a>>,
    /// When hosts were dead.
    pub downs: Vec<Down<'a>>,
    /// The paths.
    pub paths: Vec<Path<'a>>,
    /// The signs of life that the users of each path saw: entry and time.
    life: OnceCell<Vec<Vec<(usize, Time)>>>,
    /// When the clients were closed: what happens to users from then on was the world's doing.
    pub horizon: Time,
}

impl<'a> Facts<'a> {
    /// Gathers the facts.
    pub fn of(evidence: &Evidence<'a>) -> Self {
        let facts = Facts {
            evidence: *evidence,
            sources: Vec::new(),
            views: Vec::new(),
            calls: Vec::new(),
            unasked: Vec::new(),
            effects: Vec::new(),
            faults: Vec::new(),
            downs: Vec::new(),
            paths: Vec::new(),
            life: OnceCell::new(),
            horizon: Time::from(evidence.plan.horizon),
        };
        let (streams, fault) = (BTreeMap::new(), BTreeMap::new());
        let (newest, lives, closed) = (Vec::new(), Vec::new(), Vec::new());
        let mut gathering = Gathering { facts, streams, newest, lives, fault, closed };
        for (index, event) in evidence.history.events.iter().enumerate() {
            gathering.read(index, event);
        }
        let mut facts = gathering.facts;
        facts.find_paths();
        facts.find_fits();
        facts
    }

    /// The end of what is judged of users: the horizon, or the end of the run if that came first.
    pub fn judged_until(&self) -> Time {
        self.horizon.min(self.evidence.history.end)
    }

    /// What the subject promises.
    pub fn promise(&self) -> &'a Promise {
        self.evidence.promise
    }

    /// The call of this number.
    pub fn call(&self, call: Call) -> Option<&CallFacts<'a>> {
        self.calls.binary_search_by_key(&call, |facts| facts.call).ok().map(|at| &self.calls[at])
    }

    /// A path of a view or call.
    pub fn path(&self, path: usize) -> &Path<'a> {
        &self.paths[path]
    }

    /// The last sign of life that the users of a path saw before an entry: an item, or the answer to a call.
    pub fn last_life(&self, path: usize, index: usize) -> Option<Time> {
        let life = &self.life.get_or_init(|| self.find_life())[path];
        let before = life.partition_point(|(at, _)| *at < index);
        before.checked_sub(1).map(|last| life[last].1)
    }

    fn find_life(&self) -> Vec<Vec<(usize, Time)>> {
        let mut life = vec![Vec::new(); self.paths.len()];
        for view in &self.views {
            life[view.path].extend(view.delivered.iter().map(|item| (item.index, item.at)));
        }
        for call in self.calls.iter().filter(|call| !call.closes && call.gave_up.is_none()) {
            let answers = call.endings.iter().filter(|(.., how)| matches!(how, CallEnding::Answered(_)));
            life[call.path].extend(answers.map(|(index, at, _)| (*index, *at)));
        }
        life.iter_mut().for_each(|life| life.sort_unstable());
        life
    }

    fn find_paths(&mut self) {
        let mut known: Vec<(&str, Option<&str>)> = Vec::new();
        let Facts { evidence: Evidence { plan, history, servers, .. }, sources, views, calls, faults, downs, paths, .. } = self;
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
    }

    fn find_fits(&mut self) {
        for number in 0..self.views.len() {
            if self.views[number].resumes.is_some() {
                let earlier = self.views[..number].iter().rev();
                let earlier =
                    earlier.filter(|view| view.source == self.views[number].source && view.host == self.views[number].host);
                self.views[number].resumes = earlier.map(|view| view.fit.start + view.fit.items).next();
            }
            self.views[number].fit = Fit::best(&self.sources[self.views[number].source], &self.views[number]);
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
    let opened =
        |from: &str, to: &str| history.conns.iter().any(|conn| conn.client.as_str() == from && conn.server.as_str() == to);
    if let Some(producer) = producer.filter(|producer| opened(client, producer)) {
        return vec![producer];
    }
    let mut reached: Vec<&str> = Vec::new();
    while let Some(next) = servers
        .iter()
        .find(|server| !reached.contains(*server) && (opened(client, server) || reached.iter().any(|from| opened(from, server))))
    {
        reached.push(next);
    }
    if reached.is_empty() { servers.to_vec() } else { reached }
}

/// Facts on their way.
struct Gathering<'a> {
    facts: Facts<'a>,
    /// The source of each stream.
    streams: BTreeMap<&'a Stream, usize>,
    /// The newest view of each source, by host.
    newest: Vec<Vec<usize>>,
    /// How often the source's host had died when it produced last.
    lives: Vec<usize>,
    /// The faults, by their number in the run.
    fault: BTreeMap<usize, usize>,
    /// The hosts whose user closed the client.
    closed: Vec<&'a str>,
}

impl<'a> Gathering<'a> {
    fn read(&mut self, index: usize, event: &'a Event) {
        let at = event.at;
        let host = event.host.as_ref().map(|host| host.as_str());
        match &event.what {
            What::Produced { stream, bytes } => {
                let source = self.living_source(stream, host);
                let end = source.items.last().map_or(0, |item| item.end) + bytes.len() as u64;
                source.items.push(Item { index, at, bytes, end, generation: None });
            }
            What::Ended { stream, outcome } => self.living_source(stream, host).ends.push((index, at, outcome)),
            What::Effect { call, target } => self.facts.effects.push(Effect { at, call: *call, target }),
            What::Asked { call, operation, class } => {
                let host = host.unwrap_or(operation.client.as_str());
                self.asked(CallFacts {
                    call: *call,
                    index,
                    at,
                    host,
                    class: *class,
                    operation,
                    path: 0,
                    endings: Vec::new(),
                    opened: false,
                    gave_up: None,
                    orphaned: None,
                    closes: false,
                });
            }
            What::Answered { call, result } => self.came_back(*call, index, at, CallEnding::Answered(result)),
            What::Failed { call, reason } => self.came_back(*call, index, at, CallEnding::Failed(reason)),
            What::Opened { stream, call } => self.opened(stream, *call, index, at, host),
            What::Delivered { stream, bytes, generation } => {
                let Some(host) = host else { return };
                let view = self.view(stream, host);
                let end = view.delivered.last().map_or(0, |item| item.end) + bytes.len() as u64;
                view.delivered.push(Item { index, at, bytes, end, generation: *generation });
            }
            What::StreamEnded { stream, ending } => {
                let Some(host) = host else { return };
                self.view(stream, host).endings.push((index, at, ending));
            }
            What::GaveUp { stream, call } => self.gave_up(stream.as_ref(), *call, at, host),
            What::Died { .. } => self.died(host, at),
            What::Started => {
                self.closed.retain(|closed| Some(*closed) != host);
                if let Some(down) = self.facts.downs.iter_mut().rev().find(|down| Some(down.host) == host && down.until == NEVER)
                {
                    down.until = at;
                }
            }
            What::FaultBegan { fault, nature, what, scope, .. } => {
                self.fault.insert(*fault, self.facts.faults.len());
                self.facts.faults.push(InForce { began: at, ended: NEVER, nature: *nature, what, scope });
            }
            What::FaultEnded { fault } => {
                if let Some(&fault) = self.fault.get(fault) {
                    self.facts.faults[fault].ended = at;
                }
            }
            _ => {}
        }
    }

    fn source(&mut self, stream: &'a Stream) -> usize {
        *self.streams.entry(stream).or_insert_with(|| {
            let (items, lives, ends) = (Vec::new(), Vec::new(), Vec::new());
            self.facts.sources.push(Source { stream, host: None, items, lives, ends });
            self.newest.push(Vec::new());
            self.lives.push(0);
            self.facts.sources.len() - 1
        })
    }

    /// The source of a stream that shows that its producer lives: a new life begins if its host died since the last time.
    fn living_source(&mut self, stream: &'a Stream, host: Option<&'a str>) -> &mut Source<'a> {
        let number = self.source(stream);
        let deaths = self.facts.downs.iter().filter(|down| Some(down.host) == host).count();
        let source = &mut self.facts.sources[number];
        if source.host.is_none() || self.lives[number] != deaths {
            source.lives.push(source.items.len());
        }
        source.host = source.host.or(host);
        self.lives[number] = deaths;
        source
    }

    fn newest_view(&self, source: usize, host: &str) -> Option<usize> {
        self.newest[source].iter().copied().find(|view| self.facts.views[*view].host == host)
    }

    /// The newest view of a stream on a host; one that nobody opened, if there is none.
    fn view(&mut self, stream: &'a Stream, host: &'a str) -> &mut View<'a> {
        let source = self.source(stream);
        let view = self.newest_view(source, host).unwrap_or_else(|| self.new_view(source, host));
        &mut self.facts.views[view]
    }

    fn new_view(&mut self, source: usize, host: &'a str) -> usize {
        let earlier = self.newest_view(source, host);
        let stream = self.facts.sources[source].stream;
        let view = self.facts.views.len();
        self.newest[source].retain(|view| Some(*view) != earlier);
        self.newest[source].push(view);
        self.facts.views.push(View {
            stream,
            source,
            host,
            path: 0,
            opened: None,
            delivered: Vec::new(),
            endings: Vec::new(),
            gave_up: None,
            orphaned: None,
            resumes: earlier.map(|_| 0),
            fit: Fit::default(),
        });
        view
    }

    fn opened(&mut self, stream: &'a Stream, call: Call, index: usize, at: Time, host: Option<&'a str>) {
        if let Some(call) = self.call(call) {
            call.opened = true;
        }
        let Some(host) = host else { return };
        let source = self.source(stream);
        let is_over = |view: &View<'_>| view.opened.is_some() && (!view.endings.is_empty() || view.is_abandoned(at));
        let newest = self.newest_view(source, host).filter(|view| !is_over(&self.facts.views[*view]));
        let view = newest.unwrap_or_else(|| self.new_view(source, host));
        self.facts.views[view].opened.get_or_insert((index, at, call));
    }

    fn call(&mut self, call: Call) -> Option<&mut CallFacts<'a>> {
        let at = self.facts.calls.binary_search_by_key(&call, |facts| facts.call).ok()?;
        Some(&mut self.facts.calls[at])
    }

    fn asked(&mut self, mut call: CallFacts<'a>) {
        call.gave_up = self.closed.contains(&call.host).then_some(call.at);
        if let Err(place) = self.facts.calls.binary_search_by_key(&call.call, |facts| facts.call) {
            self.facts.calls.insert(place, call);
        }
    }

    fn came_back(&mut self, call: Call, index: usize, at: Time, how: CallEnding<'a>) {
        match self.call(call) {
            Some(call) => call.endings.push((index, at, how)),
            None => self.facts.unasked.push((call, at)),
        }
    }

    /// The user closed a stream, and with it the call that opened it; or the client, with all that is open.
    fn gave_up(&mut self, stream: Option<&Stream>, by: Call, at: Time, host: Option<&'a str>) {
        if let Some(call) = self.call(by) {
            call.closes = true;
        }
        self.closed.extend(host.filter(|_| stream.is_none()));
        let mut openers = Vec::new();
        for view in self.facts.views.iter_mut().filter(|view| Some(view.host) == host) {
            if stream.is_none_or(|stream| view.stream == stream) {
                view.gave_up.get_or_insert(at);
                openers.extend(view.opened.map(|(.., call)| call));
            }
        }
        for call in self.facts.calls.iter_mut().filter(|call| Some(call.host) == host && call.call != by) {
            if call.endings.is_empty() && (stream.is_none() || openers.contains(&call.call)) {
                call.gave_up.get_or_insert(at);
            }
        }
    }

    fn died(&mut self, host: Option<&'a str>, at: Time) {
        let Some(host) = host else { return };
        self.facts.downs.push(Down { host, from: at, until: NEVER });
        for view in self.facts.views.iter_mut().filter(|view| view.host == host) {
            view.orphaned.get_or_insert(at);
        }
        for call in self.facts.calls.iter_mut().filter(|call| call.host == host && call.endings.is_empty()) {
            call.orphaned.get_or_insert(at);
        }
    }
}
