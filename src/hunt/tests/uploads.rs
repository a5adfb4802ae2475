//! An upload, recorded as [the documentation](crate::subject::Subject#what-a-driver-must-record)
//! requires, and the violations that the generic properties find in it.
//!
//! The client sends numbered chunks. It sends each one until the server acknowledges it, and then
//! closes the upload with `done`. A request carries everything the server needs: `put NAME CALL
//! NUMBER TEXT`, `done NAME CALL`.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::history::{Call, Class, Stream};
use crate::hunt::{JudgedRun, judge};
use crate::net::{self, Endpoint};
use crate::property::{Guarantees, Violation, WorkBounds};
use crate::report::sentence;
use crate::scenario::Expect;
use crate::schedule::{
    Action, Conn, Fault, Limits, Operation, Orphans, Plan, Profile, When, Which, draw, faults,
};
use crate::subject::{
    BoxedStrategy, Disk, DynSubject, HostContext, OperationQueue, Operations, Recorder, Subject,
    any_of,
};
use crate::world::{Options, RunError};

const SILENCE: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(250);
const PATIENCE: Duration = Duration::from_secs(20);

/// A bug in the server or in its driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    Nothing,
    /// The server acknowledges a chunk a moment before it stores the chunk.
    AcknowledgesEarly,
    /// The server stores every chunk it receives, including chunks that it has already stored.
    StoresAgain,
    /// The driver records the uploaded data as if it flowed down to the client.
    RecordedUpward,
}

struct Uploads(Wrong);

#[derive(Clone, Debug, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum Ask {
    Upload { chunks: u64 },
}

impl Operations for Ask {
    fn class(&self) -> Class {
        Class::Durable
    }

    fn strategy(_: &Plan) -> BoxedStrategy<Self> {
        any_of([Ask::Upload { chunks: 3 }, Ask::Upload { chunks: 20 }])
    }
}

impl Subject for Uploads {
    type Operation = Ask;

    fn name(&self) -> &'static str {
        "uploads"
    }

    fn description(&self) -> &'static str {
        "chunks that go up, across reconnects"
    }

    fn guarantees(&self, _: &Limits) -> Guarantees {
        let (detection, attempt, usual) = (SILENCE, SILENCE * 2, Guarantees::default());
        // Each upload opens a separate connection.
        let work = WorkBounds { attempts: 50, attempts_a_minute: 3_000, ..usual.work };
        Guarantees {
            detection,
            recovery: PATIENCE - detection,
            attempt,
            back_off: PAUSE + attempt,
            work,
            ..usual
        }
    }

    async fn serve(&self, host: HostContext) {
        let Ok(mut listener) = host.env.net.listen(&Endpoint::tcp("server", 80)).await else {
            return;
        };
        let mut connections = JoinSet::new();
        while let Ok(stream) = listener.accept().await {
            let store =
                Store { disk: host.disk.clone(), record: host.record.clone(), wrong: self.0 };
            connections.spawn(async move { store.attend(BufReader::new(stream)).await.ok() });
            while connections.try_join_next().is_some() {}
        }
    }

    async fn drive(&self, host: HostContext, mut operations: OperationQueue<Ask>) {
        let mut uploads = JoinSet::new();
        while let Some((call, Ask::Upload { chunks })) = operations.next().await {
            uploads.spawn(upload(host.clone(), call, chunks, self.0));
        }
    }
}

/// The server's durable state and the record of it: the world outside the server.
struct Store {
    disk: Disk,
    record: Recorder,
    wrong: Wrong,
}

impl Store {
    async fn attend(self, mut stream: BufReader<net::Stream>) -> io::Result<()> {
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).await? == 0 {
                return Ok(());
            }
            let words: Vec<_> = line.split_whitespace().collect();
            match words[..] {
                ["put", name, _, number, text] => {
                    let number = number.parse().map_err(io::Error::other)?;
                    if self.wrong == Wrong::AcknowledgesEarly {
                        stream.write_all(format!("have {number}\n").as_bytes()).await?;
                        sleep(Duration::from_millis(5)).await;
                        self.put(name, number, text);
                    } else {
                        self.put(name, number, text);
                        stream.write_all(format!("have {}\n", self.count(name)).as_bytes()).await?;
                    }
                }
                ["done", name, call] => {
                    self.close(name, Call(call.parse().map_err(io::Error::other)?));
                    stream.write_all(b"closed\n").await?;
                }
                _ => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
    }

    /// Returns the number of stored chunks of an upload.
    fn count(&self, name: &str) -> u64 {
        self.disk.read(name).and_then(|count| count.parse().ok()).unwrap_or(0)
    }

    fn put(&self, name: &str, number: u64, text: &str) {
        if number == self.count(name) + 1 || self.wrong == Wrong::StoresAgain {
            let (up, text) = (Stream::from(name), text.to_owned());
            match self.wrong {
                Wrong::RecordedUpward => self.record.delivered(&up, text, None),
                _ => self.record.produced(&up, text),
            }
            self.disk.write(name, number.to_string());
        }
    }

    fn close(&self, name: &str, call: Call) {
        let closed = format!("{name} is closed");
        if self.disk.read(&closed).is_none() || self.wrong == Wrong::StoresAgain {
            self.disk.write(&closed, "");
            self.record.effect(call, name);
            self.record.ended(&Stream::from(name), "closed");
        }
    }
}

