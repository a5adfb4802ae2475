//! Labels messages of the exec protocol for display: `process/read p1 after 40`, `answer 3`, `error
//! 2 -32010`.

use crate::subjects::label::{self, LabelField};

/// Returns the label of a message, computed from its first bytes.
pub(super) fn label(head: &[u8]) -> String {
    label::label(head, FIELDS)
}

/// The fields that the label shows, and the text before each.
const FIELDS: &[LabelField] = &[
    ("resumeSessionId", " resume "),
    ("sessionId", " session "),
    ("processId", " "),
    ("requestId", " "),
    ("afterSeq", " after "),
    ("nextSeq", " next "),
    ("seq", " #"),
    ("exitCode", " exit "),
    ("code", " "),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_shows_the_method_and_the_main_fields() {
        for (message, called) in [
            (
                r#"{"id":3,"method":"process/read","params":{"processId":"p1","afterSeq":40}}"#,
                "process/read p1 after 40",
            ),
            (r#"{"method":"initialized","params":{}}"#, "initialized"),
            (r#"{"id":1,"result":{"sessionId":"abc"}}"#, "answer 1 session abc"),
            (r#"{"id":2,"error":{"code":-32010,"message":"attached"}}"#, "error 2 -32010"),
            (
                r#"{"method":"process/output","params":{"processId":"p1","seq":4,"stream":"stdout","chunk":"aaaa"#,
                "process/output p1 #4",
            ),
            (
                r#"{"method":"process/exited","params":{"processId":"p1","seq":5,"exitCode":7}}"#,
                "process/exited p1 #5 exit 7",
            ),
            ("what?", "?"),
        ] {
            assert_eq!(label(message.as_bytes()), called);
        }
    }
}
