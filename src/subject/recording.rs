//! Detection of driver mistakes that a history proves: [`mistake`].
//!
//! Only the role of a host is checked: a server has no user, and a client does not produce the
//! items that its own user receives. No protocol bug can cause such an entry. Entries that a
//! protocol bug could also cause are left to the properties.

use std::collections::BTreeSet;

use crate::history::{Call, EventKind, History, Stream};
use crate::schedule::Host;

/// Returns the first mistake in a history, as a sentence that explains the correct call. `servers`
/// are the subject's server hosts.
pub(crate) fn mistake(history: &History, servers: &[&str]) -> Option<String> {
    let mut reading = Reading { history, servers, sent: BTreeSet::new() };
    history.events.iter().find_map(|event| {
        let sentence = reading.read(event.host.as_ref()?, &event.what)?;
        Some(format!("{sentence} (at {})", event.at))
    })
}

/// The state while the entries of a history are read in order.
struct Reading<'a> {
    history: &'a History,
    servers: &'a [&'a str],
    /// The streams that a client produced. Each is looked up in the history once.
    sent: BTreeSet<&'a Stream>,
}

impl<'a> Reading<'a> {
    fn read(&mut self, host: &'a Host, what: &'a EventKind) -> Option<String> {
        match what {
            EventKind::Produced { stream, .. } | EventKind::Ended { stream, .. }
                if !self.is_server(host) =>
            {
                self.sent
                    .insert(stream)
                    .then(|| self.produced_by_a_client(stream, host, what))
                    .flatten()
            }
            EventKind::Opened { stream, .. }
            | EventKind::Delivered { stream, .. }
            | EventKind::StreamEnded { stream, .. }
                if self.is_server(host) =>
            {
                Some(self.seen_by_a_server(stream, host, what))
            }
            EventKind::Answered { call, .. } | EventKind::Failed { call, .. }
                if self.is_server(host) =>
            {
                Some(format!(
                    "{call} was answered on `{host}`, a server: record answers in `drive`, when the user receives them"
                ))
            }
            EventKind::GaveUp { .. } if self.is_server(host) => Some(format!(
                "`{host}`, a server, recorded `gave_up`: record it in `drive`, when the user gives up a stream"
            )),
            EventKind::Answered { call: Call::NONE, .. }
            | EventKind::Failed { call: Call::NONE, .. } => Some(format!(
                "`{host}` recorded an answer to `Call::NONE`: pass the number that `Operated::next` returned with the operation"
            )),
            _ => None,
        }
    }

    fn is_server(&self, host: &Host) -> bool {
        self.servers.contains(&host.as_str())
    }

    /// The hosts whose users received something of a stream.
    fn receivers(&self, stream: &Stream) -> impl Iterator<Item = &'a Host> {
        let entries =
            self.history.events.iter().filter(move |event| event.what.stream() == Some(stream));
        entries.filter(|event| is_received(&event.what)).filter_map(|event| event.host.as_ref())
    }

    /// A client produced an item of a stream. This is allowed if other clients receive the stream
    /// through the server.
    fn produced_by_a_client(
        &self,
        stream: &Stream,
        host: &Host,
        what: &EventKind,
    ) -> Option<String> {
        let receivers: BTreeSet<_> = self.receivers(stream).collect();
        if let Some(server) = receivers.iter().find(|other| self.is_server(other)) {
            return Some(upward(stream, host, server));
        }
        (receivers.len() == 1 && receivers.contains(host)).then(|| {
            format!(
                "`{stream}` {} on `{host}`, a client: call `produced` and `ended` in `serve`, when the server stores or produces an item; call `delivered` and `completed` in `drive`, when the user receives an item or its acknowledgement",
                verb(what)
            )
        })
    }

    /// A server recorded an observation of a user, but a server has no user.
    fn seen_by_a_server(&self, stream: &Stream, host: &Host, what: &EventKind) -> String {
        let mut entries = self
            .history
            .events
            .iter()
            .filter(|event| event.what.stream() == Some(stream) && is_produced(&event.what));
        if let Some(client) =
            entries.find_map(|event| event.host.as_ref().filter(|other| !self.is_server(other)))
        {
            return upward(stream, client, host);
        }
        format!(
            "`{stream}` {} on `{host}`, a server: call `opened`, `delivered` and `completed` in `drive`; for an upload, call `produced` \
             in `serve` when the server stores a chunk",
            verb(what)
        )
    }
}

fn is_received(what: &EventKind) -> bool {
    matches!(
        what,
        EventKind::Opened { .. } | EventKind::Delivered { .. } | EventKind::StreamEnded { .. }
    )
}

fn is_produced(what: &EventKind) -> bool {
    matches!(what, EventKind::Produced { .. } | EventKind::Ended { .. })
}

/// The message for a common beginner's mistake: an upload recorded in the direction of its data.
fn upward(stream: &Stream, client: &Host, server: &Host) -> String {
    format!(
        "`{stream}` was produced on `{client}` and delivered on `{server}`: for an upload, call `produced` in `serve` when the server \
         stores a chunk, and `delivered` in `drive` when the chunk is acknowledged"
    )
}

