//! `counts_are_true`: host and clients count what is open, while they run.
//!
//! The counts are levels: the history has each change. The property compares them, about twice a second,
//! with what may be open and what certainly is. It knows that from the network, the users, the agents and
//! the storage.
//! So it finds what is never forgotten, which the end of a client would hide, and what is forgotten
//! too early.
//!
//! A count that the history does not have is 0. A count is compared only if no fault was in force for
//! a while. After the death of a host, none is compared. The counts of a client are compared until its window is reloaded.
//! Other properties judge the number of questions, of waits, of restores and of kept actions.

use std::collections::{BTreeMap, BTreeSet};

use super::facts::MS;
use super::story::Story;
use crate::history::{EventKind, Time};
use crate::property::Violation;
use crate::property::violation::{fields, kinds};
use crate::schedule::Host;
use crate::subjects::judging::{host, judged};

mod clients;
mod hosts;
mod ledger;

use ledger::{Ledger, Scene};

kinds! {
    pub(super) COUNTS_ARE_TRUE;
    MORE = "more": "{subject:}`{counter}` is {value}, but at most {most} can be open {moment}";
    FEWER = "fewer": "{subject:}`{counter}` is {value}, but at least {least} must be open {moment}";
}

/// The least time between two comparisons in milliseconds, except in a long pause.
const PERIOD: u64 = 500;

/// The least count that is possible.
type Least = for<'s, 'a> fn(&Scene<'s, 'a>) -> usize;

/// The greatest count that is possible; `None`: any.
type Most = for<'s, 'a> fn(&Scene<'s, 'a>) -> Option<usize>;

/// A counter: its name, and its bounds.
struct Counter {
    name: &'static str,
    at_least: Least,
    at_most: Most,
}

const fn counter(name: &'static str, at_least: Least, at_most: Most) -> Counter {
    Counter { name, at_least, at_most }
}

/// For a counter without a lower bound: users notice if a channel, an action or an outcome is forgotten too
/// early, and other properties judge what they see.
fn any(_: &Scene<'_, '_>) -> usize {
    0
}

#[rustfmt::skip]
const OF_HOSTS: &[Counter] = &[
    counter("connections", hosts::least_connections, hosts::most_connections),
    counter("clients", hosts::least_clients, hosts::most_clients),
    counter("subscriptions", hosts::least_subscriptions, hosts::most_subscriptions),
    counter("chats", any, hosts::most_chats),
    counter("turns", hosts::least_turns, hosts::most_turns),
    counter("outcomes", any, hosts::most_outcomes),
];

#[rustfmt::skip]
const OF_CLIENTS: &[Counter] = &[
    counter("channels", any, clients::most_channels),
    counter("unconfirmed", any, clients::most_unconfirmed),
    counter("held", clients::least_held, clients::most_held),
    counter("running", clients::least_running, clients::most_running),
];

/// The counters of a host: its name, and its table.
type Counters<'n> = (&'n str, &'static [Counter]);

/// See the module.
pub(super) fn counts_are_true(story: &Story<'_>) -> Vec<Violation> {
    let cx = story.cx;
    if !cx.is_honest() {
        return Vec::new();
    }
    let initial = ledger::initial(cx.plan);
    let ledger = Ledger::of(story, &initial);
    let clients: Vec<Host> = cx.plan.client_hosts().collect();
    let of_hosts = cx.servers.iter().map(|host| (*host, OF_HOSTS));
    let of_clients = clients.iter().map(|host| (host.as_str(), OF_CLIENTS));
    let counters: Vec<Counters<'_>> = of_hosts.chain(of_clients).collect();
    let mut levels: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    let mut wrong: BTreeSet<(&str, &'static str)> = BTreeSet::new();
    let (mut found, mut last) = (Vec::new(), Time::ZERO);
    // At the horizon the world closes the clients.
    let until = story.until.min(cx.history.end);
    for event in judged(cx).take_while(|event| event.at < until) {
        for now in moments(last, event.at) {
            found.extend(compare(&ledger, &counters, &levels, now, &mut wrong));
        }
        last = event.at;
        match &event.what {
            EventKind::Gauge { name, value } => drop(levels.insert((host(event), *name), *value)),
            EventKind::Died { .. } => levels.retain(|(on, _), _| *on != host(event)),
            _ => {}
        }
    }
    for now in moments(last, until) {
        found.extend(compare(&ledger, &counters, &levels, now, &mut wrong));
    }
    found.truncate(5);
    found
}

/// Returns the moments between two events at which the counts are compared: just before the second event, if
/// a period ended since the first one, and the middle of a long pause. No count changes in between, but what may be open does.
fn moments(last: Time, next: Time) -> impl Iterator<Item = Time> {
    let is_new = next.0 / PERIOD > last.0 / PERIOD;
    let middle = Time(last.0.midpoint(next.0));
    let is_long = next.0 - last.0 > 2 * PERIOD;
    is_long.then_some(middle).into_iter().chain(is_new.then(|| next.before(MS)))
}

/// Compares all counts at a moment. Returns the violations of those that were right so far.
fn compare<'n>(
    ledger: &Ledger<'_>,
    counters: &[Counters<'n>],
    levels: &BTreeMap<(&str, &str), u64>,
    now: Time,
    wrong: &mut BTreeSet<(&'n str, &'static str)>,
) -> Vec<Violation> {
    let mut found = Vec::new();
    if !ledger.is_quiet(now) {
        return found;
    }
    for (host, table) in counters.iter().copied().filter(|(host, _)| ledger.is_whole(host, now)) {
        let scene = Scene { ledger, host, now };
        for counter in table {
            let name = counter.name;
            let value = levels.get(&(host, name)).copied().unwrap_or_default();
            let least = (counter.at_least)(&scene) as u64;
            let most = (counter.at_most)(&scene).map(|most| most as u64);
            if least > 0 || most.is_some() {
                ledger.story.cx.judges("counts_are_true");
            }
            let (kind, data) = match most {
                Some(most) if value > most => (&MORE, fields! { counter: name, value, most }),
                _ if value < least => (&FEWER, fields! { counter: name, value, least }),
                _ => continue,
            };
            if wrong.insert((host, name)) {
                found.push(Violation::new("counts_are_true", host, now, kind, data));
            }
        }
    }
    found
}
