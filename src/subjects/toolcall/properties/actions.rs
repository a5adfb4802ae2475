//! Properties of the actions of clients: each happens at most once, in order, is answered or
//! refused, and is never one that only the host may perform.

use std::collections::{BTreeMap, BTreeSet};

use super::facts::{CallStory, Window, text};
use super::story::{Story, window};
use crate::history::{Answer, Call, EventKind, Time};
use crate::property::violation::{fields, kinds};
use crate::property::{About, Violation, ViolationFields};
use crate::schedule::MilestoneValue;
use crate::subjects::judging::{host, judged, peers_may_lie};
use crate::subjects::toolcall::answers::{Did, is_of_no_channel};
use crate::subjects::toolcall::notes::OfChannel;

kinds! {
    pub(super) ACTIONS_ONCE;
    SEEN_AGAIN = "seen-again": "{subject:}{user} saw the title `{title}` again {moment}";
    HAPPENED = "happened": "{subject:}it took effect at {when}, but its user received a refusal ({answer}; at {at})";
    PERMITTED = "permitted": "{subject:}the reply of a user was refused ({why}), although it had permitted {call} at {permitted} {moment}";
}

kinds! {
    pub(super) IN_ORDER;
    DONE_LATE = "done-late": "{subject:}it was answered after {newest}, which was requested later {moment}";
    HAPPENED_LATE = "happened-late": "{subject:}it took effect after {newest}, which {window} requested later {moment}";
}

kinds! {
    pub(super) AUTHORITY;
    WINDOW_BEGAN = "window-began": "{subject:}the host accepted a call that a window began; only the host may begin calls {moment}";
}

kinds! {
    pub(super) CLAIMS_ARE_CHECKED;
    BELIEVED = "believed": "{subject:}a client made the false claim {claimed}, but was {answer} {moment}";
}

kinds! {
    pub(super) REJECTIONS_ARE_HEARD;
    UNHEARD = "unheard": "{subject:}its action {seq} in {channel} was refused at {refused}, but the client did not receive the refusal (by {at})";
}

/// The call that a title or the name of a chat refers to: `client 7`, `n7`.
fn call_of(title: &str) -> Option<Call> {
    let number =
        title.strip_prefix('n').or_else(|| title.rsplit_once(' ').map(|(_, number)| number))?;
    number.parse().ok().map(Call)
}

/// G6: a refused action did not happen, and an accepted one happened once.
pub(super) fn actions_once(story: &Story<'_>) -> Vec<Violation> {
    if peers_may_lie(story.cx) {
        return Vec::new();
    }
    let (mut happened, mut refused): (BTreeMap<Call, Time>, BTreeMap<Call, &Answer>) =
        (BTreeMap::new(), BTreeMap::new());
    let mut titles: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut found = Vec::new();
    for event in judged(story.cx) {
        let did = match &event.what {
            EventKind::Effect { call, .. } => {
                happened.entry(*call).or_insert(event.at);
                Some(*call)
            }
            // A refusal because the channel no longer exists does not mean that the action did not
            // happen earlier.
            EventKind::Answered { call, answer: answer @ Answer::Refused(why) }
                if !is_of_no_channel(why) =>
            {
                refused.insert(*call, answer);
                Some(*call)
            }
            EventKind::Observed { stream, saw } => match saw.downcast_ref() {
                Some(OfChannel::Title(title)) => {
                    let seen = titles.entry(host(event)).or_default();
                    if seen.contains(&title.as_str())
                        && call_of(title).is_some_and(|call| is_remembered(story, call, event.at))
                    {
                        let (subject, data) = (
                            About::Named(stream.to_string()),
                            fields! { user: host(event), title },
                        );
                        found.push(Violation::new(
                            "actions_once",
                            subject,
                            event.at,
                            &SEEN_AGAIN,
                            data,
                        ));
                    }
                    seen.push(title);
                    call_of(title).inspect(|call| {
                        happened.entry(*call).or_insert(event.at);
                    })
                }
                Some(OfChannel::Unsubscribed | OfChannel::Removed) => {
                    titles.remove(host(event));
                    None
                }
                _ => None,
            },
            // A host that dies loses its titles.
            EventKind::Died { .. } => {
                titles.clear();
                None
            }
            _ => None,
        };
        let Some(call) = did.filter(|call| is_remembered(story, *call, event.at)) else { continue };
        // Of all other operations, the history shows no effect that a refusal could contradict.
        if story.asked.get(&call).is_some_and(|it| matches!(it.verb(), "rename" | "start-turn")) {
            story.cx.judges("actions_once");
        }
        if let (Some(when), Some(why)) = (happened.get(&call), refused.get(&call)) {
            let data = fields! { when, answer: *why };
            found.push(Violation::new("actions_once", call, event.at, &HAPPENED, data));
        }
    }
    found.extend(story.calls.iter().filter_map(|call| refused_permission(story, call)));
    found.truncate(5);
    found
}

