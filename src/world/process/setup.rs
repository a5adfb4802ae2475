//! `[process.NAME]`: a script as users write it in a scenario file.
//!
//! ```toml
//! [process.p1]
//! print = { lines = 200, every = "50ms" }
//! exit = 7
//! ```
//!
//! A subject supports the table with one line in its [`setup`](crate::subject::Subject::setup):
//! `(process::TABLE, process::schema())`. If a plan has the table, every server host can launch the
//! processes that it names. In a swarm every value may be a choice, as in any other table.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema, schema_for};
use serde::{Deserialize, Serialize};

use super::script::{LateOutput, Print, ProcessEnd, Script, Stdin};
use crate::process::KILL;
use crate::schedule::Plan;
use crate::schedule::units::{Size, WrittenDuration};

/// The key of the table: `process`, as in `[process.p1]`.
pub const TABLE: &str = "process";

/// Returns the JSON schema of one entry.
pub fn schema() -> Schema {
    schema_for!(Setup)
}

/// One entry: the behavior of the process with this name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(example = prints(20, 50, 0), example = prints(200, 5, 7), example = prints(3, 10_000, 0), example = echoes())]
pub struct Setup {
    /// How long its launch takes. The process begins after that. By default no time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub launch_takes: Option<WrittenDuration>,
    /// The output to its standard output. By default none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub print: Option<PrintedLines>,
    /// The output to its standard error, printed at the same time. By default none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr: Option<PrintedLines>,
    /// Whether it first prints the command that started it to its standard output: arguments,
    /// directory, terminal, variables and permissions, each in a line.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub shows_command: bool,
    /// How it handles its standard input.
    pub stdin: Input,
    /// The pause before each read of its standard input, if it reads it. A read takes at most 4 KiB.
    /// By default none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reads_every: Option<WrittenDuration>,
    /// The code with which it exits after it has printed everything; `"signal"` if it dies of
    /// signal 9; `"never"` if it runs until a signal ends it.
    pub exit: Ends,
    /// Whether a child of the process holds its pipes after its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late_output: Option<Late>,
    /// The signals that it ignores. Signal 9 cannot be ignored.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ignores: Vec<u8>,
    /// Whether the first wait for the process fails when the process ends, so that the server cannot
    /// know how it ended.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub wait_fails: bool,
}

/// Lines that a process prints. Each line contains its number and its pipe: `12 p1/stdout`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PrintedLines {
    /// The number of lines.
    pub lines: u64,
    /// The pause before each line. By default none.
    #[serde(default)]
    pub every: WrittenDuration,
    /// The length of each line in bytes, including its line end. By default, as long as its text
    /// needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Size>,
    /// Each n-th line is blank: it consists of its line end. By default none is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blank_every: Option<NonZeroU64>,
    /// Whether the last line has no line end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub open_end: bool,
    /// Whether a line with a length is filled with characters of three bytes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wide: bool,
}

/// How a process handles its standard input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Input {
    /// It reads its input.
    #[default]
    Read,
    /// It reads its input and prints it, and does not end before its input ends.
    Echo,
    /// It never reads: the pipe fills up, and its writer waits.
    Ignore,
}

/// A child of the process holds its pipes after its end, and then prints a last line to its
/// standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Late {
    /// How long after the end of the process.
    pub after: WrittenDuration,
    /// Whether it has left the process group, so that no signal for the process reaches it. If a signal
    /// ends the process, the child only holds the pipes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub detached: bool,
}

/// How a process ends: a code (`7`), `"signal"` or `"never"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends(pub ProcessEnd);

/// The words that can be written instead of a code.
const WORDS: [(&str, ProcessEnd); 2] =
    [("signal", ProcessEnd::Signal(KILL)), ("never", ProcessEnd::Never)];

impl Serialize for Ends {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match (self.0, WORDS.iter().find(|(_, end)| *end == self.0)) {
            (_, Some((word, _))) => to.serialize_str(word),
            (ProcessEnd::Code(code), None) => to.serialize_i32(code),
            (end, None) => {
                Err(serde::ser::Error::custom(format!("{end:?} cannot be written in a file")))
            }
        }
    }
}

impl<'de> Deserialize<'de> for Ends {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Written;

        impl serde::de::Visitor<'_> for Written {
            type Value = Ends;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a code from 0 to 255, `signal` or `never`")
            }

            fn visit_i64<E: serde::de::Error>(self, code: i64) -> Result<Ends, E> {
                let wrong = |_| E::invalid_value(serde::de::Unexpected::Signed(code), &self);
                u8::try_from(code).map(|code| Ends(ProcessEnd::Code(code.into()))).map_err(wrong)
            }

            fn visit_u64<E: serde::de::Error>(self, code: u64) -> Result<Ends, E> {
                self.visit_i64(i64::try_from(code).unwrap_or(i64::MAX))
            }

            fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<Ends, E> {
                let known = WORDS.iter().find(|(known, _)| *known == word);
                known
                    .map(|(_, end)| Ends(*end))
                    .ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(word), &self))
            }
        }

        from.deserialize_any(Written)
    }
}

impl JsonSchema for Ends {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Ends".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [
                { "type": "integer", "minimum": 0, "maximum": 255 },
                { "type": "string", "enum": WORDS.map(|(word, _)| word) },
            ],
        })
    }
}

impl From<PrintedLines> for Print {
    fn from(printed: PrintedLines) -> Self {
        let PrintedLines { lines, every, bytes, blank_every, open_end, wide } = printed;
        let bytes = bytes.map(|bytes| bytes.0);
        Self { lines, every: every.0, bytes, blank_every, open_end, wide }
    }
}

