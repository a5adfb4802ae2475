//! Tests acknowledgements that the engine sleeps past: this has no visible effect for their
//! receivers.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep_until};

use super::*;
use crate::schedule::{Plan, TieOrder};
use crate::subject::HostContext;

const KIB: usize = 1024;

/// Creates a plan with a latency of 10 ms between the hosts. The sender's buffer has 64 KiB.
fn with_latency() -> Plan {
    let mut plan = plan([]);
    plan.latency = (Duration::from_millis(10), Duration::from_millis(10));
    plan
}

async fn read_all(host: HostContext) {
    let mut listener = host.env.net.listen(&server()).await.unwrap();
    let mut stream = listener.accept().await.unwrap();
    let mut buffer = vec![0; 64 * KIB];
    while let Ok(1..) = stream.read(&mut buffer).await {}
}

/// No task waits for the acknowledgement of the first 1 KiB, which arrives after 20 ms. From then
/// on its room is available.
#[test]
fn room_is_available_from_the_acknowledgement_on_and_not_before() {
    let same = 20;
    let cases = [
        (same - 1, TieOrder::Drawn, 63),
        (same, TieOrder::TimersFirst, 63),
        (same, TieOrder::PacketsFirst, 64),
        (same + 1, TieOrder::Drawn, 64),
    ];
    for (after, order, room) in cases {
        let subject = bare(read_all, move |host| async move {
            let mut stream = connect(&host).await;
            let start = Instant::now();
            stream.write_all(&[0; KIB]).await.unwrap();
            sleep_until(start + Duration::from_millis(after)).await;
            let written = stream.write(&[0; 80 * KIB]).await.unwrap();
            log(&host, format!("{} KiB", written / KIB));
            std::future::pending::<()>().await;
        });
        let plan = Plan { order, ..with_latency() };
        let log_lines = log_lines(&history(&subject, &plan), false);
        assert_eq!(log_lines, [format!("client: {room} KiB")], "after {after} ms, {order:?}");
    }
}

/// A writer that waits for room continues when the room is available, even if no other event
/// happens then.
#[test]
fn a_writer_that_waits_is_woken_by_the_acknowledgement_itself() {
    let subject = bare(read_all, |host| async move {
        let mut stream = connect(&host).await;
        let start = Instant::now();
        stream.write_all(&[0; 64 * KIB + 1]).await.unwrap();
        log(&host, format!("after {:?}", start.elapsed()));
        std::future::pending::<()>().await;
    });
    assert_eq!(log_lines(&history(&subject, &with_latency()), false), ["client: after 20ms"]);
}
