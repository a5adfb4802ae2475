//! The fault `tamper`.

use crate::schedule::fault::prelude::*;

/// Messages change on their way: the host that receives them sees a peer that breaks the protocol.
#[derive(Clone, Debug, PartialEq)]
pub struct Tamper {
    /// The connection or link that it affects.
    pub place: LinkPlace,
    /// The host toward which the messages flow.
    pub toward: Host,
    /// The change.
    pub how: Tampering,
    /// The number of messages that change; `None` means all.
    pub messages: Option<u64>,
    /// The duration; `None` means the rest of the run.
    pub lasts: Option<Duration>,
}

impl Definition for Tamper {
    const WORD: FaultWord = FaultWord {
        name: "tamper",
        does: "Messages of an honest peer change on their way. The subject says to which messages a change applies; all others pass unchanged.",
        fields: &[
            ONE_CONN,
            ONE_LINK,
            Field { doc: "Change messages toward this host.", ..TOWARD },
            Field {
                name: "how",
                kind: FieldType::Name(Tampering::LIST),
                need: Always,
                doc: "The change. With `drop`, a message does not arrive; with `repeat`, it arrives twice; with `refuse`, an answer arrives as a refusal; with `misname`, it names another session, run or thread.",
            },
            Field {
                name: "messages",
                kind: FieldType::Count,
                need: Else("all messages change"),
                doc: "The number of messages that change. The fault ends with the last one.",
            },
            LASTS,
        ],
        client_sees: "Toward the client: a server that withholds or repeats messages, refuses requests, or names another session.",
        server_sees: "Toward the server: the same of a client. The subjects of reknit change no messages toward a server, except that `counter` drops and repeats them.",
        outside: "A faulty peer, another version of it, or a proxy that loses, repeats or rewrites messages.",
        event: Fidelity::Full,
        turmoil: Fidelity::Full,
    };
    // A subject says in its swarm file whether its properties can judge such runs.
    const DRAWN: Option<Drawn> = Some(Drawn {
        weight: 0,
        needs: Needs::Nothing,
        shape: || FaultShape::default().number("messages", Choice::Range(1, 3)),
    });

    fn build(f: &FaultFields) -> Self {
        Self {
            place: f.place(),
            toward: f.host("toward"),
            how: f.named("how").expect(CHECKED),
            messages: f.number("messages"),
            lasts: f.lasts(),
        }
    }

    fn fields(&self, parts: &mut Parts) {
        parts.place(&self.place).toward(Some(&self.toward)).named("how", self.how);
        if let Some(messages) = self.messages {
            parts.push("messages", FieldValue::Count(messages));
        }
        parts.time("lasts", self.lasts);
    }

    fn sentence(&self) -> String {
        let Self { place, toward, how, messages, lasts } = self;
        // The number of messages is a bound, so the end of the run is none.
        let length = match (messages, lasts) {
            (Some(_), None) => String::new(),
            _ => phrases::length(*lasts),
        };
        let what = messages.map_or("messages".to_owned(), |n| phrases::count(n, "message"));
        format!("{} {what} on {place} toward {toward}{length}", how.name())
    }

    fn draw(from: &FaultDraw<'_>) -> Option<Self> {
        let how = *pick(Tampering::ALL, &mut from.rng("how"))?;
        // One fault in four changes all messages for its whole duration: the peer hangs, for example.
        let all = below(4, &mut from.rng("all")) == 0;
        let messages = (!all).then(|| from.number("messages", "messages"));
        let (place, toward) = (from.place(), from.one_way()?);
        Some(Self { place, toward, how, messages, lasts: from.lasts() })
    }

    fn effect(&self) -> Effect<'_> {
        Effect::Tamper {
            place: self.place.as_place(),
            toward: &self.toward,
            how: self.how,
            messages: self.messages,
            lasts: self.lasts,
        }
    }

    fn lateness(&self) -> Lateness {
        Lateness::Unbounded
    }
}
