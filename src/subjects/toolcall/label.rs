//! What a person calls a message of the Agent Host Protocol: `dispatchAction c1 chat/turnStarted`, `action c1 chat/delta #12`.

use crate::subjects::label::{self, LabelField};

/// The label of a message, out of its begin.
pub(super) fn label(head: &[u8]) -> String {
    label::label(head, FIELDS)
}

/// The fields that are told, and what stands before each.
const FIELDS: &[LabelField] = &[
    ("clientId", " "),
    ("channel", " "),
    ("type", " "),
    ("toolCallId", " "),
    ("clientSeq", " seq "),
    ("lastSeenServerSeq", " after #"),
    ("serverSeq", " #"),
    ("rejectionReason", " refused: "),
    ("code", " "),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_called_by_what_they_are_about() {
        for (message, called) in [
            (
                r#"{"jsonrpc":"2.0","id":3,"method":"subscribe","params":{"channel":"c1"}}"#,
                "subscribe c1",
            ),
            (
                r#"{"method":"action","params":{"channel":"c1","action":{"type":"chat/delta"},"serverSeq":12}}"#,
                "action c1 chat/delta #12",
            ),
            (
                r#"{"method":"reconnect","params":{"clientId":"client","lastSeenServerSeq":4}}"#,
                "reconnect client after #4",
            ),
            (r#"{"id":2,"error":{"code":-32008,"message":"no such client"}}"#, "error 2 -32008"),
        ] {
            assert_eq!(label(message.as_bytes()), called);
        }
    }
}
