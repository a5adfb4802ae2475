//! Mistakes of a driver that a history shows for certain: [`mistake`].
//!
//! A bug of the protocol cannot bring about any of them: each is an entry that this host must never write. What a bug could bring
//! about, too, is for the properties.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::{Call, Event, History, Stream, Time, What};
use crate::schedule::{Host, Operation};

/// The first mistake in a history, in a sentence that says what to do instead. `servers` are the subject's server hosts.
pub(crate) fn mistake(history: &History, servers: &[&str]) -> Option<String> {
    let (asked, producers, sent) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
    let mut reading = Reading { history, servers, asked, producers, sent };
    history.events.iter().find_map(|event| {
        let sentence = reading.read(event.at, event.host.as_ref()?, &event.what)?;
        Some(format!("{sentence} (at {})", event.at))
    })
}

/// A history that has been read up to some entry.
struct Reading<'a> {
    history: &'a History,
    servers: &'a [&'a str],
    /// Who asked for each call, and for what.
    asked: BTreeMap<Call, (&'a Host, &'a Operation)>,
    /// Which server produced each stream. With one server this is never in doubt.
    producers: BTreeMap<&'a Stream, &'a Host>,
    /// The streams that a client produced. Each is looked up in the history once.
    sent: BTreeSet<&'a Stream>,
}

impl<'a> Reading<'a> {
    fn read(&mut self, at: Time, host: &'a Host, what: &'a What) -> Option<String> {
        let is_server = || self.servers.contains(&host.as_str());
        match what {
            What::Produced { stream, .. } | What::Ended { stream, .. } if !is_server() => {
                self.sent.insert(stream).then(|| self.produced_by_a_client(stream, host, what)).flatten()
            }
            What::Produced { stream, .. } if self.servers.len() > 1 => self.second_producer(stream, host),
            What::Effect { call, .. } if !is_server() => self.own_effect(*call, host, at),
            What::Asked { call, operation, .. } => {
                self.asked.insert(*call, (host, operation));
                None
            }
            What::Opened { stream, .. } | What::Delivered { stream, .. } | What::StreamEnded { stream, .. } if is_server() => {
                Some(self.seen_by_a_server(stream, host, what))
            }
            What::Opened { call, .. } | What::GaveUp { call, .. } => self.foreign_number(*call, host, what),
            What::Answered { call, .. } | What::Failed { call, .. } => self.foreign_answer(*call, host),
            _ => None,
        }
    }

    fn is_server(&self, host: &Host) -> bool {
        self.servers.contains(&host.as_str())
    }

