//! Shell sessions.

use reknit_seams::process::{Exit, TERMINATE};

use super::peer::End;
use super::*;
use crate::wire::{Event, SessionCreated};

async fn session(world: &World, body: &str) -> String {
    let created = world.send("POST /session", &[], body).await;
    serde_json::from_str::<SessionCreated>(&created.text().await).unwrap().session_id
}

async fn run(world: &World, session: &str) -> Answer {
    world.send(&format!("POST /session/{session}/run"), &[], r#"{"command":"run"}"#).await
}

#[tokio::test(start_paused = true)]
async fn a_session_runs_one_command_at_a_time() {
    let world = World::new(ServerLimits::default()).await;
    let id = session(&world, "").await;
    let mut first = run(&world, &id).await;
    let Event::Init { command, .. } = first.next().await.unwrap().event else { panic!() };
    assert_eq!(command, id, "as in execd, the stream names the session");
    assert_eq!(run(&world, &id).await.code().await, (409, "SESSION_BUSY".to_owned()));
    world.machine.prints(0, "a\n").await;
    world.machine.exits(0, Exit::Code(0)).await;
    assert_eq!(first.read().await, (vec!["1 a".into(), "2 Exited(0)".into()], End::Clean));
    let _second = run(&world, &id).await;
    assert_eq!(world.machine.launches(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_command_of_a_session_cannot_be_resumed_and_says_so() {
    let world = World::new(ServerLimits::default()).await;
    let id = session(&world, "{}").await;
    let stream = run(&world, &id).await;
    let resume = format!("GET /command/{id}/resume?after_eid=0");
    let refused = world.send(&resume, &[], "").await.code().await;
    assert_eq!(refused, (400, "NOT_RESUMABLE".to_owned()));
    sleep(SECOND).await;
    stream.close();
    sleep(SECOND).await;
    assert_eq!(world.machine.signals(0), [TERMINATE], "it ends with its connection");
    world.machine.exits(0, Exit::Signal(15)).await;
    assert_eq!(world.send(&resume, &[], "").await.code().await.1, "NOT_RESUMABLE");
    sleep(SECOND).await;
    assert_eq!(world.resources.counts(), Counts::default());
    assert!(world.machine.is_dropped(0));
}

#[tokio::test(start_paused = true)]
async fn a_session_is_interrupted_and_deleted_by_its_id() {
    let world = World::new(ServerLimits::default()).await;
    let id = session(&world, "{}").await;
    let interrupt = format!("DELETE /command?id={id}");
    assert_eq!(world.send(&interrupt, &[], "").await.code().await.1, "NOT_RUNNING");
    let _stream = run(&world, &id).await;
    sleep(SECOND).await;
    assert_eq!(world.send(&interrupt, &[], "").await.status, 200);
    sleep(SECOND).await;
    assert_eq!(world.machine.signals(0), [TERMINATE]);
    assert_eq!(world.send(&format!("DELETE /session/{id}"), &[], "").await.status, 200);
    for request in [format!("DELETE /session/{id}"), format!("POST /session/{id}/run")] {
        let answer = world.send(&request, &[], r#"{"command":"a"}"#).await;
        assert_eq!(answer.code().await, (404, "CONTEXT_NOT_FOUND".to_owned()));
    }
}

#[tokio::test(start_paused = true)]
async fn sessions_are_bounded() {
    let world = World::new(ServerLimits { sessions: 1, ..Default::default() }).await;
    let id = session(&world, "").await;
    let refused = world.send("POST /session", &[], "").await;
    assert_eq!(refused.code().await, (503, "SERVICE_UNAVAILABLE".to_owned()));
    world.send(&format!("DELETE /session/{id}"), &[], "").await;
    session(&world, "").await;
}
