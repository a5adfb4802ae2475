//! Labels of JSON-RPC messages: the method or the id of the answered request, and the fields that
//! identify its target.

/// A field to show in a label, and the text that precedes its value.
pub(super) type LabelField = (&'static str, &'static str);

/// Builds the label of a message from its first bytes.
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

/// The value of a key, if it is a number or a short string.
fn field<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    let start = text.find(&format!("\"{key}\":"))? + key.len() + 3;
    let rest = &text[start..];
    let end = rest.find([',', '}', ']'])?;
    (end <= 40 && !rest.starts_with(['{', '['])).then_some(&rest[..end])
}
