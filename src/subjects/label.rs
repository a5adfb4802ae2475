//! What a person calls a JSON-RPC message: its method or what it answers, and the fields that say what it is about.

/// A field that is told, and what stands before its value.
pub(super) type LabelField = (&'static str, &'static str);

/// The label of a message, out of its begin.
pub(super) fn label(head: &[u8], fields: &[LabelField]) -> String {
    let text = String::from_utf8_lossy(head);
    let word = |key: &str| field(&text, key).map(|value| value.trim_matches('"').to_owned());
    let mut label = match (word("method"), word("id")) {
        (Some(method), _) => method,
        (None, Some(id)) if text.contains("\"error\":") => format!("error {id}"),
        (None, Some(id)) => format!("answer {id}"),
        (None, None) => return "?".to_owned(),
    };
    for (key, before) in fields {
        if let Some(value) = word(key) {
            label.push_str(before);
            label.push_str(&value);
        }
    }
    label
}

/// The value of a key, where it is a number or a short string.
fn field<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    let start = text.find(&format!("\"{key}\":"))? + key.len() + 3;
    let rest = &text[start..];
    let end = rest.find([',', '}', ']'])?;
    (end <= 40 && !rest.starts_with(['{', '['])).then_some(&rest[..end])
}
