//! Tests which packets of an older connection a control run drops.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::time::sleep;

use super::*;
use crate::history::History;
use crate::schedule::Plan;
use crate::subject::{DynSubject, HostContext};
use crate::world::{Options, run};

/// Reads one line from each connection, logs it, and answers.
async fn serves(host: HostContext) {
    let mut listener = host.env.net.listen(&server()).await.unwrap();
    loop {
        let mut stream = listener.accept().await.unwrap();
        let host = host.clone();
        tokio::spawn(async move {
            log(&host, receive(&mut stream).await);
            let _ = stream.write_all(b"done").await;
            log(&host, receive(&mut stream).await);
        });
    }
}

/// Sends a request, and installs a newer connection in the same moment. Ends the older connection
/// later.
async fn asks(host: HostContext) {
    let mut older = connect(&host).await;
    let newer = connect(&host).await;
    older.write_all(b"request").await.unwrap();
    crate::milestone!("bare.installed", generation = 2, conn = newer.id().0);
    let answer = tokio::time::timeout(Duration::from_secs(1), receive(&mut older)).await;
    log(&host, answer.unwrap_or_else(|_| "nothing".into()));
    drop(older);
    sleep(Duration::from_secs(1)).await;
}

fn run_once(subject: &Arc<dyn DynSubject>, control: bool) -> History {
    let plan = Plan { horizon: Duration::from_secs(5), ..Plan::new("bare") };
    run(subject, &plan, &Options { control, ..Options::default() }).unwrap().history
}

fn lines(subject: &Arc<dyn DynSubject>, control: bool) -> Vec<String> {
    log_lines(&run_once(subject, control), false)
}

#[test]
fn a_control_run_drops_what_is_late() {
    let subject = bare(serves, asks);
    let expected = ["server: request", "client: done", "server: eof"];
    assert_eq!(lines(&subject, false)[..3], expected);
    let control = lines(&subject, true);
    assert_eq!(control[0], "client: nothing");
    assert!(!control.contains(&"server: request".to_owned()), "{control:?}");
}

#[test]
fn a_control_run_delivers_late_requests_that_a_server_accepts() {
    let subject = bare_and_late(serves, asks);
    let all = lines(&subject, true);
    assert_eq!(all[..2], ["server: request", "client: nothing"], "the answer is dropped");
    // The client closes the older connection at 1 s. The control run drops that: the connection is over at
    // the end of the run.
    let closed = |control| {
        let all = log_lines(&run_once(&subject, control), true).into_iter();
        all.filter(|line| line.ends_with("eof")).collect::<Vec<_>>()
    };
    println!("{:?} {:?}", closed(false), closed(true));
    assert_ne!(closed(false).first(), closed(false).last());
    assert_eq!(closed(true).first(), closed(true).last());
}
