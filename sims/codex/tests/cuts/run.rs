//! One run: a client and a server, with the proxy of a script between them.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use codex_peer::agent::Agent;
use codex_peer::model::Model;
use codex_peer::servers::{self, Server};
use reknit_exec::client::{Client, Event, Failure};
use reknit_exec::limits::{ClientLimits, ServerLimits};
use reknit_exec::wire::process::StartParams;
use reknit_proxy::{Happening, Proxy};
use reknit_seams::Env;
use reknit_seams::net::Endpoint;
use tokio::time::timeout;

use crate::case::{Case, Outcome, Pairing};
use crate::work::{WORD, Work};

/// The result of a run.
pub struct Run {
    pub outcome: Outcome,
    /// How many connections let the client in.
    pub generations: usize,
    /// The mistake, or the reason that the client reported.
    pub reason: String,
    /// The record of the proxy, a line for each event.
    pub events: String,
}

/// The command, as the user of a client saw it.
pub struct Seen {
    /// Whether it ended in time.
    pub ended: bool,
    pub output: Output,
    pub exit: Option<i64>,
    /// Why the command failed, if the client said so.
    pub failure: Option<String>,
}

/// The output that a client showed.
pub enum Output {
    /// All of it.
    Whole(String),
    /// Its begin and end, and the number of bytes between.
    Parts { begin: String, omitted: usize, end: String },
}

/// Runs a script with one pairing.
pub async fn run(case: &Case, pairing: Pairing, codex: Option<&Path>) -> Run {
    let codex = || codex.expect("codex is installed");
    let server = match pairing {
        Pairing::OursCodex => Server::codex(codex()).await,
        Pairing::CodexOurs | Pairing::OursOurs => Server::here(ServerLimits::default()).await,
    };
    let local = (Ipv4Addr::LOCALHOST, 0).into();
    let proxy = Proxy::start(local, server.address(), case.script()).await.expect("a port");
    let seen = match pairing {
        Pairing::CodexOurs => theirs(case, &proxy, codex()).await,
        Pairing::OursCodex | Pairing::OursOurs => ours(case, &proxy).await,
    };
    let (outcome, reason) = judge(case.work, &seen);
    let events = proxy.events();
    let counted =
        |event: &&reknit_proxy::Event| matches!(event.what, Happening::Fired { rule: 0, .. });
    let generations = events.iter().filter(counted).count();
    let lines = events.iter().map(|event| {
        format!("{:>8.3} s  connection {}  {:?}\n", event.at.as_secs_f64(), event.conn, event.what)
    });
    Run { outcome, generations, reason, events: lines.collect() }
}

/// Decides which of the three outcomes a run has.
fn judge(work: Work, seen: &Seen) -> (Outcome, String) {
    let expected = work.output();
    let broken = |why: String| (Outcome::Broken, why);
    if !seen.ended {
        return broken("no end in time".into());
    }
    if let Some(wrong) = seen.output.differs_from(&expected, seen.failure.is_some()) {
        return broken(wrong);
    }
    match &seen.failure {
        Some(failure) => (Outcome::Failed, failure.clone()),
        None if seen.exit == Some(work.exit()) => (Outcome::Complete, String::new()),
        None => broken(format!("the exit status {:?}", seen.exit)),
    }
}

impl Output {
    /// Returns how it differs from the expected output, if it does. `partly`: whether its end may
    /// be missing.
    fn differs_from(&self, expected: &str, partly: bool) -> Option<String> {
        let (begin, end) = match self {
            Self::Whole(output) => (output, ""),
            Self::Parts { begin, end, .. } => (begin, end.as_str()),
        };
        let omitted = if let Self::Parts { omitted, .. } = self { *omitted } else { 0 };
        let length = begin.len() + omitted + end.len();
        let same = begin.bytes().zip(expected.bytes()).take_while(|(one, other)| one == other);
        let same = same.count();
        let wrong_end = || !expected.get(..length).is_some_and(|part| part.ends_with(end));
        if same < begin.len() || length > expected.len() || wrong_end() {
            return Some(format!(
                "wrong output after byte {same}: {:?}, {length} bytes in all",
                begin.chars().skip(same.saturating_sub(20)).take(120).collect::<String>()
            ));
        }
        let whole = length == expected.len();
        (!whole && !partly).then(|| format!("{length} of {} bytes", expected.len()))
    }
}

