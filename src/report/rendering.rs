//! Converts a history to the lines of a story.
//!
//! [`short`] renders a summary for a reader who sees the failure for the first time: the actions of
//! the schedule, the milestones reached, the ends of connections, the requests with which a client
//! resumes, the output of streams (folded), all endings, and the violations. [`whole`] renders everything, and folds only deliveries.
//! [`entry`] renders one entry.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::history::{
    ConnEnd, ConnIndex, Content, Ending, Event, EventKind, Fate, History, Packet, Side, Time,
};
use crate::property::Violation;
use crate::schedule::{Action, Named, Plan};

use super::items::{Items, Numbering};
use super::line::{StoryLine, Tone};
use super::phrases;

/// Options of a story.
#[derive(Clone, Copy, Debug, Default)]
pub struct RenderOptions {
    /// Renders the short story: without routine entries.
    pub brief: bool,
    /// Leaves out everything before this time.
    pub from: Option<Time>,
    /// Leaves out everything after this time.
    pub until: Option<Time>,
    /// Also shows every segment that the history contains.
    pub packets: bool,
}

/// The maximum number of lines of a short story, and the number of lines that remain before and
/// after the gap if it is longer.
const SHORT: (usize, usize, usize) = (48, 12, 34);

/// The messages of a client that a short story shows per connection: the maximum number, and the
/// time since the first of them.
const REQUESTS: (usize, Duration) = (3, Duration::from_secs(1));

/// Renders the short story, for a reader who sees the failure for the first time.
pub fn short(plan: &Plan, history: &History, broken: &[Violation]) -> Vec<StoryLine> {
    let (most, head, tail) = SHORT;
    let last = broken.iter().map(|broken| broken.at).max().unwrap_or(history.end);
    let mut lines = StoryRenderer::new(plan, history, true)
        .render(broken, RenderOptions { until: Some(last), ..RenderOptions::default() });
    if lines.len() > most {
        let left_out = lines.len() - head - tail;
        let gap = StoryLine {
            at: lines[head].at,
            place: "…".into(),
            text: format!("{left_out} more lines: run the replay"),
            after: None,
            tone: Tone::Quiet,
        };
        lines.splice(head..head + left_out, [gap]);
    }
    lines
}

/// Renders the full story.
pub fn whole(
    plan: &Plan,
    history: &History,
    broken: &[Violation],
    options: RenderOptions,
) -> Vec<StoryLine> {
    let lines = StoryRenderer::new(plan, history, options.brief).render(broken, options);
    let shown = |line: &StoryLine| options.from.is_none_or(|from| line.at >= from);
    lines.into_iter().filter(shown).collect()
}

/// Renders one entry.
pub fn entry(plan: &Plan, history: &History, event: &Event) -> StoryLine {
    let (tone, text) = StoryRenderer::new(plan, history, false).text_of(&event.what);
    StoryLine { at: event.at, place: place(plan, event), text, after: None, tone }
}

/// Returns the line that marks a violation. The head of the story contains its sentence.
pub fn mark(broken: &Violation) -> StoryLine {
    let about = broken.stream().map_or(String::new(), |stream| format!(" of {stream}"));
    let text = format!("{}{about} is violated here", broken.property);
    StoryLine { at: broken.at, place: "BROKEN".into(), text, after: None, tone: Tone::Broken }
}

/// Returns the place of an entry: the user's host for an operation, the network for a fault.
fn place(plan: &Plan, event: &Event) -> String {
    if let EventKind::Stepped { step, .. } = &event.what
        && let Some(Action::Operation(operation)) = plan.steps.get(*step).map(|step| &step.action)
    {
        return operation.client.to_string();
    }
    match (&event.what, &event.host) {
        (
            EventKind::FaultBegan { .. }
            | EventKind::FaultEnded { .. }
            | EventKind::Tampered { .. }
            | EventKind::Packet(_)
            | EventKind::Message { .. },
            _,
        ) => "network".into(),
        (_, Some(host)) => host.to_string(),
        (_, None) => "network".into(),
    }
}

/// A line that can still absorb later entries.
struct Fold {
    line: usize,
    times: u64,
    /// The text to show when the line covers several entries.
    folded: String,
}

