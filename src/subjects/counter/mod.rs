//! The subject `counter`: the adapter that runs [`reknit_counter`] in a world.
//!
//! - [`operations`]: the operations of a user, and the setup of a stream in a scenario:
//!   `[stream.s1] numbers = 60, every = "1s"`.
//! - `outside`: the outside world of the server, which records the ground truth.
//! - `user`: the user of a client, who records the results.
//! - [`tables`]: limits, milestones, points, defects, rules.
//!
//! Streams are *durable*, and so is `add`; `peek` is *in flight*; `lease` is *bound*. With several
//! clients, each client has separate streams and counters under separate names, so the properties
//! see one producer and one user per stream.

use std::sync::Arc;
use std::time::Duration;

use crate::net::Endpoint;
use crate::property::{Guarantees, Retention, WorkBounds, attempts_a_minute};
use crate::schedule::{Limit, Limits};
use crate::subject::{
    DefectDoc, HostContext, MilestoneDoc, OperationQueue, PointDoc, Rule, Subject,
};
use reknit_counter::{Client, Server};

pub mod operations;
mod outside;
pub mod tables;
mod user;

use operations::{CounterOperation, StreamSetup};

/// The subject for the small protocol [`reknit_counter`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Counter;

/// The port at which the server listens.
const PORT: u16 = 80;

impl Subject for Counter {
    type Operation = CounterOperation;

    fn name(&self) -> &'static str {
        "counter"
    }

    fn description(&self) -> &'static str {
        "streams of numbers that a client resumes from the last one it saw, and sums: the harness's own test subject"
    }

    fn limits(&self) -> &'static [Limit] {
        tables::LIMITS
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
        Some("counter.client.connected")
    }

    fn swarm(&self) -> Option<&'static str> {
        Some(include_str!("../../../scenarios/counter/swarm-default.toml"))
    }

    fn port(&self) -> u16 {
        PORT
    }

    fn setup(&self) -> Vec<(&'static str, schemars::Schema)> {
        vec![("stream", schemars::schema_for!(StreamSetup))]
    }

    async fn serve(&self, host: HostContext) {
        let source = outside::Producers::new(host.plan.clone(), host.record.clone());
        let ledger = outside::SumLedger::new(host.record.clone());
        let limits = tables::server_limits(&host.limits);
        let at = Endpoint::tcp(host.name.as_str(), PORT);
        let server =
            match Server::bind(&host.env, &at, limits, Arc::new(source), Arc::new(ledger)).await {
                Ok(server) => server,
                Err(error) => return tracing::error!(%error, "cannot listen at {at}"),
            };
        let resources = server.resources();
        host.record.gauges(tables::RESOURCES, move || Some(resources.clone()));
        server.run().await;
    }

    async fn drive(&self, host: HostContext, operations: OperationQueue<CounterOperation>) {
        let server = Endpoint::tcp("server", PORT);
        let client = Client::start(&host.env, server, tables::client_limits(&host.limits));
        user::CounterUser::new(host, client).run(operations).await;
    }

    fn guarantees(&self, limits: &Limits) -> Guarantees {
        let client = tables::client_limits(limits);
        let server = tables::server_limits(limits);
        let detection = client.liveness.ping_interval + client.liveness.pong_deadline;
        Guarantees {
            detection,
            recovery: client.recovery_deadline,
            attempt: client.attempt_timeout,
            round_trips: 3, // SYN, hello, watch
            // TCP's retransmission pauses double, so an attempt whose packets were lost can be
            // silent for half its timeout before the client gives it up.
            back_off: client.back_off_max + client.attempt_timeout / 2,
            session: server.session_lifetime,
            retention: Retention { items: Some(server.retained_items as u64), ..Retention::ALL },
            closed_retention: server.closed_retention,
            work: WorkBounds {
                attempts: 10,
                // With the default pauses, a link that fails at the worst times causes 220 attempts.
                attempts_a_minute: attempts_a_minute(client.back_off_min, client.back_off_max),
                attempts_per_item: 0,
                frames: 100,
                polls: 60,
            },
            memory: vec![
                ("longest-log", server.retained_items as u64),
                ("longest-queue", server.queued_replies as u64),
                ("sessions", server.sessions as u64),
            ],
            settle: detection
                + server.session_lifetime
                + server.closed_retention
                + Duration::from_secs(5),
            ..Guarantees::default()
        }
    }
}
