//! Tests of `app_server_is_greeted` and `ids_are_new`.

use super::super::greetings::{app_server_is_greeted, ids_are_new};
use super::*;

#[test]
fn an_app_server_is_greeted_before_any_other_request() {
    let asks = |methods: &[&str]| {
        let ask = |run, method: &&str| gets(run, 1_000, &json!({ "id": 1, "method": method }));
        methods.iter().fold(history(), ask)
    };
    let ungreeted = "got the request thread/start";
    holds(&asks(&["initialize", "initialized", "thread/start"]), app_server_is_greeted);
    breaks(&asks(&["initialize", "thread/start", "turn/start"]), app_server_is_greeted, ungreeted);
    let again = asks(&["initialize", "initialized", "initialize", "thread/start"]);
    breaks(&again, app_server_is_greeted, ungreeted);
}

#[test]
fn each_request_to_an_app_server_has_a_new_id() {
    let asks = |asked: &[(&str, u64)]| {
        let ask = |run, (method, id): &(&str, u64)| {
            gets(run, 1_000, &json!({ "id": id, "method": method }))
        };
        asked.iter().fold(history(), ask)
    };
    holds(&asks(&[("initialize", 1), ("thread/start", 2), ("initialize", 1)]), ids_are_new);
    let again = asks(&[("initialize", 1), ("thread/start", 2), ("turn/start", 2)]);
    breaks(&again, ids_are_new, "got the request turn/start");
    // An answer has the id of the question.
    let answer = gets(asks(&[("initialize", 1)]), 1_000, &json!({ "id": 1, "result": {} }));
    holds(&answer, ids_are_new);
}
