//! Lost events: a gap names exactly these, and each has a gap.

use std::time::Duration;

use super::followers::reads_at_once;
use super::server::BUFFERS;
use crate::history::{Content, EventKind, ProcessOutcome, Time};
use crate::property::Violation;
use crate::property::violation::{fields, kinds};
use crate::schedule::Fault;
use crate::subjects::judging::{host, judged};
use crate::subjects::sse::names::OVERHEAD;
use crate::subjects::sse::notes::{SeenEvents, SseNote};
use crate::subjects::sse::story::{Process, Question, Story, pipe};
use crate::subjects::sse::tables::is_execd;
use reknit_sse::wire::Gap;

kinds! {
    pub(super) GAP_IS_EXACT;
    NOT_NEXT = "not-next": "{subject:}{on} saw a gap from event {first}, but it had everything only up to event {after} {moment}";
    RETAINED = "retained": "{subject:}{on} saw a gap up to event {last}, but the server still had to have that event {moment}";
    NEVER_WAS = "never-was": "{subject:}{on} saw a gap up to event {last}, but there were only {events} events {moment}";
    OTHER_LINE = "other-line": "{subject:}{on} received another line as event {position} after a gap {moment}";
    OTHER_TOTAL = "other-total": "{subject:}{on} received the ending as event {position} after a gap, but it is event {ending} {moment}";
}

kinds! {
    pub(super) POSITIONS_FOLLOW;
    SKIPPED = "skipped": "{subject:}{on} received event {position} after event {after}, without a gap {moment}";
    OTHER_ID = "other-id": "{subject:}a standard client received event {position} with the id of event {id} {moment}";
    AGAIN = "again": "{subject:}{on} received an event, but its cursor went from event {after} to event {position} {moment}";
}

kinds! {
    pub(super) HOLD_IS_LOSSLESS;
    LOST = "lost": "{subject:}{on} saw a gap, although it had received something at {before}, and the command waits for {hold} {moment}";
    LOST_WHILE_AWAY = "lost-while-away": "{subject:}{on} lost the event that was printed at {printed}, after its stream was over at {over}, although it had received one of {before}, and the command waits for {hold} {moment}";
    LOST_IN_PROGRESS = "lost-in-progress": "{subject:}{on} saw a gap in a stream that was never without progress for longer than {quiet} since {opened}, and the command waits for {hold} {moment}";
}

