//! The entries of a history that the picture shows, with the same text as the story.

use std::collections::BTreeMap;

use crate::history::{ConnEnd, ConnIndex, Event, EventKind, History, Scope, Side, Time};
use crate::property::Violation;
use crate::report::line::{Tone, wrap};
use crate::report::sentence;
use crate::report::{phrases, rendering};
use crate::schedule::{Action, Named, Operation, Plan};

use super::lanes::{HostLanes, Lane, Placement, at_side};
use super::messages::Journey;

/// The drawing of an entry, in addition to its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryShape {
    /// A dot on a lane.
    Dot(Lane),
    /// A dot in the colour of a connection.
    Opens(Lane, ConnIndex),
    /// A message in flight, by the index of its entry.
    Message(usize),
    /// A fault. Its time span is drawn separately.
    Fault,
    /// A violation, by its index.
    Broken(usize),
}

/// A text at a moment.
#[derive(Clone, Debug)]
pub struct PictureEntry {
    /// The time.
    pub at: Time,
    /// The placement of its text.
    pub placement: Placement,
    /// The text.
    pub text: String,
    /// The hover text.
    pub title: String,
    /// The kind of the text, for its colour.
    pub tone: Tone,
    /// The drawing of the entry.
    pub shape: EntryShape,
}

impl PictureEntry {
    /// Returns its text in lines that fit its placement; at most three.
    pub fn lines(&self, lanes: &HostLanes) -> Vec<String> {
        let most = if self.placement == Placement::Across { 6 } else { 3 };
        let text = if self.placement == Placement::Across {
            self.text.clone()
        } else {
            with_short_ids(&self.text)
        };
        let mut lines = wrap(&text, lanes.characters(self.placement));
        if lines.len() > most {
            lines.truncate(most);
            lines[most - 1].push('…');
        }
        lines
    }
}

/// Returns all entries to show, in order.
pub fn entries(
    plan: &Plan,
    history: &History,
    broken: &[Violation],
    lanes: &HostLanes,
    journeys: &BTreeMap<usize, Journey>,
) -> Vec<PictureEntry> {
    let residue = broken.iter().any(|broken| broken.property == "no_residue");
    let mut writer = EntryWriter {
        plan,
        history,
        lanes,
        journeys,
        residue,
        faults: BTreeMap::new(),
        endings: BTreeMap::new(),
    };
    let mut marks: Vec<_> = broken.iter().enumerate().collect();
    marks.sort_by_key(|(_, broken)| broken.at);
    let mut marks = marks.into_iter().peekable();
    let mut entries = Vec::new();
    for (n, event) in history.events.iter().enumerate() {
        while let Some((n, broken)) = marks.next_if(|(_, broken)| broken.at < event.at) {
            entries.push(mark(n, broken));
        }
        entries.extend(writer.entry(n, event));
    }
    entries.extend(marks.map(|(n, broken)| mark(n, broken)));
    entries
}

fn mark(n: usize, broken: &Violation) -> PictureEntry {
    let text = format!("✖ {}: {}", rendering::mark(broken).text, sentence(broken));
    let (at, tone) = (broken.at, Tone::Broken);
    PictureEntry {
        at,
        placement: Placement::Across,
        title: text.clone(),
        text,
        tone,
        shape: EntryShape::Broken(n),
    }
}

struct EntryWriter<'a> {
    plan: &'a Plan,
    history: &'a History,
    lanes: &'a HostLanes,
    journeys: &'a BTreeMap<usize, Journey>,
    /// Whether to show the resource counts at the end, because `no_residue` was violated.
    residue: bool,
    /// The start time, text and placement of each fault.
    faults: BTreeMap<usize, (Time, String, Placement)>,
    /// The last ending of each stream. If a user asks again, the repeated answer is left out.
    endings: BTreeMap<String, String>,
}

