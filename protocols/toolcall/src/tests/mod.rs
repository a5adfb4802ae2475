//! The host and its clients on paused time, over in-memory connections whose ends can fail
//! separately; one test uses real sockets.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::client::{self, Client, Failure, State};
use super::host::{self, Host};
use super::limits::{ClientLimits, HostLimits};
use super::wire::SnapshotState;
use loopback::{
    LoopbackTest, MS, Notes, S, ScriptedAgent, any_turn, back, call_is, calls, connected, lost,
    turn_over,
};
use reknit_seams::Env;
use reknit_seams::net::Endpoint;
use reknit_seams::net::memory::{Fate, Side};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

mod loopback;
mod walk;

#[tokio::test(start_paused = true)]
async fn a_turn_calls_a_tool_and_its_client_runs_it_once() {
    let test = LoopbackTest::new().await;
    let window = test.opened("window", &["tool"]).await;
    let watcher = test.joining("watcher", &[]).await;
    window.start_turn("c", "t1", "say hello; call tool; say bye").await.unwrap();
    turn_over(&watcher).await;
    assert_eq!(test.notes.all(), ["tool begins", "tool ends", "tool ran"]);
    assert_eq!(window.confirmed("c"), watcher.confirmed("c"));
    assert_eq!(window.resources().unconfirmed, 0);
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_for_the_confirmation_of_any_user() {
    let test = LoopbackTest::new().await;
    let window = test.opened("window", &["tool"]).await;
    let other = test.joining("other", &[]).await;
    window.start_turn("c", "t1", "confirm tool").await.unwrap();
    call_is(&other, "pending confirmation").await;
    let (call, _) = calls(&other).remove(0);
    other.confirm("c", "t1", &call, true).await.unwrap();
    turn_over(&window).await;
    assert_eq!(test.notes.all(), ["granted", "tool begins", "tool ends"]);
}

#[tokio::test(start_paused = true)]
async fn a_denied_call_does_not_run() {
    let test = LoopbackTest::new().await;
    let window = test.opened("window", &["tool"]).await;
    window.start_turn("c", "t1", "confirm tool").await.unwrap();
    call_is(&window, "pending confirmation").await;
    let (call, _) = calls(&window).remove(0);
    window.confirm("c", "t1", &call, false).await.unwrap();
    turn_over(&window).await;
    assert_eq!(test.notes.all(), ["not granted"]);
    assert_eq!(
        window.confirm("c", "t1", &call, true).await,
        Err(Failure::Rejected("the turn is not in progress".into()))
    );
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_panics_has_failed() {
    let test = LoopbackTest::new().await;
    let window = test.opened("window", &["broken"]).await;
    window.start_turn("c", "t1", "call broken").await.unwrap();
    turn_over(&window).await;
    assert_eq!(test.notes.all(), ["broken failed: the tool panicked"]);
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_panics_ends_its_turn() {
    let test = LoopbackTest::new().await;
    let window = test.opened("window", &[]).await;
    window.start_turn("c", "t1", "panic").await.unwrap();
    turn_over(&window).await;
    window.start_turn("c", "t2", "say again").await.unwrap();
    turn_over(&window).await;
    let Some(SnapshotState::Chat(chat)) = window.confirmed("c") else { panic!("there is a chat") };
    assert_eq!(chat.turns.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn cancelling_a_turn_stops_the_agent_and_the_tool() {
    let test = LoopbackTest::new().await;
    let window = test.opened("window", &["tool"]).await;
    window.start_turn("c", "t1", "call tool; say never").await.unwrap();
    call_is(&window, "running").await;
    window.cancel_turn("c", "t1").await.unwrap();
    sleep(10 * S).await;
    assert_eq!(test.notes.all(), ["tool begins"]);
    assert_eq!((window.resources().running, test.resources.counts().turns), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_call_survives_a_short_outage_and_runs_once() {
    let test = LoopbackTest::new().await;
    let window = test.opened("window", &["tool"]).await;
    window.start_turn("c", "t1", "call tool").await.unwrap();
    call_is(&window, "running").await;
    test.net.set(1, Fate::Reset);
    back(&window, 1).await;
    turn_over(&window).await;
    assert_eq!(test.notes.all(), ["tool begins", "tool ends", "tool ran"]);
}

/// The outage is longer than the grace period: the call fails, its permission ends, and the late
/// result is refused.
#[tokio::test(start_paused = true)]
async fn a_call_fails_after_a_long_outage_and_its_late_result_is_refused() {
    let test = LoopbackTest::new().await;
    let window = test.opened("window", &["tool"]).await;
    let watcher = test.joining("watcher", &[]).await;
    watcher.start_turn("c", "t1", "call tool; say sorry; sleep 600").await.unwrap();
    call_is(&window, "running").await;
    test.net.refuse(true);
    test.net.set(1, Fate::Reset);
    let cut = Instant::now();
    call_is(&watcher, "failed").await;
    assert_eq!(cut.elapsed(), 30 * S);
    assert_eq!(
        test.notes.all(),
        ["tool begins", "tool ends", "tool failed: the client that ran this tool is disconnected"]
    );
    test.net.refuse(false);
    connected(&window).await;
    sleep(S).await;
    assert_eq!(window.resources().unconfirmed, 0);
    assert_eq!(window.confirmed("c"), watcher.confirmed("c"));
    assert_eq!(calls(&window)[0].1, "failed");
}

/// A pending permission ends together with its call.
#[tokio::test(start_paused = true)]
async fn a_pending_permission_ends_with_its_call() {
    let test = LoopbackTest::new().await;
    let window = test.opened("window", &["tool"]).await;
    window.start_turn("c", "t1", "confirm tool").await.unwrap();
    call_is(&window, "pending confirmation").await;
    drop(window);
    sleep(30 * S).await;
    sleep(MS).await;
    assert_eq!(test.notes.all(), ["not granted"]);
}

#[tokio::test(start_paused = true)]
async fn a_permission_for_a_finished_call_returns_at_once() {
    let test = LoopbackTest::new().await;
    let window = test.opened("window", &[]).await;
    window.start_turn("c", "t1", "confirm nobodys").await.unwrap();
    turn_over(&window).await;
    assert_eq!(test.notes.all(), ["not granted"]);
}

/// The client notices the reset at once, the host much later: in the meantime the client has two
/// connections.
#[tokio::test(start_paused = true)]
async fn a_reconnect_before_the_old_connection_ends_keeps_everything() {
    let test = LoopbackTest::new().await;
    let window = test.opened("window", &["long"]).await;
    window.start_turn("c", "t1", "call long").await.unwrap();
    call_is(&window, "running").await;
    test.net.set_end(1, Side::Far, Fate::Frozen);
    test.net.set_end(1, Side::Near, Fate::Reset);
    back(&window, 1).await;
    assert_eq!(test.resources.counts().connections, 2);
    sleep(20 * S).await;
    test.net.set_end(1, Side::Far, Fate::Reset);
    sleep(120 * S).await;
    assert_eq!(
        (calls(&window)[0].1, test.notes.all().as_slice()),
        ("running", &["long begins".to_owned()][..])
    );
    assert_eq!(test.resources.counts().connections, 1);
}

/// The network reports the outage to neither end. The host pings after 5 s, and closes after 25 s;
/// then the grace period begins.
#[tokio::test(start_paused = true)]
async fn a_call_over_a_half_open_connection_fails_after_silence_and_grace() {
    let test = LoopbackTest::new().await;
    let window = test.opened("window", &["long"]).await;
    let watcher = test.joining("watcher", &[]).await;
    watcher.start_turn("c", "t1", "call long; sleep 600").await.unwrap();
    call_is(&window, "running").await;
    test.net.refuse(true);
    test.net.set(1, Fate::Frozen);
    let frozen = Instant::now();
    call_is(&watcher, "failed").await;
    assert!(frozen.elapsed() <= 55 * S && frozen.elapsed() >= 50 * S, "{:?}", frozen.elapsed());
    assert_eq!(test.resources.counts().connections, 1);
}

#[tokio::test(start_paused = true)]
async fn a_half_open_connection_does_not_keep_a_client_alive() {
    let test = LoopbackTest::new().await;
    let window = test.opened("window", &["long"]).await;
    let watcher = test.joining("watcher", &[]).await;
    watcher.start_turn("c", "t1", "call long; sleep 600").await.unwrap();
    call_is(&window, "running").await;
    test.net.set_end(1, Side::Far, Fate::Frozen);
    test.net.set_end(1, Side::Near, Fate::Reset);
    back(&window, 1).await;
    test.net.refuse(true);
    test.net.set(3, Fate::Reset);
    timeout(55 * S + MS, call_is(&watcher, "failed")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_silent_watcher_stays_connected() {
    let test = LoopbackTest::new().await;
    let window = test.opened("window", &["long"]).await;
    window.start_turn("c", "t1", "call long").await.unwrap();
    sleep(1800 * S).await;
    assert_eq!((test.net.connections(), calls(&window)[0].1), (1, "running"));
}

#[tokio::test(start_paused = true)]
async fn replay_and_snapshot_after_an_outage_give_the_same_state() {
    for log_actions in [1000, 4] {
        let test = LoopbackTest::with(HostLimits { log_actions, ..HostLimits::default() }).await;
        let window = test.opened("window", &["tool"]).await;
        let away = test.joining("away", &[]).await;
        test.net.refuse(true);
        test.net.set(2, Fate::Reset);
        lost(&away).await;
        window
            .start_turn("c", "t1", "say 1; sleep 1; say 2; sleep 1; call tool; say 3")
            .await
            .unwrap();
        turn_over(&window).await;
        test.net.refuse(false);
        connected(&away).await;
        assert_eq!(away.confirmed("c"), window.confirmed("c"), "log of {log_actions}");
        assert_eq!(away.confirmed("s"), window.confirmed("s"), "log of {log_actions}");
    }
}

#[tokio::test(start_paused = true)]
async fn actions_during_an_outage_apply_locally_at_once_and_remotely_in_order() {
    let test = LoopbackTest::new().await;
    let window = test.opened("window", &[]).await;
    let watcher = test.joining("watcher", &[]).await;
    test.net.refuse(true);
    test.net.set(1, Fate::Reset);
    lost(&window).await;
    let first = window.start_turn("c", "t1", "say hello");
    let second = window.create_chat("s", "c2");
    let third = window.subscribe("c2");
    let user = async {
        let (first, second, third) = tokio::join!(biased; first, second, third);
        (first, second, third)
    };
    let look = async {
        sleep(MS).await;
        let Some(SnapshotState::Chat(seen)) = window.view("c") else { panic!("there is a chat") };
        assert_eq!(seen.active_turn.map(|turn| turn.id), Some("t1".to_owned()));
        let Some(SnapshotState::Chat(confirmed)) = window.confirmed("c") else {
            panic!("there is a chat")
        };
        assert!(confirmed.active_turn.is_none());
        test.net.refuse(false);
    };
    let (done, ()) = tokio::join!(user, look);
    assert_eq!(done, (Ok(()), Ok(()), Ok(())));
    turn_over(&watcher).await;
    assert!(window.confirmed("c2").is_some());
}

/// The connection is lost right after the action took effect, whether or not its client was
/// notified.
#[tokio::test(start_paused = true)]
async fn an_action_in_flight_at_a_reset_takes_effect_once() {
    for log_actions in [1000, 4] {
        let test = LoopbackTest::with(HostLimits { log_actions, ..HostLimits::default() }).await;
        let window = test.opened("window", &[]).await;
        let watcher = test.joining("watcher", &[]).await;
        let turn = window.start_turn("c", "t1", "say once");
        let cut = async {
            any_turn(&watcher).await;
            test.net.set(1, Fate::Reset);
        };
        let (done, ()) = tokio::join!(biased; turn, cut);
        assert_eq!(done, Ok(()));
        connected(&window).await;
        let Some(SnapshotState::Chat(chat)) = watcher.confirmed("c") else {
            panic!("there is a chat")
        };
        assert_eq!((chat.turns.len(), chat.turns[0].response_parts.len()), (1, 1));
        assert_eq!(window.view("c"), watcher.confirmed("c"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_rejected_action_is_undone() {
    let test = LoopbackTest::new().await;
    let window = test.opened("window", &[]).await;
    let other = test.joining("other", &[]).await;
    let (ours, theirs) = tokio::join!(biased; window.start_turn("c", "ours", "sleep 60"), other.start_turn("c", "theirs", "sleep 60"));
    let refused = [&ours, &theirs].into_iter().filter(|outcome| outcome.is_err()).count();
    assert_eq!(refused, 1, "{ours:?} {theirs:?}");
    sleep(S).await;
    assert_eq!(window.view("c"), other.view("c"));
    assert_eq!(window.view("c"), window.confirmed("c"));
}

#[tokio::test(start_paused = true)]
async fn a_restarted_host_is_not_mistaken_for_the_old_one() {
    let mut test = LoopbackTest::new().await;
    let window = test.opened("window", &["tool"]).await;
    window.start_turn("c", "t1", "say kept").await.unwrap();
    turn_over(&window).await;
    window.start_turn("c", "t2", "call tool; sleep 100").await.unwrap();
    call_is(&window, "running").await;
    test.restart().await;
    lost(&window).await;
    connected(&window).await;
    let Some(SnapshotState::Chat(chat)) = window.confirmed("c") else { panic!("it was restored") };
    assert_eq!((chat.turns.len(), chat.active_turn), (1, None));
    sleep(S).await;
    window.start_turn("c", "t3", "call tool").await.unwrap();
    turn_over(&window).await;
    assert_eq!(
        test.notes.all().last().unwrap(),
        "tool ran",
        "it is active again: {:?}",
        test.notes.all()
    );
}

#[tokio::test(start_paused = true)]
async fn a_reloaded_window_is_a_new_client_and_runs_new_calls() {
    let test = LoopbackTest::new().await;
    let before = test.opened("window-1", &["tool"]).await;
    drop(before);
    let after = test.joining("window-2", &["tool"]).await;
    after.start_turn("c", "t1", "call tool").await.unwrap();
    turn_over(&after).await;
    assert_eq!(test.notes.all(), ["tool begins", "tool ends", "tool ran"]);
}

#[tokio::test(start_paused = true)]
async fn of_several_windows_one_runs_a_call() {
    let test = LoopbackTest::new().await;
    let first = test.opened("window-1", &["tool"]).await;
    let _second = test.joining("window-2", &["tool"]).await;
    first.start_turn("c", "t1", "call tool; call tool").await.unwrap();
    turn_over(&first).await;
    assert_eq!((test.notes.count("tool begins"), test.notes.count("tool ran")), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn a_request_of_the_host_is_answered_or_fails() {
    let test = LoopbackTest::new().await;
    let window = test.opened("window", &[]).await;
    window.start_turn("c", "t1", "ask window; ask nobody").await.unwrap();
    turn_over(&window).await;
    assert_eq!(
        test.notes.all(),
        [
            "no answer: refused (-32601): this client does not answer requests",
            "no answer: the client is not connected"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_fails_at_its_deadline() {
    let test = LoopbackTest::new().await;
    test.net.refuse(true);
    let window = test.client("window", &[]);
    let began = Instant::now();
    assert_eq!(window.create_session("s").await, Err(Failure::Late));
    assert_eq!(began.elapsed(), 60 * S);
    assert_eq!((window.state(), window.resources().held), (State::Connecting, 0));
}

#[tokio::test(start_paused = true)]
async fn attempts_become_rare_but_never_stop() {
    let test = LoopbackTest::new().await;
    test.net.refuse(true);
    let window = test.client("window", &[]);
    sleep(3600 * S).await;
    let attempts = test.net.connections();
    assert!((120..=260).contains(&attempts), "{attempts} in an hour");
    test.net.refuse(false);
    timeout(30 * S + S, connected(&window)).await.unwrap();
}

/// The host accepts a connection and stays silent: the attempt has a deadline.
#[tokio::test(start_paused = true)]
async fn a_second_loss_during_the_handshake_leads_to_another_attempt() {
    let test = LoopbackTest::new().await;
    let window = test.opened("window", &[]).await;
    test.net.set_initial_state(Fate::Frozen);
    test.net.set(1, Fate::Reset);
    for conn in 2..=4 {
        sleep(5 * S).await;
        assert_eq!(test.net.connections(), conn, "and it says nothing");
        test.net.set(conn, Fate::Reset);
    }
    test.net.set_initial_state(Fate::Flows);
    back(&window, 4).await;
    assert_eq!(window.resources().in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn closing_a_client_fails_everything_that_waits() {
    let test = LoopbackTest::new().await;
    test.net.refuse(true);
    let window = test.client("window", &[]);
    let asked = window.create_session("s");
    assert!(timeout(S, asked).await.is_err(), "it waits");
    window.close().await;
    let limits = ClientLimits { held: 1, ..ClientLimits::default() };
    let window = test.client_with("window", &[], limits);
    let (first, second) = tokio::join!(biased; timeout(S, window.create_session("s")), timeout(S, window.create_session("s")));
    assert!(first.is_err() && second == Ok(Err(Failure::Full)), "{first:?} {second:?}");
}

#[tokio::test(start_paused = true)]
async fn no_state_is_left_at_the_end() {
    let test = LoopbackTest::new().await;
    let window = test.opened("window", &["tool"]).await;
    window.start_turn("c", "t1", "call tool").await.unwrap();
    turn_over(&window).await;
    window.close().await;
    sleep(400 * S).await;
    let counts = test.resources.counts();
    assert_eq!((counts.connections, counts.clients, counts.holds, counts.causes), (0, 0, 0, 0));
    assert_eq!((counts.turns, counts.questions, counts.chats), (0, 0, 0));
}

/// The same test over real sockets.
#[tokio::test]
async fn over_loopback() {
    let env = Env::real();
    let listener = env.net.listen(&Endpoint::tcp("127.0.0.1", 0)).await.unwrap();
    let at = listener.endpoint();
    let notes = Notes::default();
    let config = host::HostConfig {
        provider: "agent".into(),
        tokens: BTreeMap::new(),
        agent: Arc::new(ScriptedAgent(notes.clone())),
        archive: Arc::new(host::MemoryArchive::default()),
        limits: HostLimits::default(),
    };
    let mut tasks = JoinSet::new();
    tasks.spawn(Host::new(&env, config).serve(listener));
    let client = Client::new(&env, at, client::ClientConfig::default());
    client.create_session("s").await.unwrap();
    client.create_chat("s", "c").await.unwrap();
    client.subscribe("c").await.unwrap();
    client.start_turn("c", "t1", "say hello; call nobodys").await.unwrap();
    turn_over(&client).await;
    assert_eq!(notes.all(), ["nobodys failed: no client offers this tool"]);
    client.close().await;
}
