//! The bounds of the counts of a client.

use std::collections::BTreeSet;
use std::time::Duration;

use super::ledger::{Scene, UserCall};
use crate::subjects::toolcall::properties::deadlines::SENT_ONCE;

/// The operations that are one action until their answer.
const ACTIONS: [&str; 8] = [
    "rename",
    "start-turn",
    "cancel-turn",
    "leave",
    "forge",
    "report-content",
    "report-result",
    "judge-result",
];

/// Returns the operations of the window's user.
fn own<'s, 'a>(scene: &Scene<'s, 'a>) -> impl Iterator<Item = &'s UserCall<'a>> {
    let host = scene.host;
    scene.ledger.asked.values().filter(move |asked| asked.host == host)
}

fn is_one_of(asked: &UserCall<'_>, verbs: &[&str]) -> bool {
    verbs.contains(&asked.operation.verb.as_str())
}

/// The number of actions that the client has just sent, although no operation asked for them. Their
/// answers may not have arrived.
fn sent(scene: &Scene<'_, '_>) -> usize {
    let sent = scene.ledger.sent.iter().filter(|(host, _)| *host == scene.host);
    let open = sent.filter(|(host, at)| scene.may_have(*at, scene.ledger.known_at(host, *at)));
    open.count()
}

/// Returns whether the client has been connected for this long, besides the slack.
fn is_connected_for(scene: &Scene<'_, '_>, time: Duration) -> bool {
    let since = scene.ledger.connected_since(scene.host, scene.now);
    since.is_some_and(|since| since + scene.ledger.slack() + time <= scene.now)
}

/// A client has the channels that its user watches, or asks for.
pub(super) fn most_channels(scene: &Scene<'_, '_>) -> Option<usize> {
    let looks = scene.story().watch_spans.iter();
    let open = looks.filter(|look| look.host == scene.host && scene.may_have(look.from, look.to));
    let mut channels: BTreeSet<&str> = open.map(|look| look.channel).collect();
    channels.extend(scene.asked_for(scene.host));
    channels.extend(scene.not_received(scene.host));
    Some(channels.len())
}

/// A host answers each action at once. A window joins the session and starts a turn after its first three
/// subscriptions.
pub(super) fn most_unconfirmed(scene: &Scene<'_, '_>) -> Option<usize> {
    let start = (scene.story().host_limits.restore_deadline + scene.ledger.slack()) * 3;
    let asked =
        own(scene).filter(|asked| is_one_of(asked, &ACTIONS) || asked.subscribes_to().is_some());
    let open = asked.filter(|asked| scene.may_have(asked.at, asked.answered));
    is_connected_for(scene, start).then(|| open.count() + sent(scene))
}

/// A client keeps what its user asks for without a connection, until it is connected or gives it up.
pub(super) fn least_held(scene: &Scene<'_, '_>) -> usize {
    let Some(lost) = scene.ledger.lost_since(scene.host, scene.now) else { return 0 };
    let waiting = own(scene).filter(|asked| {
        let waits = is_one_of(asked, &ACTIONS) || is_one_of(asked, &SENT_ONCE);
        waits && asked.at > lost && scene.has(asked.at, asked.answered)
    });
    waiting.count().min(scene.story().client_limits.held)
}

pub(super) fn most_held(scene: &Scene<'_, '_>) -> Option<usize> {
    is_connected_for(scene, Duration::ZERO).then_some(0)
}

pub(super) fn least_running(scene: &Scene<'_, '_>) -> usize {
    let own = scene.ledger.tools.iter().filter(|tool| tool.host == scene.host);
    let at_work = own.filter(|tool| scene.has(tool.began, tool.ended));
    at_work.count().min(scene.story().client_limits.running_tools)
}

/// A client has a call until it learns that the call is over. That may come after the result that it sent.
pub(super) fn most_running(scene: &Scene<'_, '_>) -> Option<usize> {
    let own = scene.ledger.tools.iter().filter(|tool| tool.host == scene.host);
    let open =
        own.filter(|tool| scene.may_have(tool.began, scene.ledger.known_at(tool.host, tool.over)));
    is_connected_for(scene, Duration::ZERO).then(|| open.count() + sent(scene))
}
