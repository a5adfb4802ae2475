//! `exec` in a world: the glue of [`reknit_exec`].
//!
//! - [`operations`]: what a user can ask for. What processes really do stands in `[process.NAME]`
//!   ([`world::process`](crate::world::process)).
//! - `user`: the user of a client, who records what came of it; `follow`, `reading`, `sum`: what it hears and reads of a process.
//! - `answers`: what it is answered, as values.
//! - `web`: the HTTP server behind the exec server, on a host of its own; `body`: what a user hears of it; `transfer_time`: how long
//!   its link takes for that.
//! - `properties`: what must hold on top of the generic properties.
//! - [`limits`], [`tables`]: limits, milestones, points, defects, rules. `label`: what messages are called.
//!
//! In the history a process `p1` is the stream `p1`, whose outcome is its exit, and what it prints are its parts `p1/stdout`,
//! `p1/stderr`, or `p1/pty`. They share one retention, and fail together. A second start on the same host is `p1.2`; those of
//! the second client are `client2/p1`. The HTTP body that call 7 asked for is the stream `h7`.

use std::time::Duration;

use crate::history::Side;
use crate::net::Endpoint;
use crate::property::{Guarantees, Property, Retention, WorkBounds};
use crate::schedule::{Limit, Limits};
use crate::subject::{
    DefectDoc, Dissector, HostContext, MilestoneDoc, Operated, PointDoc, Rule, Subject, WebSocket,
};
use crate::world::process;
use reknit_exec::client::Client;
use reknit_exec::limits::{ClientLimits, ServerLimits};
use reknit_exec::server::{CHUNK, Server};

mod answers;
mod body;
mod follow;
mod label;
pub mod limits;
mod network_fault;
pub mod operations;
mod properties;
mod reading;
mod sum;
pub mod tables;
mod transfer_time;
mod user;
pub mod web;

use operations::ExecOperation;

/// The exec-server protocol.
#[derive(Clone, Copy, Debug, Default)]
pub struct Exec;

impl Subject for Exec {
    type Operation = ExecOperation;

    fn name(&self) -> &'static str {
        "exec"
    }

    fn about(&self) -> &'static str {
        "commands on another machine, that survive the connection they were started over: codex exec-server's protocol"
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

    fn rules(&self) -> &'static [Rule] {
        tables::RULES
    }

    fn generation_milestone(&self) -> Option<&'static str> {
        Some("exec.client.connected")
    }

    fn catch_up_milestone(&self) -> Option<&'static str> {
        Some("exec.client.initialized")
    }

    fn swarm(&self) -> Option<&'static str> {
        Some(include_str!("../../../scenarios/exec/swarm-default.toml"))
    }

    fn port(&self) -> u16 {
        web::PORT
    }

    fn servers(&self) -> &'static [&'static str] {
        &["server", web::HOST]
    }

    fn setup(&self) -> Vec<(&'static str, schemars::Schema)> {
        vec![
            (process::TABLE, process::schema()),
            (web::TABLE, schemars::schema_for!(web::WebSetup)),
        ]
    }

    async fn serve(&self, host: HostContext) {
        if host.name.as_str() == web::HOST {
            return web::serve(host, web::PORT).await;
        }
        let at = Endpoint::tcp(host.name.as_str(), web::PORT);
        let listener = match host.env.net.listen(&at).await {
            Ok(listener) => listener,
            Err(error) => return tracing::error!(%error, "cannot listen at {at}"),
        };
        let server = Server::new(&host.env, limits::server_limits(&host.limits));
        let resources = server.resources();
        host.record.gauges(tables::RESOURCES, move || Some(resources.counts()));
        server.serve(listener).await;
    }

    async fn drive(&self, host: HostContext, operations: Operated<ExecOperation>) {
        let server = Endpoint::tcp("server", web::PORT);
        let client = Client::start(&host.env, server, limits::client_limits(&host.limits));
        user::ExecUser::new(host, client).run(operations).await;
    }

    fn guarantees(&self, limits: &Limits) -> Guarantees {
        let client = limits::client_limits(limits);
        let server = limits::server_limits(limits);
        let detection = client.wire.ping_interval + client.wire.pong_deadline;
        Guarantees {
            detection,
            recovery: client.recovery_deadline,
            gives_up: true,
            attempt: client.connect_timeout + client.initialize_timeout,
            call_wait: client.call_wait,
            outside_wait: body::wait,
            round_trips: 5, // SYN, upgrade, initialize, read, and a page more
            // An attempt that lost its packets is silent for up to half its time before it is given up, for TCP's pauses double.
            back_off: client.back_off_max + client.connect_timeout / 2,
            session: server.detached_lifetime,
            retention: Retention {
                items: Some(server.retained_chunks as u64),
                piece: Some(KEPT),
                bytes: Some(server.retained_bytes as u64),
            },
            around: network_fault::AROUND as u64,
            parts: follow::PARTS,
            closed_retention: closed_retention(&client, &server),
            work: WorkBounds { attempts: 15, frames: 400, polls: 200 },
            memory: vec![
                ("retained-bytes", server.retained_bytes.max(CHUNK) as u64),
                ("retained-chunks", server.retained_chunks as u64),
                ("waiting-input", (server.stdin_bytes + server.wire.message_bytes) as u64),
                ("sessions", server.sessions as u64),
                ("held-back-events", client.reorder_events as u64),
                ("held-back-bytes", client.reorder_bytes as u64),
            ],
            settle: detection
                + server.detached_lifetime
                + server.closed_retention
                + Duration::from_secs(5),
            outside: &[web::HOST],
        }
    }

    fn properties(&self) -> &'static [Property] {
        properties::OWN
    }

    fn dissector(&self, _: Side) -> Box<dyn Dissector> {
        Box::new(WebSocket::new(label::label))
    }
}

/// A chunk that is kept has so many bytes at least, or is a line.
const KEPT: u64 = CHUNK as u64 / 2;

/// How long a closed process can be caught up with: as long as its session lives. Its clock stands still while nobody is
/// attached, and begins anew with each connection.
///
/// The server forgets a process only after a sign of life that came no earlier than its ping interval before the end of the retention.
/// A client that did not hear of the close gives its last one no later than its detection after the close, and the ways of two packets
/// (3 s here). A retention that is shorter than the sum of these can end before the client has given the connection up.
fn closed_retention(client: &ClientLimits, server: &ServerLimits) -> Duration {
    let detection = client.wire.ping_interval + client.wire.pong_deadline;
    let kept = server.closed_retention;
    let is_enough = kept >= detection + server.wire.ping_interval + Duration::from_secs(3);
    if is_enough { Guarantees::FOREVER } else { kept }
}
