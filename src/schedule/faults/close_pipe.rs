//! The fault `close-pipe`.

use crate::schedule::fault::prelude::*;

/// A pipe of each child process of a host is closed.
#[derive(Clone, Debug, PartialEq)]
pub struct ClosePipe {
    /// The host.
    pub host: Host,
    /// The pipe.
    pub pipe: Pipe,
}

impl Definition for ClosePipe {
    const WORD: FaultWord = FaultWord {
        name: "close-pipe",
        does: "One pipe of each child process of a host is closed at both ends, after the data that is already in it.",
        fields: &[
            HOST,
            Field {
                name: "pipe",
                kind: FieldType::Name(Pipe::LIST),
                need: Always,
                doc: "The pipe.",
            },
        ],
        client_sees: "If the host is a client: the end of the output, or an error when it writes to the input. The child process reads the end of its input, or gets signal 13 when it writes. If it is the server: the reaction of the server.",
        server_sees: "The same, with the roles exchanged.",
        outside: "A process closes its standard streams; a relay between the two ends.",
        event: Fidelity::Full,
        turmoil: Fidelity::Full,
    };
    const DRAWN: Option<Drawn> =
        Some(Drawn { weight: 1, needs: Needs::Children, shape: FaultShape::default });

    fn build(f: &FaultFields) -> Self {
        Self { host: f.host("host"), pipe: f.named("pipe").expect(CHECKED) }
    }

    fn fields(&self, parts: &mut Parts) {
        parts.host(&self.host).named("pipe", self.pipe);
    }

    fn sentence(&self) -> String {
        format!("close the pipe {} of the child processes of {}", self.pipe.name(), self.host)
    }

    fn draw(from: &FaultDraw<'_>) -> Option<Self> {
        let pipe = *pick(Pipe::ALL, &mut from.rng("pipe"))?;
        Some(Self { host: from.host()?, pipe })
    }

    fn effect(&self) -> Effect<'_> {
        Effect::Children { host: &self.host, what: ChildEffect::ClosePipe(self.pipe) }
    }
}
