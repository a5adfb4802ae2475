//! Which requests are admitted, and how lines that are no requests are handled.

use reknit_jsonrpc::Malformed;

use super::*;

#[test]
fn one_client_works_at_a_time() {
    let mut bench = Bench::new();
    bench.start_turn(A, "t", "u");
    assert!(!bench.admits(B));
    assert!(bench.admits(A), "the owner of the turn may ask");
    bench.turn_completed("t", "u");
    assert!(bench.admits(B));
}

#[test]
fn a_request_in_flight_is_live_work() {
    let mut bench = Bench::new();
    let id = bench.ask(A, "account/read", json!({}));
    let busy = bench.ask(B, "account/read", json!({}));
    assert_eq!(bench.code(B, busy), code::BUSY);
    bench.answer("account/read", json!({ "account": null }));
    assert_eq!(bench.reply(A, id)["result"], json!({ "account": null }));
    assert!(bench.admits(B));
}

#[test]
fn the_first_of_two_answers_does_not_free_the_broker() {
    let mut bench = Bench::new();
    bench.ask(A, "account/read", json!({}));
    bench.ask(A, "config/read", json!({}));
    bench.answer("account/read", json!({}));
    assert!(!bench.admits(B));
    bench.answer("config/read", json!({}));
    assert!(bench.admits(B));
}

#[test]
fn equal_ids_of_two_clients_do_not_collide() {
    let mut bench = Bench::new();
    let request = |method: &str| LineEvent::Message(Message::request(7, method, &json!({})));
    bench.line(A, request("account/read"));
    bench.line(B, request("turn/interrupt"));
    bench.answer("turn/interrupt", json!({ "of": "B" }));
    bench.answer("account/read", json!({ "of": "A" }));
    assert_eq!(bench.reply(A, 7)["result"], json!({ "of": "A" }));
    assert_eq!(bench.reply(B, 7)["result"], json!({ "of": "B" }));
}

#[test]
fn an_interrupt_passes_while_another_client_works() {
    let mut bench = Bench::new();
    bench.start_turn(A, "t", "u");
    bench.ask(A, "account/read", json!({}));
    let id = bench.ask(B, "turn/interrupt", json!({ "threadId": "t", "turnId": "u" }));
    let passed = bench.take("turn/interrupt");
    assert_eq!(passed.params, json!({ "threadId": "t", "turnId": "u" }));
    bench.answer_ticket(passed.ticket, json!({}));
    assert_eq!(bench.reply(B, id)["result"], json!({}));
}

#[test]
fn an_interrupt_in_flight_makes_no_client_wait() {
    let mut bench = Bench::new();
    bench.ask(B, "turn/interrupt", json!({ "threadId": "t", "turnId": "u" }));
    assert!(bench.admits(A));
}

#[test]
fn a_client_that_has_started_a_thread_keeps_its_admission_for_its_turn() {
    for method in ["thread/start", "thread/resume"] {
        let mut bench = Bench::new();
        bench.ask(A, method, json!({}));
        bench.answer(method, json!({ "thread": { "id": "t" } }));
        assert!(!bench.admits(B));
        bench.start_turn(A, "t", "u");
        bench.turn_completed("t", "u");
        assert!(bench.admits(B));
    }
}

#[test]
fn a_thread_without_a_turn_holds_the_broker_only_for_a_while() {
    let mut bench = Bench::new();
    bench.ask(A, "thread/start", json!({}));
    bench.answer("thread/start", json!({ "thread": { "id": "t" } }));
    bench.wait(limits().reserve - S);
    assert!(!bench.admits(B));
    bench.wait(S);
    assert!(bench.admits(B));
}

#[test]
fn a_refused_start_is_no_turn() {
    let mut bench = Bench::new();
    let id = bench.ask(A, "turn/start", json!({ "threadId": "t" }));
    bench.refuse("turn/start", false);
    assert_eq!(bench.code(A, id), -32600);
    assert!(bench.admits(B));
}

