//! Tests what the subject's own code may do while the world calls it, and how the world reports
//! things that belong to no host.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};
use tokio::time::sleep;
use turmoil_net::shim::tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::history::{Event, EventKind, History};
use crate::schedule::Plan;
use crate::subject::{DynSubject, HostContext};
use crate::world::{Detail, Engine, Options, run};

const ENGINES: [Engine; 2] = [Engine::Event, Engine::TURMOIL];

fn short() -> Plan {
    Plan { horizon: Duration::from_secs(5), ..plan([]) }
}

fn on(engine: Engine, subject: &Arc<dyn DynSubject>) -> History {
    run(subject, &short(), &Options { engine, detail: Detail::Full, ..Options::default() })
        .unwrap()
        .history
}

async fn absent(_: HostContext) {
    std::future::pending().await
}

fn count(history: &History, of: impl Fn(&Event) -> bool) -> usize {
    history.events.iter().filter(|event| of(event)).count()
}

fn on_server(event: &Event) -> bool {
    event.host.as_ref().is_some_and(|host| host.as_str() == "server")
}

#[test]
fn a_counter_may_use_everything_that_its_host_may_use() {
    let counts = |host: HostContext| async move {
        let (ticks, own) = (Arc::new(AtomicU64::new(0)), host.clone());
        let counted = ticks.clone();
        host.record.gauge("ticks", move || {
            let count = counted.load(Ordering::Relaxed);
            own.env.clock.now();
            crate::milestone!("bare.counted", count);
            crate::defect!(Anything);
            if count == 1 {
                log(&own, "asked at one");
                own.record.gauge("later", || 7);
            }
            count
        });
        for _ in 0..3 {
            ticks.fetch_add(1, Ordering::Relaxed);
            sleep(Duration::from_millis(10)).await;
        }
        std::future::pending().await
    };
    for engine in ENGINES {
        let history = on(engine, &bare(counts, absent));
        assert!(
            count(&history, |event| matches!(
                event.what,
                EventKind::Milestone { name: "bare.counted", .. }
            ) && on_server(event))
                >= 3
        );
        assert!(
            log_lines(&history, true).contains(&"server 0: asked at one".to_owned()),
            "{engine:?}: heard in the turn in which it is said"
        );
        let highest = |wanted| move |event: &Event| matches!(event.what, EventKind::Gauge { name, value } if (name, value) == wanted);
        assert_eq!(count(&history, highest(("ticks", 3))), 1);
        assert!(count(&history, highest(("later", 7))) >= 1);
        let left = |event: &Event| match &event.what {
            EventKind::ResourceCounts { baseline: false, counts } => counts.get("ticks").copied(),
            _ => None,
        };
        assert_eq!(history.events.iter().find_map(left), Some(3), "{engine:?}");
    }
}

#[test]
fn a_counter_that_panics_is_an_entry_of_its_host() {
    let counts = |host: HostContext| async move {
        host.record.gauge("broken", || panic!("while counting"));
        std::future::pending().await
    };
    let history = on(Engine::Event, &bare(counts, absent));
    let panicked = |event: &Event| {
        matches!(&event.what, EventKind::Panicked { message } if message.starts_with("while counting ("))
            && on_server(event)
    };
    assert!(count(&history, panicked) >= 1);
    assert!(history.end.0 > 5_000, "the run goes on");
}

#[test]
fn a_dissector_may_ask_the_world_something() {
    // The dissectors of these tests do so.
    let asks = |host: HostContext| async move {
        let mut stream = connect(&host).await;
        stream.write_all(b"one\ntwo\n").await.unwrap();
        std::future::pending().await
    };
    for engine in ENGINES {
        let history = on(engine, &bare(echo, asks));
        let message = |wanted: &'static str| move |event: &Event| matches!(&event.what, EventKind::Message { label, delivered: Some(_), .. } if label == wanted);
        assert_eq!(
            [count(&history, message("one")), count(&history, message("two"))],
            [2, 2],
            "{engine:?}: there and back"
        );
    }
}

fn residue(subject: &Arc<dyn DynSubject>) -> Vec<String> {
    let history = on(Engine::Event, subject);
    broken(subject, &short(), &history, "no_residue")
}

#[test]
fn a_socket_of_no_host_is_reported() {
    let listens = |_| async {
        let _listener = TcpListener::bind("0.0.0.0:80").await.unwrap();
        std::future::pending().await
    };
    assert_eq!(
        residue(&bare(listens, absent)),
        ["a socket that listens at 0.0.0.0:80 belongs to no host (at 7.000 s)"]
    );
    let connects = |_| async {
        let _ = tokio::time::timeout(Duration::from_secs(1), TcpStream::connect("server:80")).await;
        std::future::pending().await
    };
    let residue = residue(&bare(echo, connects));
    let [sentence] = &residue[..] else { panic!("{residue:?}") };
    assert!(
        sentence.starts_with("a socket, ")
            && sentence.ends_with(":80 belongs to no host (at 0.000 s)"),
        "{sentence}"
    );
}

/// Spawns a task when it is woken, which happens while no task is polled.
struct SpawnsWhenWoken(Waker);

impl Wake for SpawnsWhenWoken {
    fn wake(self: Arc<Self>) {
        tokio::spawn(async { crate::milestone!("bare.astray") });
        self.0.wake_by_ref();
    }
}

#[test]
fn a_task_of_no_host_is_reported_and_so_is_its_log_line() {
    let unowned_resources = |host: HostContext| async move {
        let mut stream = connect(&host).await;
        stream.write_all(b"hello").await.unwrap();
        let mut buffer = [0; 5];
        std::future::poll_fn(|cx| {
            let waker = Waker::from(Arc::new(SpawnsWhenWoken(cx.waker().clone())));
            let read = Pin::new(&mut stream)
                .poll_read(&mut Context::from_waker(&waker), &mut ReadBuf::new(&mut buffer));
            read.map(|read| read.unwrap())
        })
        .await;
        let _stays: Poll<()> = std::future::pending().await;
    };
    let residue = residue(&bare(echo, unowned_resources));
    let of = |residue: &str| residue.split(" (at").next().unwrap().to_owned();
    let residue: Vec<_> = residue.iter().map(|sentence| of(sentence)).collect();
    assert_eq!(
        residue,
        ["a task belongs to no host", "the milestone bare.astray belongs to no host"]
    );
}
