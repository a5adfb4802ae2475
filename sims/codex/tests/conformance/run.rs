//! Runs one case against one server.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use codex_peer::raw::{Raw, Received};
use codex_peer::servers::Server;
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::{Instant, sleep};

use super::case::Case;
use super::heard::Heard;
use super::script::{Action, Event, Params, Step, Waits, changed, parse};
use super::usual;

/// The id of the request whose answer ends a case.
const LAST: &str = "last";

/// The server that a case runs against.
pub struct Place<'p> {
    pub server: &'p Server,
    /// The folder of the case. It does not exist yet.
    pub folder: PathBuf,
    /// The folder that the commands of the family prepared.
    pub usual: Option<PathBuf>,
    /// The address of the HTTP server.
    pub web: String,
}

/// One connection of a case.
struct Connection {
    raw: Raw,
    heard: Heard,
    next_id: u64,
}

/// A running case.
struct Run<'p> {
    place: &'p Place<'p>,
    patience: Duration,
    connections: BTreeMap<char, Connection>,
    /// The session of the first connection.
    session: String,
}

/// Runs a case; returns everything that the server sent, in a form that does not depend on chance.
pub async fn run(case: &Case, place: &Place<'_>) -> Value {
    let steps = parse(&case.script).unwrap_or_else(|error| panic!("{}: {error}", case.name));
    match (&case.before, &place.usual) {
        (None, Some(usual)) => copy(usual, &place.folder).await,
        (commands, _) => prepare(&place.folder, commands.as_deref().unwrap_or_default()).await,
    }
    let patience = Duration::from_millis(case.patience_ms);
    let mut run = Run { place, patience, connections: BTreeMap::new(), session: String::new() };
    if case.handshake {
        for line in ["initialize", "note initialized {}"] {
            run.step(parse(line).expect("a step").remove(0)).await;
        }
        let first = run.connections.get_mut(&'a').expect("it was used");
        first.heard = Heard::default();
    }
    for step in steps {
        run.step(step).await;
    }
    run.end().await;
    let mut whole = serde_json::Map::new();
    for (name, connection) in &run.connections {
        whole.insert(name.to_string(), connection.heard.normal());
    }
    if !case.after.is_empty() {
        whole.insert("after".into(), shell(&place.folder, &case.after).await.into());
    }
    let text = |text: &str| run.without_chance(text);
    rewritten(Value::Object(whole), &text)
}

/// Creates a folder, and runs shell commands in it.
pub async fn prepare(folder: &Path, commands: &str) {
    std::fs::create_dir_all(folder).unwrap();
    shell(folder, commands).await;
}

/// Copies a folder, with pipes and links in it.
async fn copy(folder: &Path, to: &Path) {
    let copied = Command::new("/bin/cp").arg("-a").args([folder, to]).status().await;
    assert!(copied.expect("a program").success());
}

/// Runs shell commands in the folder of a case; returns what they print.
async fn shell(folder: &Path, commands: &str) -> String {
    if commands.is_empty() {
        return String::new();
    }
    let mut shell = Command::new("/bin/sh");
    let done = shell.args(["-c", commands]).current_dir(folder).output().await.expect("a shell");
    let errors = String::from_utf8_lossy(&done.stderr).into_owned();
    format!("{}{errors}", String::from_utf8_lossy(&done.stdout))
}