/// The output of a process as events.
pub(super) struct Events<'a> {
    /// For each event of each pipe: when it was printed, and its bytes.
    pipes: [Vec<(Time, &'a Content)>; 2],
    /// Whether each line is one event.
    pub(super) is_plain: bool,
}

impl<'a> Events<'a> {
    pub(super) fn of(process: &Process<'a>, longest: usize) -> Self {
        let is_line = |line: &Content| {
            let end = line.whole().iter().position(|byte| *byte == b'\n');
            line.len() <= longest && end.is_some_and(|end| end + 1 == line.len())
        };
        let is_plain = process.lines.iter().flatten().all(|(_, line)| is_line(line));
        Self { pipes: process.lines.clone(), is_plain }
    }

    /// Returns how many events there were at a time, at most.
    pub(super) fn until(&self, at: Time, ended: Option<Time>) -> u64 {
        let printed =
            |pipe: &Vec<(Time, &Content)>| pipe.iter().filter(|(line, _)| *line <= at).count();
        let ending = ended.is_some_and(|ended| ended <= at);
        self.pipes.iter().map(printed).sum::<usize>() as u64 + u64::from(ending)
    }

    /// Returns the largest weight of an event.
    fn heaviest(&self) -> u64 {
        let longest = self.pipes.iter().flatten().map(|(_, line)| line.len()).max();
        longest.unwrap_or(0) as u64 + OVERHEAD
    }

    /// Returns the output at a position, and when it was printed, if only one pipe has any.
    fn only(&self, position: u64) -> Option<(Time, &'a Content)> {
        let pipe = match &self.pipes {
            [pipe, other] | [other, pipe] if other.is_empty() => pipe,
            _ => return None,
        };
        pipe.get(usize::try_from(position).ok()?.checked_sub(1)?).copied()
    }
}

pub(super) fn gap_is_exact(story: &Story<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    for ((on, record), notes) in &story.notes {
        let Some(process) = story.processes.get(record) else { continue };
        let events = Events::of(process, story.server.line_bytes);
        // A second launch is a second run. The property cannot distinguish the events of the runs.
        if !events.is_plain || process.launched.len() > 1 {
            continue;
        }
        found.extend(notes.iter().filter_map(|(at, note)| {
            let violation =
                |kind, data| Some(Violation::new("gap_is_exact", *record, *at, kind, data));
            match note {
                SseNote::Gap { after, gap } => {
                    story.cx.judges("gap_is_exact");
                    if gap.first != after + 1 {
                        let data = fields! { on: *on, first: gap.first, after: *after };
                        return violation(&NOT_NEXT, data);
                    }
                    let ended = process.ended.map(|(ended, _)| ended);
                    let known = events.until(*at, ended);
                    if gap.last > known {
                        return violation(
                            &NEVER_WAS,
                            fields! { on: *on, last: gap.last, events: known },
                        );
                    }
                    let had = !may_drop(story, &events, *gap, known);
                    had.then(|| violation(&RETAINED, fields! { on: *on, last: gap.last })).flatten()
                }
                SseNote::Output { position, bytes, .. } => {
                    let (_, line) = events.only(*position)?;
                    story.cx.judges("gap_is_exact");
                    let is_other = line.whole() != bytes.whole();
                    is_other
                        .then(|| violation(&OTHER_LINE, fields! { on: *on, position: *position }))
                        .flatten()
                }
                SseNote::Ended { position, .. } => {
                    // A process that is killed may leave a part of a line.
                    let (_, ProcessOutcome::Exit(_)) = process.ended? else { return None };
                    story.cx.judges("gap_is_exact");
                    let ending = events.until(*at, Some(Time::ZERO));
                    let data = fields! { on: *on, position: *position, ending };
                    (*position != ending).then(|| violation(&OTHER_TOTAL, data)).flatten()
                }
                _ => None,
            }
        }));
    }
    found
}

pub(super) fn positions_follow(story: &Story<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    // Users compare the position of each item, and note only a wrong one.
    if !is_execd(&story.cx.plan.defects) {
        let items = story.deliveries.values().flatten();
        items.for_each(|_| story.cx.judges("positions_follow"));
    }
    for ((on, record), notes) in &story.notes {
        found.extend(notes.iter().filter_map(|(at, note)| {
            let SseNote::NotNext { after, position } = note else { return None };
            // The events of an execd without resumption have no positions.
            if *position == 0 && is_execd(&story.cx.plan.defects) {
                return None;
            }
            story.cx.judges("positions_follow");
            let kind = if position > after { &SKIPPED } else { &AGAIN };
            let data = fields! { on: *on, after: *after, position: *position };
            Some(Violation::new("positions_follow", *record, *at, kind, data))
        }));
    }
    found.extend(story.questions.iter().filter_map(|question| {
        let (at, answer) = question.answer?;
        let positions = answer.done::<SeenEvents>()?.positions();
        let mut positions = positions.inspect(|_| story.cx.judges("positions_follow"));
        let (id, position) = positions.find(|(id, position)| id != position)?;
        let data = fields! { id, position };
        Some(Violation::new("positions_follow", question.call, at, &OTHER_ID, data))
    }));
    found
}

/// Whether the server could drop the last event of a gap, when there were `known` events.
pub(super) fn may_drop(story: &Story<'_>, events: &Events<'_>, gap: Gap, known: u64) -> bool {
    let since = known - gap.last + 1;
    since > story.server.retained_events as u64
        || since * events.heaviest() > story.server.retained_bytes as u64
}

/// The time by which the network and a held task may shorten the wait of a command.
const MARGIN: Duration = Duration::from_secs(3);

/// How exactly the end of a connection and that of a hold are compared with other times.
const CLOSE: Duration = Duration::from_millis(100);

pub(super) fn hold_is_lossless(story: &Story<'_>) -> Vec<Violation> {
    if story.server.hold.is_zero() {
        return Vec::new();
    }
    count_kept(story);
    let mut found = lost_from_buffers(story);
    found.extend(story.notes.iter().filter_map(|((on, record), notes)| {
        // A user who reads again from the start may find less than before.
        let mut gaps = notes.iter().filter_map(|(at, note)| match note {
            SseNote::Gap { after, gap } if *after > 0 => Some((*at, *after, *gap)),
            _ => None,
        });
        let (at, after, gap) = gaps.clone().next()?;
        lost_while_away(story, (*on, *record), at, after, gap).or_else(|| {
            gaps.find_map(|(at, after, gap)| {
                lost_in_progress(story, (*on, *record), at, after, gap)
            })
        })
    }));
    found
}

/// Judges a gap of a host, whose user had everything up to event `after`: an event that goes while its stream is
/// attached goes only after a whole hold without progress. Until then, either the stream has taken all
/// events, and sends a sign of life at each heartbeat, or its connection has no room. In the second case, each byte
/// that arrives at the client makes room, and the stream makes progress.
fn lost_in_progress(
    story: &Story<'_>,
    (on, record): (&str, &str),
    at: Time,
    after: u64,
    gap: Gap,
) -> Option<Violation> {
    let hold = story.server.hold;
    let process = makes_progress(story, (on, record), at)?;
    let events = Events::of(process, story.server.line_bytes);
    let gone = gone_for_the_ending(story, process, &events, at);
    gap.last.checked_sub(gone).filter(|last| *last > after)?;
    // Only the newest connection can have brought the gap. It had brought events before, so the lost ones were there
    // when the stream was attached, or came later.
    let opened = story.followers_conns(on).map(|conn| conn.opened).filter(|open| *open <= at);
    let opened = opened.max()?;
    let mut quiet = Duration::ZERO;
    let (mut last, mut has_events) = (opened, false);
    let received = received(story, on, record);
    for time in received.into_iter().filter(|time| (opened..at).contains(time)) {
        has_events |= time > opened;
        quiet = quiet.max(time.since(last));
        last = time;
    }
    quiet = quiet.max(at.since(last));
    let data = fields! { on, quiet: Time::from(quiet), opened, hold: Time::from(hold) };
    (has_events && quiet + slack(story) < hold).then(|| {
        story.cx.judges("hold_is_lossless");
        Violation::new("hold_is_lossless", record, at, &LOST_IN_PROGRESS, data)
    })
}

/// How much longer than its user receives nothing a stream may be without progress: an acknowledgement is on its
/// way for a moment.
fn slack(story: &Story<'_>) -> Duration {
    story.server.heartbeat + story.cx.plan.latency.1 * 2 + Duration::from_secs(1)
}

/// Returns the process of a command whose stream to a host makes progress until a time whenever its user receives
/// something. `None` if the history does not show that.
fn makes_progress<'s, 'a>(
    story: &'s Story<'a>,
    (on, record): (&str, &str),
    at: Time,
) -> Option<&'s Process<'a>> {
    let process = story.processes.get(record)?;
    // A user that reads at once has each byte when it arrives.
    let is_judged = process.launched.len() == 1
        && story.is_prompt(at)
        && story.cx.is_honest()
        && reads_at_once(story, on)
        && only_slows(story, at)
        && !is_execd(&story.cx.plan.defects);
    let follower = story.only_follower(on, at).filter(|follower| follower.record == record);
    follower.filter(|_| is_judged).map(|_| process)
}

/// Returns when the users of a host received output of a command, in order. After a gap, the history has only notes
/// of it.
fn received(story: &Story<'_>, on: &str, record: &str) -> Vec<Time> {
    let own = judged(story.cx).filter(|event| host(event) == on);
    let delivered = own.filter_map(|event| {
        let EventKind::Delivered { stream, .. } = &event.what else { return None };
        pipe(stream).filter(|(of, _)| *of == record).map(|_| event.at)
    });
    let notes = story.notes.get(&(on, record)).into_iter().flatten();
    let noted = notes.filter(|(_, note)| matches!(note, SseNote::Output { .. }));
    let mut received: Vec<_> = delivered.chain(noted.map(|(at, _)| *at)).collect();
    received.sort_unstable();
    received
}

/// Whether each fault until a time leaves the acknowledgements of a connection as fast as before, or ends the
/// connection.
fn only_slows(story: &Story<'_>, until: Time) -> bool {
    let mut events = judged(story.cx).take_while(|event| event.at <= until);
    events.all(|event| match &event.what {
        EventKind::FaultBegan { what, .. } => match &**what {
            Fault::Slow(slow) => slow.by.latency.is_none_or(|more| more <= CLOSE),
            Fault::Cut(_) | Fault::CutAfter(_) | Fault::Reset(_) | Fault::Refuse(_) => true,
            _ => false,
        },
        _ => true,
    })
}

/// Returns how many outputs the ending of a process removes from its log until a time, at most. The ending does not
/// wait. Output leaves room for it, unless the log is too small for two events.
fn gone_for_the_ending(
    story: &Story<'_>,
    process: &Process<'_>,
    events: &Events<'_>,
    until: Time,
) -> u64 {
    let is_small = story.server.retained_events < 2
        || events.heaviest() + OVERHEAD > story.server.retained_bytes as u64;
    let has_ended = process.ended.is_some_and(|(ended, _)| ended <= until);
    u64::from(is_small && has_ended)
}

/// Judges the first gap of a host, whose user had everything up to event `after`. The buffers of a lost
/// connection hold no output that was printed later. Such output waits for the next stream until the hold is
/// over. The hold counts from the last progress of the lost stream, or from a later beginning of a
/// stream: at least from the output that the user received.
fn lost_while_away(
    story: &Story<'_>,
    (on, record): (&str, &str),
    at: Time,
    after: u64,
    gap: Gap,
) -> Option<Violation> {
    let hold = story.server.hold;
    let (process, events) = has_one_reader(story, (on, record), at)?;
    // The connection that brought the gap is the last one. The server had noticed the end of all others.
    let conns: Vec<_> = story.followers_conns(on).filter(|conn| conn.opened <= at).collect();
    let (_, lost) = conns.split_last()?;
    let over = lost.iter().map(|conn| conn.over.1).collect::<Option<Vec<_>>>()?;
    let over = over.into_iter().max()?;
    let gone = gone_for_the_ending(story, process, &events, at);
    let last = gap.last.checked_sub(gone).filter(|last| *last > after)?;
    let ((printed, _), (before, _)) = (events.only(last)?, events.only(after)?);
    let is_lost = printed > over + CLOSE && at + CLOSE < before + hold;
    let data = fields! { on, printed, over, before, hold: Time::from(hold) };
    is_lost.then(|| {
        story.cx.judges("hold_is_lossless");
        Violation::new("hold_is_lossless", record, at, &LOST_WHILE_AWAY, data)
    })
}

/// Returns the process and the events of a command that waits for its only reader on a host until a time.
fn has_one_reader<'s, 'a>(
    story: &'s Story<'a>,
    (on, record): (&str, &str),
    at: Time,
) -> Option<(&'s Process<'a>, Events<'a>)> {
    let process = story.processes.get(record)?;
    let events = Events::of(process, story.server.line_bytes);
    let launched = *process.launched.first()?;
    let is_one = process.launched.len() == 1 && story.server_lived(launched, at);
    let hold = story.server.hold;
    if hold.is_zero() || !events.is_plain || !is_one || is_execd(&story.cx.plan.defects) {
        return None;
    }
    // The stream of another reader takes events, too.
    let follower = story.only_follower(on, at).filter(|follower| follower.record == record)?;
    let reads = |other: &Question<'_>| {
        let is_reader = other.takes_events() || other.follows();
        is_reader && other.record == record && other.call != follower.call
    };
    let is_alone = !story.questions.iter().any(reads) && story.cx.is_honest();
    is_alone.then_some((process, events))
}