#[test]
fn a_turn_that_is_over_at_once_is_not_live() {
    let mut bench = Bench::new();
    bench.ask(A, "turn/start", json!({ "threadId": "t" }));
    bench.answer("turn/start", json!({ "turn": { "id": "u", "status": "failed" } }));
    assert!(bench.admits(B));
}

#[test]
fn a_turn_may_end_before_the_answer_to_its_start() {
    let mut bench = Bench::new();
    let id = bench.ask(A, "turn/start", json!({ "threadId": "t" }));
    bench.turn_started("t", "u");
    bench.item("t", "u", "hi");
    bench.turn_completed("t", "u");
    assert!(!bench.admits(B), "the request has no answer yet");
    bench.answer("turn/start", started("u"));
    assert!(bench.admits(B));
    bench.reply(A, id);
    assert_eq!(bench.seen(A), ["turn/started", "hi", "turn/completed"]);
}

#[test]
fn a_compaction_is_a_turn_although_its_answer_names_none() {
    let mut bench = Bench::new();
    bench.ask(A, "thread/compact/start", json!({ "threadId": "t" }));
    bench.answer("thread/compact/start", json!({}));
    assert!(!bench.admits(B));
    bench.turn_started("t", "u");
    bench.turn_completed("t", "u");
    assert!(bench.admits(B));
}

#[test]
fn a_start_that_never_becomes_a_turn_holds_the_broker_only_for_a_while() {
    let mut bench = Bench::new();
    bench.ask(A, "turn/start", json!({ "threadId": "t" }));
    bench.answer("turn/start", json!({ "turn": {} }));
    assert!(!bench.admits(B));
    bench.wait(limits().settle);
    assert!(bench.admits(B));
}

#[test]
fn a_turn_has_a_longest_time() {
    let mut bench = Bench::new();
    bench.start_turn(A, "t", "u");
    bench.wait(limits().turn);
    assert_eq!(bench.interrupted(), ["u"]);
    let late = ClientId(3);
    bench.open(late);
    assert!(bench.admits(late));
    bench.turn_completed("t", "u");
    assert_eq!(bench.seen(A), ["turn/completed"], "its client still learns the end");
}

#[test]
fn too_many_requests_of_one_client_are_refused() {
    let mut bench = Bench::new();
    for _ in 0..limits().requests {
        bench.ask(A, "account/read", json!({}));
    }
    let id = bench.ask(A, "account/read", json!({}));
    assert_eq!(bench.code(A, id), code::SERVER);
    bench.answer("account/read", json!({}));
    bench.ask(A, "account/read", json!({}));
    assert_eq!(bench.received.len(), limits().requests);
}

#[test]
fn interrupts_of_one_client_have_a_limit_of_their_own() {
    let mut bench = Bench::new();
    bench.core.limits.requests = 1;
    bench.ask(A, "turn/start", json!({ "threadId": "t" }));
    let interrupt = json!({ "threadId": "t", "turnId": "u" });
    bench.ask(A, "turn/interrupt", interrupt.clone());
    let id = bench.ask(A, "turn/interrupt", interrupt);
    assert_eq!(bench.code(A, id), code::SERVER);
    assert_eq!(bench.interrupted(), ["u"]);
    let id = bench.ask(A, "account/read", json!({}));
    assert_eq!(bench.code(A, id), code::SERVER);
}

#[test]
fn too_many_bytes_in_flight_are_refused_even_if_their_clients_have_left() {
    let mut bench = Bench::new();
    bench.ask(A, "account/read", json!({ "x": "x".repeat(6000) }));
    bench.close(A);
    let id = bench.ask(B, "account/read", json!({ "x": "x".repeat(6000) }));
    assert_eq!(bench.code(B, id), code::SERVER);
    bench.answer("account/read", json!({}));
    bench.ask(B, "account/read", json!({ "x": "x".repeat(6000) }));
    assert_eq!(bench.received.len(), 1);
}