impl Run<'_> {
    async fn step(&mut self, step: Step) {
        let Step { connection: name, action } = step;
        if !self.connections.contains_key(&name) {
            let raw = Raw::connect(self.place.server.address()).await;
            self.connections.insert(name, Connection { raw, heard: Heard::default(), next_id: 1 });
        }
        let patience = self.patience;
        match action {
            Action::Request { method, params, waits } => {
                self.request(name, &method, params, waits).await
            }
            Action::Text(text) => {
                let text = self.filled(&text);
                self.connection(name).raw.send(text).await;
            }
            Action::Binary(text) => {
                let text = self.filled(&text);
                self.connection(name).raw.send_binary(text).await;
            }
            Action::Answer(id) => {
                let id = id.to_string();
                self.connection(name)
                    .until(patience, |heard| heard.answers.contains_key(&id))
                    .await;
            }
            Action::Until { event, of } => {
                let holds = |heard: &Heard| heard.happened(event, &of) || heard.is_refused(&of);
                self.connection(name).until(patience, holds).await;
                if event == Event::Closed {
                    self.connection(name).heard.compares(&of);
                }
            }
            Action::Close => self.connection(name).raw.close().await,
            Action::Drop => drop(self.connections.remove(&name)),
        }
    }

    fn connection(&mut self, name: char) -> &mut Connection {
        self.connections.get_mut(&name).expect("a step opened it")
    }

    async fn request(&mut self, name: char, method: &str, params: Params, waits: Waits) {
        let params = match params {
            Params::Exactly(text) => text,
            Params::Usual(changes) => changed(usual::params(method), &changes).to_string(),
        };
        let (params, patience) = (self.filled(&params), self.patience);
        let deadline = Instant::now() + patience;
        let connection = self.connection(name);
        let id = connection.next_id;
        connection.next_id += 1;
        let key = id.to_string();
        if method == "process/start" {
            connection.heard.starts(&params, &key);
        }
        loop {
            let text = format!("{{\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}");
            connection.raw.send(text).await;
            connection.heard.asked.insert(key.clone());
            if waits == Waits::No {
                return;
            }
            connection.until(patience, |heard| heard.answers.contains_key(&key)).await;
            let answer = connection.heard.answers.get(&key).cloned().unwrap_or_default();
            let attached = answer.first().is_some_and(|answer| answer["error"]["code"] == -32010);
            if waits == Waits::UntilDetached && attached && Instant::now() < deadline {
                connection.heard.answers.remove(&key);
                sleep(Duration::from_millis(20)).await;
                continue;
            }
            if let Some(session) =
                answer.first().and_then(|answer| answer["result"]["sessionId"].as_str())
                && name == 'a'
            {
                self.session = session.to_owned();
            }
            return;
        }
    }

    /// Waits for all answers, and for the answer to one last request: the server has then handled
    /// everything before it.
    async fn end(&mut self) {
        let patience = self.patience;
        for connection in self.connections.values_mut() {
            connection.until(patience, |heard| heard.unanswered().next().is_none()).await;
            let last = json!({"id": LAST, "method": "environment/status", "params": {}});
            connection.raw.send(last.to_string()).await;
            let key = json!(LAST).to_string();
            if connection.until(patience, |heard| heard.answers.contains_key(&key)).await {
                connection.heard.answers.remove(&key);
            } else {
                connection.heard.stuck = true;
            }
        }
    }

    /// Fills in the placeholders of a text.
    fn filled(&self, text: &str) -> String {
        let text = text.replace("$DIR", &self.place.folder.display().to_string());
        text.replace("$WEB", &self.place.web).replace("$SESSION", &self.session)
    }

    /// Replaces everything that differs between two runs of the same server by a placeholder.
    fn without_chance(&self, text: &str) -> String {
        let mut text = text.replace(&self.place.folder.display().to_string(), "$DIR");
        text = text.replace(&self.place.web, "$WEB");
        if let Some(home) = self.place.server.home() {
            text = text.replace(&home.display().to_string(), "$HOME");
        }
        if let Some(installed) =
            self.place.server.program().and_then(|path| path.ancestors().nth(2))
        {
            text = text.replace(&installed.display().to_string(), "$INSTALLED");
        }
        if !self.session.is_empty() {
            text = text.replace(&self.session, "$SESSION");
        }
        text
    }
}

impl Connection {
    /// Receives until a condition holds; returns whether it does. The end of the connection ends the
    /// wait.
    async fn until(&mut self, patience: Duration, holds: impl Fn(&Heard) -> bool) -> bool {
        let deadline = Instant::now() + patience;
        loop {
            if holds(&self.heard) || self.heard.end.is_some() {
                return true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.raw.receive(left).await {
                None => return false,
                Some(Received::Text(text)) => self.heard.text(&text),
                Some(Received::Binary(_)) => self.heard.others.push("a binary frame".into()),
                Some(Received::End(code)) => self.heard.end = Some(code),
            }
        }
    }
}

/// Rewrites every text in a value.
fn rewritten(value: Value, rewrite: &impl Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => rewrite(&text).into(),
        Value::Array(items) => items.into_iter().map(|item| rewritten(item, rewrite)).collect(),
        Value::Object(fields) => fields
            .into_iter()
            .map(|(name, value)| (rewrite(&name), rewritten(value, rewrite)))
            .collect(),
        other => other,
    }
}
