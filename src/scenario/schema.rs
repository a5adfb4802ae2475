//! The JSON schema of scenario files, for editors. It is generated from the keys, the fault table
//! and the subjects' own schemas.
//!
//! It accepts the names of all subjects in every file. It is for completion and
//! quick checks; the parser makes the final decision.

use std::sync::Arc;

use serde_json::{Map, Value as Json, json};

use super::keys::{self, Form, Key, Section};
use super::verbs::{inlined, verbs};
use crate::schedule::faults::WORDS;
use crate::schedule::words::{FaultWord, FieldType, Need};
use crate::schedule::{FaultKind, LimitValue};
use crate::subject::DynSubject;

/// Returns the schema of scenario files for these subjects.
pub fn schema(subjects: &[Arc<dyn DynSubject>]) -> Json {
    let mut file = Drawing { subjects }.section(&keys::FILE);
    file["$schema"] = "http://json-schema.org/draft-07/schema#".into();
    file["title"] = "A reknit scenario".into();
    file
}

struct Drawing<'s> {
    subjects: &'s [Arc<dyn DynSubject>],
}

impl Drawing<'_> {
    /// Returns the schema of a table of this section.
    fn section(&self, section: &Section) -> Json {
        let mut properties: Map<_, _> =
            section.keys.iter().map(|key| (key.name.to_owned(), self.key(key))).collect();
        let more = self.besides(section.title);
        let open = more.is_none();
        properties.extend(more.unwrap_or_default());
        let required: Vec<_> =
            section.keys.iter().filter(|key| key.without.is_none()).map(|key| key.name).collect();
        let mut schema =
            json!({ "type": "object", "properties": properties, "additionalProperties": open });
        if !required.is_empty() {
            schema["required"] = json!(required);
        }
        schema
    }

    /// Returns the additional keys of a section that its key table does not list; `None` if any key
    /// is allowed.
    fn besides(&self, title: &str) -> Option<Map<String, Json>> {
        let setup = |of: &dyn Fn(&Json) -> Json| {
            let tables = self.subjects.iter().flat_map(|subject| subject.setup());
            tables.map(|(key, schema)| (key.to_owned(), of(schema.as_value()))).collect()
        };
        let limits = |of: &dyn Fn(Json) -> Json| {
            let limits = self.subjects.iter().flat_map(|subject| subject.limits());
            limits
                .map(|limit| {
                    (limit.name.to_owned(), of(described(value(limit.default), limit.doc)))
                })
                .collect()
        };
        Some(match title {
            title if title == keys::FILE.title => setup(
                &|schema| json!({ "type": "object", "additionalProperties": inlined(schema, schema) }),
            ),
            title if title == keys::STEP.title => self.verbs(),
            title if title == keys::LIMITS.title => limits(&|value| value),
            title if title == keys::SWARM.title => setup(&|_| json!({ "type": "object" })),
            title if title == keys::SWARM_HOSTS.title => {
                let tables = self.subjects.iter().flat_map(|subject| subject.setup());
                tables.map(|(key, _)| (keys::several(key), form(Form::Numbers(0)))).collect()
            }
            title if title == keys::SWARM_LIMITS.title => limits(&|_| json!(true)),
            title if title == keys::SWARM_OPERATIONS.title => {
                let verbs = self.subjects.iter().flat_map(|subject| verbs(&**subject));
                verbs.map(|verb| (verb.name, json!({ "type": ["integer", "object"] }))).collect()
            }
            title if title == keys::SWARM_AT.title => {
                let milestones = self
                    .subjects
                    .iter()
                    .flat_map(|subject| subject.milestones().iter().map(|doc| doc.name));
                let points = self
                    .subjects
                    .iter()
                    .flat_map(|subject| subject.points().iter().map(|doc| doc.name));
                milestones
                    .chain(points)
                    .map(|name| (name.to_owned(), form(Form::Number(0))))
                    .collect()
            }
            title if title == keys::SWARM_WEIGHTS.title => FaultKind::drawable()
                .map(|kind| (kind.to_string(), json!({ "type": ["integer", "object"] })))
                .collect(),
            title if title == keys::AFTER.title => return None,
            _ => Map::new(),
        })
    }

    /// Returns the schemas of fault words and operations.
    fn verbs(&self) -> Map<String, Json> {
        let mut all: Map<_, _> =
            WORDS.iter().map(|word| (word.name.to_owned(), self.word(word))).collect();
        for verb in self.subjects.iter().flat_map(|subject| verbs(&**subject)) {
            let mut schema = described(inlined(&verb.schema, &verb.root), &verb.doc);
            let client = described(
                json!({ "type": "string" }),
                "The host whose user requests the operation. The default is `client`.",
            );
            if let Some(properties) = schema.get_mut("properties").and_then(Json::as_object_mut) {
                properties.insert("client".into(), client);
            } else {
                schema["properties"] = json!({ "client": client });
            }
            all.insert(verb.name, schema);
        }
        all
    }

    fn word(&self, word: &FaultWord) -> Json {
        let properties: Map<_, _> = word
            .fields
            .iter()
            .map(|field| (field.name.to_owned(), described(self.kind(field.kind), field.doc)))
            .collect();
        let required: Vec<_> = word
            .fields
            .iter()
            .filter(|field| field.need == Need::Always)
            .map(|field| field.name)
            .collect();
        let schema = json!({ "type": "object", "properties": properties, "additionalProperties": false, "required": required });
        described(schema, word.does)
    }

    fn kind(&self, kind: FieldType) -> Json {
        let text = json!({ "type": "string" });
        match kind {
            FieldType::Host | FieldType::Conn | FieldType::Jump | FieldType::Size => text,
            FieldType::Hosts => {
                json!({ "type": "array", "items": text, "minItems": 2, "maxItems": 2 })
            }
            FieldType::Duration => form(Form::Duration),
            FieldType::Count => form(Form::Number(0)),
            FieldType::Learns => json!({ "type": "object", "additionalProperties": text }),
            FieldType::Name(list) => json!({ "enum": list.names }),
            FieldType::Trigger => self.mark(),
        }
    }

    fn key(&self, key: &Key) -> Json {
        let schema = match key.form {
            Form::Mark => self.mark(),
            Form::Marks => json!({ "type": "array", "items": self.mark() }),
            Form::Table(title) | Form::Tables(title) => {
                let section = keys::SECTIONS
                    .iter()
                    .find(|section| section.title == title)
                    .expect("every table has its section");
                let inner = self.section(section);
                match key.form {
                    Form::Tables(_) => json!({ "type": "array", "items": inner }),
                    _ if section.is_named() => {
                        json!({ "type": "object", "additionalProperties": inner })
                    }
                    _ => inner,
                }
            }
            form => self::form(form),
        };
        described(schema, key.doc)
    }

    /// Returns the schema of a milestone's name or a trigger table.
    fn mark(&self) -> Json {
        let milestones: Vec<_> = self
            .subjects
            .iter()
            .flat_map(|subject| subject.milestones())
            .map(|milestone| milestone.name)
            .collect();
        let name = if milestones.is_empty() {
            json!({ "type": "string" })
        } else {
            json!({ "enum": milestones })
        };
        json!({ "anyOf": [name, self.section(&keys::AFTER)] })
    }
}

