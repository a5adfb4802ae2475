//! Bugs of starts, and of the requests that repeat or continue them.

use reknit_seams::net::Connect;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

const START: &str = r#"{"operation_id":"c","command":"run"}"#;

#[test]
fn nothing_follows_the_ending_of_any_run() {
    let story = || async {
        let world = world().await;
        started(&world).await;
        world.machine.exits(0, Exit::Code(0)).await;
        let resume = "GET /command/c/resume?after_eid=0000000000000001-1";
        let answer = world.send(resume, &[("x-reknit-owner", "me.1")], "").await;
        answer.status.as_u16().to_string()
    };
    compare("NothingFollowsAnyRun", story, "400", "204");
}

#[test]
fn a_forgotten_command_is_unknown_to_a_client_with_its_events() {
    let story = || async {
        let limits = ServerLimits { ended_retention: SECOND, ..Default::default() };
        let world = World::new(limits).await;
        started(&world).await;
        world.machine.exits(0, Exit::Code(0)).await;
        sleep(2 * SECOND).await;
        status(world.send("POST /command?after_eid=1", &[], START).await).await
    };
    compare("ForgottenIsUnknown", story, "COMMAND_EXPIRED", "COMMAND_NOT_FOUND");
}

#[test]
fn a_client_that_knows_a_run_starts_another_one() {
    let story = || async {
        let world = world().await;
        let last = [("last-event-id", "0000000000000001-0")];
        status(world.send("POST /command", &last, START).await).await
    };
    compare("RunWithoutEventsIsNew", story, "COMMAND_NOT_FOUND", "CURSOR_FOREIGN");
}

/// Sends a start with these headers, and its body in three pieces with a pause before each. Returns the
/// status of the answer.
async fn slow_start(world: &World, headers: &str, pause: Duration) -> String {
    let mut stream = world.net.connect(&Endpoint::tcp("server", 80)).await.unwrap();
    let length = START.len();
    let head =
        format!("POST /command HTTP/1.1\r\nhost: x\r\n{headers}content-length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    for piece in [&START[..9], &START[9..18], &START[18..]] {
        sleep(pause).await;
        // The server may have refused the rest.
        let _ = stream.write_all(piece.as_bytes()).await;
    }
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    String::from_utf8(answer[9..].to_vec()).unwrap()
}

#[test]
fn each_piece_of_a_body_has_its_own_time() {
    let story = || async {
        let limits = ServerLimits { body_deadline: 4 * SECOND, ..Default::default() };
        slow_start(&World::new(limits).await, "", 3 * SECOND).await
    };
    compare("EachPieceHasItsTime", story, "408", "200");
}

#[test]
fn a_start_is_compared_with_the_time_of_its_request() {
    let story = || async {
        let world = world().await;
        slow_start(&world, "x-reknit-repeats: 1000\r\n", SECOND).await
    };
    compare("AgeMeetsTheRequest", story, "404", "425");
}

#[test]
fn the_second_header_of_a_client_does_not_count() {
    let story = || async {
        let world = world().await;
        let accept = [("accept", "text/html"), ("accept", "text/event-stream")];
        let background = r#"{"command":"run","background":true}"#;
        let answer = world.send("POST /command", &accept, background).await;
        answer.text().await.starts_with("retry: ").to_string()
    };
    compare("FirstAcceptCounts", story, "true", "false");
}

#[test]
fn a_start_in_the_background_is_answered_in_the_frames_of_execd() {
    let story = || async {
        let world = world().await;
        let background = r#"{"command":"run","background":true}"#;
        let accept = [("accept", "text/event-stream")];
        let answer = world.send("POST /command", &accept, background).await;
        answer.text().await.starts_with("retry: ").to_string()
    };
    compare("DetachedInFramesOfExecd", story, "true", "false");
}