/// The user of a client uploads data.
async fn upload(host: HostContext, call: Call, chunks: u64, wrong: Wrong) {
    let name = format!("{}-{}", host.name, call.0);
    let up = Stream::from(name.as_str());
    let chunk = |number| format!("chunk-{number}-of-{name}");
    if wrong == Wrong::RecordedUpward {
        (1..=chunks).for_each(|number| host.record.produced(&up, chunk(number)));
    } else {
        host.record.opened(&up, Call::NONE);
    }
    let (mut acknowledged, mut heard) = (0, Instant::now());
    while heard.elapsed() < PATIENCE {
        if let Ok(Ok(stream)) =
            timeout(SILENCE, host.env.net.connect(&Endpoint::tcp("server", 80))).await
        {
            let mut stream = BufReader::new(stream);
            loop {
                let next = acknowledged + 1;
                let request = match next > chunks {
                    true => format!("done {name} {}\n", call.0),
                    false => format!("put {name} {} {next} {}\n", call.0, chunk(next)),
                };
                let Ok(reply) = exchange(&mut stream, request).await else { break };
                heard = Instant::now();
                // A reply that the upload is closed acknowledges all chunks.
                let have = reply.strip_prefix("have ").map_or(Ok(chunks), str::parse).unwrap_or(0);
                (next..=have).for_each(|number| host.record.delivered(&up, chunk(number), None));
                acknowledged = acknowledged.max(have);
                if reply == "closed" {
                    host.record.completed(&up, "closed");
                    return host.record.answered(call, "closed");
                }
            }
        }
        sleep(PAUSE).await;
    }
    host.record.failed_stream(&up, "no answer");
    host.record.failed(call, "no answer");
}

async fn exchange(stream: &mut BufReader<net::Stream>, request: String) -> io::Result<String> {
    stream.write_all(request.as_bytes()).await?;
    let mut reply = String::new();
    timeout(SILENCE, stream.read_line(&mut reply)).await??;
    reply.strip_suffix('\n').map(str::to_owned).ok_or(io::ErrorKind::UnexpectedEof.into())
}

fn uploads(wrong: Wrong) -> Arc<dyn DynSubject> {
    Arc::new(Uploads(wrong))
}

/// Uploads ten chunks starting at 1 s, and injects a fault `after` milliseconds later.
fn faulty(after: u64, fault: Fault) -> Plan {
    let fields = serde_json::Map::from_iter([("chunks".to_owned(), 10.into())]);
    let ask = Operation { verb: "upload".into(), client: "client".into(), fields };
    let mut plan =
        Plan::new("uploads").step(When::At(Duration::from_secs(1)), Action::Operation(ask));
    plan.latency = (Duration::from_millis(10), Duration::from_millis(10));
    plan.step(When::At(Duration::from_millis(1_000 + after)), Action::Fault(fault))
}

/// Crashes of the server, at many moments of the upload.
fn crashes() -> impl Iterator<Item = Plan> {
    let crash = || {
        Fault::Crash(faults::Crash {
            host: "server".into(),
            lasts: Some(Duration::from_secs(1)),
            processes: Orphans::Die,
        })
    };
    (0..60).map(move |n| faulty(4 * n, crash()))
}

/// Resets of the client's connection, at many moments of the upload.
fn resets() -> impl Iterator<Item = Plan> {
    let conn = Conn { host: "client".into(), label: None, which: Which::Last };
    (0..60).map(move |n| {
        faulty(4 * n, Fault::Reset(faults::Reset { conn: conn.clone(), toward: None }))
    })
}

/// Random schedules.
fn drawn() -> impl Iterator<Item = Plan> {
    let (subject, seeds) = (uploads(Wrong::Nothing), 1..=40);
    seeds.map(move |seed| draw::plan(&Profile::of_schemas(&*subject), &*subject, seed))
}

fn broken(wrong: Wrong, plan: &Plan) -> Result<Vec<Violation>, RunError> {
    let case = JudgedRun { subject: &uploads(wrong), plan, expect: &Expect::default() };
    judge(case, &Options::default(), |_| false).map(|judged| judged.broken)
}

/// Returns the violations over these plans, each as `property: sentence`.
fn found(wrong: Wrong, plans: impl Iterator<Item = Plan>) -> Vec<String> {
    let broken = plans.flat_map(|plan| broken(wrong, &plan).expect("it runs"));
    broken.map(|broken| format!("{}: {}", broken.property, sentence(&broken))).collect()
}

#[track_caller]
fn finds(found: &[String], words: &str) {
    assert!(found.iter().any(|sentence| sentence.contains(words)), "{words}: {found:#?}");
}

#[test]
fn a_good_upload_holds() {
    let plans = crashes().chain(resets()).chain(drawn());
    assert_eq!(found(Wrong::Nothing, plans), Vec::<String>::new());
}

#[test]
fn a_chunk_that_is_lost_after_its_acknowledgement_is_a_gap() {
    finds(&found(Wrong::AcknowledgesEarly, crashes()), "gap_free: ");
}

#[test]
fn a_chunk_that_is_stored_twice_is_a_gap_and_an_upload_that_is_closed_twice_takes_effect_twice() {
    let found = found(Wrong::StoresAgain, resets());
    finds(&found, "gap_free: ");
    finds(&found, "at_most_once: ");
}

#[test]
fn an_upload_recorded_in_the_wrong_direction_is_a_driver_error() {
    let mistake = resets().map(|plan| broken(Wrong::RecordedUpward, &plan)).find_map(Result::err);
    let rendered = mistake.expect("a mistake").to_string();
    assert!(
        rendered.starts_with(
            "`client-1` was produced on `client` and delivered on `server`: for an upload, "
        ),
        "{rendered}"
    );
}
