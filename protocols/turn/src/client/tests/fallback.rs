//! A busy or absent broker, and the app-server of the client as the other server. The time is real,
//! because the app-server is a process.

use super::child::{answering, app_server};
use super::*;
use crate::wire::code;

pub(super) fn route() -> Route {
    Route::BrokerOrDirect { endpoint: broker(), app_server: app_server(&answering("", "")) }
}

/// Asserts that the turn ran on the app-server of the client, after the broker.
fn assert_fell_back(result: Result<Report, ClientError>, news: &[News]) {
    let report = result.unwrap();
    assert_eq!((report.thread.as_str(), report.exit_status()), ("own", 0), "{report:?}");
    assert_eq!(fallbacks(news), 1);
    assert!(matches!(news.last(), Some(News::Turn(_))));
}

#[tokio::test]
async fn an_absent_broker_is_replaced_by_an_app_server() {
    let net = Net::new().await;
    net.memory.refuse(true);
    let (result, news) = run(net.client(route()), task()).await;
    assert_fell_back(result, &news);
}

#[tokio::test]
async fn a_broker_that_never_answers_is_replaced_by_an_app_server() {
    let mut net = Net::new().await;
    let limits = ClientLimits { connect: 500 * MS, ..ClientLimits::default() };
    let client = net.client_with(route(), limits);
    let ((result, news), _peer) = tokio::join!(run(client, task()), net.peer());
    assert_fell_back(result, &news);
}

#[tokio::test]
async fn a_busy_broker_is_replaced_by_an_app_server() {
    let mut net = Net::new().await;
    let client = net.client(route());
    let server = async {
        let mut peer = net.server().await;
        peer.refuse("thread/start", code::BUSY).await;
        peer.end().await;
    };
    let ((result, news), ()) = tokio::join!(run(client, task()), server);
    assert_fell_back(result, &news);
}

#[tokio::test]
async fn a_broker_that_becomes_busy_keeps_no_thread() {
    let mut net = Net::new().await;
    let client = net.client(route());
    let server = async {
        let mut peer = net.server().await;
        peer.thread().await;
        peer.refuse("turn/start", code::BUSY).await;
        assert_eq!(peer.answer("thread/delete", json!({})).await["threadId"], "t");
        peer.end().await;
    };
    let ((result, news), ()) = tokio::join!(run(client, task()), server);
    assert_fell_back(result, &news);
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_keeps_the_thread_gets_the_turn_later() {
    let mut net = Net::new().await;
    let client = net.client(route());
    let server = async {
        let mut peer = net.server().await;
        peer.thread().await;
        peer.refuse("turn/start", code::BUSY).await;
        peer.refuse("thread/delete", code::BUSY).await;
        peer.answer("turn/start", json!({ "turn": { "id": "u" } })).await;
        peer.send(&[final_answer(), completed("completed")]).await;
        peer.end().await;
    };
    let ((result, news), ()) = tokio::join!(run(client, task()), server);
    assert_eq!((result.unwrap().thread, fallbacks(&news)), ("t".into(), 0));
}

#[tokio::test(start_paused = true)]
async fn a_resumed_thread_waits_for_its_broker_and_does_not_move() {
    let mut net = Net::new().await;
    let client = net.client(route());
    let server = async {
        let mut peer = net.server().await;
        peer.answer("thread/resume", json!({ "thread": { "id": "t" } })).await;
        let mut asked = 0;
        loop {
            let request = peer.read().await;
            if request.is_null() {
                return asked;
            }
            assert_eq!(request["method"], "turn/start");
            asked += 1;
            let error = json!({ "code": code::BUSY, "message": "busy" });
            peer.send(&[json!({ "id": request["id"], "error": error })]).await;
        }
    };
    let before = Instant::now();
    let ((result, news), asked) = tokio::join!(run(client, resumed()), server);
    let ClientLimits { busy, busy_pause, .. } = ClientLimits::default();
    assert_eq!(result.unwrap_err().to_string(), "the turn did not start: busy (error -32001)");
    assert_eq!((asked, fallbacks(&news)), (1 + busy.as_millis() / busy_pause.as_millis(), 0));
    assert!(before.elapsed() < busy + S);
}

#[tokio::test(start_paused = true)]
async fn a_turn_whose_start_is_lost_runs_nowhere_else() {
    let mut net = Net::new().await;
    let client = net.client(route());
    let server = async {
        let mut peer = net.server().await;
        peer.thread().await;
        peer.expect("turn/start").await;
    };
    let ((result, news), ()) = tokio::join!(run(client, task()), server);
    assert!(matches!(result.unwrap().verdict, Verdict::Failed(Failure::Disconnected { .. })));
    assert_eq!(fallbacks(&news), 0);
}
