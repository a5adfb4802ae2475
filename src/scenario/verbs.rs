//! The operations of a subject as verbs of a step, read from the JSON schema of its operation type.

use serde_json::Value as Json;

use crate::subject::Erased;

/// One operation.
pub(super) struct Verb {
    /// Its name: `watch`.
    pub name: String,
    /// What it does, as the type's own docs say.
    pub doc: String,
    /// The schema of its fields.
    pub schema: Json,
    /// Where references in it lead.
    pub root: Json,
}

/// The operations of a subject, in the order of its type.
pub(super) fn verbs(subject: &dyn Erased) -> Vec<Verb> {
    let root = subject.operations().to_value();
    let alone = [root.clone()];
    let variants = root.get("oneOf").or_else(|| root.get("anyOf")).and_then(Json::as_array).map_or(&alone[..], Vec::as_slice);
    let verb = |variant: &Json| {
        let (name, schema) = variant.get("properties")?.as_object()?.iter().next()?;
        let doc = variant.get("description").and_then(Json::as_str).unwrap_or_default().replace('\n', " ");
        Some(Verb { name: name.clone(), doc, schema: resolved(schema, &root).clone(), root: root.clone() })
    };
    variants.iter().filter_map(verb).collect()
}

/// A schema, or what it refers to.
pub(super) fn resolved<'s>(schema: &'s Json, root: &'s Json) -> &'s Json {
    let target = schema.get("$ref").and_then(Json::as_str).and_then(|path| root.pointer(path.trim_start_matches('#')));
    target.map_or(schema, |target| resolved(target, root))
}