#[test]
fn a_body_without_a_length_may_have_any() {
    let story = || async {
        let limits = ServerLimits { body_bytes: 8, ..Default::default() };
        let world = World::new(limits).await;
        let mut stream = world.net.connect(&Endpoint::tcp("server", 80)).await.unwrap();
        let head = "POST /command HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
        let body = format!("{:x}\r\n{START}\r\n0\r\n\r\n", START.len());
        stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.unwrap();
        String::from_utf8(answer[9..].to_vec()).unwrap()
    };
    compare("ChunkedBodiesAreFree", story, "413", "200");
}

#[test]
fn a_repeated_start_runs_the_command_again() {
    let story = || async {
        let world = world().await;
        started(&world).await;
        started(&world).await;
        world.machine.launches().to_string()
    };
    compare("StartRunsTwice", story, "1", "2");
}

#[test]
fn a_restarted_server_runs_a_repeated_start_again() {
    let story = || async {
        let world = world().await;
        sleep(SECOND).await;
        let body = r#"{"operation_id":"c","command":"run"}"#;
        let age = |ms| [("x-reknit-repeats", ms)];
        let older = world.send("POST /command", &age("1001"), body).await.status.as_u16();
        let younger = world.send("POST /command", &age("1000"), body).await.status.as_u16();
        format!("{older} {younger}")
    };
    compare("RestartForgetsTheStart", story, "404 425", "425 425");
}

/// Sends a start that was first sent a second ago, and answers `question`, over a connection of its own.
async fn repeats(world: &World, question: Option<&str>) -> Answer {
    let age = ("x-reknit-repeats", "1000");
    let headers = [age, ("x-reknit-asked", question.unwrap_or_default())];
    let headers = if question.is_some() { &headers[..] } else { &headers[..1] };
    world.send("POST /command", headers, r#"{"operation_id":"c","command":"run"}"#).await
}

/// Returns the question of a refusal.
async fn question(answer: Answer) -> String {
    let refused: crate::wire::RefusalBody = serde_json::from_str(&answer.text().await).unwrap();
    refused.age_asked.unwrap()
}

/// The server does not know whether the command ran before, so it asks for the age over one connection. A
/// proxy brings the answer over another one.
#[test]
fn an_age_that_answers_an_earlier_server_says_nothing() {
    let story = || async {
        let (world, other) = (world().await, world().await);
        sleep(SECOND).await;
        let asked = question(repeats(&world, None).await).await;
        let own = status(repeats(&world, Some(&asked)).await).await;
        let garbage = status(repeats(&other, Some("garbage")).await).await;
        let foreign = status(repeats(&other, Some(&asked)).await).await;
        format!("{own}, {garbage}, {foreign}")
    };
    let good = "200, START_TOO_EARLY, START_TOO_EARLY";
    compare("QuestionsOfAllRunsCount", story, good, "200, START_TOO_EARLY, 200");
}

#[test]
fn any_number_of_commands_may_run() {
    let story = || async {
        let world = World::new(ServerLimits { running_commands: 1, ..Default::default() }).await;
        let _stream = world.start().await;
        status(world.send("POST /command", &[], r#"{"command":"other"}"#).await).await
    };
    compare("CommandsUnbounded", story, "SERVICE_UNAVAILABLE", "200");
}

#[test]
fn a_repeated_start_of_an_ended_command_needs_room() {
    let story = || async {
        let world = World::new(ServerLimits { running_commands: 1, ..Default::default() }).await;
        started(&world).await;
        world.machine.exits(0, Exit::Code(0)).await;
        let _stream = world.start_other().await;
        status(world.start().await).await
    };
    compare("EndedStartsNeedRoom", story, "200", "SERVICE_UNAVAILABLE");
}

#[test]
fn a_used_id_finds_another_command() {
    let story = || async {
        let world = world().await;
        started(&world).await;
        let other = r#"{"operation_id":"c","command":"other"}"#;
        status(world.send("POST /command", &[], other).await).await
    };
    compare("UsedIdIsAccepted", story, "OPERATION_ID_IN_USE", "200");
}
