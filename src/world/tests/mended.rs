//! Tests the cases in which the world corrects the simulated kernel to match Linux.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::sleep;

use super::*;
use crate::history::{EventKind, Side};
use crate::schedule::{Fault, faults};
use crate::world::{Detail, Options, run};

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// 1 MiB goes to a reader that wakes 3 s late and reads little at a time. Without window updates
/// the transfer would hang.
#[test]
fn a_late_slow_reader_gets_everything() {
    for at_a_time in [1_usize, 8 << 10, 64 << 10] {
        let total = 1 << 20;
        let subject = bare(
            move |host| async move {
                let mut listener = host.env.net.listen(&server()).await.unwrap();
                let mut stream = listener.accept().await.unwrap();
                sleep(secs(3)).await;
                let (mut buffer, mut sum, mut read) = (vec![0; at_a_time], 0_u64, 0);
                while let Ok(n @ 1..) = stream.read(&mut buffer).await {
                    sum += buffer[..n].iter().map(|byte| u64::from(*byte)).sum::<u64>();
                    read += n;
                }
                log(&host, format!("{read} {sum}"));
            },
            move |host| async move {
                let mut stream = connect(&host).await;
                let bytes: Vec<u8> = (0..total).map(|n| (n % 251) as u8).collect();
                stream.write_all(&bytes).await.unwrap();
                drop(stream);
                std::future::pending::<()>().await;
            },
        );
        let sum: u64 = (0..total).map(|n| (n % 251) as u64).sum();
        let mut plan = plan([]);
        plan.horizon = secs(600);
        assert_eq!(
            log_lines(&history(&subject, &plan), false),
            [format!("server: {total} {sum}")],
            "{at_a_time} at a time"
        );
    }
}

/// A reply that arrives in the same instant as a reset is read before the error.
#[test]
fn a_reply_that_comes_with_a_reset_is_read_first() {
    let subject = bare(echo, |host| async move {
        let mut stream = connect(&host).await;
        stream.write_all(b"hello").await.unwrap();
        sleep(secs(3)).await;
        for _ in 0..3 {
            let received = receive(&mut stream).await;
            log(&host, received);
        }
        let wrote = stream.write_all(b"x").await.unwrap_err().kind();
        log(&host, format!("{wrote:?}"));
    });
    let reset = Fault::Reset(faults::Reset {
        conn: crate::schedule::Conn::number("client", 1),
        toward: Some("client".into()),
    });
    let log_lines = log_lines(&history(&subject, &plan([(2_000, reset)])), false);
    assert_eq!(
        log_lines[..4],
        ["client: hello", "client: ConnectionReset", "client: eof", "client: BrokenPipe"]
    );
}

/// Runs a server that closes each connection that it accepts.
async fn accept_and_drop(host: crate::subject::HostContext) {
    let mut listener = host.env.net.listen(&server()).await.unwrap();
    drop(listener.accept().await.unwrap());
    std::future::pending::<()>().await;
}

/// A write to a peer that has closed is answered with a reset, as on Linux.
#[test]
fn a_write_to_a_peer_that_closed_is_answered_with_a_reset() {
    let subject = bare(accept_and_drop, |host| async move {
        let mut stream = connect(&host).await;
        sleep(secs(1)).await;
        for _ in 0..2 {
            let wrote = stream.write_all(b"x").await.map_err(|error| error.kind());
            log(&host, format!("{wrote:?}"));
            sleep(secs(1)).await;
        }
    });
    assert_eq!(
        log_lines(&history(&subject, &plan([])), false),
        ["client: Ok(())", "client: Err(BrokenPipe)"]
    );
}

/// Data for a dropped stream is answered with a single RST, even if more data arrives while the RST
/// is in flight.
#[test]
fn data_to_a_dropped_stream_causes_one_reset() {
    let subject = bare(accept_and_drop, |host| async move {
        let mut stream = connect(&host).await;
        sleep(secs(1)).await;
        for _ in 0..5 {
            stream.write_all(b"hello").await.unwrap();
            sleep(Duration::from_millis(1)).await;
        }
        sleep(secs(1)).await;
        log(&host, format!("{:?}", stream.write_all(b"hello").await.unwrap_err().kind()));
    });
    let mut plan = plan([]);
    plan.latency = (Duration::from_millis(20), Duration::from_millis(20));
    let options = Options { detail: Detail::Full, ..Options::default() };
    let history = run(&subject, &plan, &options).unwrap().history;
    let sent = |what: &EventKind| match what {
        EventKind::Packet(packet) if packet.flags.rst => Some((packet.from, "reset")),
        EventKind::Packet(packet) if packet.len > 0 => Some((packet.from, "data")),
        _ => None,
    };
    let sent: Vec<_> = history.events.iter().filter_map(|event| sent(&event.what)).collect();
    assert_eq!(sent, [[(Side::Client, "data"); 5].as_slice(), &[(Side::Server, "reset")]].concat());
    assert_eq!(log_lines(&history, false), ["client: BrokenPipe"]);
}
