//! Tests what the root of a host sees of processes and unix sockets, if it launches none.

use std::future::pending;
use std::time::Duration;

use super::*;
use crate::net::Endpoint;
use crate::process::{Identity, Reach, TERMINATE};
use crate::subject::HostContext;

/// A root sees no process but itself, and a restarted root is another process. The socket of a crashed
/// root stays.
#[test]
fn a_restarted_root_is_another_process_and_finds_its_old_socket() {
    let subject = bare(
        |host: HostContext| async move {
            let processes = &host.env.processes;
            let own = processes.own().unwrap();
            let first = Identity { pid: own.pid, started: "start 1".into() };
            let is_alive = |process| processes.is_alive(process).unwrap();
            log(&host, format!("{} {}", is_alive(&own), is_alive(&first)));
            let signalled = processes.signal(&first, TERMINATE, Reach::Process).unwrap_err();
            log(&host, format!("{:?}", signalled.kind()));
            pending().await
        },
        |host: HostContext| async move {
            let at = Endpoint::unix("/socket");
            let connected = host.env.net.connect(&at).await.map(|_| ());
            let listened = host.env.net.listen(&at).await;
            let connected = connected.map_err(|error| error.kind());
            log(&host, format!("{connected:?} {:?}", listened.as_ref().map(|_| ())));
            pending::<()>().await;
            drop(listened);
        },
    );
    let crashes =
        ["server", "client"].map(|host| (1_000, crash(host, Some(Duration::from_secs(1)))));
    let lines = log_lines(&history(&subject, &plan(crashes)), false);
    let server = |line: &&String| line.starts_with("server");
    assert_eq!(
        lines.iter().filter(server).collect::<Vec<_>>(),
        ["server: true true", "server: Unsupported", "server: true false", "server: NotFound"]
    );
    let client: Vec<_> = lines.iter().filter(|line| !server(line)).collect();
    assert_eq!(client[0], "client: Err(NotFound) Ok(())");
    assert!(client[1].starts_with("client: Err(ConnectionRefused) Err("), "{client:?}");
    assert!(client[1].contains("AddrInUse"), "{client:?}");
}