struct StoryRenderer<'a> {
    plan: &'a Plan,
    history: &'a History,
    short: bool,
    lines: Vec<StoryLine>,
    folds: BTreeMap<String, Fold>,
    items: BTreeMap<String, (usize, Items)>,
    numbering: Numbering<'a>,
    faults: BTreeMap<usize, (Time, String)>,
    /// The last ending of each stream. If a user asks again, the repeated answer is left out.
    endings: BTreeMap<String, String>,
    /// The number of messages that the client sent on each connection, and the time of the first.
    sent: BTreeMap<ConnIndex, (usize, Time)>,
}

impl<'a> StoryRenderer<'a> {
    fn new(plan: &'a Plan, history: &'a History, short: bool) -> Self {
        let numbering = Numbering::default();
        let (lines, folds, items, faults, endings, sent) = Default::default();
        Self { plan, history, short, lines, folds, items, numbering, faults, endings, sent }
    }

    fn render(mut self, broken: &[Violation], options: RenderOptions) -> Vec<StoryLine> {
        let mut marks: Vec<_> = broken.iter().collect();
        marks.sort_by_key(|broken| broken.at);
        let mut marks = marks.into_iter().peekable();
        let shown = |at: Time| options.until.is_none_or(|until| at <= until);
        for event in self.history.events.iter().take_while(|event| shown(event.at)) {
            while let Some(broken) = marks.next_if(|broken| broken.at < event.at) {
                self.push(mark(broken));
            }
            if !matches!(event.what, EventKind::Packet(_)) || options.packets {
                self.event(event);
            }
        }
        for broken in marks.filter(|broken| shown(broken.at)) {
            self.push(mark(broken));
        }
        self.lines
    }

    /// Renders an entry: as a new line, as a part of an existing line, or not at all.
    fn event(&mut self, event: &'a Event) {
        match &event.what {
            EventKind::Produced { stream, bytes } => {
                self.numbering.produced(stream, bytes);
                if self.short {
                    return;
                }
            }
            EventKind::Delivered { stream, bytes, .. } => {
                let item = self.numbering.delivered(stream, bytes);
                return self.delivered(event, &stream.to_string(), item);
            }
            EventKind::Asked { call, operation, .. }
                if self.repeats_step(event, operation, &call.to_string()) =>
            {
                return;
            }
            EventKind::FaultBegan { fault, step, what, .. } => {
                self.faults.insert(*fault, (event.at, what.sentence()));
                if self.stepped_now(event.at, *step) {
                    return;
                }
            }
            EventKind::Stepped { step, note: Some(note) } if self.noted(event.at, *step, note) => {
                return;
            }
            EventKind::StreamEnded { stream, ending } if self.short => {
                let text = phrases::ending(ending);
                if self.endings.insert(stream.to_string(), text.clone()) == Some(text) {
                    return;
                }
            }
            EventKind::FaultEnded { fault }
                if self.faults.get(fault).is_some_and(|(began, _)| *began == event.at) =>
            {
                return;
            }
            EventKind::Message { conn, from: Side::Client, label, .. } if self.short => {
                return self.request(event.at, *conn, label);
            }
            what if self.short && !matters(what) => return,
            _ => {}
        }
        if let Some(key) = self.fold_key(event) {
            return self.fold(event, key);
        }
        let (tone, text) = self.text_of(&event.what);
        let after = match &event.what {
            EventKind::Stepped { step, .. } => {
                self.plan.steps.get(*step).and_then(|step| phrases::cause(&step.when))
            }
            _ => None,
        };
        self.push(StoryLine { at: event.at, place: place(self.plan, event), text, after, tone });
    }

    /// Adds a line that ends all folds.
    fn push(&mut self, line: StoryLine) {
        self.folds.clear();
        self.items.clear();
        self.lines.push(line);
    }

    /// Whether the entry repeats the line of a step at the same time. If so, adds the number of the
    /// call to that line.
    fn repeats_step(
        &mut self,
        event: &Event,
        operation: &crate::schedule::Operation,
        call: &str,
    ) -> bool {
        let text = phrases::operation(operation);
        let line = self
            .lines
            .iter_mut()
            .rev()
            .take_while(|line| line.at == event.at)
            .find(|line| line.text == text);
        line.map(|line| line.text = format!("{text} ({call})")).is_some()
    }

