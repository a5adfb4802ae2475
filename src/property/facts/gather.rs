//! Reads a history in one pass and sorts its entries by stream and call.

use std::collections::BTreeMap;

use crate::history::{Call, ConnIndex, Event, EventKind, Stream, Time};
use crate::schedule::MilestoneValue;

use super::{CallEnding, CallFacts, Effect, Facts};
use crate::property::path::{Down, FaultSpan, NEVER};
use crate::property::view::{Fit, Item, Source, View};

/// Fills empty facts from all entries. Paths and fits are computed later.
pub(super) fn gather(facts: Facts<'_>) -> Facts<'_> {
    let (streams, fault) = (BTreeMap::new(), BTreeMap::new());
    let (newest, incarnations, closed) = (Vec::new(), Vec::new(), Vec::new());
    let history = facts.cx.history;
    let mut gathering =
        Gathering { facts, streams, newest, incarnations, fault, closed, step: None };
    for (index, event) in history.events.iter().enumerate() {
        gathering.read(index, event);
    }
    gathering.facts
}

/// The facts while they are being collected.
struct Gathering<'a> {
    facts: Facts<'a>,
    /// The source of each stream.
    streams: BTreeMap<&'a Stream, usize>,
    /// The newest view of each source on each host.
    newest: Vec<Vec<usize>>,
    /// For each source, how often its host had died when it last produced something.
    incarnations: Vec<usize>,
    /// The faults, by their number in the run.
    fault: BTreeMap<usize, usize>,
    /// The hosts whose user closed the client.
    closed: Vec<&'a str>,
    /// The last executed step.
    step: Option<usize>,
}

impl<'a> Gathering<'a> {
    fn read(&mut self, index: usize, event: &'a Event) {
        let at = event.at;
        let host = event.host.as_ref().map(|host| host.as_str());
        match &event.what {
            EventKind::Produced { stream, bytes } => {
                let source = self.living_source(stream, host);
                // An empty item shows only that the producer lives. After its end, it lives again.
                if bytes.is_empty() && !source.ends.is_empty() {
                    source.incarnations.push(source.items.len());
                }
                let end = source.items.last().map_or(0, |item| item.end) + bytes.len() as u64;
                source.items.push(Item { index, at, bytes, end, generation: None });
            }
            EventKind::Ended { stream, outcome } => {
                self.living_source(stream, host).ends.push((index, at, outcome))
            }
            EventKind::Effect { call, target } => {
                self.facts.effects.push(Effect { at, call: *call, target, host })
            }
            EventKind::Stepped { step, .. } => self.step = Some(*step),
            EventKind::Asked { call, operation, class } => {
                let host = host.unwrap_or(operation.client.as_str());
                self.asked(CallFacts {
                    call: *call,
                    index,
                    at,
                    host,
                    step: self.step,
                    incarnation: self.facts.downs.iter().filter(|down| down.host == host).count(),
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
            EventKind::Answered { call, answer } => {
                self.came_back(*call, index, at, CallEnding::Answered(answer))
            }
            EventKind::Failed { call, reason } => {
                self.came_back(*call, index, at, CallEnding::Failed(reason))
            }
            EventKind::Opened { stream, call } => self.opened(stream, *call, index, at, host),
            EventKind::Delivered { stream, bytes, generation } => {
                let Some(host) = host else { return };
                let view = self.view(stream, host);
                let end = view.delivered.last().map_or(0, |item| item.end) + bytes.len() as u64;
                view.delivered.push(Item { index, at, bytes, end, generation: *generation });
            }
            EventKind::StreamEnded { stream, ending } => {
                let Some(host) = host else { return };
                self.view(stream, host).endings.push((index, at, ending));
            }
            EventKind::GaveUp { stream, call } => self.gave_up(stream.as_ref(), *call, at, host),
            EventKind::Died { .. } => self.died(host, at),
            EventKind::Started => {
                self.closed.retain(|closed| Some(*closed) != host);
                if let Some(down) = self
                    .facts
                    .downs
                    .iter_mut()
                    .rev()
                    .find(|down| Some(down.host) == host && down.until == NEVER)
                {
                    down.until = at;
                }
            }
            EventKind::FaultBegan { fault, nature, what, scope, .. } => {
                self.fault.insert(*fault, self.facts.faults.len());
                self.facts.faults.push(FaultSpan {
                    number: *fault,
                    began: at,
                    ended: NEVER,
                    nature: *nature,
                    what,
                    scope,
                });
            }
            EventKind::Milestone { fields, .. } => self.installed(fields, at, host),
            EventKind::FaultEnded { fault } => {
                if let Some(&fault) = self.fault.get(fault) {
                    self.facts.faults[fault].ended = at;
                }
            }
            _ => {}
        }
    }

    /// Handles a milestone of a client that names one of its connections and the generation that
    /// the connection carries.
    fn installed(&mut self, fields: &[(&str, MilestoneValue)], at: Time, host: Option<&str>) {
        let number = |wanted: &str| MilestoneValue::number(fields, wanted);
        let Some(ConnIndex(index)) = ConnIndex::from_fields(fields) else { return };
        let conn = self
            .facts
            .cx
            .history
            .conns
            .get(index)
            .filter(|conn| Some(conn.client.as_str()) == host);
        if conn.is_some_and(|conn| {
            conn.generation.is_some() && conn.generation == number("generation")
        }) {
            self.facts.installed[index].get_or_insert(at);
        }
    }

    fn source(&mut self, stream: &'a Stream) -> usize {
        *self.streams.entry(stream).or_insert_with(|| {
            let (items, incarnations, ends) = (Vec::new(), Vec::new(), Vec::new());
            self.facts.sources.push(Source { stream, host: None, items, incarnations, ends });
            self.newest.push(Vec::new());
            self.incarnations.push(0);
            self.facts.sources.len() - 1
        })
    }

    /// Returns the source of a stream whose producer is shown to be alive. A new incarnation begins
    /// if its host died since the last sign of life.
    fn living_source(&mut self, stream: &'a Stream, host: Option<&'a str>) -> &mut Source<'a> {
        let number = self.source(stream);
        let deaths = self.facts.downs.iter().filter(|down| Some(down.host) == host).count();
        let source = &mut self.facts.sources[number];
        if source.host.is_none() || self.incarnations[number] != deaths {
            source.incarnations.push(source.items.len());
        }
        source.host = source.host.or(host);
        self.incarnations[number] = deaths;
        source
    }

    fn newest_view(&self, source: usize, host: &str) -> Option<usize> {
        self.newest[source].iter().copied().find(|view| self.facts.views[*view].host == host)
    }

    /// Returns the newest view of a stream on a host. Creates a view without an opening if there is
    /// none.
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

    fn opened(
        &mut self,
        stream: &'a Stream,
        call: Call,
        index: usize,
        at: Time,
        host: Option<&'a str>,
    ) {
        if let Some(call) = self.call(call) {
            call.opened = true;
        }
        let Some(host) = host else { return };
        let source = self.source(stream);
        let is_over = |view: &View<'_>| {
            view.opened.is_some() && (!view.endings.is_empty() || view.is_abandoned(at))
        };
        let newest =
            self.newest_view(source, host).filter(|view| !is_over(&self.facts.views[*view]));
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

    /// Handles a user that closed a stream, and with it the call that opened it, or that closed the
    /// client with everything open.
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
        for call in
            self.facts.calls.iter_mut().filter(|call| Some(call.host) == host && call.call != by)
        {
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
        for call in
            self.facts.calls.iter_mut().filter(|call| call.host == host && call.endings.is_empty())
        {
            call.orphaned.get_or_insert(at);
        }
    }
}