#[test]
fn the_id_of_a_request_takes_bytes_too() {
    let mut bench = Bench::new();
    let request = |id: &str| {
        let id = reknit_jsonrpc::RequestId::Text(id.into());
        LineEvent::Message(Message::Request { id, method: "m".into(), params: None })
    };
    bench.line(A, request(&"x".repeat(6000)));
    bench.line(A, request(&"y".repeat(6000)));
    assert_eq!(bench.received.len(), 1);
    bench.answer("m", json!({}));
    let answers = bench.pull(A);
    assert_eq!(answers[0]["error"]["code"], code::SERVER, "the second one is refused at once");
}

#[test]
fn requests_without_content_take_bytes_even_if_their_clients_have_left() {
    let mut bench = Bench::new();
    for client in 10..1000 {
        let client = ClientId(client);
        bench.open(client);
        bench.ask(client, "", Value::Null);
        bench.close(client);
    }
    assert!(bench.received.len() < 100, "{}", bench.received.len());
    assert!(bench.core.counts().request_bytes <= limits().connection.line_bytes);
}

#[test]
fn a_line_that_is_no_message_is_refused_without_an_id_and_the_next_one_counts() {
    let mut bench = Bench::new();
    bench.line(A, LineEvent::Malformed(Malformed("oops".into())));
    let refusal = bench.pull(A).remove(0);
    assert_eq!((&refusal["id"], &refusal["error"]["code"]), (&Value::Null, &json!(-32700)));
    assert!(bench.admits(A));
}

#[test]
fn a_line_that_is_too_long_ends_the_connection_and_the_turn() {
    let mut bench = Bench::new();
    bench.start_turn(A, "t", "u");
    bench.line(A, LineEvent::TooLong);
    assert_eq!(bench.core.over(A), None, "the refusal is not sent yet");
    assert_eq!(bench.pull(A).remove(0)["error"]["code"], json!(-32700));
    assert_eq!(bench.core.over(A), Some(CutReason::TooLong));
    assert_eq!(bench.interrupted(), ["u"]);
    assert!(bench.admits(B));
}

#[test]
fn a_client_without_work_that_says_nothing_loses_its_connection() {
    let mut bench = Bench::new();
    bench.wait(limits().idle / 2);
    assert!(bench.admits(B));
    bench.wait(limits().idle / 2);
    assert_eq!(bench.core.over(A), Some(CutReason::Idle));
    assert_eq!(bench.core.over(B), None, "it has asked since");
    let mut bench = Bench::new();
    bench.start_turn(A, "t", "u");
    bench.wait(limits().turn - S);
    assert_eq!(bench.core.over(A), None, "a turn may be silent");
    bench.turn_completed("t", "u");
    bench.wait(limits().idle - S);
    assert_eq!(bench.core.over(A), None);
    bench.wait(S);
    assert_eq!(bench.core.over(A), None, "its last message waits for it");
    bench.pull(A);
    assert_eq!(bench.core.over(A), Some(CutReason::Idle));
}

#[test]
fn a_slow_reader_loses_its_connection_and_its_turn() {
    let mut bench = Bench::new();
    bench.start_turn(A, "t", "u");
    for _ in 0..30 {
        bench.item("t", "u", &"x".repeat(1000));
    }
    assert_eq!(bench.core.over(A), Some(CutReason::Slow));
    assert!(bench.core.pull(A).is_none(), "what it did not read costs no memory");
    assert_eq!(bench.interrupted(), ["u"]);
    assert!(bench.admits(B));
}

#[test]
fn notifications_and_answers_of_clients_are_dropped() {
    let mut bench = Bench::new();
    bench.line(A, LineEvent::Message(Message::notification("initialized", &json!({}))));
    bench.line(A, LineEvent::Message(Message::response(reknit_jsonrpc::RequestId::Number(1), &1)));
    assert!(bench.received.is_empty() && bench.pull(A).is_empty());
}