    /// Whether the step already has a line at this time. If so, adds the note to that line.
    fn noted(&mut self, at: Time, step: usize, note: &str) -> bool {
        let Some(step) = self.plan.steps.get(step) else { return false };
        let text = phrases::step(step);
        let line = self
            .lines
            .iter_mut()
            .rev()
            .take_while(|line| line.at == at)
            .find(|line| line.text == text);
        line.map(|line| line.text = format!("{text}: {note}")).is_some()
    }

    fn stepped_now(&self, at: Time, step: usize) -> bool {
        let Some(step) = self.plan.steps.get(step) else { return false };
        let text = phrases::step(step);
        self.lines
            .iter()
            .rev()
            .take_while(|line| line.at == at)
            .any(|line| line.text.starts_with(&text))
    }

    /// Shows what a client asks for when it resumes: its first messages on a connection of a later
    /// generation. The request of a WebSocket handshake says nothing about that.
    fn request(&mut self, at: Time, conn: ConnIndex, label: &str) {
        let Some(of) = self.history.conns.get(conn.0) else { return };
        if of.generation.is_none_or(|generation| generation < 2) || label.starts_with("GET ") {
            return;
        }
        let (sent, first) = self.sent.entry(conn).or_insert((0, at));
        *sent += 1;
        if *sent <= REQUESTS.0 && at <= *first + REQUESTS.1 {
            let (place, text) = (of.client.to_string(), format!("sends {label} on {}", of.name));
            self.push(StoryLine { at, place, text, after: None, tone: Tone::Plain });
        }
    }

    fn delivered(&mut self, event: &Event, stream: &str, item: Option<u64>) {
        let (line, items) = self.items.entry(stream.to_owned()).or_insert_with(|| {
            self.lines.push(StoryLine {
                at: event.at,
                place: place(self.plan, event),
                text: String::new(),
                after: None,
                tone: Tone::Plain,
            });
            (self.lines.len() - 1, Items::default())
        });
        items.add(item, event.at);
        self.lines[*line].text = format!("{stream}: {items}");
    }

    /// Returns a key. In a short story, entries with the same key share a line.
    fn fold_key(&self, event: &Event) -> Option<String> {
        if !self.short {
            return None;
        }
        let kind = match &event.what {
            EventKind::Milestone { name, fields } => format!("{name}{}", phrases::fields(fields)),
            EventKind::Point { name, held: false, .. } => (*name).to_owned(),
            EventKind::ConnOver { how: how @ ConnEnd::NotOpened(_), .. } => phrases::conn_end(*how),
            EventKind::ConnOver { conn, how, .. } if !self.carries_generation(*conn) => {
                phrases::conn_end(*how)
            }
            _ => return None,
        };
        Some(format!("{} {kind} {}", place(self.plan, event), self.client_of(&event.what)))
    }

    fn carries_generation(&self, conn: ConnIndex) -> bool {
        self.history.conns.get(conn.0).is_some_and(|conn| conn.generation.is_some())
    }

    /// Returns the client of the entry's connection. Entries of different clients never share a
    /// line.
    fn client_of(&self, what: &EventKind) -> String {
        let (EventKind::Milestone { fields, .. } | EventKind::Point { fields, .. }) = what else {
            return String::new();
        };
        let conn = phrases::about_conn(self.history, fields);
        conn.split('#').next().unwrap_or_default().to_owned()
    }

    fn fold(&mut self, event: &Event, key: String) {
        if let Some(fold) = self.folds.get_mut(&key) {
            fold.times += 1;
            self.lines[fold.line].text =
                format!("{}, {} times until {}", fold.folded, fold.times, event.at);
            return;
        }
        let (tone, text) = self.text_of(&event.what);
        let folded = match &event.what {
            EventKind::Milestone { name, fields } => format!("{name}{}", phrases::fields(fields)),
            EventKind::ConnOver { how, .. } => {
                format!("connections are over: {}", phrases::conn_end(*how))
            }
            _ => text.clone(),
        };
        self.items.clear();
        self.lines.push(StoryLine {
            at: event.at,
            place: place(self.plan, event),
            text,
            after: None,
            tone,
        });
        self.folds.insert(key, Fold { line: self.lines.len() - 1, times: 1, folded });
    }