    /// The first entry about a stream that `is` so, and its host.
    fn host_of(&self, stream: &Stream, is: impl Fn(&Host, &What) -> bool) -> Option<&'a Host> {
        let entries = self.history.events.iter().filter(|event| event.what.stream() == Some(stream));
        entries
            .filter_map(|event| Some((event.host.as_ref()?, &event.what)))
            .find(|(host, what)| is(host, what))
            .map(|(host, _)| host)
    }

    /// A stream that a client sends. Another client may receive it, through the server; nothing else makes sense.
    fn produced_by_a_client(&self, stream: &Stream, host: &Host, what: &What) -> Option<String> {
        if let Some(server) = self.host_of(stream, |host, what| is_received(what) && self.is_server(host)) {
            return Some(upward(stream, host, server));
        }
        if let Some(other) = self.host_of(stream, |other, what| is_produced(what) && other != host) {
            return Some(two_producers(stream, host, other));
        }
        let is_client = |event: &Event| event.host.as_ref().is_some_and(|other| other != host && !self.is_server(other));
        let receives_itself = self.host_of(stream, |other, what| is_received(what) && other == host).is_some();
        let is_alone = || !self.history.events.iter().any(is_client);
        (receives_itself || is_alone()).then(|| {
            format!(
                "`{stream}` {} on `{host}`, a client: call `produced` and `ended` in `serve`, where the server stores or produces an \
                 item; in `drive`, call `delivered` and `completed` when the user receives an item or its acknowledgement",
                verb(what)
            )
        })
    }

    fn second_producer(&mut self, stream: &'a Stream, host: &'a Host) -> Option<String> {
        let first = *self.producers.entry(stream).or_insert(host);
        (first != host).then(|| two_producers(stream, first, host))
    }

    /// An effect that a client concludes from the answer to its own call.
    fn own_effect(&self, call: Call, host: &Host, at: Time) -> Option<String> {
        let (asker, operation) = self.asked.get(&call)?;
        let is_answer = |event: &Event| {
            event.at == at
                && event.host.as_ref() == Some(host)
                && matches!(&event.what, What::Answered { call: answered, .. } if *answered == call)
        };
        (*asker == host && self.history.events.iter().any(is_answer)).then(|| {
            format!(
                "{call} ({}) took effect on `{host}` in the moment of its answer there: call `effect` in `serve`, where the effect takes \
                 place; an answer does not prove an effect",
                operation.verb
            )
        })
    }

    /// What a user sees, from a host that has none.
    fn seen_by_a_server(&self, stream: &Stream, host: &Host, what: &What) -> String {
        if let Some(client) = self.host_of(stream, |other, what| is_produced(what) && !self.is_server(other)) {
            return upward(stream, client, host);
        }
        format!(
            "`{stream}` {} on `{host}`, a server: call `opened`, `delivered` and `completed` in `drive`; for an upload, call `produced` \
             in `serve` when the server stores a chunk",
            verb(what)
        )
    }

    /// A stream that was opened or closed by a call of another host.
    fn foreign_number(&self, call: Call, host: &Host, what: &What) -> Option<String> {
        let of = match self.asked.get(&call) {
            _ if call == Call::NONE => return None,
            Some((asker, _)) if *asker == host => return None,
            Some((asker, _)) => format!("which `{asker}` had asked for"),
            None => "which was never asked for".to_owned(),
        };
        let what = if matches!(what, What::Opened { .. }) { "opened" } else { "gave_up" };
        Some(format!(
            "`{host}` recorded `{what}` with {call}, {of}: pass the number that `Operated::next` returned on this host, or `Call::NONE` \
             where there is no call"
        ))
    }

    /// An answer on a host that did not ask. An answer to a call that no host asked for is for `one_ending`.
    fn foreign_answer(&self, call: Call, host: &Host) -> Option<String> {
        match self.asked.get(&call) {
            Some((asker, operation)) if *asker != host => Some(format!(
                "{call} ({}) came back on `{host}`, but `{asker}` had asked for it: record an answer in `drive`, on the host that asked, \
                 when its user has the answer",
                operation.verb
            )),
            None if call == Call::NONE => Some(format!(
                "`{host}` recorded an answer to `Call::NONE`: pass the number that `Operated::next` returned with the operation"
            )),
            None if self.is_server(host) => {
                Some(format!("{call} came back on `{host}`, a server: record answers in `drive`, when the user has them"))
            }
            _ => None,
        }
    }
}

fn is_received(what: &What) -> bool {
    matches!(what, What::Opened { .. } | What::Delivered { .. } | What::StreamEnded { .. })
}

fn is_produced(what: &What) -> bool {
    matches!(what, What::Produced { .. } | What::Ended { .. })
}

/// An upload as a newcomer records it first.
fn upward(stream: &Stream, client: &Host, server: &Host) -> String {
    format!(
        "`{stream}` was produced on `{client}` and delivered on `{server}`: for an upload, call `produced` in `serve` when the server \
         stores a chunk, and `delivered` in `drive` when the chunk is acknowledged"
    )
}

fn two_producers(stream: &Stream, first: &Host, second: &Host) -> String {
    format!(
        "`{stream}` was produced on `{first}` and on `{second}`: a stream has one producer; name each part after its host, such as \
         `{stream}@{second}`, and record as `effect` what must happen on one host only"
    )
}