impl EntryWriter<'_> {
    /// Returns the entry to show for an entry of the history, if it is shown at all.
    fn entry(&mut self, n: usize, event: &Event) -> Option<PictureEntry> {
        match &event.what {
            EventKind::Produced { .. }
            | EventKind::Delivered { .. }
            | EventKind::Packet(_)
            | EventKind::ConnUp { .. }
            | EventKind::Opened { .. }
            | EventKind::Gauge { .. }
            | EventKind::Point { held: false, .. }
            | EventKind::ResourceCounts { baseline: true, .. }
            | EventKind::ConnOver { how: ConnEnd::Closed, .. }
            | EventKind::ConnOver { how: ConnEnd::NotOpened(_), side: Side::Server, .. } => None,
            EventKind::ResourceCounts { .. } if !self.residue => None,
            EventKind::Message { label, .. } => self.message(n, event, label),
            EventKind::Stepped { step, note } => self.stepped(n, event, *step, note.as_deref()),
            EventKind::Asked { operation, .. } if self.is_step(n, event, operation) => None,
            EventKind::FaultBegan { fault, step, what, scope, .. } => {
                let (text, placement) = (what.sentence(), self.middle(scope));
                self.faults.insert(*fault, (event.at, text.clone(), placement));
                let stepped = |other: &&Event| matches!(other.what, EventKind::Stepped { step: of, .. } if of == *step);
                let has_step = self.moment(n, event.at).find(stepped).is_some();
                (!has_step).then(|| self.fault(event, format!("in force: {text}"), placement))
            }
            EventKind::FaultEnded { fault } => {
                let (began, text, placement) = self.faults.get(fault)?.clone();
                (began != event.at).then(|| {
                    self.fault(event, format!("over: {}", rendering::brief(&text)), placement)
                })
            }
            EventKind::Tampered { fault, how, label, .. } => {
                let (.., placement) = self.faults.get(fault)?.clone();
                Some(self.fault(event, format!("{} {label}", how.name()), placement))
            }
            EventKind::StreamEnded { stream, ending } => {
                let text = phrases::ending(ending);
                let before = self.endings.insert(stream.to_string(), text.clone());
                (before != Some(text)).then(|| self.noted(event)).flatten()
            }
            _ => self.noted(event),
        }
    }

    /// Returns the entry for an event on a host.
    fn noted(&self, event: &Event) -> Option<PictureEntry> {
        let line = rendering::entry(self.plan, self.history, event);
        let title = format!("{}  {}: {}", line.at, line.place, line.text);
        let lane = match (&event.what, &event.host) {
            (EventKind::ConnOver { conn, side, .. }, _) => {
                Some(at_side(self.lanes.ends(self.history, *conn)?, *side))
            }
            (_, Some(host)) => Some(self.lanes.lane(host)?),
            (_, None) => None,
        };
        let text = match &event.what {
            EventKind::Milestone { name, .. }
            | EventKind::Point { name, .. }
            | EventKind::Released { name } => {
                let host = event.host.as_ref().map_or("", |host| host.as_str());
                line.text.replacen(name, short(name, &self.plan.subject, host), 1)
            }
            _ => line.text,
        };
        let Some(lane) = lane else {
            let placement = Placement::Across;
            return Some(PictureEntry {
                at: event.at,
                placement,
                text,
                title,
                tone: line.tone,
                shape: EntryShape::Fault,
            });
        };
        let shape = match &event.what {
            EventKind::ConnOpened { conn } => EntryShape::Opens(lane, *conn),
            _ => EntryShape::Dot(lane),
        };
        Some(PictureEntry {
            at: event.at,
            placement: self.lanes.beside(lane),
            text,
            title,
            tone: line.tone,
            shape,
        })
    }

    fn message(&self, n: usize, event: &Event, label: &str) -> Option<PictureEntry> {
        let journey = self.journeys.get(&n)?;
        let ends = self.lanes.ends(self.history, journey.conn)?;
        let placement =
            HostLanes::toward(at_side(ends, journey.from), at_side(ends, journey.from.other()));
        let line = rendering::entry(self.plan, self.history, event);
        let fate = match (journey.held, journey.arrival.at()) {
            (Some(held), Some(at)) => format!("held until {held}, delivered at {at}"),
            (Some(_), None) => "held, and never delivered".into(),
            (None, Some(at)) => format!("delivered at {at}"),
            (None, None) => "never delivered".into(),
        };
        let title =
            format!("{}  {}: {label} ({fate})", line.at, phrases::conn(self.history, journey.conn));
        let shape = EntryShape::Message(n);
        Some(PictureEntry {
            at: event.at,
            placement,
            text: label.to_owned(),
            title,
            tone: Tone::Plain,
            shape,
        })
    }

    /// Returns the entry for a step of the schedule: an operation beside its user's lane, a fault
    /// in the area that it affects.
    fn stepped(
        &self,
        n: usize,
        event: &Event,
        step: usize,
        note: Option<&str>,
    ) -> Option<PictureEntry> {
        let of = self.plan.steps.get(step)?;
        let mut text = phrases::step(of);
        text += &note.map_or(String::new(), |note| format!(": {note}"));
        let cause = phrases::cause(&of.when).map_or(String::new(), |cause| format!(", {cause}"));
        let title = format!("{}  step {} of the schedule: {text}{cause}", event.at, step + 1);
        match &of.action {
            Action::Operation(operation) => {
                let asked = |other: &Event| match &other.what {
                    EventKind::Asked { call, operation: asked, .. } if **asked == *operation => {
                        Some(*call)
                    }
                    _ => None,
                };
                text += &self
                    .moment(n, event.at)
                    .find_map(asked)
                    .map_or(String::new(), |call| format!(" ({call})"));
                let lane = self.lanes.lane(&operation.client)?;
                let (placement, shape) = (self.lanes.beside(lane), EntryShape::Dot(lane));
                Some(PictureEntry {
                    at: event.at,
                    placement,
                    text,
                    title,
                    tone: Tone::Schedule,
                    shape,
                })
            }
            Action::Fault(_) => {
                let began = |other: &Event| match &other.what {
                    EventKind::FaultBegan { step: of, scope, .. } if *of == step => {
                        Some(self.middle(scope))
                    }
                    _ => None,
                };
                let placement = self
                    .moment(n, event.at)
                    .find_map(began)
                    .unwrap_or_else(|| self.middle(&Scope::default()));
                Some(PictureEntry { title, ..self.fault(event, text + &cause, placement) })
            }
        }
    }

    fn fault(&self, event: &Event, text: String, placement: Placement) -> PictureEntry {
        let title = format!("{}  {text}", event.at);
        PictureEntry {
            at: event.at,
            placement,
            text,
            title,
            tone: Tone::Schedule,
            shape: EntryShape::Fault,
        }
    }

    /// Whether a step at the same time has the same text.
    fn is_step(&self, n: usize, event: &Event, operation: &Operation) -> bool {
        let same = |step: usize| matches!(&self.plan.steps.get(step).map(|step| &step.action), Some(Action::Operation(of)) if of == operation);
        self.moment(n, event.at)
            .any(|other| matches!(other.what, EventKind::Stepped { step, .. } if same(step)))
    }

    /// Returns the entries of the history at the same time as entry `n`.
    fn moment(&self, n: usize, at: Time) -> impl Iterator<Item = &Event> {
        let events = &self.history.events;
        let first =
            events[..n].iter().rposition(|event| event.at != at).map_or(0, |before| before + 1);
        events[first..].iter().take_while(move |event| event.at == at)
    }

    /// Returns the placement of a fault: in the middle of the area that it affects.
    fn middle(&self, scope: &Scope) -> Placement {
        let links =
            scope.links.iter().filter_map(|(a, b)| self.lanes.lane(a).zip(self.lanes.lane(b)));
        let conns = scope.conns.iter().filter_map(|conn| self.lanes.ends(self.history, *conn));
        if let Some((a, b)) = conns.chain(links).next() {
            return Placement::Middle(a.min(b));
        }
        let host = scope.hosts.iter().find_map(|host| self.lanes.lane(host));
        host.map_or(Placement::Middle(Lane(0)), |lane| self.lanes.beside(lane))
    }
}

