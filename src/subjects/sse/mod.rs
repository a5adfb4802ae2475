//! The subject `sse`: the adapter that runs [`reknit_sse`] in a world.
//!
//! - [`operations`]: the operations of a user. `[process.NAME]` declares what the commands really do
//!   ([`world::process`](crate::world::process)).
//! - [`wrong`]: requests that a server must refuse.
//! - `user`: the user of a client. `follow`: a command as its user follows it. `requests`: single requests
//!   of a user. `names`: the names of a command, and of the server. `notes`: what else the user sees.
//! - `properties`, `story`: the specific properties, and the facts that they read.
//! - [`limits`], [`tables`]: limits, milestones, points, defects, variants, rules. `label`: the labels of
//!   messages.
//!
//! In the history, a command `p1` is the stream `p1`, whose outcome is its exit. Its pipes are its parts
//! `p1/stdout` and `p1/stderr`. A second start on the same host is `p1.2`. The commands of the second
//! client are `client2/p1`. Each host follows a command at most once at a time.

use std::time::Duration;

use super::census::counted;
use crate::history::{Side, Stream};
use crate::property::{
    CheckContext, Guarantees, Property, Retention, SlowUsers, Violation, WorkBounds,
    attempts_a_minute,
};
use crate::schedule::{Limit, Limits, Operation, Tampering};
use crate::subject::dyn_subject::read;
use crate::subject::{
    DefectDoc, Dissector, HostContext, MilestoneDoc, OperationQueue, PointDoc, Rule, Subject,
    VariantDoc,
};
use crate::world::process;
use reknit_sse::server::{Server, ServerConfig};

mod follow;
mod label;
pub mod limits;
mod names;
mod notes;
pub mod operations;
#[cfg(test)]
mod page;
mod properties;
mod requests;
mod story;
pub mod tables;
mod tampering;
mod user;
pub mod wrong;

use names::{OVERHEAD, PORT, SERVER, TOKEN, server_endpoint};
use notes::ServerCounted;
use operations::SseOperation;

/// The subject for [`reknit_sse`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Sse;

impl Subject for Sse {
    type Operation = SseOperation;