/// The phrase for an entry about a stream.
fn verb(what: &EventKind) -> &'static str {
    match what {
        EventKind::Produced { .. } => "was produced",
        EventKind::Opened { .. } => "was opened",
        EventKind::Delivered { .. } => "was delivered",
        _ => "ended",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Answer, Content};
    use crate::property::scripted::{ScriptedRun, history};

    fn text(scripted: &ScriptedRun, servers: &[&str]) -> Option<String> {
        scripted.with(|cx| mistake(cx.history, servers))
    }

    #[track_caller]
    fn assert_mistake(scripted: &ScriptedRun, words: &str) {
        let text = text(scripted, &["server", "server2"]).expect("a mistake");
        assert!(text.contains(words), "{text}");
    }

    fn opened() -> ScriptedRun {
        history().opened("s1", 1, 0).produced("s1", 100, "a").delivered("s1", 120, "a")
    }

    fn produced_on(scripted: ScriptedRun, host: &str) -> ScriptedRun {
        scripted.entry(
            50,
            Some(host),
            EventKind::Produced { stream: "s1".into(), bytes: Content::from("a") },
        )
    }

    fn answer(call: u64) -> EventKind {
        EventKind::Answered { call: Call(call), answer: Answer::from("done") }
    }

    #[test]
    fn a_correct_driver_makes_no_mistake() {
        let scripted = opened().ended("s1", 200, "total 1").completed("s1", 220, "total 1");
        let scripted = scripted.asked(2, 300).effect(2, 310, "c1").answered(2, 320, "1").gave_up(
            2,
            Some("s1"),
            330,
        );
        assert_eq!(text(&scripted, &["server"]), None);
    }

    #[test]
    fn an_upload_is_produced_where_it_is_stored() {
        let delivered = EventKind::Delivered {
            stream: "s1".into(),
            bytes: Content::from("a"),
            generation: None,
        };
        let sentence = "`s1` was produced on `client` and delivered on `server`: for an upload, call `produced` in `serve` when the \
                        server stores a chunk, and `delivered` in `drive` when the chunk is acknowledged";
        let sent = produced_on(history(), "client");
        let both = [
            sent.clone().entry(70, Some("server"), delivered.clone()),
            sent.entry(30, Some("server"), delivered),
        ];
        for (scripted, at) in both.iter().zip(["0.050 s", "0.030 s"]) {
            assert_eq!(text(scripted, &["server"]), Some(format!("{sentence} (at {at})")));
        }
    }

    #[test]
    fn a_client_does_not_produce_what_its_own_user_receives() {
        let own = "`s1` was produced on `client`, a client: call `produced` and `ended` in `serve`";
        assert_mistake(
            &produced_on(history().opened("s1", 1, 0).delivered("s1", 120, "a"), "client"),
            own,
        );
        let ended = EventKind::Ended { stream: "s1".into(), outcome: "total 1".into() };
        assert_mistake(
            &history().opened("s1", 1, 0).user(200, ended),
            "`s1` ended on `client`, a client",
        );
    }

    #[test]
    fn a_client_may_produce_what_another_client_receives() {
        let scripted = produced_on(history(), "client")
            .by("client2")
            .opened("s1", 1, 0)
            .delivered("s1", 120, "a");
        assert_eq!(text(&scripted, &["server"]), None);
    }

    #[test]
    fn a_server_has_no_user() {
        let delivered = EventKind::Delivered {
            stream: "s1".into(),
            bytes: Content::from("a"),
            generation: None,
        };
        assert_mistake(
            &opened().entry(200, Some("server"), delivered),
            "`s1` was delivered on `server`, a server",
        );
        assert_mistake(
            &opened().asked(2, 10).entry(20, Some("server"), answer(2)),
            "call 2 was answered on `server`, a server",
        );
        let gave_up = EventKind::GaveUp { call: Call(1), stream: None };
        assert_mistake(
            &opened().entry(20, Some("server"), gave_up),
            "`server`, a server, recorded `gave_up`",
        );
    }

    #[test]
    fn an_answer_has_a_call() {
        assert_mistake(
            &opened().user(200, answer(0)),
            "`client` recorded an answer to `Call::NONE`",
        );
    }

    #[test]
    fn an_entry_that_a_bug_could_cause_is_not_a_mistake() {
        let scripted = history()
            .delivered("s1", 10, "a")
            .answered(9, 20, "done")
            .effect(9, 30, "c1")
            .opens("s2", 7, 40);
        assert_eq!(text(&scripted, &["server"]), None);
        assert_eq!(text(&produced_on(opened(), "server2"), &["server", "server2"]), None);
        let effect = EventKind::Effect { call: Call(2), target: "c1".into() };
        let scripted = opened()
            .asked(2, 10)
            .user(200, effect)
            .answered(2, 200, "1")
            .by("client2")
            .user(210, answer(2));
        assert_eq!(text(&scripted, &["server"]), None);
    }
}
