//! `waits_are_whole`: a call without an answer is given up only when its wait is over.
//!
//! The wait of a call is the limit `client.call-wait` and the wait that its user asks the server for.

use std::collections::BTreeMap;

use super::served::UserOperation;
use crate::history::{Call, EventKind};
use crate::property::violation::{fields, kinds};
use crate::property::{CheckContext, Violation};
use crate::subjects::exec::answers::ExecFailure;
use crate::subjects::exec::limits::{LIMITS, client_limits};
use crate::subjects::judging::judged;
use reknit_exec::client::Failure;

kinds! {
    pub(super) WAITS_ARE_WHOLE;
    TOO_SOON = "too-soon": "{subject:}the client gave it up after {waited}, but must wait for {least} {moment}";
}

/// See the module.
pub(super) fn waits_are_whole(cx: &CheckContext<'_>) -> Vec<Violation> {
    let call_wait = client_limits(&cx.plan.limits.over(LIMITS)).call_wait;
    let mut asked: BTreeMap<Call, UserOperation<'_>> = BTreeMap::new();
    let mut found = Vec::new();
    for event in judged(cx) {
        match &event.what {
            EventKind::Asked { .. } => asked.extend(UserOperation::of(event)),
            EventKind::Failed { call, reason } if ExecFailure::is(reason, &Failure::Unanswered) => {
                // A subscription fails with its process, and that with an earlier call.
                let asked = asked
                    .get(call)
                    .filter(|asked| !matches!(asked.verb(), "read-events" | "read-stream"));
                let Some(asked) = asked else { continue };
                let own = match asked.verb() {
                    "read" | "http" => asked.wait(),
                    _ => Default::default(),
                };
                let (waited, least) = (event.at.since(asked.at), call_wait + own);
                let data = fields! { waited, least };
                let violation = Violation::new("waits_are_whole", *call, event.at, &TOO_SOON, data);
                found.extend((waited < least).then_some(violation));
            }
            _ => {}
        }
    }
    found.truncate(5);
    found
}

#[cfg(test)]
mod tests {
    use super::super::tests::violations;
    use super::*;
    use crate::history::Class;
    use crate::property::scripted::{ScriptedRun, history};

    fn given_up(fields: &str, ms: u64) -> ScriptedRun {
        let asked = history().asked_as(1, 100, Class::InFlight, "http", fields);
        asked.failed(1, ms, ExecFailure(Failure::Unanswered)).end(200_000)
    }

    #[test]
    fn a_call_waits_for_the_deadline_of_its_request_in_addition() {
        let plain = r#"{"body":"b1"}"#;
        assert!(violations(&given_up(plain, 60_100), waits_are_whole).is_empty());
        assert_eq!(
            violations(&given_up(plain, 60_099), waits_are_whole),
            ["call 1: the client gave it up after 59999ms, but must wait for 1m (at 60.099 s)"]
        );
        let longer = r#"{"body":"b1","wait":"20s"}"#;
        assert!(violations(&given_up(longer, 80_100), waits_are_whole).is_empty());
        assert_eq!(violations(&given_up(longer, 80_099), waits_are_whole).len(), 1);
    }
}