impl From<&Setup> for Script {
    fn from(setup: &Setup) -> Self {
        let time = |written: Option<WrittenDuration>| written.map_or(Duration::ZERO, |it| it.0);
        Self {
            launch_takes: time(setup.launch_takes),
            stdout: setup.print.map(Print::from).unwrap_or_default(),
            stderr: setup.stderr.map(Print::from).unwrap_or_default(),
            stdin: match setup.stdin {
                Input::Read => Stdin::Reads,
                Input::Echo => Stdin::Echoes,
                Input::Ignore => Stdin::Ignores,
            },
            reads_every: time(setup.reads_every),
            end: setup.exit.0,
            shows_command: setup.shows_command,
            late_output: setup
                .late_output
                .map(|late| LateOutput { after: late.after.0, is_detached: late.detached }),
            ignores: setup.ignores.iter().map(|number| i32::from(*number)).collect(),
            wait_fails: setup.wait_fails,
        }
    }
}

/// Returns the scripts of a plan, by name, or `None` if the plan has no table of processes.
///
/// # Errors
/// If an entry is not a valid process. The message is one sentence.
pub fn scripts(plan: &Plan) -> Result<Option<BTreeMap<String, Script>>, String> {
    let Some(table) = plan.setup.get(TABLE) else { return Ok(None) };
    let entries =
        table.as_object().ok_or_else(|| format!("`{TABLE}` is not a table of processes"))?;
    let script = |(name, entry): (&String, &serde_json::Value)| {
        let setup = serde_path_to_error::deserialize::<_, Setup>(entry);
        let setup = setup.map_err(|error| {
            format!("`{TABLE}.{name}`, at `{}`: {}", error.path(), error.inner())
        })?;
        Ok((name.clone(), Script::from(&setup)))
    };
    entries.iter().map(script).collect::<Result<_, _>>().map(Some)
}

fn prints(lines: u64, every_ms: u64, code: i32) -> Setup {
    let print = PrintedLines {
        lines,
        every: WrittenDuration(Duration::from_millis(every_ms)),
        bytes: None,
        blank_every: None,
        open_end: false,
        wide: false,
    };
    Setup { print: Some(print), exit: Ends(ProcessEnd::Code(code)), ..Setup::default() }
}

fn echoes() -> Setup {
    Setup { stdin: Input::Echo, ignores: vec![15], ..Setup::default() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(entry: serde_json::Value) -> Result<Script, String> {
        let mut plan = Plan::new("any");
        plan.setup.insert(TABLE.into(), json!({ "p1": entry }));
        scripts(&plan).map(|scripts| scripts.unwrap().remove("p1").unwrap())
    }

    #[test]
    fn an_entry_converts_to_a_script() {
        let script = read(json!({
            "launch-takes": "2s",
            "print": { "lines": 200, "every": "50ms", "bytes": "64KiB", "wide": true },
            "stderr": { "lines": 3, "blank-every": 2 },
            "stdin": "echo",
            "reads-every": "300ms",
            "shows-command": true,
            "exit": 7,
            "late-output": { "after": "4s", "detached": true },
            "ignores": [1, 15],
            "wait-fails": true,
        }));
        let wanted = Script {
            launch_takes: Duration::from_secs(2),
            stdout: Print {
                lines: 200,
                every: Duration::from_millis(50),
                bytes: Some(65_536),
                blank_every: None,
                open_end: false,
                wide: true,
            },
            stderr: Print { lines: 3, blank_every: NonZeroU64::new(2), ..Print::default() },
            stdin: Stdin::Echoes,
            reads_every: Duration::from_millis(300),
            end: ProcessEnd::Code(7),
            shows_command: true,
            late_output: Some(LateOutput { after: Duration::from_secs(4), is_detached: true }),
            ignores: vec![1, 15],
            wait_fails: true,
        };
        assert_eq!(script, Ok(wanted));
        assert_eq!(
            read(json!({})),
            Ok(Script::default()),
            "what says nothing prints nothing and exits with 0"
        );
    }

    #[test]
    fn an_end_is_a_code_or_a_word() {
        for (written, end) in [
            (json!(0), ProcessEnd::Code(0)),
            (json!(255), ProcessEnd::Code(255)),
            (json!("signal"), ProcessEnd::Signal(9)),
            (json!("never"), ProcessEnd::Never),
        ] {
            let entry = json!({ "exit": written });
            assert_eq!(read(entry.clone()).unwrap().end, end);
            let setup: Setup = serde_json::from_value(entry).unwrap();
            assert_eq!(
                serde_json::to_value(setup).unwrap()["exit"],
                written,
                "it is written as it is read"
            );
        }
    }

    #[test]
    fn an_error_names_its_place_and_the_valid_values() {
        let wrong = |entry| read(entry).unwrap_err();
        assert_eq!(
            wrong(json!({ "exit": 256 })),
            "`process.p1`, at `exit`: invalid value: integer `256`, expected a code from 0 to 255, `signal` or `never`"
        );
        assert_eq!(
            wrong(json!({ "print": { "lines": 1, "every": "50" } })),
            "`process.p1`, at `print.every`: `50` is not a duration; write a whole number and a unit, like `25s`, `50ms`, `3m` or `1h`"
        );
        assert!(
            wrong(json!({ "print": { "lines": 1, "blank-every": 0 } }))
                .contains("at `print.blank-every`: invalid value: integer `0`")
        );
        assert!(
            wrong(json!({ "prints": {} }))
                .starts_with("`process.p1`, at `prints`: unknown field `prints`")
        );
    }
}
