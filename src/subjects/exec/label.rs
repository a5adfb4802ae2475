//! What a person calls a message of the exec protocol: `process/read p1 after 40`, `answer 3`, `error 2 -32010`.

/// The label of a message, out of its begin.
pub(super) fn label(head: &[u8]) -> String {
    let text = String::from_utf8_lossy(head);
    let word = |key: &str| field(&text, key).map(|value| value.trim_matches('"').to_owned());
    let mut label = match (word("method"), word("id")) {
        (Some(method), _) => method,
        (None, Some(id)) if text.contains("\"error\":") => format!("error {id}"),
        (None, Some(id)) => format!("answer {id}"),
        (None, None) => return "?".to_owned(),
    };
    for (key, before) in FIELDS {
        if let Some(value) = word(key) {
            label.push_str(before);
            label.push_str(&value);
        }
    }
    label
}

/// The fields that are told, and what stands before each.
const FIELDS: [(&str, &str); 9] = [
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

/// The value of a key, where it is a number or a short string.
fn field<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    let start = text.find(&format!("\"{key}\":"))? + key.len() + 3;
    let rest = &text[start..];
    let end = rest.find([',', '}', ']'])?;
    (end <= 40 && !rest.starts_with(['{', '['])).then_some(&rest[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_called_by_what_they_are_about() {
        for (message, called) in [
            (r#"{"id":3,"method":"process/read","params":{"processId":"p1","afterSeq":40}}"#, "process/read p1 after 40"),
            (r#"{"method":"initialized","params":{}}"#, "initialized"),
            (r#"{"id":1,"result":{"sessionId":"abc"}}"#, "answer 1 session abc"),
            (r#"{"id":2,"error":{"code":-32010,"message":"attached"}}"#, "error 2 -32010"),
            (
                r#"{"method":"process/output","params":{"processId":"p1","seq":4,"stream":"stdout","chunk":"aaaa"#,
                "process/output p1 #4",
            ),
            (r#"{"method":"process/exited","params":{"processId":"p1","seq":5,"exitCode":7}}"#, "process/exited p1 #5 exit 7"),
            ("what?", "?"),
        ] {
            assert_eq!(label(message.as_bytes()), called);
        }
    }
}
