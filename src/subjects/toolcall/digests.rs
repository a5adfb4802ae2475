//! What a state comes to, as a few letters: all of it, and what of it is the same whenever and by whomever it was brought about.
//!
//! The first is for those who compare what two know at one moment. The second is for those who compare two runs, in which the same
//! happened at other times: it knows no times, no names that are given by counting, and not which of several windows ran a call.

use serde_json::Value;

use crate::history::Digest;
use reknit_toolcall::wire::SnapshotState;

/// What stands between the two.
const BETWEEN: char = '-';

/// What a state comes to: `2b05f853dcef5d78-91c1a34e6d22b0f7`.
pub(super) fn digest(state: &SnapshotState) -> String {
    let mut state = serde_json::to_value(state).unwrap_or_default();
    let all = of(&state);
    plain(&mut state, &mut Vec::new());
    format!("{all}{BETWEEN}{}", of(&state))
}

fn of(state: &Value) -> Digest {
    let mut digest = Digest::default();
    digest.bytes(&serde_json::to_vec(state).unwrap_or_default());
    digest
}

/// Takes out what depends on when, and on who of several. `names` are those that were met, in order.
fn plain(value: &mut Value, names: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !is_time(name) && name != "contributor");
            if let Some(Value::Array(active)) = fields.get_mut("activeClients") {
                active.sort_by_key(|client| client.get("clientId").map(Value::to_string));
            }
            fields.values_mut().for_each(|field| plain(field, names));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| plain(item, names)),
        Value::String(text) if is_counted(text) => {
            let n = names.iter().position(|name| name == text).unwrap_or_else(|| {
                names.push(text.clone());
                names.len() - 1
            });
            *value = n.into();
        }
        _ => {}
    }
}

fn is_time(field: &str) -> bool {
    ["modifiedAt", "startedAt", "createdAt", "duration"].contains(&field)
}

/// Whether a host gave this name by counting.
fn is_counted(text: &str) -> bool {
    let number = ["call-", "part-"].iter().find_map(|kind| text.strip_prefix(kind));
    number.is_some_and(|number| number.parse::<u64>().is_ok())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn plainly(mut value: Value) -> Value {
        plain(&mut value, &mut Vec::new());
        value
    }

    #[test]
    fn times_counted_names_and_owners_do_not_count() {
        let call = |number: u64, owner: &str| json!({ "id": format!("call-{number}"), "contributor": { "clientId": owner } });
        let chat = |at: &str, first: u64, owner: &str| json!({ "modifiedAt": at, "parts": [call(first, owner), call(first + 2, owner), call(first, owner)], "title": "c1" });
        assert_eq!(plainly(chat("1", 3, "client")), plainly(chat("2", 7, "client2")));
        assert_eq!(
            plainly(chat("1", 3, "client")),
            json!({ "parts": [{ "id": 0 }, { "id": 1 }, { "id": 0 }], "title": "c1" })
        );
    }

    #[test]
    fn what_is_said_counts() {
        let wording = |text: &str| plainly(json!({ "parts": [{ "content": text }] }));
        assert_ne!(wording("call-me"), wording("call-you"));
        assert_ne!(plainly(json!({ "status": 1 })), plainly(json!({ "status": 2 })));
    }
}
