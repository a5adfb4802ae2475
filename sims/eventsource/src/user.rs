//! A user of the crate `eventsource-client`: starts commands, and follows each to its ending.

use std::collections::BTreeSet;
use std::time::Duration;

use eventsource_client::{Client, ClientBuilder, Error, ReconnectOptions, SSE};
use futures_util::StreamExt;
use reknit::history::{Call, Data, Ending as StreamEnding, ProcessOutcome, Stream};
use reknit::milestone;
use reknit::process::KILL;
use reknit::subject::{HostContext, OperationQueue};
use reknit::world::process::calls;
use reknit_sse::wire::{Ending, Event, OutputStream, Record, RunCommand};
use tokio::task::JoinSet;

use crate::record::record;
use crate::subject::{Operation, server};
use crate::transport::Transport;

/// The suffixes of the names of streams that are parts of a command.
pub(crate) const PARTS: &[&str] = &["/stdout", "/stderr"];

/// Performs operations as they arrive. At the end, all commands are left alone.
pub(crate) async fn run(host: HostContext, mut operations: OperationQueue<Operation>) {
    let (mut started, mut busy) = (BTreeSet::new(), JoinSet::new());
    while let Some((call, Operation::Run { process })) = operations.next().await {
        if started.insert(process.clone()) {
            busy.spawn(Following::new(host.clone(), call, process).run());
        } else {
            host.record.refused(call, "it was started before");
        }
    }
}

/// A command as its user follows it.
struct Following {
    host: HostContext,
    call: Call,
    process: String,
    /// The name of its record.
    name: String,
    generation: u64,
}

impl Following {
    fn new(host: HostContext, call: Call, process: String) -> Self {
        let name = match host.name.as_str() {
            "client" => process.clone(),
            other => format!("{other}/{process}"),
        };
        Self { host, call, process, name, generation: 0 }
    }

    fn stream(&self, suffix: &str) -> Stream {
        Stream(format!("{}{suffix}", self.name).into())
    }

    fn all(&self) -> [Stream; 3] {
        ["", PARTS[0], PARTS[1]].map(|suffix| self.stream(suffix))
    }

    /// The request. The world reads the name of the process and the call from its variables.
    fn request(&self) -> RunCommand {
        let variables = [(calls::NAME, self.name.clone()), (calls::CALL, self.call.0.to_string())];
        let envs = variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let operation_id = Some(self.name.replace('/', "_"));
        RunCommand { operation_id, envs: Some(envs), ..RunCommand::shell(&self.process) }
    }

    async fn run(mut self) {
        let limits = &self.host.limits;
        let pauses = (limits.duration("client.pause"), limits.duration("client.silence"));
        let transport = Transport::paced(self.host.env.net.clone(), server(), pauses.0, pauses.1);
        // The pauses of the crate have jitter without a seed, so they are zero. The transport pauses.
        let none = ReconnectOptions::reconnect(true);
        let none = none.delay(Duration::ZERO).delay_max(Duration::ZERO).build();
        let body = serde_json::to_string(&self.request()).expect("a request is plain data");
        let client = ClientBuilder::for_url("http://server/command").expect("a URL");
        let client = client.method("POST".to_owned()).body(body).reconnect(none);
        let mut events = client.build_with_transport(transport).stream();
        let mut is_open = false;
        while let Some(event) = events.next().await {
            match event {
                Ok(SSE::Connected(_)) => {
                    self.generation += 1;
                    milestone!("eventsource.client.connected", generation = self.generation);
                }
                Ok(SSE::Event(event)) => {
                    if !std::mem::replace(&mut is_open, true) {
                        self.all()
                            .iter()
                            .for_each(|stream| self.host.record.opened(stream, self.call));
                    }
                    let record = record(&event.id.unwrap_or_default(), &event.data);
                    if !self.received(record) {
                        return;
                    }
                }
                Ok(SSE::Comment(_)) => {}
                Err(Error::UnexpectedResponse(answer, _)) if is_final(answer.status()) => {
                    return self.refused(is_open, answer.status());
                }
                // The client has no event, so it does not know the run of the command. If the server starts
                // again, a repeated start would run the command again.
                Err(error) if !is_open => {
                    return self.host.record.failed(self.call, error.to_string());
                }
                Err(_) => milestone!("eventsource.client.lost"),
            }
        }
    }

    /// Records an event. Returns whether more follow.
    fn received(&self, record: Record) -> bool {
        match record.event {
            Event::Output(pipe, bytes) => {
                let part = if pipe == OutputStream::Stdout { PARTS[0] } else { PARTS[1] };
                let generation = Some(self.generation);
                self.host.record.delivered(&self.stream(part), bytes, generation);
            }
            Event::Ended { ending, .. } => {
                self.ended(&ending);
                return false;
            }
            Event::Gap(gap) => {
                self.failed(gap.to_string());
                return false;
            }
            _ => {}
        }
        true
    }

    fn ended(&self, ending: &Ending) {
        let outcome = match ending {
            Ending::Exited(code) => ProcessOutcome::Exit(*code),
            Ending::Killed(signal) => ProcessOutcome::Signal(*signal),
            Ending::TimedOut => ProcessOutcome::Signal(KILL),
            Ending::NotStarted(why) | Ending::Lost(why) => return self.failed(why.clone()),
        };
        let [whole, parts @ ..] = self.all();
        self.host.record.completed(&whole, Data::from(outcome));
        for part in parts {
            self.host.record.completed(&part, Data::from(ProcessOutcome::Closed));
        }
    }

    fn refused(&self, is_open: bool, status: u16) {
        let why = format!("status {status}");
        if is_open { self.failed(why) } else { self.host.record.refused(self.call, why) }
    }

    fn failed(&self, why: String) {
        for stream in self.all() {
            let reason = Data::from(why.clone());
            self.host.record.stream_ended(&stream, StreamEnding::Failed { reason });
        }
    }
}

/// Whether a refusal will not pass. The crate would repeat the request without end.
fn is_final(status: u16) -> bool {
    (400..500).contains(&status) && !matches!(status, 408 | 409)
}