/// Detects that a user received a refusal of the reply that permitted a call. Only the user of the owner
/// replies, so a single decision is the one that permitted the call. A puppet may reply, too. A host that
/// keeps few outcomes may refuse a repeated reply. A client that starts over with a host, because the host
/// died or forgot it, repeats no reply: it cannot know the outcome. A denied call ends like one whose turn
/// is cancelled, so nothing shows that the denial took effect.
fn refused_permission(story: &Story<'_>, call: &CallStory<'_>) -> Option<Violation> {
    let ([(decided, true)], [(at, host, reply)]) = (&call.decisions[..], &call.replies[..]) else {
        return None;
    };
    let permitted = call.permitted.filter(|permitted| permitted >= decided && permitted <= at)?;
    let is_tight = story.host_limits.outcomes < super::story::defaults().outcomes;
    if is_tight || !story.cx.is_honest() || window(call.owner) != *host {
        return None;
    }
    story.cx.judges("actions_once");
    let why = reply.as_ref().err()?;
    let data = fields! { call: call.id, why, permitted };
    Some(Violation::new("actions_once", call.turn, *at, &PERMITTED, data))
}

/// Returns whether the host has remembered the outcome of a call since the user asked for it. A
/// host that has forgotten it can only refuse a repeated action, or perform it again.
pub(super) fn is_remembered(story: &Story<'_>, call: Call, at: Time) -> bool {
    let Some(asked) = story.asked.get(&call) else { return false };
    let forgotten = story
        .forgotten
        .iter()
        .filter(|(client, _)| window(client) == asked.host)
        .map(|(_, at)| *at);
    let mut forgotten = forgotten.chain(story.deaths.iter().copied());
    let is_tight = story.host_limits.outcomes < super::story::defaults().outcomes;
    !is_tight && !forgotten.any(|forgot| forgot >= asked.at && forgot <= at)
}

/// Returns the only operation that gives this title.
fn named_by(story: &Story<'_>, title: &str) -> Option<Call> {
    let mut calls = story.asked.iter().filter(|(_, asked)| asked.field("title") == Some(title));
    let (call, _) = calls.next()?;
    calls.next().is_none().then_some(*call)
}

fn is_renaming(story: &Story<'_>, call: Call) -> bool {
    story.asked.get(&call).is_some_and(|asked| asked.verb() == "rename")
}

