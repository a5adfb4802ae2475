//! Information from a subject's JSON schemas: its operations as verbs of a step, and the fields of
//! operations and setup tables.

use serde_json::Value as Json;

use crate::subject::DynSubject;

/// One operation.
pub(super) struct Verb {
    /// The name: `watch`.
    pub name: String,
    /// Its documentation, from the type's doc comment.
    pub doc: String,
    /// The schema of its fields.
    pub schema: Json,
    /// The root schema, for references.
    pub root: Json,
}

/// Returns the operations of a subject, in the order of its type.
pub(super) fn verbs(subject: &dyn DynSubject) -> Vec<Verb> {
    let root = subject.operations().to_value();
    let alone = [root.clone()];
    let variants = root
        .get("oneOf")
        .or_else(|| root.get("anyOf"))
        .and_then(Json::as_array)
        .map_or(&alone[..], Vec::as_slice);
    let verb = |variant: &Json| {
        let (name, schema) = variant.get("properties")?.as_object()?.iter().next()?;
        Some(Verb {
            name: name.clone(),
            doc: doc(variant),
            schema: resolved(schema, &root).clone(),
            root: root.clone(),
        })
    };
    variants.iter().filter_map(verb).collect()
}

/// A field of an operation or a setup table, for documentation.
pub(super) struct FieldDoc {
    /// The name.
    pub name: String,
    /// The form of its value, in words.
    pub written: String,
    /// Whether the field is required.
    pub required: bool,
    /// Its documentation, from the type's doc comment.
    pub doc: String,
}

/// Returns the fields of a schema.
pub(super) fn fields(schema: &Json, root: &Json) -> Vec<FieldDoc> {
    let schema = plain(schema, root);
    let required = |name: &str| {
        schema
            .get("required")
            .and_then(Json::as_array)
            .is_some_and(|names| names.iter().any(|n| n == name))
    };
    let properties = schema.get("properties").and_then(Json::as_object).into_iter().flatten();
    let field = |(name, of): (&String, &Json)| FieldDoc {
        name: name.clone(),
        written: written(of, root),
        required: required(name),
        doc: Some(doc(of)).filter(|doc| !doc.is_empty()).unwrap_or_else(|| doc(plain(of, root))),
    };
    properties.map(field).collect()
}

fn written(schema: &Json, root: &Json) -> String {
    let choices = alternatives(schema, root);
    let words: Vec<_> = choices
        .iter()
        .filter_map(|choice| enumerated(choice))
        .flatten()
        .map(|word| format!("`{word}`"))
        .collect();
    let words = (!words.is_empty()).then(|| format!("one of {}", words.join(", ")));
    let kinds = choices
        .iter()
        .filter(|choice| enumerated(choice).is_none())
        .map(|choice| written_alone(choice, root));
    kinds.chain(words).collect::<Vec<_>>().join(" or ")
}

/// Returns the form of a value, in words, if the schema allows only one type and any value of it.
fn written_alone(schema: &Json, root: &Json) -> String {
    let inner = || {
        fields(schema, root)
            .iter()
            .map(|field| format!("`{}`", field.name))
            .collect::<Vec<_>>()
            .join(", ")
    };
    match (types(schema).first(), schema.get("format").and_then(Json::as_str)) {
        (Some(&"string"), Some("duration")) => "a duration: `\"50ms\"`".into(),
        (Some(&"string"), Some("size")) => "a size: `\"64KiB\"`".into(),
        (Some(&"object"), _) => format!("a table of {}", inner()),
        (Some(of), _) => type_name(of).into(),
        (None, _) => "see the subject".into(),
    }
}

fn doc(schema: &Json) -> String {
    schema.get("description").and_then(Json::as_str).unwrap_or_default().replace('\n', " ")
}

/// Returns the types that a schema allows.
pub(super) fn types(schema: &Json) -> Vec<&str> {
    match schema.get("type") {
        Some(Json::String(one)) => vec![one],
        Some(Json::Array(several)) => several.iter().filter_map(Json::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Returns the word for a type in messages.
pub(super) fn type_name(of: &str) -> &'static str {
    match of {
        "string" => "a string",
        "integer" => "a whole number",
        "number" => "a number",
        "boolean" => "`true` or `false`",
        "array" => "a list",
        "object" => "a table",
        _ => "left out",
    }
}

/// Returns the schema, with its reference resolved.
pub(super) fn resolved<'s>(schema: &'s Json, root: &'s Json) -> &'s Json {
    let target = schema
        .get("$ref")
        .and_then(Json::as_str)
        .and_then(|path| root.pointer(path.trim_start_matches('#')));
    target.map_or(schema, |target| resolved(target, root))
}

/// Returns the schema, with its reference resolved and without the null alternative.
pub(super) fn plain<'s>(schema: &'s Json, root: &'s Json) -> &'s Json {
    let schema = resolved(schema, root);
    let choices = schema.get("anyOf").and_then(Json::as_array);
    let otherwise =
        choices.and_then(|choices| choices.iter().find(|choice| types(choice) != ["null"]));
    otherwise.map_or(schema, |otherwise| plain(otherwise, root))
}

/// Returns the alternatives of a schema, with references resolved. The null alternative is left
/// out, because a file cannot contain null.
pub(super) fn alternatives<'s>(schema: &'s Json, root: &'s Json) -> Vec<&'s Json> {
    let schema = resolved(schema, root);
    let choices = schema.get("anyOf").or_else(|| schema.get("oneOf")).and_then(Json::as_array);
    let Some(choices) = choices else { return vec![schema] };
    let written = choices.iter().filter(|choice| types(choice) != ["null"]);
    written.flat_map(|choice| alternatives(choice, root)).collect()
}

/// Returns the values of an enumeration, if the schema is one.
pub(super) fn enumerated(schema: &Json) -> Option<&[Json]> {
    let alone = schema.get("const").map(std::slice::from_ref);
    schema.get("enum").and_then(Json::as_array).map(Vec::as_slice).or(alone)
}

/// Returns a schema without references, so that it can be embedded in another schema. A recursive
/// type is cut off.
pub(super) fn inlined(schema: &Json, root: &Json) -> Json {
    fn inline(schema: &Json, root: &Json, depth: u32) -> Json {
        if depth == 0 {
            return Json::Bool(true);
        }
        match resolved(schema, root) {
            Json::Object(fields) => {
                let kept = fields
                    .iter()
                    .filter(|(name, _)| !["$defs", "$schema"].contains(&name.as_str()));
                Json::Object(
                    kept.map(|(name, value)| (name.clone(), inline(value, root, depth - 1)))
                        .collect(),
                )
            }
            Json::Array(items) => items.iter().map(|item| inline(item, root, depth - 1)).collect(),
            plain => plain.clone(),
        }
    }
    inline(schema, root, 24)
}