/// What an entry says of a stream.
fn verb(what: &What) -> &'static str {
    match what {
        What::Produced { .. } => "was produced",
        What::Opened { .. } => "was opened",
        What::Delivered { .. } => "was delivered",
        _ => "ended",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Answer, Content};
    use crate::property::told::{Told, history};

    fn said(told: &Told, servers: &[&str]) -> Option<String> {
        told.with(|evidence| mistake(evidence.history, servers))
    }

    #[track_caller]
    fn says(told: &Told, words: &str) {
        let said = said(told, &["server", "server2"]).expect("a mistake");
        assert!(said.contains(words), "{said}");
    }

    fn opened() -> Told {
        history().opened("s1", 1, 0).produced("s1", 100, "a").delivered("s1", 120, "a")
    }

    fn produced_on(told: Told, host: &str) -> Told {
        told.entry(50, Some(host), What::Produced { stream: "s1".into(), bytes: Content::from("a") })
    }

    fn answer(call: u64) -> What {
        What::Answered { call: Call(call), answer: Answer::from("done") }
    }

    #[test]
    fn a_good_driver_makes_none() {
        let told = opened().ended("s1", 200, "total 1").completed("s1", 220, "total 1");
        let told = told.asked(2, 300).effect(2, 310, "c1").answered(2, 320, "1").gave_up(2, Some("s1"), 330);
        assert_eq!(said(&told, &["server"]), None);
    }

    #[test]
    fn an_upload_is_produced_where_it_is_stored() {
        let delivered = What::Delivered { stream: "s1".into(), bytes: Content::from("a"), generation: None };
        let sentence = "`s1` was produced on `client` and delivered on `server`: for an upload, call `produced` in `serve` when the \
                        server stores a chunk, and `delivered` in `drive` when the chunk is acknowledged";
        let sent = produced_on(history(), "client");
        let both = [sent.clone().entry(70, Some("server"), delivered.clone()), sent.entry(30, Some("server"), delivered)];
        for (told, at) in both.iter().zip(["0.050 s", "0.030 s"]) {
            assert_eq!(said(told, &["server"]), Some(format!("{sentence} (at {at})")));
        }
    }

    #[test]
    fn a_client_does_not_produce_what_its_own_user_receives() {
        let own = "`s1` was produced on `client`, a client: call `produced` and `ended` in `serve`";
        says(&produced_on(history().opened("s1", 1, 0).delivered("s1", 120, "a"), "client"), own);
        says(&produced_on(history(), "client"), own);
        let ended = What::Ended { stream: "s1".into(), outcome: "total 1".into() };
        says(&history().opened("s1", 1, 0).user(200, ended), "`s1` ended on `client`, a client");
    }

    #[test]
    fn a_client_may_produce_what_another_client_receives() {
        let told = produced_on(history(), "client").by("client2").opened("s1", 1, 0).delivered("s1", 120, "a");
        assert_eq!(said(&told, &["server"]), None);
    }

    #[test]
    fn an_answer_is_no_effect() {
        let effect = || What::Effect { call: Call(2), target: "c1".into() };
        let told = opened().asked(2, 10).user(200, effect());
        says(&told.clone().answered(2, 200, "1"), "call 2 (add) took effect on `client` in the moment of its answer there");
        assert_eq!(said(&told.answered(2, 240, "1"), &["server"]), None);
    }

    #[test]
    fn a_server_has_no_user() {
        let delivered = What::Delivered { stream: "s1".into(), bytes: Content::from("a"), generation: None };
        says(&opened().entry(200, Some("server"), delivered), "`s1` was delivered on `server`, a server");
        says(&opened().asked(2, 10).entry(20, Some("server"), answer(2)), "call 2 (add) came back on `server`, but `client`");
        says(&opened().entry(20, Some("server"), answer(9)), "call 9 came back on `server`, a server");
    }

    #[test]
    fn a_call_belongs_to_the_user_who_asked() {
        says(&opened().asked(2, 10).by("client2").user(20, answer(2)), "call 2 (add) came back on `client2`, but `client`");
        says(&opened().by("client2").opens("s2", 1, 10), "`client2` recorded `opened` with call 1, which `client` had asked for");
        says(&opened().opens("s2", 7, 10), "`client` recorded `opened` with call 7, which was never asked for");
        says(&opened().gave_up(7, Some("s1"), 200), "`client` recorded `gave_up` with call 7");
        says(&opened().user(200, answer(0)), "`client` recorded an answer to `Call::NONE`");
        assert_eq!(said(&opened().opens("s2", 0, 10), &["server"]), None);
    }

    #[test]
    fn a_stream_has_one_producer() {
        says(&produced_on(opened(), "server2"), "`s1` was produced on `server2` and on `server`");
        says(&produced_on(opened(), "client"), "`s1` was produced on `client` and on `server`");
    }

    #[test]
    fn what_a_bug_could_bring_about_is_for_the_properties() {
        let told = history().delivered("s1", 10, "a").answered(9, 20, "done").effect(9, 30, "c1");
        assert_eq!(said(&told, &["server"]), None);
    }
}
