//! Bugs of shell sessions.

use super::*;
use crate::wire::SessionCreated;

/// Creates a session. Returns its id.
async fn session(world: &World) -> String {
    let created = world.send("POST /session", &[], "").await.text().await;
    serde_json::from_str::<SessionCreated>(&created).unwrap().session_id
}

async fn run(world: &World, session: &str, headers: &[(&str, &str)]) -> Answer {
    let request = format!("POST /session/{session}/run");
    world.send(&request, headers, r#"{"command":"run"}"#).await
}

#[test]
fn a_command_writes_the_state_of_its_session_again() {
    let story = || async {
        let world = world().await;
        let id = session(&world).await;
        let _stream = run(&world, &id, &[]).await;
        sleep(SECOND).await;
        world.send(&format!("DELETE /session/{id}"), &[], "").await;
        // The command saves its state when the signal ends it.
        let state = std::env::temp_dir().join(format!("reknit-sse-{id}"));
        std::fs::write(&state, "").unwrap();
        world.machine.exits(0, Exit::Signal(15)).await;
        sleep(SECOND).await;
        let stays = state.exists();
        let _ = std::fs::remove_file(&state);
        stays.to_string()
    };
    compare("StateGoesBeforeTheEnd", story, "false", "true");
}

#[test]
fn a_command_with_a_malformed_owner_runs_without_a_stream() {
    let story = || async {
        let world = world().await;
        let id = session(&world).await;
        let refused = status(run(&world, &id, &[("x-reknit-owner", "?")]).await).await;
        format!("{refused} {}", status(run(&world, &id, &[]).await).await)
    };
    let (good, bad) = ("INVALID_REQUEST_BODY 200", "INVALID_REQUEST_BODY SESSION_BUSY");
    compare("OwnerAfterTheStart", story, good, bad);
}

#[test]
fn a_session_has_its_first_command_for_ever() {
    let story = || async {
        let world = world().await;
        let id = session(&world).await;
        let _first = run(&world, &id, &[]).await;
        sleep(SECOND).await;
        world.machine.exits(0, Exit::Code(0)).await;
        let _second = run(&world, &id, &[]).await;
        sleep(SECOND).await;
        status(world.send(&format!("DELETE /command?id={id}"), &[], "").await).await
    };
    compare("FirstCommandStays", story, "200", "NOT_RUNNING");
}

#[test]
fn the_commands_of_sessions_count_apart() {
    let story = || async {
        let world = World::new(ServerLimits { running_commands: 1, ..Default::default() }).await;
        let id = session(&world).await;
        let _stream = run(&world, &id, &[]).await;
        status(world.start().await).await
    };
    compare("SessionsRunBeside", story, "SERVICE_UNAVAILABLE", "200");
}

#[test]
fn a_command_of_a_session_waits_for_a_client_that_cannot_return() {
    let story = || async {
        let (hold, retained_events) = (60 * SECOND, 1);
        let limits = ServerLimits { hold, retained_events, ..Default::default() };
        let world = World::new(limits).await;
        let id = session(&world).await;
        let stream = run(&world, &id, &[]).await;
        sleep(SECOND).await;
        stream.close();
        sleep(SECOND).await;
        world.machine.prints(0, "a\nb\n").await;
        world.machine.exits(0, Exit::Signal(15)).await;
        sleep(SECOND).await;
        status(run(&world, &id, &[]).await).await
    };
    compare("LostSessionHolds", story, "200", "SESSION_BUSY");
}

#[test]
fn a_session_that_runs_nothing_is_unknown() {
    let story = || async {
        let world = world().await;
        let id = session(&world).await;
        status(world.send(&format!("DELETE /command?id={id}"), &[], "").await).await
    };
    compare("IdleSessionIsUnknown", story, "NOT_RUNNING", "COMMAND_NOT_FOUND");
}

#[test]
fn a_deleted_session_that_runs_nothing_stays() {
    let story = || async {
        let world = world().await;
        let id = session(&world).await;
        world.send(&format!("DELETE /session/{id}"), &[], "").await;
        status(run(&world, &id, &[]).await).await
    };
    compare("IdleSessionStays", story, "CONTEXT_NOT_FOUND", "200");
}

#[test]
fn a_deleted_session_keeps_its_place() {
    let story = || async {
        let world = World::new(ServerLimits { sessions: 1, ..Default::default() }).await;
        let id = session(&world).await;
        world.send(&format!("DELETE /session/{id}"), &[], "").await;
        status(world.send("POST /session", &[], "").await).await
    };
    compare("DeletedSessionsCount", story, "200", "SERVICE_UNAVAILABLE");
}

/// Runs a command in a session, and returns the signals that it gets when its stream is lost or its
/// session is deleted.
async fn signals_of_a_session(deletes: bool) -> String {
    let world = world().await;
    let id = session(&world).await;
    let stream = run(&world, &id, &[]).await;
    sleep(SECOND).await;
    if deletes {
        world.send(&format!("DELETE /session/{id}"), &[], "").await;
    } else {
        stream.close();
    }
    sleep(SECOND).await;
    format!("{:?}", world.machine.signals(0))
}

#[test]
fn a_command_outlives_its_session_or_its_stream() {
    let lost = || signals_of_a_session(false);
    compare("SessionCommandOutlivesStream", lost, "[15]", "[]");
    let deleted = || signals_of_a_session(true);
    compare("DeletedSessionRunsOn", deleted, "[15]", "[]");
}

#[test]
fn a_command_outlives_a_stream_that_has_brought_nothing() {
    let lost = || signals_of_a_session(false);
    compare("UnreadSessionRunsOn", lost, "[15]", "[]");
}

#[test]
fn a_command_outlives_a_stream_that_lacks_output() {
    let story = || async {
        let write_deadline = 5 * SECOND;
        let limits =
            ServerLimits { write_deadline, write_buffer: 0, batch_bytes: 1, ..Default::default() };
        let world = World::new(limits).await;
        let id = session(&world).await;
        let _stream = run(&world, &id, &[]).await;
        sleep(SECOND).await;
        world.net.set(2, Fate::Frozen);
        // The buffer of the connection is full, so it does not ask its stream for more.
        let line = format!("{}\n", "x".repeat(9_999));
        world.machine.prints(0, &line.repeat(5)).await;
        sleep(6 * SECOND).await;
        format!("{:?}", world.machine.signals(0))
    };
    compare("SlowSessionRunsOn", story, "[15]", "[]");
}

#[test]
fn a_session_runs_a_second_command_beside_a_lost_one() {
    let story = || async {
        let world = world().await;
        let id = session(&world).await;
        run(&world, &id, &[]).await.close();
        sleep(SECOND).await;
        status(run(&world, &id, &[]).await).await
    };
    compare("LostStreamFreesTheSession", story, "SESSION_BUSY", "200");
}

#[test]
fn a_session_runs_a_second_command_beside_one_that_was_asked_to_end() {
    let story = || async {
        let world = world().await;
        let id = session(&world).await;
        let _stream = run(&world, &id, &[]).await;
        sleep(SECOND).await;
        world.send(&format!("DELETE /command?id={id}"), &[], "").await;
        status(run(&world, &id, &[]).await).await
    };
    compare("InterruptedIsIdle", story, "SESSION_BUSY", "200");
}
