//! How the fault `tamper` changes the messages of a host.
//!
//! A client cannot notice that an action is missing: the numbers of one channel have gaps, because a host
//! counts the actions of all channels. So the fault drops only answers and requests. It refuses only
//! handshakes and subscriptions, because a client that repeats them does no harm.

use serde_json::Value;

use crate::schedule::Tampering;
use crate::subjects::tampering::{json_of, message_of, refusal_of};

/// The channel that no host has.
const ANOTHER: &str = "another-channel";

/// Returns what a client receives instead of a message of its host.
pub(super) fn tamper(how: Tampering, message: &[u8]) -> Option<Vec<u8>> {
    let mut json = json_of(message)?;
    let is_request = json.get("method").is_some() && json.get("id").is_some();
    match how {
        Tampering::Drop if json.get("id").is_some() => Some(Vec::new()),
        Tampering::Repeat if !is_request => Some([message, message].concat()),
        Tampering::Refuse if opens_channels(&json["result"]) => refusal_of(&json),
        Tampering::Misname => {
            let channel = first_channel(json.get_mut("result")?)?;
            *channel = ANOTHER.into();
            message_of(&json)
        }
        Tampering::Drop | Tampering::Repeat | Tampering::Refuse => None,
    }
}

/// Returns whether a result is that of a handshake or of a subscription.
fn opens_channels(result: &Value) -> bool {
    ["snapshot", "snapshots", "missing"].iter().any(|field| result.get(field).is_some())
}

/// Returns the name of the first channel that a result has a snapshot of.
fn first_channel(result: &mut Value) -> Option<&mut Value> {
    let field = if result.get("snapshot").is_some() {
        "/snapshot/resource"
    } else {
        "/snapshots/0/resource"
    };
    result.pointer_mut(field)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tampered(how: Tampering, json: &Value) -> Option<Vec<u8>> {
        tamper(how, &message_of(json).unwrap())
    }

    #[test]
    fn a_missing_action_cannot_be_noticed_so_none_is_dropped() {
        let action = json!({ "method": "action", "params": { "channel": "s1", "serverSeq": 4 } });
        assert_eq!(tampered(Tampering::Drop, &action), None);
        assert!(tampered(Tampering::Repeat, &action).is_some());
        let answer = json!({ "id": 4, "result": null });
        assert_eq!(tampered(Tampering::Drop, &answer), Some(Vec::new()));
    }

    #[test]
    fn handshakes_and_subscriptions_are_refused_and_nothing_else() {
        for (result, is_refused) in [
            (json!({ "snapshots": [] }), true),
            (json!({ "type": "replay", "actions": [], "missing": [] }), true),
            (json!({ "snapshot": { "resource": "s1" } }), true),
            (json!({}), false),
        ] {
            let refusal = tampered(Tampering::Refuse, &json!({ "id": 4, "result": result }));
            assert_eq!(refusal.is_some(), is_refused);
        }
    }

    #[test]
    fn a_snapshot_names_another_channel() {
        for (result, at) in [
            (json!({ "snapshot": { "resource": "s1" } }), "/result/snapshot/resource"),
            (json!({ "snapshots": [{ "resource": "s1" }] }), "/result/snapshots/0/resource"),
        ] {
            let changed =
                tampered(Tampering::Misname, &json!({ "id": 4, "result": result })).unwrap();
            assert_eq!(json_of(&changed).unwrap().pointer(at), Some(&ANOTHER.into()));
        }
        for other in [json!({ "id": 4, "result": {} }), json!([1]), json!("text"), json!(1)] {
            for how in [Tampering::Refuse, Tampering::Misname] {
                assert_eq!(tampered(how, &other), None);
            }
        }
    }
}
