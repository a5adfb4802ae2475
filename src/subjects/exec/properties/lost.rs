//! `lost_calls_were_sent`: a call fails because of a lost connection only if one may have carried it.
//!
//! A call that is made during a recovery waits for the next connection. So a connection must have
//! ended between the call and its failure, or its client must have noticed an earlier end in that
//! time: until then it may send over a connection that is already over.

use std::collections::BTreeMap;

use crate::history::{Call, ConnIndex, Event, EventKind, Time};
use crate::property::violation::kinds;
use crate::property::{CheckContext, Violation, ViolationFields};
use crate::subjects::exec::answers::ExecFailure;
use crate::subjects::judging::{host, judged, peers_may_lie};
use reknit_exec::client::Failure;

kinds! {
    pub(super) LOST_CALLS_WERE_SENT;
    NOT_SENT = "not-sent": "{subject:}it failed because of a lost connection, but no connection that could have carried it ended after the call {moment}";
}

/// `http_fails_truly` judges HTTP requests.
pub(super) fn lost_calls_were_sent(cx: &CheckContext<'_>) -> Vec<Violation> {
    if peers_may_lie(cx) {
        return Vec::new();
    }
    let mut asked: BTreeMap<Call, (&str, Time)> = BTreeMap::new();
    let mut found = Vec::new();
    for event in judged(cx) {
        match &event.what {
            EventKind::Asked { call, operation, .. } if !operation.verb.starts_with("http") => {
                asked.insert(*call, (host(event), event.at));
            }
            EventKind::Failed { call, reason }
                if ExecFailure::is(reason, &Failure::ConnectionLost) =>
            {
                let Some((client, since)) = asked.get(call) else { continue };
                cx.judges("lost_calls_were_sent");
                if !may_be_lost(cx, client, *since, event.at) {
                    let data = ViolationFields::default();
                    found.push(Violation::new(
                        "lost_calls_were_sent",
                        *call,
                        event.at,
                        &NOT_SENT,
                        data,
                    ));
                }
            }
            _ => {}
        }
    }
    found.truncate(5);
    found
}

/// Whether a request of a client may have been lost between two times: an installed connection ended
/// then, or the client noticed the end then.
pub(super) fn may_be_lost(cx: &CheckContext<'_>, client: &str, from: Time, to: Time) -> bool {
    let own = cx.history.conns.iter().filter(|conn| conn.client.as_str() == client);
    let ends = own.filter(|conn| conn.generation.is_some()).filter_map(|conn| conn.over.0);
    let noticed =
        judged(cx).filter(|event| host(event) == client).filter_map(|event| noticed(cx, event));
    ends.chain(noticed).any(|over| (from..=to).contains(&over))
}

/// The time at which a client noticed the end of its connection, if the connection was really over.
fn noticed(cx: &CheckContext<'_>, event: &Event) -> Option<Time> {
    let EventKind::Milestone { name: "exec.client.lost", fields } = &event.what else {
        return None;
    };
    let ConnIndex(conn) = ConnIndex::from_fields(fields)?;
    let over = cx.history.conns.get(conn)?.over.0?;
    (over <= event.at).then_some(event.at)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{started, violations};
    use super::*;
    use crate::history::Class;
    use crate::property::scripted::ScriptedRun;

    fn lost(scripted: ScriptedRun) -> Vec<String> {
        let call = scripted.asked_as(2, 2_000, Class::InFlight, "write", r#"{"process":"p1"}"#);
        let lost = ExecFailure(Failure::ConnectionLost);
        violations(&call.failed(2, 2_500, lost), lost_calls_were_sent)
    }

    #[test]
    fn a_call_may_be_lost_with_its_connection_only() {
        assert_eq!(
            lost(started().conn(1, 0, None)),
            [
                "call 2: it failed because of a lost connection, but no connection that could have carried it ended after the call (at 2.500 s)"
            ]
        );
        assert_eq!(lost(started().conn(1, 0, Some(1_999))).len(), 1);
        assert_eq!(lost(started().conn(1, 0, Some(2_400))), [""; 0]);
    }
}