/// Counts the items that users received where a gap would have been wrong. A gap itself counts where it is judged.
fn count_kept(story: &Story<'_>) {
    for (on, times) in &story.deliveries {
        let Some(record) = only_followed(story, on) else { continue };
        let notes = story.notes.get(&(*on, record)).into_iter().flatten();
        let gap = notes.filter(|(_, note)| matches!(note, SseNote::Gap { .. })).map(|(at, _)| *at);
        let times: &[Time] = match gap.min() {
            Some(gap) => &times[..times.partition_point(|at| *at < gap)],
            None => times,
        };
        let cases = [
            kept_of_buffers(story, times),
            kept_while_away(story, (*on, record), times),
            kept_in_progress(story, (*on, record), times),
        ];
        let judged = cases.into_iter().flatten();
        judged.for_each(|_| story.cx.judges("hold_is_lossless"));
    }
}

/// Returns the record of the only command whose items the users of a host receive.
fn only_followed<'s>(story: &'s Story<'_>, on: &str) -> Option<&'s str> {
    let mut own = story.questions.iter().filter(|question| {
        question.host == on && (question.starts_a_command() || question.follows())
    });
    let first = own.next()?;
    let is_only =
        first.follows() && own.all(|other| other.follows() && other.record == first.record);
    is_only.then_some(first.record.as_str())
}