    fn text_of(&self, what: &EventKind) -> (Tone, String) {
        let history = self.history;
        match what {
            EventKind::Produced { stream, bytes } => {
                (Tone::Quiet, format!("{stream}: produced {}", shown(bytes)))
            }
            EventKind::Ended { stream, outcome } => {
                (Tone::Quiet, format!("{stream}: its producer ended, {outcome}"))
            }
            EventKind::Effect { call, target } => {
                (Tone::Plain, format!("{call} took effect on {target}"))
            }
            EventKind::Unanswered { stream, what } => {
                (Tone::Quiet, format!("{stream}: its producer gets no answer to {what}"))
            }
            EventKind::Fetched { what, takes } => {
                (Tone::Quiet, format!("fetches {what}, which takes {}", phrases::span(*takes)))
            }
            EventKind::Asked { call, operation, .. } => {
                (Tone::Schedule, format!("{} ({call})", phrases::operation(operation)))
            }
            EventKind::Answered { call, answer } => {
                (Tone::Good, format!("{call} answered: {answer}"))
            }
            EventKind::Failed { call, reason } => (Tone::Bad, format!("{call} failed: {reason}")),
            EventKind::Opened { stream, call } => {
                (Tone::Plain, format!("{stream}: opened by {call}"))
            }
            EventKind::Delivered { stream, bytes, generation } => {
                let over = generation
                    .map_or(String::new(), |generation| format!(" (generation {generation})"));
                (Tone::Plain, format!("{stream}: delivered {}{over}", shown(bytes)))
            }
            EventKind::StreamEnded { stream, ending } => {
                let tone =
                    if matches!(ending, Ending::Completed { .. }) { Tone::Good } else { Tone::Bad };
                (tone, format!("{stream}: {}", phrases::ending(ending)))
            }
            EventKind::Observed { stream, saw } => (Tone::Plain, format!("{stream}: {saw}")),
            EventKind::GaveUp { stream: Some(stream), call } => {
                (Tone::Plain, format!("{stream}: closed by its user ({call})"))
            }
            EventKind::GaveUp { stream: None, call } => {
                (Tone::Plain, format!("closed by its user ({call})"))
            }
            EventKind::Started => (Tone::Quiet, "started".into()),
            EventKind::Died { kernel: true } => (Tone::Schedule, "lost its power".into()),
            EventKind::Died { kernel: false } => (Tone::Schedule, "died".into()),
            EventKind::Stepped { step, note } => {
                let text = self
                    .plan
                    .steps
                    .get(*step)
                    .map_or_else(|| format!("step {}", step + 1), phrases::step);
                (
                    Tone::Schedule,
                    note.as_ref().map_or(text.clone(), |note| format!("{text}: {note}")),
                )
            }
            EventKind::FaultBegan { what, .. } => {
                (Tone::Schedule, format!("in force: {}", what.sentence()))
            }
            EventKind::FaultEnded { fault } => {
                let text = self
                    .faults
                    .get(fault)
                    .map_or_else(|| format!("fault {fault}"), |(_, text)| text.clone());
                (Tone::Schedule, format!("over: {}", brief(&text)))
            }
            EventKind::Tampered { conn, from, how, label, .. } => {
                let conn = phrases::conn(history, *conn);
                (Tone::Schedule, format!("{conn} {}: {} {label}", arrow(*from), how.name()))
            }
            EventKind::ConnOpened { conn } => {
                (Tone::Quiet, format!("opens {}", phrases::conn(history, *conn)))
            }
            EventKind::ConnUp { conn, side } => {
                (Tone::Quiet, format!("{} is up{}", phrases::conn(history, *conn), end(*side)))
            }
            EventKind::ConnOver { conn, side, how } => {
                let tone = if *how == ConnEnd::Closed { Tone::Quiet } else { Tone::Bad };
                (
                    tone,
                    format!(
                        "{} is over{}: {}",
                        phrases::conn(history, *conn),
                        end(*side),
                        phrases::conn_end(*how)
                    ),
                )
            }
            EventKind::Packet(packet) => (Tone::Quiet, self.packet(packet)),
            EventKind::Message { conn, from, label, delivered, .. } => {
                let fate =
                    delivered.map_or("not delivered yet".into(), |at| format!("delivered at {at}"));
                (
                    Tone::Quiet,
                    format!("{} {}: {label} ({fate})", phrases::conn(history, *conn), arrow(*from)),
                )
            }
            EventKind::Milestone { name, fields } => (
                Tone::Plain,
                format!(
                    "{name}{}{}",
                    phrases::fields(fields),
                    phrases::about_conn(history, fields)
                ),
            ),
            EventKind::Point { name, fields, held } => {
                let verb = if *held { "is held at" } else { "passes" };
                (Tone::Quiet, format!("{verb} point {name}{}", phrases::fields(fields)))
            }
            EventKind::Released { name } => (Tone::Quiet, format!("continues at point {name}")),
            EventKind::Gauge { name, value } => (Tone::Quiet, format!("{name}: {value}")),
            EventKind::ResourceCounts { baseline, counts } => {
                let when =
                    if *baseline { "before the first connection" } else { "at the end of the run" };
                let counts: Vec<_> =
                    counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
                (Tone::Quiet, format!("counted {when}: {}", counts.join(", ")))
            }
            EventKind::Outlived { tasks } => {
                (Tone::Bad, format!("{} left over", phrases::count(*tasks, "task")))
            }
            EventKind::Unowned { what } => (Tone::Bad, format!("{what} belongs to no host")),
            EventKind::Panicked { message } => (Tone::Bad, format!("a task panicked: {message}")),
            EventKind::Livelock { what } => (Tone::Bad, format!("virtual time stopped: {what}")),
        }
    }