/// An id with more characters than the first number is shortened to the second number.
const ID: (usize, usize) = (20, 8);

/// Shortens long ids in a text. The hover text contains them in full.
fn with_short_ids(text: &str) -> String {
    let part_of_id = |c: char| c.is_ascii_hexdigit() || c == '-';
    let mut short = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(part_of_id) {
        let (before, id) = rest.split_at(start);
        let end = id.find(|c| !part_of_id(c)).unwrap_or(id.len());
        let (id, after) = id.split_at(end);
        short += before;
        short += if id.len() > ID.0 { &id[..ID.1] } else { id };
        short += if id.len() > ID.0 { "…" } else { "" };
        rest = after;
    }
    short + rest
}

/// Returns the name of a milestone or point beside the lane of its host. The subject and the role
/// are left out.
fn short<'n>(name: &'n str, subject: &str, host: &str) -> &'n str {
    let after =
        |name: &'n str, word: &str| name.strip_prefix(word).and_then(|rest| rest.strip_prefix('.'));
    let Some(rest) = after(name, subject) else { return name };
    let role = host.trim_end_matches(|c: char| c.is_ascii_digit());
    after(rest, role).unwrap_or(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::story::tests::a_gap;

    #[test]
    fn the_role_in_a_name_is_left_out_beside_its_lane() {
        assert_eq!(short("exec.client.lost", "exec", "client2"), "lost");
        assert_eq!(short("exec.process.started", "exec", "server"), "process.started");
        assert_eq!(short("counter.client.lost", "exec", "client"), "counter.client.lost");
    }

    #[test]
    fn long_ids_are_cut_short() {
        assert_eq!(
            with_short_ids("hello f0697ec92aef99d02944b6b1b4598493 2 2"),
            "hello f0697ec9… 2 2"
        );
        assert_eq!(
            with_short_ids("answer 1 session 938459b4-b1b6-4429-9099-ef2ac97e69f0"),
            "answer 1 session 938459b4…"
        );
        assert_eq!(with_short_ids("n s1 1 164000001"), "n s1 1 164000001");
    }

    #[test]
    fn each_entry_is_shown_once_with_the_text_of_the_story() {
        let (plan, history, broken) = a_gap();
        let lanes = HostLanes::of(&plan, &history);
        let rendered = entries(&plan, &history, &broken, &lanes, &BTreeMap::new());
        let rendered: Vec<_> =
            rendered.iter().map(|entry| format!("{} {}", entry.at, entry.text)).collect();
        assert_eq!(
            rendered,
            [
                "0.000 s connected (generation 1) on client#1",
                "1.000 s watch stream s1 (call 1)",
                "3.000 s cut client#1: client learns at once, server after 400 ms",
                "3.000 s client#1 (generation 1) is over: connection reset",
                "3.100 s client#2 (generation 2) is over: not opened: connection refused",
                "3.101 s client#2 (generation 2) is over: not opened: connection refused",
                "3.102 s client#2 (generation 2) is over: not opened: connection refused",
                "3.400 s over: cut client#1",
                "3.412 s connected (generation 2) on client#2",
                "3.412 s stall client#2 toward client, 800 ms, after 2nd counter.client.connected",
                "4.212 s over: stall client#2 toward client",
                "4.231 s s1: completed, total 60",
                "4.231 s ✖ gap_free of s1 is violated here: s1: item 42 was delivered after item 40; 41 never was \
                 (generation 2, at 4.231 s)",
            ]
        );
    }
}