/// Returns the first time at which `lost_from_buffers` would have judged a gap, of these at which a user received
/// an item.
fn kept_of_buffers(story: &Story<'_>, times: &[Time]) -> Option<Time> {
    if !buffers_lose_nothing(story) {
        return None;
    }
    times.windows(2).find_map(|pair| {
        let [before, at] = *pair else { return None };
        let is_held_up = story.held_up.is_some_and(|held| held <= at);
        (at.since(before) + MARGIN < story.server.hold && !is_held_up).then_some(at)
    })
}

/// Returns the first time at which `lost_in_progress` would have judged a gap: when a connection brought its second
/// item.
fn kept_in_progress(story: &Story<'_>, (on, record): (&str, &str), times: &[Time]) -> Option<Time> {
    let conns: Vec<_> = story.followers_conns(on).map(|conn| conn.opened).collect();
    let at = conns.iter().enumerate().find_map(|(n, opened)| {
        let mut brought = times.iter().copied().filter(|at| at > opened);
        let first = brought.next()?;
        let at = brought.find(|at| *at > first)?;
        let is_newest = conns.get(n + 1).is_none_or(|next| *next > at);
        let quiet = first.since(*opened).max(at.since(first));
        (is_newest && quiet + slack(story) < story.server.hold).then_some(at)
    })?;
    makes_progress(story, (on, record), at).map(|_| at)
}