/// The operations of one window take effect in the order in which the user asked for them, both as
/// actions and as requests. A reloaded window is another window.
pub(super) fn in_order(story: &Story<'_>) -> Vec<Violation> {
    if peers_may_lie(story.cx) {
        return Vec::new();
    }
    // Changes that a user sees in one look have no order.
    let mut newest: BTreeMap<(&str, Window<'_>), (Call, Time)> = BTreeMap::new();
    let mut seen: BTreeMap<(&str, Call), usize> = BTreeMap::new();
    // An operation that was in flight when its connection was lost may still take effect at any
    // later time.
    let mut lost: BTreeSet<Call> = BTreeSet::new();
    let mut done: BTreeMap<Window<'_>, (Call, usize)> = BTreeMap::new();
    let mut found = Vec::new();
    for (index, event) in judged(story.cx).enumerate() {
        if let EventKind::Failed { call, .. } = &event.what {
            lost.insert(*call);
        }
        if let EventKind::Answered { call, answer } = &event.what
            && let Some(Did::Named(_) | Did::Made(_)) = answer.done()
            && let Some(window) = story.window_of(*call)
        {
            let (newest, answered) = done.entry(window).or_insert((*call, index));
            // If the answer was lost, the client learns it from a repetition, perhaps after a later
            // operation is answered. The user saw the effect before, or that of a renaming between
            // the two.
            let between = |other: Call| other > *call && other < *newest;
            let shows = |other: Call| {
                other == *call
                    || between(other)
                        && story.window_of(other) == Some(window)
                        && [*call, other].iter().all(|call| is_renaming(story, *call))
            };
            let was_seen = seen.iter().any(|((user, other), seen)| {
                *user == window.0 && *seen < *answered && shows(*other)
            });
            let is_late = *newest > *call;
            if *newest != *call && !(is_late && was_seen) {
                story.cx.judges("in_order");
            }
            if is_late && !was_seen {
                found.push(Violation::new(
                    "in_order",
                    *call,
                    event.at,
                    &DONE_LATE,
                    fields! { newest: *newest },
                ));
            }
            if *call > *newest {
                (*newest, *answered) = (*call, index);
            }
        }
        let EventKind::Observed { saw, .. } = &event.what else { continue };
        let title = match saw.downcast_ref() {
            Some(OfChannel::Title(title) | OfChannel::ContainsChat(title)) => title,
            // A user that starts to watch again sees everything at once.
            Some(OfChannel::Unsubscribed | OfChannel::Removed) => {
                newest.retain(|(user, _), _| *user != host(event));
                continue;
            }
            _ => continue,
        };
        let Some(call) = call_of(title).or_else(|| named_by(story, title)) else { continue };
        let Some(window) = story.window_of(call) else { continue };
        let user = host(event);
        let died = story.deaths.iter().any(|death| *death <= event.at);
        // A host that has forgotten the outcome of a call performs it again when an older
        // connection repeats it.
        let is_new = !seen.contains_key(&(user, call));
        seen.entry((user, call)).or_insert(index);
        if !is_new || died || lost.contains(&call) || !is_remembered(story, call, event.at) {
            continue;
        }
        let (newest, when) = newest.entry((user, window)).or_insert((call, event.at));
        if *newest != call && *when < event.at {
            story.cx.judges("in_order");
        }
        if *newest > call && *when < event.at {
            let data = fields! { newest: *newest, window: window.0 };
            found.push(Violation::new("in_order", call, event.at, &HAPPENED_LATE, data));
        }
        if call > *newest {
            (*newest, *when) = (call, event.at);
        }
    }
    found.truncate(5);
    found
}

/// G11: the host never accepts a forged start of a call.
pub(super) fn authority(story: &Story<'_>) -> Vec<Violation> {
    let forged = judged(story.cx).filter_map(|event| {
        let EventKind::Answered { call, answer } = &event.what else { return None };
        if story.is_decided(*call, "forge", answer) {
            story.cx.judges("authority");
        }
        (answer.done() == Some(&Did::Forged)).then(|| {
            let data = ViolationFields::default();
            Violation::new("authority", *call, event.at, &WINDOW_BEGAN, data)
        })
    });
    forged.collect()
}

/// G5: the host replays missed actions only on top of a state that the client can really have.
pub(super) fn claims_are_checked(story: &Story<'_>) -> Vec<Violation> {
    let believed = judged(story.cx).filter_map(|event| {
        let EventKind::Answered { call, answer } = &event.what else { return None };
        if story.is_decided(*call, "claim", answer) {
            story.cx.judges("claims_are_checked");
        }
        (answer.done() == Some(&Did::CaughtUp)).then(|| {
            let claimed =
                story.asked.get(call).and_then(|asked| asked.field("what")).unwrap_or_default();
            let data = fields! { claimed, answer };
            Violation::new("claims_are_checked", *call, event.at, &BELIEVED, data)
        })
    });
    believed.collect()
}

/// An action that the host refused.
struct Refused<'a> {
    at: Time,
    channel: &'a str,
}

