//! Tests what a program of a world sees of processes and unix sockets.

use std::time::Duration;

use super::*;
use crate::net::Endpoint;
use crate::process::{Identity, Reach, TERMINATE};
use crate::subject::HostContext;

/// A world has no unix sockets. A program sees no process but itself, and a restarted program
/// is another process.
#[test]
fn a_host_has_one_process_and_no_unix_sockets() {
    let subject = bare(
        |host: HostContext| async move {
            let processes = &host.env.processes;
            let own = processes.own().unwrap();
            let first = Identity { pid: own.pid, started: "start 1".into() };
            let is_alive = |process| processes.is_alive(process).unwrap();
            log(&host, format!("{} {}", is_alive(&own), is_alive(&first)));
            let signalled = processes.signal(&first, TERMINATE, Reach::Process).unwrap_err();
            log(&host, format!("{:?}", signalled.kind()));
            std::future::pending().await
        },
        |host: HostContext| async move {
            let at = Endpoint::unix("/socket");
            let connected = host.env.net.connect(&at).await.map(|_| ()).unwrap_err();
            let listened = host.env.net.listen(&at).await.map(|_| ()).unwrap_err();
            log(&host, format!("{:?} {:?}", connected.kind(), listened.kind()));
        },
    );
    let crash = crash("server", Some(Duration::from_secs(1)));
    let lines = log_lines(&history(&subject, &plan([(1_000, crash)])), false);
    let server = |line: &&String| line.starts_with("server");
    assert_eq!(
        lines.iter().filter(server).collect::<Vec<_>>(),
        ["server: true true", "server: Unsupported", "server: true false", "server: NotFound"]
    );
    assert!(lines.contains(&"client: Unsupported Unsupported".into()), "{lines:?}");
}
