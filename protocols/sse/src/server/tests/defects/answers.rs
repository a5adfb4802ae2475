//! Bugs in the answers to requests, in what a request starts, and in the frames of a stream.

use tokio::time::timeout;

use super::*;
use crate::wire::RefusalBody;

#[test]
fn a_refused_client_learns_the_whole_time() {
    let story = || async {
        let limits = ServerLimits { heartbeat: 60 * SECOND, ..Default::default() };
        let world = World::new(limits).await;
        let _stream = world.start().await;
        sleep(4 * SECOND).await;
        let refused = world.resume(0, None).await.text().await;
        let refused: RefusalBody = serde_json::from_str(&refused).unwrap();
        refused.retry_after_ms.unwrap().to_string()
    };
    compare("RetryIsTheWhole", story, "6000", "10000");
}

#[test]
fn an_event_does_not_delay_a_sign_of_life() {
    let story = || async {
        let world = world().await;
        let mut stream = world.start().await;
        stream.next().await.unwrap();
        sleep(2 * SECOND).await;
        world.machine.prints(0, "a\n").await;
        stream.next().await.unwrap();
        timeout(2 * SECOND, stream.next()).await.is_err().to_string()
    };
    compare("HeartbeatKeepsItsPace", story, "true", "false");
}

#[test]
fn a_sign_of_life_has_the_id_of_the_start() {
    let story = || async {
        let world = world().await;
        let body = r#"{"operation_id":"c","command":"run"}"#;
        let stream = world.send("POST /command", &[("accept", "text/event-stream")], body).await;
        sleep(SECOND).await;
        world.machine.prints(0, "a\n").await;
        sleep(4 * SECOND).await;
        world.machine.exits(0, Exit::Code(0)).await;
        stream.text().await.contains("-1\ndata: {\"type\":\"ping\"").to_string()
    };
    compare("PingsForgetThePosition", story, "true", "false");
}

#[test]
fn a_repeated_start_may_differ_in_its_folder() {
    let story = || async {
        let world = world().await;
        started(&world).await;
        let other = r#"{"operation_id":"c","command":"run","cwd":"/w"}"#;
        status(world.send("POST /command", &[], other).await).await
    };
    compare("CommandIsTheRequest", story, "OPERATION_ID_IN_USE", "200");
}

#[test]
fn an_answered_connection_keeps_its_place() {
    let story = || async {
        let world = World::new(ServerLimits { connections: 1, ..Default::default() }).await;
        let mut first = world.peer().await;
        first.send("GET /ping", &[], "").await;
        let mut second = world.peer().await;
        second.try_send("GET /ping", &[], "").await.is_ok().to_string()
    };
    compare("AnsweredStaysBusy", story, "true", "false");
}

#[test]
fn a_client_without_the_token_learns_of_paths() {
    let story = || async {
        let config = ServerConfig { access_token: Some("t".to_owned()), ..Default::default() };
        let world = World::configured(config, ServerLimits::default()).await;
        world.send("GET /other", &[], "").await.status.as_u16().to_string()
    };
    compare("PathsBeforeToken", story, "401", "404");
}

#[test]
fn a_client_of_execd_gets_no_content() {
    let story = || async {
        let world = world().await;
        started(&world).await;
        world.machine.exits(0, Exit::Code(0)).await;
        world.resume(1, None).await.status.as_u16().to_string()
    };
    compare("AllKnowNoContent", story, "200", "204");
}

#[test]
fn a_large_request_crowds_out_no_log() {
    let story = || async {
        let world = World::new(ServerLimits { ended_bytes: 500, ..Default::default() }).await;
        let command = "x".repeat(600);
        let body = format!(r#"{{"operation_id":"c","command":"{command}"}}"#);
        world.send("POST /command", &[], &body).await.close();
        sleep(SECOND).await;
        world.machine.exits(0, Exit::Code(0)).await;
        sleep(SECOND).await;
        status(world.resume(0, None).await).await
    };
    compare("RequestsWeighNothing", story, "COMMAND_EXPIRED", "200");
}

#[test]
fn a_command_runs_in_the_folder_of_the_server() {
    let story = || async {
        let world = world().await;
        let _stream = world.send("POST /command", &[], r#"{"command":"run","cwd":"/w"}"#).await;
        sleep(SECOND).await;
        format!("{:?}", world.machine.command(0).cwd)
    };
    compare("FolderIgnored", story, "Some(\"/w\")", "None");
}

#[test]
fn the_newest_error_comes_first_in_the_logs() {
    let story = || async {
        let world = world().await;
        let background = r#"{"operation_id":"c","command":"run","background":true}"#;
        world.send("POST /command", &[], background).await.read().await;
        sleep(SECOND).await;
        world.machine.prints_on(0, 1, b"a\nb\n").await;
        world.send("GET /command/c/logs", &[], "").await.text().await
    };
    compare("NewestErrorsFirst", story, "a\nb\n", "b\na\n");
}

#[test]
fn the_state_of_a_command_names_the_second_of_its_start() {
    let story = || async {
        let bounds = ServerLimits::default().log_bounds();
        let log = crate::server::log::CommandLog::new(crate::wire::Epoch(7), bounds);
        let command = crate::server::command::Command::new(log, None, 1_234, Instant::now());
        command.status(&"c".parse().unwrap(), String::new()).started_at
    };
    let (good, bad) = ("1970-01-01T00:00:01.234Z", "1970-01-01T00:00:01.000Z");
    compare("StartsAreWholeSeconds", story, good, bad);
}

#[test]
fn a_carriage_return_ends_no_line() {
    let story = || async {
        let world = world().await;
        started(&world).await;
        world.machine.prints(0, "a\rb\n").await;
        world.last("c").await.to_string()
    };
    compare("ReturnsAreText", story, "2", "1");
}