/// Runs the command through our client.
async fn ours(case: &Case, proxy: &Proxy) -> Seen {
    let address = proxy.address();
    let server = Endpoint::tcp(address.ip().to_string(), address.port());
    // Typed text must arrive once, also when a connection dies during the write.
    let limits = ClientLimits { retry_writes: true, ..ClientLimits::default() };
    let client = Client::start(&Env::real(), server, limits);
    let folder = servers::scratch();
    let command = StartParams {
        process_id: "work".into(),
        argv: ["/bin/bash", "-c", &case.work.command()].map(str::to_owned).into(),
        cwd: folder.path().display().to_string().parse().expect("an absolute path"),
        env: BTreeMap::from([("PATH".to_owned(), servers::PATH.to_owned())]),
        tty: case.work.is_typed(),
        ..StartParams::default()
    };
    let (mut heard, mut exit) = (Vec::new(), None);
    let followed = timeout(case.deadline, follow(&client, command, &mut heard, &mut exit)).await;
    client.close().await;
    let output = Output::Whole(String::from_utf8_lossy(&heard).into_owned());
    let (ended, failure) = match followed {
        Ok(followed) => (true, followed.err().map(|failure| failure.to_string())),
        Err(_) => (false, None),
    };
    Seen { ended, output, exit, failure }
}

async fn follow(
    client: &Client,
    command: StartParams,
    heard: &mut Vec<u8>,
    exit: &mut Option<i64>,
) -> Result<(), Failure> {
    let types = command.tty;
    let process = client.launch(command).await?;
    let mut events = process.events();
    let mut typed = !types;
    while let Some(event) = events.next().await {
        match event {
            Event::Output { bytes, .. } => {
                heard.extend_from_slice(&bytes);
                if !typed && heard.ends_with(b"ready\r\n") {
                    typed = true;
                    process.write(format!("{WORD}\n")).await?;
                }
            }
            Event::Exited { code, .. } => *exit = Some(code.into()),
            Event::Closed { .. } => break,
            Event::Failed(failure) => return Err(failure),
        }
    }
    Ok(())
}

/// Lets codex run the command.
async fn theirs(case: &Case, proxy: &Proxy, codex: &Path) -> Seen {
    let model = Model::start(IpAddr::V4(Ipv4Addr::LOCALHOST), case.work.turns()).await;
    let agent = Agent::new(codex, &model);
    let server = format!("ws://{}", proxy.address());
    let printed = agent.run(&server, "danger-full-access", case.deadline).await;
    let (ended, commands) = (printed.status.is_some(), printed.commands());
    let nothing = || Output::Whole(String::new());
    match commands.as_slice() {
        [command] if command.exit != Some(-1) => {
            Seen { ended, output: parts(&command.output), exit: command.exit, failure: None }
        }
        // codex appends the reason to the output.
        [command] => {
            let (output, reason) =
                command.output.rsplit_once('\n').unwrap_or(("", &command.output));
            let output = parts(output);
            Seen { ended, output, exit: None, failure: Some(reason.to_owned()) }
        }
        [] => {
            let mut told = printed.complaints();
            told.extend(model.outputs());
            let failure = (!told.is_empty()).then(|| told.join("; "));
            Seen { ended, output: nothing(), exit: None, failure }
        }
        several => panic!("{} commands ended, but one was asked for", several.len()),
    }
}

/// Splits an output that codex shortened.
fn parts(output: &str) -> Output {
    let whole = || Output::Whole(output.to_owned());
    let Some((begin, rest)) = output.split_once("\n... ") else { return whole() };
    let Some((omitted, end)) = rest.split_once(" bytes omitted ...\n") else { return whole() };
    let Ok(omitted) = omitted.parse() else { return whole() };
    Output::Parts { begin: begin.to_owned(), omitted, end: end.to_owned() }
}