/// Returns the first time at which `lost_while_away` would have judged a gap: when a later connection brought its
/// first item, and something was printed while there was none.
fn kept_while_away(story: &Story<'_>, (on, record): (&str, &str), times: &[Time]) -> Option<Time> {
    let conns: Vec<_> = story.followers_conns(on).collect();
    (1..conns.len()).find_map(|n| {
        let over = conns[..n].iter().map(|conn| conn.over.1).collect::<Option<Vec<_>>>()?;
        let over = over.into_iter().max()?;
        // The user follows the command from its start, and each item is an event.
        let after = times.partition_point(|at| *at < conns[n].opened);
        let at = *times.get(after)?;
        let is_newest = conns.get(n + 1).is_none_or(|next| next.opened > at);
        let (process, events) = has_one_reader(story, (on, record), at)?;
        let (before, _) = events.only(after as u64)?;
        let next = after as u64 + gone_for_the_ending(story, process, &events, at) + 1;
        let mut later = (next..).map_while(|position| events.only(position));
        let is_away = later.any(|(printed, _)| printed > over + CLOSE && printed <= at);
        let is_back = is_newest && at + CLOSE < before + story.server.hold;
        (is_away && is_back).then_some(at)
    })
}

/// Whether a log has room for what the buffers of a connection hold, and a command waits long enough for its client.
fn buffers_lose_nothing(story: &Story<'_>) -> bool {
    let server = &story.server;
    let most = 2 * server.in_flight as u64;
    let has_room = server.retained_bytes as u64 >= most
        && (server.retained_events as u64).saturating_mul(OVERHEAD) >= most;
    // Data in buffers beyond `in-flight` counts as received, and is lost with its connection.
    let covers_all = server.in_flight as u64 >= BUFFERS;
    server.hold > MARGIN && has_room && covers_all
}

/// Judges gaps after which the log had room for what the buffers of a connection held.
fn lost_from_buffers(story: &Story<'_>) -> Vec<Violation> {
    let server = &story.server;
    if !buffers_lose_nothing(story) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for ((on, record), notes) in &story.notes {
        // A user who reads again from the start may find less than before.
        let first =
            notes.iter().find(|(_, note)| matches!(note, SseNote::Gap { after, .. } if *after > 0));
        let Some((at, _)) = first else { continue };
        let Some(before) = story.last_delivery(on, record, *at) else { continue };
        let is_held_up = story.held_up.is_some_and(|held| held <= *at);
        if at.since(before) + MARGIN < server.hold && !is_held_up {
            story.cx.judges("hold_is_lossless");
            let data = fields! { on: *on, before, hold: Time::from(server.hold) };
            found.push(Violation::new("hold_is_lossless", *record, *at, &LOST, data));
        }
    }
    found
}
