//! The names of a command, in the history and on the wire, and those of the server.

use super::operations::CommandName;
use crate::history::{Call, Data, Ending, ProcessOutcome, Stream};
use crate::net::Endpoint;
use crate::subject::{HostContext, Recorder};
use crate::subjects::records;
use crate::world::process::{Setup, TABLE};
use reknit_sse::wire::{CommandId, OutputStream};

/// The host of the server.
pub(super) const SERVER: &str = "server";

/// The port of the server.
pub(super) const PORT: u16 = 80;

/// The access token of the server.
pub(super) const TOKEN: &str = "secret";

/// The weight of an event in a log, in addition to its output.
pub(super) const OVERHEAD: u64 = 64;

/// Returns where the server listens.
pub(super) fn server_endpoint() -> Endpoint {
    Endpoint::tcp(SERVER, PORT)
}

/// The suffixes of the names of streams that are parts of a command.
pub(super) const PARTS: &[&str] = &["/stdout", "/stderr"];

/// Returns the id of a command. `chosen`: the id that the user chose.
pub(super) fn id_of(record: &str, chosen: Option<&str>) -> CommandId {
    let own = record.replace('/', "_");
    let id = chosen.unwrap_or(&own).parse::<CommandId>();
    // A file can contain an id that is none. Then the user has no such command.
    id.unwrap_or_else(|_| CommandId::random(0))
}

/// A command as one host names it.
#[derive(Clone, Debug)]
pub(super) struct Named {
    /// The name of its record.
    pub(super) record: String,
    /// The id.
    pub(super) id: CommandId,
}

impl Named {
    /// Returns the names of the n-th start of a process by a host. `id`: the id that the user chose.
    pub(super) fn nth(host: &str, process: &str, nth: u64, id: Option<&str>) -> Self {
        let record = records::name(host, process, nth);
        let id = id_of(&record, id);
        Self { record, id }
    }

    /// Returns the names of the n-th run of a process in a shell session by a host.
    pub(super) fn in_session(host: &str, process: &str, nth: u64) -> Self {
        Self::nth(&format!("{host}-session"), process, nth, None)
    }

    /// Returns the names of a command that an operation of `user` names. `newest`: the number of starts
    /// of a process by the user.
    pub(super) fn of(user: &str, command: &CommandName, newest: u64) -> Self {
        let owner = command.of.as_deref().unwrap_or(user);
        let nth = if owner == user { newest.max(1) } else { 1 };
        Self::nth(owner, &command.process, nth, command.id.as_deref())
    }

    /// Returns the stream of the process: it has an outcome, but no bytes.
    pub(super) fn whole(&self) -> Stream {
        Stream::from(self.record.as_str())
    }

    /// Returns the stream of a pipe.
    pub(super) fn pipe(&self, pipe: OutputStream) -> Stream {
        let suffix = match pipe {
            OutputStream::Stdout => PARTS[0],
            OutputStream::Stderr => PARTS[1],
        };
        Stream::from(format!("{}{suffix}", self.record).as_str())
    }

    /// Returns the process and its pipes.
    pub(super) fn all(&self) -> [Stream; 3] {
        [self.whole(), self.pipe(OutputStream::Stdout), self.pipe(OutputStream::Stderr)]
    }

    /// Records that the process completed for the user of a call, and its pipes. A pipe that a child of the
    /// process holds has not ended, so the user gives it up. `output_is_whole` judges what it has of it.
    pub(super) fn completed(&self, host: &HostContext, call: Call, outcome: ProcessOutcome) {
        let setup: Option<Setup> = host.plan.entry(TABLE, records::declared(&self.record));
        let is_held = setup.is_some_and(|setup| setup.late_output.is_some());
        for stream in self.all() {
            if stream == self.whole() {
                host.record.completed(&stream, Data::from(outcome));
            } else if is_held {
                host.record.gave_up(Some(&stream), call);
            } else {
                host.record.completed(&stream, Data::from(ProcessOutcome::Closed));
            }
        }
    }

    /// Records that the user gives up the process and its pipes.
    pub(super) fn given_up(&self, record: &Recorder, call: Call, why: &Data) {
        for stream in self.all() {
            record.gave_up(Some(&stream), call);
        }
        self.failed(record, why);
    }

    /// Records that the process and its pipes failed for their user.
    pub(super) fn failed(&self, record: &Recorder, why: &Data) {
        for stream in self.all() {
            record.stream_ended(&stream, Ending::Failed { reason: why.clone() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_follows_from_the_record() {
        let named = Named::nth("client2", "p1", 2, None);
        assert_eq!((named.record.as_str(), named.id.as_str()), ("client2/p1.2", "client2_p1.2"));
        assert_eq!(Named::nth("client", "p1", 1, Some("x")).id.as_str(), "x");
        let command = CommandName { process: "p1".into(), of: Some("client".into()), id: None };
        assert_eq!(Named::of("client2", &command, 7).record, "p1");
        assert_eq!(Named::of("client", &command, 7).record, "p1.7");
    }

    #[test]
    fn a_command_has_two_pipes() {
        let names = Named::nth("client", "p1", 1, None).all().map(|stream| stream.to_string());
        assert_eq!(names, ["p1", "p1/stdout", "p1/stderr"]);
    }
}
