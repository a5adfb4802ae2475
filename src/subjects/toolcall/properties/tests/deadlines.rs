//! Tests of `requests_end_in_time`.

use super::super::deadlines::requests_end_in_time;
use super::*;
use crate::subjects::toolcall::answers::ToolcallFailure;
use reknit_toolcall::client::Failure;

#[test]
fn only_a_request_is_lost_with_its_connection() {
    let lost = |over, verb: &str, fields: &str| {
        let run = here_until(Some(over)).asked_as(2, 4_000, Class::InFlight, verb, fields);
        let why = Data::of(ToolcallFailure(Failure::Lost));
        violations(&run.failed(2, 5_000, why), requests_end_in_time)
    };
    assert_eq!(lost(5_000, "new-chat", "{}").len(), 0);
    assert_eq!(lost(3_000, "new-chat", "{}").len(), 1);
    assert_eq!(
        lost(5_000, "watch", r#"{"chat":"c2"}"#),
        [
            "call 2: its client failed it as lost, although a client repeats it over its next connection (at 5.000 s)"
        ]
    );
    assert_eq!(lost(5_000, "rename", "{}").len(), 1);
    assert_eq!(lost(5_000, "new-session", "{}").len(), 0, "it begins with a request");
    assert_eq!(lost(5_000, "report-content", r#"{"chat":"c1"}"#).len(), 0, "it is about a call");
}
