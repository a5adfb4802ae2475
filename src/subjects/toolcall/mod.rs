//! `toolcall` in a world: the adapter of [`reknit_toolcall`].
//!
//! - [`setup`]: the agents, tools and restores that a scenario declares; [`operations`]: the
//!   operations of a window's user.
//! - `agent`, `archive`, `settling`: the world behind the host. They record the true state.
//! - `user`: the user of a window; `observer`: the changes that the user sees; `tools`: the tools
//!   that the window runs; `second`: an additional connection of the same client; `claim`: a client
//!   that makes a false claim. `raw`: the connections of `second` and `claim`.
//! - `notes`: the notes of all of these about calls and channels; `digests`: the digests of a
//!   channel's state; [`contents`]: such a state as a value and as text. `silent`: a connection that says nothing.
//! - `properties`: the properties beyond the generic ones.
//! - [`limits`], [`tables`]: limits, milestones, points, defects, variants, rules. `label`: the
//!   labels of messages.
//!
//! In the history, a turn `t1` is a stream: the words of its agent, which each user that watches
//! the chat reads. A second start by the same host is `t1.2`; the turns of the second window are
//! `client2/t1`.

use std::time::Duration;

use crate::history::Side;
use crate::net::Endpoint;
use crate::property::{
    CheckContext, Guarantees, Property, Violation, WorkBounds, attempts_a_minute,
};
use crate::schedule::{Limit, Limits, Tampering};
use crate::subject::{
    DefectDoc, Dissector, HostContext, MilestoneDoc, OperationQueue, PointDoc, Rule, Subject,
    VariantDoc, WebSocket,
};
use reknit_toolcall::host::{self, Host};
use reknit_toolcall::wire::ROOT;

mod agent;
pub mod answers;
mod archive;
pub mod claim;
pub mod contents;
mod digests;
mod label;
pub mod limits;
pub mod notes;
pub mod observer;
pub mod operations;
mod properties;
mod raw;
mod second;
mod settling;
pub mod setup;
mod silent;
pub mod tables;
mod tampering;
mod tools;
mod user;

use operations::ToolcallOperation;

pub use archive::PROVIDER;
pub use settling::SETTLES;

/// The Agent Host Protocol.
#[derive(Clone, Copy, Debug, Default)]
pub struct Toolcall;

/// The port that the host listens on.
const PORT: u16 = 80;

/// The token that a window sends.
pub const TOKEN: &str = "secret";

impl Subject for Toolcall {
    type Operation = ToolcallOperation;

    fn name(&self) -> &'static str {
        "toolcall"
    }

    fn description(&self) -> &'static str {
        "turns of agents, and the tools that windows run for them, over overlapping connections: the Agent Host Protocol"
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

    fn generation_milestone(&self) -> Option<&'static str> {
        Some("toolcall.client.opened")
    }

    fn accepts_late_requests(&self) -> bool {
        // A host performs an action that arrives over an older connection. Its number prevents that the
        // host performs it again.
        true
    }

    fn catch_up_milestone(&self) -> Option<&'static str> {
        Some("toolcall.client.connected")
    }

    fn swarm(&self) -> Option<&'static str> {
        Some(include_str!("../../../scenarios/toolcall/swarm-default.toml"))
    }

    fn port(&self) -> u16 {
        PORT
    }

    fn setup(&self) -> Vec<(&'static str, schemars::Schema)> {
        setup::tables()
    }

    async fn serve(&self, host: HostContext) {
        let at = Endpoint::tcp(host.name.as_str(), PORT);
        let listener = match host.env.net.listen(&at).await {
            Ok(listener) => listener,
            Err(error) => return tracing::error!(%error, "cannot listen at {at}"),
        };
        let config = host::HostConfig {
            provider: archive::PROVIDER.to_owned(),
            tokens: [(archive::PROVIDER.to_owned(), TOKEN.to_owned())].into_iter().collect(),
            agent: std::sync::Arc::new(agent::ScriptedAgent::new(
                host.plan.clone(),
                host.record.clone(),
                host.disk.clone(),
            )),
            archive: std::sync::Arc::new(archive::DiskArchive::new(
                host.plan.clone(),
                host.record.clone(),
                host.disk.clone(),
            )),
            limits: limits::host_limits(&host.limits),
        };
        let server = Host::new(&host.env, config);
        let resources = server.resources();
        let counts = move || Some(resources.counts());
        host.record.resources(tables::LEVELS, tables::RESOURCES, counts);
        let channels = [setup::SESSION.to_owned()]
            .into_iter()
            .chain(setup::chats(&host.plan))
            .chain([ROOT.to_owned()])
            .collect();
        let (resources, record) = (server.resources(), host.record.clone());
        let observing =
            settling::observe(resources, channels, record, (host.plan.clone(), host.disk.clone()));
        tokio::select! {
            biased;
            () = server.serve(listener) => {}
            () = observing => {}
        }
    }

    async fn drive(&self, host: HostContext, operations: OperationQueue<ToolcallOperation>) {
        let server = Endpoint::tcp("server", PORT);
        user::WindowUser::new(host, server).run(operations).await;
    }

    fn guarantees(&self, limits: &Limits) -> Guarantees {
        let client = limits::client_limits(limits);
        let host = limits::host_limits(limits);
        let detection = client.wire.ping_interval + client.wire.pong_deadline;
        let host_detection = host.wire.ping_interval + host.wire.pong_deadline;
        let attempt = client.connect_timeout + client.handshake_timeout;
        Guarantees {
            detection: detection.max(host_detection),
            // A client never gives up. It is connected again after its current pause and one
            // successful attempt.
            recovery: client.back_off_max + attempt,
            gives_up: false,
            attempt,
            call_wait: Duration::ZERO,
            round_trips: 6, // SYN, upgrade, handshake, tokens, and what is asked for again, twice
            back_off: client.back_off_max + client.connect_timeout / 2,
            connections: host.connections,
            no_room: properties::no_room,
            given: properties::results,
            depends: setup::depends,
            begins_anew: |operation| operation.verb == "reload",
            work: WorkBounds {
                attempts: 20,
                // A window has one connection at a time; a user asks for each further one. With the
                // default pauses, a link that fails at the worst times causes 12 attempts: six until
                // the link holds for 30 s, and six more. So the bound is 24.
                attempts_a_minute: attempts_a_minute(client.back_off_min, client.back_off_max),
                attempts_per_item: 0,
                frames: 200,
                polls: 400,
            },
            memory: vec![
                ("questions", 64),
                ("unconfirmed", client.unconfirmed as u64 + 64),
                ("held", client.held as u64 + 64),
                ("running", client.running_tools as u64 + 64),
                ("connections", host.connections as u64),
                ("clients", host.clients as u64),
            ],
            settle: host_detection
                + host.grace
                + host.client_retention.max(Duration::from_secs(120))
                + Duration::from_secs(130),
            ..Guarantees::default()
        }
    }

    fn properties(&self) -> &'static [Property] {
        properties::OWN
    }

    fn violations(&self, cx: &CheckContext<'_>) -> Vec<Violation> {
        properties::violations(cx)
    }

    fn dissector(&self, _: Side) -> Box<dyn Dissector> {
        Box::new(WebSocket::new(label::label))
    }

    fn tamper(&self, from: Side, how: Tampering, message: &[u8]) -> Option<Vec<u8>> {
        (from == Side::Server).then(|| tampering::tamper(how, message))?
    }
}
