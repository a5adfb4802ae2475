//! What a run costs on each engine, and how many times more on stock turmoil: `cargo bench --bench both_engines`. Each figure is the median
//! of seven rounds; what is compared is run by turns, so that a noisy machine is as noisy for both. Under `cargo test` each is carried
//! out once, and nothing is timed.

#![allow(clippy::disallowed_methods)] // real time is what is measured

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use reknit::net::Endpoint;
use reknit::property::Promise;
use reknit::scenario::Scenario;
use reknit::schedule::{Limits, Plan};
use reknit::subject::{Erased, HostContext, Nothing, Operated, Subject};
use reknit::world::{Engine, Options, run};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const ROUNDS: usize = 7;

/// One client, two processes, 90 virtual seconds, three outages.
const THREE_OUTAGES: &str = r#"
format  = 1
subject = "exec"
title   = "Three outages"
horizon = "90s"

[process.p1]
print = { lines = 80, every = "1s" }

[process.p2]
print = { lines = 40, every = "2s" }

[[step]]
at    = "1s"
start = { process = "p1" }

[[step]]
at    = "1s"
start = { process = "p2" }

[[step]]
at  = "10s"
cut = { conn = "client#last" }

[[step]]
at        = "30s"
partition = { hosts = ["client", "server"], lasts = "4s" }

[[step]]
at  = "60s"
cut = { conn = "client#last", learns = { client = "0ms", server = "3s" } }
"#;

/// A server that says again what it hears, and a client that listens to it a second's pause after a second's pause.
struct Echo;

impl Subject for Echo {
    type Operation = Nothing;

    fn name(&self) -> &'static str {
        "echo"
    }

    fn about(&self) -> &'static str {
        "an echo over a bare stream"
    }

    async fn serve(&self, host: HostContext) {
        let mut listener = host.env.net.listen(&Endpoint::tcp("server", 80)).await.expect("nobody else listens");
        let mut stream = listener.accept().await.expect("a client connects");
        let mut heard = [0; 5];
        while stream.read_exact(&mut heard).await.is_ok() && stream.write_all(&heard).await.is_ok() {}
    }

    async fn drive(&self, host: HostContext, _: Operated<Nothing>) {
        let mut stream = host.env.net.connect(&Endpoint::tcp("server", 80)).await.expect("a server listens");
        let mut heard = [0; 5];
        while stream.write_all(b"hello").await.is_ok() && stream.read_exact(&mut heard).await.is_ok() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    fn promise(&self, _: &Limits) -> Promise {
        Promise::default()
    }
}

fn main() {
    let timed = std::env::args().any(|arg| arg == "--bench");
    let exec = reknit::subjects::built_in().into_iter().find(|subject| subject.name() == "exec");
    if let Some(exec) = exec {
        let scenario =
            Scenario::parse(THREE_OUTAGES, "three-outages.toml", std::slice::from_ref(&exec)).expect("it is well-formed");
        compare("exec, 90 virtual seconds, three outages", &exec, &scenario.plans()[0], timed);
    }
    let echo: Arc<dyn Erased> = Arc::new(Echo);
    let minute = Plan { horizon: Duration::from_secs(60), ..Plan::new("echo") };
    compare("echo, 60 virtual seconds, one a second", &echo, &minute, timed);
    many_echoes(&echo, timed);
}

/// Prints what a plan costs on both engines.
fn compare(what: &str, subject: &Arc<dyn Erased>, plan: &Plan, timed: bool) {
    let on = |engine, runs| cost(subject, plan, engine, runs);
    if !timed {
        for engine in [Engine::Event, Engine::Turmoil] {
            on(engine, 1);
        }
        return;
    }
    let rounds: Vec<_> = (0..ROUNDS).map(|_| (on(Engine::Event, 100), on(Engine::Turmoil, 1))).collect();
    let (event, ticks) = (median(rounds.iter().map(|round| round.0)), median(rounds.iter().map(|round| round.1)));
    println!(
        "{what:<45} {:>8.1} µs  turmoil {:>9.1} µs  {:>4.0} times",
        micros(event),
        micros(ticks),
        micros(ticks) / micros(event)
    );
}

/// Prints what an echo costs on the event engine: what a long run costs more than a short one, by echoes.
fn many_echoes(echo: &Arc<dyn Erased>, timed: bool) {
    let of = |seconds| Plan { horizon: Duration::from_secs(seconds), ..Plan::new("echo") };
    let (short, long, runs) = (of(60), of(3_660), if timed { 10 } else { 1 });
    let rounds: Vec<_> = (0..if timed { ROUNDS } else { 1 })
        .map(|_| cost(echo, &long, Engine::Event, runs).saturating_sub(cost(echo, &short, Engine::Event, runs)))
        .collect();
    if timed {
        println!("{:<45} {:>8.2} µs", "an echo of such a run", micros(median(rounds.into_iter())) / 3_600.0);
    }
}

/// The time of a run, on average.
fn cost(subject: &Arc<dyn Erased>, plan: &Plan, engine: Engine, runs: u32) -> Duration {
    let (start, options) = (Instant::now(), Options { engine, ..Options::default() });
    (0..runs).for_each(|_| drop(black_box(run(subject, plan, &options).expect("it can be carried out"))));
    start.elapsed() / runs
}

fn median(times: impl Iterator<Item = Duration>) -> Duration {
    let mut times: Vec<_> = times.collect();
    times.sort();
    times[times.len() / 2]
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
