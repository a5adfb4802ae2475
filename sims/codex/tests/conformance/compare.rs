//! The differences between two results, field by field.

use std::collections::BTreeSet;

use serde_json::Value;

/// A field with different values.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The path of the field, with dots.
    pub field: String,
    pub codex: Option<Value>,
    pub ours: Option<Value>,
}

/// Compares two values. Where only one is an object, or an error, they are one difference.
pub fn compare(codex: &Value, ours: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    below("", Some(codex), Some(ours), &mut found);
    found
}

fn below(path: &str, codex: Option<&Value>, ours: Option<&Value>, found: &mut Vec<Difference>) {
    match (codex, ours) {
        (Some(Value::Object(a)), Some(Value::Object(b)))
            if a.contains_key("error") == b.contains_key("error") =>
        {
            let names: BTreeSet<_> = a.keys().chain(b.keys()).collect();
            for name in names {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                below(&path, a.get(name), b.get(name), found);
            }
        }
        _ if codex == ours => {}
        // Each server words its errors itself; only one of them may name the field.
        (None, _) | (_, None) if path.ends_with(".about") => {}
        _ => found.push(Difference {
            field: path.to_owned(),
            codex: codex.cloned(),
            ours: ours.cloned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_differ_by_their_path() {
        let codex =
            json!({"1": {"result": {"a": 1, "b": null}}, "2": {"error": {"code": 1}}, "3": [1]});
        let ours = json!({"1": {"result": {"a": 2}}, "2": {"result": {}}, "3": [1]});
        let found = compare(&codex, &ours);
        let fields: Vec<_> = found.iter().map(|difference| &*difference.field).collect();
        assert_eq!(fields, ["1.result.a", "1.result.b", "2"]);
        assert_eq!((found[1].codex.clone(), found[1].ours.clone()), (Some(Value::Null), None));
        assert_eq!(compare(&codex, &codex), []);
    }
}
