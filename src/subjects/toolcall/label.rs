//! Labels messages of the Agent Host Protocol for display: `dispatchAction c1 chat/turnStarted`,
//! `action c1 chat/delta #12`.

use crate::subjects::label::{self, LabelField};

/// Returns the label of a message, computed from its first bytes.
pub(super) fn label(head: &[u8]) -> String {
    label::label(head, FIELDS)
}

/// The fields that the label shows, and the text before each.
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
    fn a_label_shows_the_method_and_the_main_fields() {
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
