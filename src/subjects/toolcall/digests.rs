//! The digests of a channel's state: one of the whole state, and one of the parts that do not
//! depend on timing.
//!
//! The first serves to compare two replicas at one moment. The second serves to compare two runs in
//! which the same events happened at different times. It ignores times, generated names, and which
//! one of several windows ran a call.

use serde_json::Value;

use crate::history::Digest;
use reknit_toolcall::wire::SnapshotState;

/// The separator between the two digests.
const BETWEEN: char = '-';

/// The two digests of a state: `2b05f853dcef5d78-91c1a34e6d22b0f7`.
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

/// Removes everything that depends on timing, or on the choice between several windows. `names`
/// lists the generated names so far, in order.
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

pub(super) fn is_time(field: &str) -> bool {
    ["modifiedAt", "startedAt", "createdAt", "duration"].contains(&field)
}

/// Returns whether the host generated this name from a counter.
pub(super) fn is_counted(text: &str) -> bool {
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
    fn times_generated_names_and_owners_do_not_change_the_second_digest() {
        let call = |number: u64, owner: &str| json!({ "id": format!("call-{number}"), "contributor": { "clientId": owner } });
        let chat = |at: &str, first: u64, owner: &str| json!({ "modifiedAt": at, "parts": [call(first, owner), call(first + 2, owner), call(first, owner)], "title": "c1" });
        assert_eq!(plainly(chat("1", 3, "client")), plainly(chat("2", 7, "client2")));
        assert_eq!(
            plainly(chat("1", 3, "client")),
            json!({ "parts": [{ "id": 0 }, { "id": 1 }, { "id": 0 }], "title": "c1" })
        );
    }

    #[test]
    fn a_different_text_changes_the_digest() {
        let wording = |text: &str| plainly(json!({ "parts": [{ "content": text }] }));
        assert_ne!(wording("call-me"), wording("call-you"));
        assert_ne!(plainly(json!({ "status": 1 })), plainly(json!({ "status": 2 })));
    }
}