fn described(mut schema: Json, doc: &str) -> Json {
    if let (Some(schema), false) = (schema.as_object_mut(), doc.is_empty()) {
        schema.insert("description".into(), doc.into());
    }
    schema
}

/// Returns the schema of a limit's value, from the kind of its default.
fn value(default: LimitValue) -> Json {
    let mut schema = match default {
        LimitValue::Duration(_) => form(Form::Duration),
        LimitValue::Bytes(_) => json!({ "type": "string", "pattern": "^[0-9]+(B|KiB|MiB|GiB)$" }),
        LimitValue::Count(_) => form(Form::Number(0)),
        LimitValue::Flag(_) => json!({ "type": "boolean" }),
    };
    schema["default"] = match default {
        LimitValue::Count(n) => n.into(),
        LimitValue::Flag(flag) => flag.into(),
        text => text.to_string().into(),
    };
    schema
}

/// Returns the schema of a form without a table.
fn form(form: Form) -> Json {
    let one = "[0-9]+(ms|s|m|h)";
    let texts = |of: Json| json!({ "type": "array", "items": of });
    match form {
        Form::Text => json!({ "type": "string" }),
        Form::Texts => texts(json!({ "type": "string" })),
        Form::Number(least) => json!({ "type": "integer", "minimum": least }),
        Form::Duration => json!({ "type": "string", "pattern": format!("^{one}$") }),
        Form::Durations => json!({ "type": "string", "pattern": format!(r"^{one}(\.\.{one})?$") }),
        Form::True => json!({ "const": true }),
        Form::OneOf(names) => json!({ "enum": names }),
        Form::CodeOr(words) => {
            json!({ "anyOf": [{ "type": "integer", "minimum": 0, "maximum": 255 }, { "enum": words }] })
        }
        Form::SomeOf(names) => texts(json!({ "enum": names })),
        Form::Shares => {
            json!({ "type": "object", "additionalProperties": self::form(Form::Share) })
        }
        Form::Share => json!({ "type": "number", "minimum": 0, "maximum": 1 }),
        Form::Weight => json!({ "type": "number", "minimum": 0 }),
        Form::Numbers(_) => json!({ "type": ["integer", "string", "array"] }),
        Form::Times | Form::Ranges => json!({ "type": ["string", "array"] }),
        Form::Mark | Form::Marks | Form::Table(_) | Form::Tables(_) => json!(true),
    }
}
