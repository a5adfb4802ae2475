//! The lines of a case. One line is one step:
//!
//! ```text
//! process/start cwd=7 -env            a request: the usual parameters of the method, but these
//! process/start sandbox.cwd=7         the same with the usual sandbox, but this part of it
//! process/start {"processId":"p"}     a request with exactly these parameters
//! & process/read waitMs=5000          a request; the script does not wait for its answer
//! retry initialize {…}                a request, repeated until it is not refused as attached
//! ! {"id":7}                          a text frame
//! binary {"id":7}                     a binary frame
//! note initialized {}                 a notification
//! answer 7                            wait for the answer with this id (JSON)
//! until closed p                      wait for process p: `output`, `exited` or `closed`
//! until body r                        wait for the last piece of the HTTP body r
//! until missing 1                     wait until a file of the watch 1 is not missing any more
//! close                               send a Close frame
//! drop                                drop the connection
//! b: …                                the same on a second connection, which opens at its first use
//! ```
//!
//! `$DIR` is the folder of the case, `$WEB` the address of an HTTP server, `$SESSION` the session of
//! the first connection. `<<TEXT*N>>` repeats a text.

use serde_json::{Map, Value};

/// One step, on one connection.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The name of the connection.
    pub connection: char,
    pub action: Action,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Sends a request with the next id.
    Request {
        method: String,
        params: Params,
        waits: Waits,
    },
    Text(String),
    Binary(String),
    Answer(Value),
    Until {
        event: Event,
        of: String,
    },
    Close,
    Drop,
}

/// The parameters of a request, as JSON without placeholders filled in.
#[derive(Clone, Debug, PartialEq)]
pub enum Params {
    Exactly(String),
    /// Changes of the usual parameters. A name with dots is a path; `None` removes it.
    Usual(Vec<(String, Option<Value>)>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Waits {
    No,
    ForTheAnswer,
    /// While the session is attached to a connection that the server has not given up yet.
    UntilDetached,
}

/// The event that a step waits for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    Output,
    Exited,
    Closed,
    Body,
    Missing,
}

/// Parses a script.
///
/// # Errors
/// The line that is not a step.
pub fn parse(script: &str) -> Result<Vec<Step>, String> {
    let lines = script.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.map(|line| step(line).ok_or_else(|| format!("not a step: {line}"))).collect()
}

fn step(line: &str) -> Option<Step> {
    let (connection, line) = match line.strip_prefix("b: ") {
        Some(rest) => ('b', rest),
        None => ('a', line),
    };
    let line = repeated(line)?;
    let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
    let action = match word {
        "!" => Action::Text(rest.to_owned()),
        "binary" => Action::Binary(rest.to_owned()),
        "note" => {
            let (method, params) = rest.split_once(' ').unwrap_or((rest, ""));
            let params =
                if params.is_empty() { String::new() } else { format!(",\"params\":{params}") };
            Action::Text(format!("{{\"method\":\"{method}\"{params}}}"))
        }
        "answer" => Action::Answer(serde_json::from_str(rest).ok()?),
        "until" => {
            let (event, of) = rest.split_once(' ').unwrap_or((rest, ""));
            let event = match event {
                "output" => Event::Output,
                "exited" => Event::Exited,
                "closed" => Event::Closed,
                "body" => Event::Body,
                "missing" => Event::Missing,
                _ => return None,
            };
            Action::Until { event, of: of.to_owned() }
        }
        "close" => Action::Close,
        "drop" => Action::Drop,
        "&" => request(rest, Waits::No)?,
        "retry" => request(rest, Waits::UntilDetached)?,
        _ => request(&line, Waits::ForTheAnswer)?,
    };
    Some(Step { connection, action })
}

fn request(line: &str, waits: Waits) -> Option<Action> {
    let (method, rest) = line.split_once(' ').unwrap_or((line, ""));
    let rest = rest.trim();
    let params = match rest.chars().next() {
        Some('{' | '[' | '"' | '0'..='9') => Params::Exactly(rest.to_owned()),
        _ if rest == "null" => Params::Exactly(rest.to_owned()),
        _ => Params::Usual(changes(rest)?),
    };
    Some(Action::Request { method: method.to_owned(), params, waits })
}

/// Parses `name=JSON` and `-name`, repeated.
fn changes(mut rest: &str) -> Option<Vec<(String, Option<Value>)>> {
    let mut changes = Vec::new();
    while !rest.is_empty() {
        if let Some(removed) = rest.strip_prefix('-') {
            let (name, tail) = removed.split_once(' ').unwrap_or((removed, ""));
            changes.push((name.to_owned(), None));
            rest = tail.trim_start();
            continue;
        }
        let (name, tail) = rest.split_once('=')?;
        let mut values = serde_json::Deserializer::from_str(tail).into_iter();
        changes.push((name.to_owned(), Some(values.next()?.ok()?)));
        rest = tail[values.byte_offset()..].trim_start();
    }
    Some(changes)
}

/// Expands `<<TEXT*N>>`.
fn repeated(line: &str) -> Option<String> {
    let Some((before, rest)) = line.split_once("<<") else { return Some(line.to_owned()) };
    let (inside, after) = rest.split_once(">>")?;
    let (text, times) = inside.rsplit_once('*')?;
    Some(format!("{before}{}{}", text.repeat(times.parse().ok()?), repeated(after)?))
}

/// Applies changes to the usual parameters of a method.
pub fn changed(usual: Value, changes: &[(String, Option<Value>)]) -> Value {
    let mut params = usual;
    for (path, value) in changes {
        let mut at = &mut params;
        let mut names: Vec<_> = path.split('.').collect();
        let last = names.pop().expect("a split has a part");
        if names.first() == Some(&"sandbox") && at["sandbox"].is_null() {
            at["sandbox"] = super::usual::sandbox();
        }
        for name in names {
            at = &mut at[name]; // creates objects in the place of null
        }
        if at.is_null() {
            *at = Value::Object(Map::new());
        }
        let object = at.as_object_mut().expect("changes are changes of objects");
        match value {
            Some(value) => drop(object.insert(last.to_owned(), value.clone())),
            None => drop(object.shift_remove(last)),
        }
    }
    params
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_are_steps() {
        let steps =
            parse("process/start cwd=7 env.A=\"x y\" -tty\nb: & a/b {\"c\":1}\n! [<<[*3>>\n")
                .unwrap();
        let changes = vec![
            ("cwd".to_owned(), Some(json!(7))),
            ("env.A".to_owned(), Some(json!("x y"))),
            ("tty".to_owned(), None),
        ];
        assert_eq!(
            steps[0].action,
            Action::Request {
                method: "process/start".into(),
                params: Params::Usual(changes.clone()),
                waits: Waits::ForTheAnswer,
            }
        );
        assert_eq!(
            (steps[1].connection, steps[2].action.clone()),
            ('b', Action::Text("[[[[".into()))
        );
        let usual = json!({"cwd": "/", "tty": false});
        assert_eq!(changed(usual, &changes), json!({"cwd": 7, "env": {"A": "x y"}}));
        assert!(parse("process/start cwd=").is_err());
        assert!(parse("until never p").is_err());
    }
}
