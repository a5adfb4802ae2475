//! The user of the client. It follows the script, and reads all results.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use arbitrary::Arbitrary;
use reknit_exec::client::{Client, Event, Events, HttpRequest, Process};
use reknit_exec::wire::Directory;
use reknit_exec::wire::process::{Signal, StartParams};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::script::{Bytes, Name, Number, Pause};

/// An action of a user.
#[derive(Arbitrary, Clone, Debug)]
pub enum ExecAct {
    /// Starts a process, and reads its events.
    Launches(Name),
    /// Starts a process, and abandons the start.
    GivesUp(Name, Pause),
    /// Writes to the n-th process.
    Writes(u8, Bytes),
    /// Reads from it.
    Reads(u8, Number, Option<Number>, Pause),
    /// Interrupts it.
    Signals(u8),
    /// Terminates it.
    Terminates(u8),
    /// Drops its handle.
    Forgets(u8),
    /// Sends an HTTP request, and waits for the complete answer.
    Http(Option<Pause>),
    /// Sends an HTTP request, and reads the body piece by piece, with a pause before each piece.
    Streams(Option<Pause>, Pause),
    /// Closes the client.
    Closes,
}

/// The handles of a user, and its pending operations.
pub struct ExecUser {
    client: Arc<Client>,
    processes: Arc<Mutex<Vec<Process>>>,
    waits_for: JoinSet<()>,
}

impl ExecUser {
    pub fn of(client: Client) -> Self {
        Self { client: Arc::new(client), processes: Arc::default(), waits_for: JoinSet::new() }
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Performs an action without waiting for its result.
    pub fn does(&mut self, act: &ExecAct) {
        let (client, act) = (self.client.clone(), act.clone());
        match act {
            ExecAct::Launches(_)
            | ExecAct::GivesUp(..)
            | ExecAct::Http(_)
            | ExecAct::Streams(..)
            | ExecAct::Closes => {
                let processes = self.processes.clone();
                self.waits_for.spawn(async move { with_client(&client, act, &processes).await });
            }
            ExecAct::Forgets(n) => drop(self.process(n).map(|at| self.processes().remove(at))),
            ExecAct::Writes(n, _)
            | ExecAct::Reads(n, ..)
            | ExecAct::Signals(n)
            | ExecAct::Terminates(n) => {
                if let Some(at) = self.process(n) {
                    let process = self.processes()[at].clone();
                    self.waits_for.spawn(with_process(process, act));
                }
            }
        }
    }

    fn processes(&self) -> std::sync::MutexGuard<'_, Vec<Process>> {
        self.processes.lock().expect("nothing panics under the lock")
    }

    fn process(&self, n: u8) -> Option<usize> {
        usize::from(n).checked_rem(self.processes().len())
    }

    /// Waits until all pending operations have ended.
    pub async fn is_done(&mut self) {
        while let Some(ended) = self.waits_for.join_next().await {
            ended.expect("nothing panics");
        }
    }
}

async fn with_client(client: &Client, act: ExecAct, processes: &Mutex<Vec<Process>>) {
    match act {
        ExecAct::Launches(name) => {
            // The server decides whether the launch succeeds.
            let Ok(process) = client.launch(spec(&name)).await else { return };
            let events = process.events();
            processes.lock().expect("nothing panics under the lock").push(process);
            listen(events).await;
        }
        ExecAct::GivesUp(name, after) => tokio::select! {
            biased;
            _ = client.launch(spec(&name)) => {}
            () = sleep(after.duration()) => {}
        },
        ExecAct::Http(timeout) => drop(client.http(request(timeout)).await),
        ExecAct::Streams(timeout, pause) => {
            if let Ok(mut response) = client.http_stream(request(timeout)).await {
                while let Some(Ok(_)) = response.body.next().await {
                    sleep(pause.duration().min(Duration::from_millis(100))).await;
                }
                assert!(response.body.next().await.is_none(), "a body that is over stays over");
            }
        }
        _ => client.close().await,
    }
}

async fn with_process(process: Process, act: ExecAct) {
    // The server decides the result; the operation must only end.
    match act {
        ExecAct::Writes(_, bytes) => drop(process.write(bytes.bytes()).await),
        ExecAct::Reads(_, after, max, wait) => {
            drop(process.read(after.value(), max.map(Number::value), wait.duration()).await)
        }
        ExecAct::Signals(_) => drop(process.signal(Signal::Interrupt).await),
        _ => drop(process.terminate().await),
    }
}

fn spec(name: &Name) -> StartParams {
    StartParams {
        process_id: name.text(),
        argv: vec!["sh".into()],
        cwd: Directory::root(),
        ..StartParams::default()
    }
}

fn request(timeout: Option<Pause>) -> HttpRequest {
    HttpRequest { timeout: timeout.map(Pause::duration), ..HttpRequest::get("http://web/") }
}

/// Checks the events: each has the next number, the exit occurs once, and no event follows the last
/// one.
async fn listen(mut events: Events) {
    let (mut last, mut exits, mut over) = (0, 0, false);
    while let Some(event) = events.next().await {
        assert!(!over, "nothing follows the last event");
        over = event.is_last();
        match event {
            Event::Output { seq, .. } | Event::Exited { seq, .. } | Event::Closed { seq, .. } => {
                assert_eq!(seq, last + 1, "events come in order, without a gap");
                last = seq;
                exits += u32::from(matches!(event, Event::Exited { .. }));
            }
            Event::Failed(_) => {}
        }
        assert!(exits <= 1, "a process exits once");
    }
    assert!(over, "the last event comes");
}
