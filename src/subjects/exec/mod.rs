//! `exec` in a world: the adapter of [`reknit_exec`].
//!
//! - [`operations`]: the operations of a user. `[process.NAME]` declares the real behaviour of the
//!   processes ([`world::process`](crate::world::process)).
//! - `draws`, `task_draws`: the operations that random schedules draw. [`command`]: the command of a
//!   start. [`tasks`]: what a user does with files.
//! - `user`: the user of a client, which records the outcomes; `follow`, `reading`, `byte_stream`,
//!   `seen`, `sum`, `client_state`: the events and the output of a process that the user receives.
//! - `answers`: the answers to the user, as values.
//! - `web`: the HTTP server behind the exec server, on a separate host; `body`: the bodies that a
//!   user receives from it; `transfer_time`: the time that the link needs for them.
//! - `files`: the files of the exec server, and what users read from them.
//! - [`background`]: the processes that commands leave behind on the exec server.
//! - `properties`: the properties beyond the generic ones.
//! - [`limits`], [`tables`]: limits, milestones, points, defects, rules. `label`: the labels of
//!   messages.
//!
//! In the history, a process `p1` is the stream `p1`, whose outcome is its exit. Its output streams
//! are its parts `p1/stdout`, `p1/stderr`, or `p1/pty`. They share one retention, and fail
//! together. A second start on the same host is `p1.2`. The processes of the second client are
//! `client2/p1`. The HTTP body that call 7 requested is the stream `h7`.

use std::sync::Arc;
use std::time::Duration;

use crate::history::Side;
use crate::net::Endpoint;
use crate::property::{
    Guarantees, InFlightLimit, Property, Retention, SlowUsers, WorkBounds, attempts_a_minute,
};
use crate::schedule::{Limit, LimitProfile, Limits, Tampering};
use crate::subject::{
    DefectDoc, Dissector, HostContext, MilestoneDoc, OperationQueue, PointDoc, Rule, Subject,
    WebSocket,
};
use crate::world::process;
use reknit_exec::client::Client;
use reknit_exec::limits::{ClientLimits, ServerLimits};
use reknit_exec::server::{CHUNK, Server};

mod answers;
pub mod background;
mod body;
mod byte_stream;
mod client_state;
pub mod command;
mod draws;
pub mod files;
mod follow;
mod label;
pub mod limits;
mod network_fault;
pub mod operations;
mod properties;
mod reading;
mod seen;
mod sum;
pub mod tables;
mod tampering;
mod task_draws;
pub mod tasks;
mod transfer_time;
mod user;
pub mod web;

use answers::ExecFailure;
use operations::ExecOperation;

/// The exec-server protocol.
#[derive(Clone, Copy, Debug, Default)]
pub struct Exec;

impl Subject for Exec {
    type Operation = ExecOperation;

    fn name(&self) -> &'static str {
        "exec"
    }

    fn description(&self) -> &'static str {
        "commands on another machine that survive the loss of the connection: the protocol of codex exec-server"
    }

    fn limits(&self) -> &'static [Limit] {
        limits::LIMITS
    }

    fn limit_profiles(&self) -> &'static [LimitProfile] {
        limits::PROFILES
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
            (files::TABLE, schemars::schema_for!(files::FileSetup)),
            (background::TABLE, schemars::schema_for!(background::BackgroundSetup)),
        ]
    }

    async fn serve(&self, host: HostContext) {
        if host.name.as_str() == web::HOST {
            return web::serve(host).await;
        }
        let at = Endpoint::tcp(host.name.as_str(), web::PORT);
        let listener = match host.env.net.listen(&at).await {
            Ok(listener) => listener,
            Err(error) => return tracing::error!(%error, "cannot listen at {at}"),
        };
        let mut env = host.env.clone();
        files::create_links(&*env.files, &host.plan).await;
        env.files =
            Arc::new(files::Recorded::new(env.files, host.record.clone(), host.plan.clone()));
        let leaving = background::Leaving::new(env.launch, host.record.clone(), host.plan.clone());
        env.launch = Arc::new(leaving);
        env.machine = Arc::new(command::machine());
        let server = Server::new(&env, limits::server_limits(&host.limits));
        let resources = server.resources();
        let counts = move || Some(resources.counts());
        host.record.resources(tables::LEVELS, tables::RESOURCES, counts);
        server.serve(listener).await;
    }

    async fn drive(&self, host: HostContext, operations: OperationQueue<ExecOperation>) {
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
            takeover: Duration::ZERO,
            reads: |_, _, _| None,
            also_reads: Guarantees::default().also_reads,
            depends: Guarantees::default().depends,
            held: operations::is_held,
            call_wait: client.call_wait,
            outside_wait: body::wait,
            round_trips: 5, // SYN, upgrade, initialize, read, and a page more
            is_loss: |reason| !ExecFailure::is_of_the_client(reason),
            is_local: operations::is_local,
            // If an attempt loses its packets, up to half of its duration can pass in silence
            // before it is given up, because TCP's retransmission pauses double.
            back_off: client.back_off_max + client.connect_timeout / 2,
            session: server.detached_lifetime,
            retention: retention(&client, &server),
            around: network_fault::AROUND as u64,
            parts: follow::PARTS,
            closed_retention: closed_retention(&client, &server),
            in_flight: Some(InFlightLimit {
                requests: client.calls as u64,
                of: operations::requests,
                later: operations::sends_later,
            }),
            connections: usize::MAX, // a new connection takes the place of an idle one
            no_room: Guarantees::default().no_room,
            given: Guarantees::default().given,
            begins_anew: Guarantees::default().begins_anew,
            answer_bytes: operations::answer_bytes,
            slow_users: slow_users(&client, &server),
            at_once: at_once(&client, &server),
            work: WorkBounds {
                attempts: 15,
                // A client of a host has one connection at a time. With the default pauses, a link that
                // fails at the worst times causes 180 attempts, so the bound is 360.
                attempts_a_minute: attempts_a_minute(client.back_off_min, client.back_off_max),
                // The pauses begin anew after a connection that brought events. Four attempts follow
                // before they are as long as a connection that lets them begin anew without events.
                attempts_per_item: 4,
                frames: 400,
                polls: 200,
            },
            memory: memory(&client, &server),
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

    fn tamper(&self, from: Side, how: Tampering, message: &[u8]) -> Option<Vec<u8>> {
        (from == Side::Server).then(|| tampering::tamper(how, message))?
    }
}

