//! The broker with sockets: it accepts clients, owns their tasks, and speaks with the app-server.

use std::sync::{Arc, Weak};
use std::time::Duration;

use reknit_jsonrpc::ErrorBody;
use reknit_seams::defect;
use reknit_seams::net::Listener;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::connection;
use super::core::{BrokerCore, BrokerCounts, BrokerEffect, BrokerExit};
use super::shared::BrokerShared;
use super::tickets::Tickets;
use crate::limits::BrokerLimits;
use crate::upstream::{RequestFailure, Upstream, UpstreamEvent};
use crate::wire::{InitializeParams, code};

/// How long the broker waits after a failed accept. A shortage of files or memory usually lasts a
/// moment.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A broker: one app-server for several clients.
pub struct Broker {
    shared: Arc<BrokerShared>,
}

/// Ends a broker from outside, for example when a signal arrives, and shows its resource counts. It does
/// not keep the broker alive.
#[derive(Clone)]
pub struct BrokerHandle(Weak<BrokerShared>);

impl BrokerHandle {
    /// Asks the broker to end. Running turns are interrupted, their clients get their ends, and
    /// [`Broker::serve`] returns [`BrokerExit::Asked`].
    pub fn shutdown(&self) {
        if let Some(shared) = self.0.upgrade() {
            shared.core().shutdown(Instant::now());
        }
    }

    /// Returns the current resource counts.
    pub fn counts(&self) -> BrokerCounts {
        self.0.upgrade().map(|shared| shared.core().counts()).unwrap_or_default()
    }
}

impl Broker {
    /// Creates a broker. `initialize` contains the parameters with which it introduces itself to the
    /// app-server.
    pub fn new(limits: BrokerLimits, initialize: &InitializeParams) -> Self {
        let core = BrokerCore::new(limits, initialize);
        Self { shared: Arc::new(BrokerShared::new(core, limits)) }
    }

    /// Returns a handle that can end the broker.
    pub fn handle(&self) -> BrokerHandle {
        BrokerHandle(Arc::downgrade(&self.shared))
    }

    /// Serves clients until the broker is asked to end, or the app-server ends. Then it drops the
    /// listener, lets the clients read their last messages for `limits.linger`, and closes the
    /// connection to the app-server, all in bounded time.
    pub async fn serve(self, upstream: Upstream, listener: Listener) -> BrokerExit {
        let mut tasks = Tasks {
            shared: self.shared,
            upstream,
            clients: JoinSet::new(),
            tickets: Tickets::default(),
        };
        let exit = tasks.run(listener).await;
        let last_words = async { while tasks.clients.join_next().await.is_some() {} };
        // The tasks end by themselves at their own deadlines; this is the last resort.
        let _ = timeout(2 * tasks.shared.linger(), last_words).await;
        exit
    }
}

/// The tasks of a running broker.
struct Tasks {
    shared: Arc<BrokerShared>,
    upstream: Upstream,
    clients: JoinSet<()>,
    tickets: Tickets,
}

impl Tasks {
    async fn run(&mut self, listener: Listener) -> BrokerExit {
        let changed = self.shared.core().changed();
        let mut listener = Some(listener);
        // The end of the app-server is the last event, and it comes once.
        let mut has_ended = false;
        loop {
            let due = self.carry_out();
            if let Some(exit) = self.shared.core().exit() {
                return exit.clone();
            }
            // The bug: the broker still accepts clients while its app-server ends.
            if self.shared.core().is_closing() && !defect!(ClosingBrokersListen) {
                listener = None;
            }
            // The bug: one client more has room.
            let most = self.shared.limits.clients + usize::from(defect!(OneClientMoreHasRoom));
            let room = self.clients.len() < most;
            let accept = async {
                match &mut listener {
                    Some(listener) => listener.accept().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                // `Notify` keeps a change that comes between the look at the core and the wait.
                () = changed.notified() => {}
                Some(_) = self.clients.join_next() => {}
                accepted = accept, if room => match accepted {
                    Ok(stream) => drop(self.clients.spawn(connection::serve(self.shared.clone(), stream))),
                    Err(error) => {
                        tracing::warn!(%error, "accept");
                        sleep(ACCEPT_PAUSE).await;
                    }
                },
                event = self.upstream.next(), if !has_ended => {
                    has_ended = matches!(event, UpstreamEvent::Ended(_));
                    self.on_event(event);
                }
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
            }
        }
    }

    /// Handles timeouts and carries out the core's effects. Returns the time of the next timeout.
    fn carry_out(&mut self) -> Option<Instant> {
        self.shared.core().catch_up(Instant::now());
        loop {
            let effect = self.shared.core().effect();
            match effect {
                Some(effect) => self.start(effect),
                None => return self.shared.core().due(),
            }
        }
    }

    fn start(&mut self, effect: BrokerEffect) {
        match effect {
            BrokerEffect::Request { ticket, method, params } => {
                match self.upstream.request(&method, params) {
                    Ok(number) => self.tickets.insert(number, ticket),
                    Err(error) => {
                        let error = refusal(error.to_string());
                        self.shared.core().on_answer(ticket, Err(error), false, Instant::now());
                    }
                }
            }
            BrokerEffect::Notify { method } => self.upstream.notify(method, None),
            BrokerEffect::CloseUpstream => self.upstream.close(),
        }
    }

    fn on_event(&mut self, event: UpstreamEvent) {
        let now = Instant::now();
        let mut core = self.shared.core();
        match event {
            UpstreamEvent::Answered { number, outcome } => {
                let timed_out = matches!(outcome, Err(RequestFailure::Deadline));
                let ticket = self.tickets.take(number);
                let outcome = outcome.map_err(|failure| match failure {
                    RequestFailure::Refused(error) => error,
                    failure => refusal(failure.to_string()),
                });
                if let Some(ticket) = ticket {
                    core.on_answer(ticket, outcome, timed_out, now);
                    if timed_out {
                        self.tickets.keep(number, ticket, &core);
                    }
                }
            }
            UpstreamEvent::Late { number, result } => {
                if let Some(ticket) = self.tickets.take(number) {
                    core.on_late(ticket, result, now);
                }
            }
            UpstreamEvent::Notification { method, params } => {
                core.on_notification(&method, params.as_deref(), now);
            }
            UpstreamEvent::Unreadable { why } => core.on_unreadable(&why, now),
            UpstreamEvent::Ended(end) => core.upstream_ended(end, now),
        }
    }
}

fn refusal(message: String) -> ErrorBody {
    ErrorBody { code: code::SERVER, message, data: None }
}