    fn packet(&self, packet: &Packet) -> String {
        let flags = [
            (packet.flags.syn, "SYN"),
            (packet.flags.ack, "ACK"),
            (packet.flags.fin, "FIN"),
            (packet.flags.rst, "RST"),
        ];
        let flags: Vec<_> = flags.iter().filter(|(set, _)| *set).map(|(_, name)| *name).collect();
        let bytes = match packet.len {
            0 => String::new(),
            len => format!(" bytes {} to {}", packet.offset, packet.offset + u64::from(len) - 1),
        };
        let fate = match packet.fate {
            Fate::Arrives(at) => format!("arrives at {at}"),
            Fate::Held => "held".into(),
            Fate::Lost => "lost".into(),
        };
        format!(
            "{} {}: {}{bytes}, {fate}",
            phrases::conn(self.history, packet.conn),
            arrow(packet.from),
            flags.join(" ")
        )
    }
}

/// Whether an entry belongs in a short story. Steps always do. Deliveries are folded.
fn matters(what: &EventKind) -> bool {
    match what {
        EventKind::ConnOver { how, .. } => *how != ConnEnd::Closed,
        EventKind::Point { held, .. } => *held,
        EventKind::Ended { .. }
        | EventKind::Effect { .. }
        | EventKind::Fetched { .. }
        | EventKind::Unanswered { .. }
        | EventKind::Opened { .. }
        | EventKind::Started
        | EventKind::ConnOpened { .. }
        | EventKind::ConnUp { .. }
        | EventKind::Packet(_)
        | EventKind::Message { .. }
        | EventKind::Released { .. }
        | EventKind::Gauge { .. }
        | EventKind::ResourceCounts { .. } => false,
        _ => true,
    }
}

/// Returns a fault without its details.
pub(super) fn brief(text: &str) -> &str {
    text.split([':', ',']).next().unwrap_or(text)
}

fn end(side: Side) -> &'static str {
    match side {
        Side::Client => "",
        Side::Server => " at the server's end",
    }
}

fn arrow(from: Side) -> &'static str {
    match from {
        Side::Client => "→",
        Side::Server => "←",
    }
}

/// Returns bytes in readable, shortened form; as text if they are text.
fn shown(bytes: &Content) -> String {
    const MOST: usize = 32;
    let bytes = bytes.whole();
    let text = String::from_utf8_lossy(&bytes);
    let start: String = text.chars().take(MOST).collect();
    if start.len() < text.len() {
        format!("{start:?}… ({} bytes)", bytes.len())
    } else {
        format!("{start:?}")
    }
}