    fn name(&self) -> &'static str {
        "sse"
    }

    fn description(&self) -> &'static str {
        "command output over HTTP that survives its connection: the protocol of OpenSandbox execd"
    }

    fn limits(&self) -> &'static [Limit] {
        limits::LIMITS
    }

    fn milestones(&self) -> &'static [MilestoneDoc] {
        tables::MILESTONES
    }

    fn points(&self) -> &'static [PointDoc] {
        tables::POINTS
    }

    fn defects(&self) -> &'static [DefectDoc] {
        tables::DEFECTS
    }

    fn variants(&self) -> &'static [VariantDoc] {
        tables::VARIANTS
    }

    fn rules(&self) -> &'static [Rule] {
        tables::RULES
    }

    fn swarm(&self) -> Option<&'static str> {
        Some(include_str!("../../../scenarios/sse/swarm-default.toml"))
    }

    fn servers(&self) -> &'static [&'static str] {
        &[SERVER]
    }

    fn port(&self) -> u16 {
        PORT
    }

    fn setup(&self) -> Vec<(&'static str, schemars::Schema)> {
        vec![(process::TABLE, process::schema())]
    }

    async fn serve(&self, host: HostContext) {
        let listener = match host.env.net.listen(&server_endpoint()).await {
            Ok(listener) => listener,
            Err(error) => return tracing::error!(%error, "cannot listen"),
        };
        // Without a shell, a command line is the name of a process.
        let config = ServerConfig {
            access_token: Some(TOKEN.to_owned()),
            shell: Vec::new(),
            ..ServerConfig::default()
        };
        let server = Server::new(&host.env, config, limits::server(&host.limits));
        let resources = server.resources();
        let gauged = resources.clone();
        host.record.gauges(tables::RESOURCES, move || Some(gauged.counts()));
        let counts = (move || resources.counts(), ServerCounted::data as fn(_) -> _);
        counted(&host.record, Stream::from(SERVER), counts, server.serve(listener)).await;
    }

    async fn drive(&self, host: HostContext, operations: OperationQueue<SseOperation>) {
        user::SseUser::new(host).run(operations).await;
    }

    fn guarantees(&self, limits: &Limits) -> Guarantees {
        let (client, server) = (limits::client(limits), limits::server(limits));
        let kept = Retention {
            items: Some((server.retained_events as u64).saturating_sub(1)),
            piece: None,
            bytes: Some(server.retained_bytes as u64 / 2),
        };
        let slow = SlowUsers { ahead: NOTHING, closed_retention: server.ended_retention };
        Guarantees {
            detection: client.silence,
            recovery: client.budget,
            attempt: client.open_timeout.max(requests::PATIENCE),
            takeover: client.budget + server.takeover_after,
            reads: followed,
            also_reads: properties::readers::also_reads,
            round_trips: 4, // SYN, the request, and a page more
            // An attempt that loses its packets can be silent for half of its duration, because TCP's
            // retransmission pauses double.
            back_off: client.max_pause + client.open_timeout / 2,
            retention: kept,
            around: OVERHEAD,
            parts: names::PARTS,
            closed_retention: server.ended_retention,
            slow_users: Some(slow),
            work: WorkBounds {
                // Of some ten followers. With the default pauses, a link that fails at the worst times
                // causes 60 attempts of each in a minute, so the bound is ten times 120.
                attempts: 100,
                attempts_a_minute: 10 * attempts_a_minute(client.min_pause, client.max_pause),
                attempts_per_item: 4, // the pauses begin anew after a stream that brought an event
                frames: 400,
                polls: 400,
            },
            memory: vec![(
                "log-bytes",
                (server.retained_bytes as u64 + 2 * (server.line_bytes as u64 + OVERHEAD))
                    .saturating_mul(server.running_commands as u64)
                    .saturating_add(server.ended_bytes as u64),
            )],
            settle: server.ended_retention
                + server.interrupt_grace
                + server.write_deadline
                + Duration::from_secs(5),
            ..Guarantees::recovering(client.silence, client.budget)
        }
    }

    fn properties(&self) -> &'static [Property] {
        properties::OWN
    }

    fn violations(&self, cx: &CheckContext<'_>) -> Vec<Violation> {
        properties::violations(cx)
    }

    fn dissector(&self, _: Side) -> Box<dyn Dissector> {
        Box::new(label::HttpLines::default())
    }

    fn tampered_messages(&self, _: Side) -> Box<dyn Dissector> {
        Box::new(tampering::HttpAnswers::default())
    }

    fn tamper(&self, from: Side, how: Tampering, message: &[u8]) -> Option<Vec<u8>> {
        (from == Side::Server).then(|| tampering::tamper(how, message))?
    }
}

/// Returns the stream of the command that an operation follows.
fn followed(host: &str, earlier: &[&Operation], operation: &Operation) -> Option<Stream> {
    let SseOperation::Follow { command, .. } = read(operation).ok()? else { return None };
    let starts = earlier.iter().filter(|earlier| match read(earlier) {
        Ok(SseOperation::Run { process, .. }) => process == command.process,
        _ => false,
    });
    Some(names::Named::of(host, &command, starts.count() as u64).whole())
}

/// No amount.
const NOTHING: Retention = Retention { items: Some(0), piece: None, bytes: Some(0) };

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(verb: &str, fields: &str) -> Operation {
        let fields = serde_json::from_str(fields).unwrap();
        Operation { verb: verb.to_owned(), client: "client".into(), fields }
    }

    #[test]
    fn a_user_follows_its_own_newest_start() {
        let run = operation("run", r#"{"process":"p1"}"#);
        let other = operation("run", r#"{"process":"p2"}"#);
        let own = operation("follow", r#"{"process":"p1"}"#);
        let of_another = operation("follow", r#"{"process":"p1","of":"client"}"#);
        let stream = |host: &str, earlier: &[&Operation], operation: &Operation| {
            followed(host, earlier, operation).map(|stream| stream.to_string())
        };
        assert_eq!(stream("client", &[&run, &other], &own).as_deref(), Some("p1"));
        assert_eq!(stream("client", &[&run, &run], &own).as_deref(), Some("p1.2"));
        assert_eq!(stream("client2", &[&run, &run], &of_another).as_deref(), Some("p1"));
        assert_eq!(stream("client", &[&run], &run), None);
    }
}