/// Returns the part of a stream that the server keeps: everything if it controls the flow.
fn retention(client: &ClientLimits, server: &ServerLimits) -> Retention {
    if server.flow_window(client.flow_window()).is_some() {
        return Retention::ALL;
    }
    operations::retained(server)
}

/// The calls of a client that its user may have given up before their answer, beyond the limit.
const GIVEN_UP: usize = 16;

/// The bounds of all counts that have one.
fn memory(client: &ClientLimits, server: &ServerLimits) -> Vec<(&'static str, u64)> {
    // Without flow control, the log has room for one more answer to a read.
    let is_controlled = server.flow_window(client.flow_window()).is_some();
    let (events, bytes) =
        if is_controlled { (0, 0) } else { (server.retained_chunks, server.retained_bytes) };
    [
        ("retained-bytes", server.retained_bytes.max(CHUNK)),
        ("retained-chunks", server.retained_chunks),
        ("waiting-input", server.stdin_bytes),
        ("write-ids", server.write_ids),
        // Each stream may add one more chunk, and then come the exit and the close.
        ("unsent-events", server.outbound_queue + 3),
        ("sessions", server.sessions),
        ("calls", client.calls + GIVEN_UP),
        ("held-back-events", client.reorder_events),
        ("held-back-bytes", client.reorder_bytes),
        // The log, the answer to a read, and the exit, the close or a failure.
        ("kept-events", client.log_events + events + 3),
        ("kept-bytes", client.log_bytes + bytes + 2 * CHUNK),
    ]
    .map(|(name, bound)| (name, bound as u64))
    .to_vec()
}

/// The guarantees of a slow user without flow control. The client reads on from the server as soon as
/// half of its log is free, up to one chunk.
fn slow_users(client: &ClientLimits, server: &ServerLimits) -> Option<SlowUsers> {
    let ahead = Retention {
        items: Some((client.log_events / 2) as u64),
        piece: Some(operations::KEPT),
        bytes: Some((client.log_bytes / 2).saturating_sub(CHUNK) as u64),
    };
    let slow_users = SlowUsers { ahead, closed_retention: server.closed_retention };
    server.flow_window(client.flow_window()).is_none().then_some(slow_users)
}

/// What the log of a client takes at once. With flow control, the server sends no more than the log has
/// room for.
fn at_once(client: &ClientLimits, server: &ServerLimits) -> Retention {
    if server.flow_window(client.flow_window()).is_some() {
        return Retention::ALL;
    }
    Retention {
        items: Some(client.log_events as u64),
        piece: Some(operations::KEPT),
        bytes: Some(client.log_bytes as u64),
    }
}

/// The time for which a client can catch up with a closed process: as long as the session lives.
/// The server's retention clock stops while no connection is attached, and restarts with each
/// connection.
///
/// The server forgets a process only after a sign of life from the client that came no earlier than
/// its ping interval before the end of the retention. A client that did not receive the close sends
/// its last sign of life at most its detection time after the close, plus the latency of two
/// packets (3 s here). If the retention is shorter than the sum of these times, it can end before
/// the client has given up the connection.
fn closed_retention(client: &ClientLimits, server: &ServerLimits) -> Duration {
    let detection = client.wire.ping_interval + client.wire.pong_deadline;
    let kept = server.closed_retention;
    let is_enough = kept >= detection + server.wire.ping_interval + Duration::from_secs(3);
    if is_enough { Guarantees::FOREVER } else { kept }
}
