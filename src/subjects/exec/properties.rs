//! What must hold of `exec` on top of the generic properties.
//!
//! | property | what it is computed from |
//! |---|---|
//! | `in_sequence` | what the user saw: each event has the number after the one before it |
//! | `reads_are_true` | what a page-wise read came to, and what the process really printed |
//! | `no_orphan` | the effect of a start, how it came out for its user, and the real end of what it started |
//! | `no_call_before_install` | the messages of calls, and the milestone that says that a generation is installed |
//! | `http_fails_truly` | why requests and bodies failed, and when the connections of their client were over |
//! | `response_before_body` | the milestone that says that a piece came before its answer |

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::reading::sum;
use super::user::ABANDONED;
use super::web;
use crate::history::{Call, Ending, Event, Stream, Time, What};
use crate::property::{Broken, Evidence, Property};
use crate::schedule::FieldValue;

mod http;

/// The properties.
pub(super) const OWN: &[Property] = &[
    Property {
        name: "in_sequence",
        doc: "the events of a process come to its user as 1, 2, 3, …: one exit, and the close last",
        check: in_sequence,
    },
    Property {
        name: "reads_are_true",
        doc: "what is read of a process page by page, to its close, is what it printed",
        check: reads_are_true,
    },
    Property {
        name: "no_orphan",
        doc: "what was started, and has failed for its user or was given up by it, does not run on",
        check: no_orphan,
    },
    Property {
        name: "no_call_before_install",
        doc: "a generation carries no call of the user's before it is installed",
        check: no_call_before_install,
    },
    Property {
        name: "http_fails_truly",
        doc: "an HTTP request or body fails with a lost connection only where that was its own, and for a missing piece never",
        check: http::fail_truly,
    },
    Property {
        name: "response_before_body",
        doc: "the answer to an HTTP request comes before the first piece of its body",
        check: http::response_before_body,
    },
];

fn broken(property: &'static str, at: Time, stream: Option<&Stream>, sentence: String) -> Broken {
    Broken { property, at, stream: stream.cloned(), sentence }
}

/// The entries of a run until its clients are closed.
fn judged<'a>(evidence: &Evidence<'a>) -> impl Iterator<Item = &'a Event> {
    let until = Time::from(evidence.plan.horizon);
    evidence.history.events.iter().take_while(move |event| event.at <= until)
}

fn in_sequence(evidence: &Evidence<'_>) -> Vec<Broken> {
    let saw = judged(evidence).filter_map(|event| match &event.what {
        What::Saw { stream, what } => {
            Some(broken("in_sequence", event.at, Some(stream), format!("{stream}: {what} (at {})", event.at)))
        }
        _ => None,
    });
    saw.take(5).collect()
}

/// What a puppet answers has no truth.
fn has_puppet(evidence: &Evidence<'_>) -> bool {
    evidence.servers.iter().any(|server| evidence.plan.puppets.keys().any(|host| host.as_str() == *server))
}

fn reads_are_true(evidence: &Evidence<'_>) -> Vec<Broken> {
    if has_puppet(evidence) {
        return Vec::new();
    }
    let mut truth: BTreeMap<&Stream, Vec<u8>> = BTreeMap::new();
    let mut found = Vec::new();
    for event in judged(evidence) {
        match &event.what {
            What::Produced { stream, bytes } => truth.entry(stream).or_default().extend_from_slice(bytes),
            What::Answered { call, result } => {
                let wrong = match (result.strip_prefix("wrong: "), result.strip_prefix("closed: ")) {
                    (Some(wrong), _) => Some(wrong.to_owned()),
                    (None, Some(sums)) => untrue(sums, &truth),
                    (None, None) => None,
                };
                let tell = |wrong| broken("reads_are_true", event.at, None, format!("{call}: {wrong} (at {})", event.at));
                found.extend(wrong.map(tell));
            }
            _ => {}
        }
    }
    found
}

/// The first sum of a read that is not the truth's: `p1/stdout 340 bytes 0f3a…, …`.
fn untrue(sums: &str, truth: &BTreeMap<&Stream, Vec<u8>>) -> Option<String> {
    sums.split(", ").filter(|told| !told.is_empty()).find_map(|told| {
        let stream = Stream::from(told.split(' ').next()?);
        let really = sum(&stream, truth.get(&stream).map_or(&[], Vec::as_slice));
        (told != really).then(|| format!("it read {told}, and really there was {really}"))
    })
}

/// Whether an effect on this is the start of a process.
fn is_start(target: &str) -> bool {
    !target.ends_with("/stdin") && !target.ends_with(web::EFFECT)
}

fn no_orphan(evidence: &Evidence<'_>) -> Vec<Broken> {
    // As long as the client may still be looking for a connection, and the server for it; and a moment to use that.
    let promise = evidence.promise;
    let patience = promise.detection * 2 + promise.recovery + promise.attempt + Duration::from_secs(2);
    let mut unwanted: BTreeMap<Call, Time> = BTreeMap::new();
    let mut failed: BTreeMap<&str, Time> = BTreeMap::new();
    let mut started: BTreeMap<Call, (&str, Time)> = BTreeMap::new();
    let mut ended: BTreeSet<&str> = BTreeSet::new();
    for event in judged(evidence) {
        match &event.what {
            What::Failed { call, .. } => drop(unwanted.insert(*call, event.at)),
            What::Answered { call, result } if result == ABANDONED => drop(unwanted.insert(*call, event.at)),
            What::StreamEnded { stream, ending: Ending::Failed { reason } } if reason.starts_with("gap") => {
                failed.entry(&stream.0).or_insert(event.at);
            }
            What::Effect { call, target } if is_start(target) => drop(started.insert(*call, (target, event.at))),
            What::Ended { stream, .. } => drop(ended.insert(&stream.0)),
            What::Died { .. } => return Vec::new(), // with the server die its processes; a dead client cleans nothing up
            _ => {}
        }
    }
    let left = started.iter().filter(|(_, (name, _))| !ended.contains(name));
    let left = left.filter_map(|(call, (name, at))| {
        let since = [unwanted.get(call), failed.get(name)].into_iter().flatten().min()?;
        Some((call, name, *since.max(at)))
    });
    let late = left.filter(|(.., since)| *since + patience < Time::from(evidence.plan.horizon));
    let late = late.map(|(call, name, since)| {
        let sentence = format!("{name} still lives, though its user has known since {since} that it has failed ({call})");
        broken("no_orphan", since + patience, Some(&Stream::from(*name)), sentence)
    });
    late.collect()
}

/// Calls of the user's are told by the product: `exec.client.sent`, with the generation that carries it.
fn no_call_before_install(evidence: &Evidence<'_>) -> Vec<Broken> {
    let mut installed: BTreeMap<(Option<&str>, u64), Time> = BTreeMap::new();
    let mut found = Vec::new();
    for event in judged(evidence) {
        let What::Milestone { name, fields } = &event.what else { continue };
        let generation = fields.iter().find_map(|(field, value)| match value {
            FieldValue::Number(n) if *field == "generation" => Some(*n),
            _ => None,
        });
        let Some(generation) = generation else { continue };
        let key = (event.host.as_ref().map(|host| host.as_str()), generation);
        match *name {
            "exec.client.connected" => drop(installed.insert(key, event.at)),
            "exec.client.sent" if !installed.contains_key(&key) => {
                let sentence = format!("generation {generation} carried a call before it was installed (at {})", event.at);
                found.push(broken("no_call_before_install", event.at, None, sentence));
            }
            _ => {}
        }
    }
    found.truncate(5);
    found
}