/// G6: if the host refuses an action, its client reverts it. A host that forgets its client, or
/// dies, decides again on repeated actions.
pub(super) fn rejections_are_handled(story: &Story<'_>) -> Vec<Violation> {
    // A host that remembers few outcomes refuses a repetition of an action that it has performed,
    // over a connection that the client no longer reads.
    if peers_may_lie(story.cx) || story.host_limits.outcomes < super::story::defaults().outcomes {
        return Vec::new();
    }
    let mut unheard: BTreeMap<(&str, u64), Refused<'_>> = BTreeMap::new();
    let mut heard: Vec<(&str, Refused<'_>)> = Vec::new();
    // The removal of a channel reverts all actions on it.
    let mut gone: BTreeSet<(&str, &str)> = BTreeSet::new();
    // The last milestones of a dying host may appear after its death in the history.
    let mut is_dead = false;
    for event in judged(story.cx) {
        match &event.what {
            EventKind::Milestone { name, fields } => {
                let (client, channel) = (text(fields, "client"), text(fields, "channel"));
                let seq = MilestoneValue::number(fields, "seq").unwrap_or(0);
                match *name {
                    "toolcall.host.rejected" if !is_dead => {
                        unheard.insert((client, seq), Refused { at: event.at, channel });
                    }
                    "toolcall.host.forgotten" => unheard.retain(|(of, _), _| *of != client),
                    "toolcall.client.rejected" => {
                        let refused = unheard.remove(&(host(event), seq));
                        heard.extend(refused.map(|refused| (host(event), refused)));
                    }
                    "toolcall.client.gone" => drop(gone.insert((host(event), channel))),
                    _ => {}
                }
            }
            EventKind::Died { .. } if story.cx.servers.contains(&host(event)) => {
                is_dead = true;
                unheard.clear();
            }
            EventKind::Started if story.cx.servers.contains(&host(event)) => is_dead = false,
            _ => {}
        }
    }
    let has_to_hear = |client: &str, refused: &Refused<'_>| {
        !gone.contains(&(client, refused.channel)) && story.is_one_window(client)
    };
    let due = |client: &str, refused: &Refused<'_>| {
        let bound = has_to_hear(client, refused).then(|| story.learns_by(client, refused.at))?;
        (bound < story.until).then_some(bound)
    };
    let heard = heard.iter().filter_map(|(client, refused)| due(client, refused));
    heard.for_each(|_| story.cx.judges("rejections_are_handled"));
    let found = unheard.iter().filter_map(|((client, seq), refused)| {
        let bound = due(client, refused)?;
        story.cx.judges("rejections_are_handled");
        let data = fields! { seq: *seq, channel: refused.channel, refused: refused.at };
        Some(Violation::new("rejections_are_handled", *client, bound, &UNHEARD, data))
    });
    found.take(5).collect()
}

impl Story<'_> {
    /// Returns whether the client's window is never reloaded, never dies, and is not a puppet: the
    /// history does not record the messages that a puppet received.
    fn is_one_window(&self, client: &str) -> bool {
        let plan = self.cx.plan;
        let is_played = plan
            .client_hosts()
            .any(|host| host.as_str() == client && !plan.puppets.contains_key(&host));
        let is_loaded_again =
            || self.asked.values().any(|asked| asked.host == client && asked.verb() == "reload");
        let dies = || self.deaths_of(client).next().is_some();
        is_played && !is_loaded_again() && !dies()
    }

    /// Returns whether a call is an operation of this kind, and the host decided on it.
    fn is_decided(&self, call: Call, verb: &str, answer: &Answer) -> bool {
        matches!(answer, Answer::Done(_) | Answer::Refused(_))
            && self.asked.get(&call).is_some_and(|asked| asked.verb() == verb)
    }

    /// The time by which a client must have received a message of the host: soon if there is no
    /// fault, otherwise after it has reconnected and caught up.
    fn learns_by(&self, client: &str, from: Time) -> Time {
        let soon = from + self.moment();
        if self.has_main_connection(client, from)
            && self.is_calm(client, from.before(self.moment()), soon)
        {
            return soon;
        }
        self.reconnects_by(client, from)
    }
}
