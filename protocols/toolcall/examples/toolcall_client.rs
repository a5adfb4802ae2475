//! A client of an agent host. It sends each typed line to a chat, and prints the events of the
//! chat. It offers the tool `shout`.
//!
//! ```console
//! $ cargo run --features toolcall --example toolcall_client -- --connect ws://127.0.0.1:7778
//! connected
//! hello
//! agent: hello
//! run shout hello
//! shout wants to run: y or n
//! y
//! agent: shout ran: [{"type":"text","text":"HELLO"}]
//! ```
//!
//! The host may stop and restart: then the client prints the events that it missed, and sends the
//! lines that were typed in the meantime. Several clients may be connected at once. The end of its
//! input ends the client.

use std::process::ExitCode;
use std::sync::Arc;

use reknit_seams::Env;
use reknit_seams::net::{BoxFuture, Endpoint};
use reknit_toolcall::client::{
    Client, ClientConfig, Failure, Run, State, Tool, Toolbox, done, named,
};
use reknit_toolcall::state::{call, chat};
use reknit_toolcall::wire::SnapshotState;
use reknit_toolcall::wire::ahp::state::{
    ChatState, ResponsePart, ToolCallResult, ToolCallState, ToolDefinition,
};
use tokio::io::{AsyncBufReadExt, BufReader, stdin};

const USAGE: &str = "usage: toolcall_client --connect ws://HOST:PORT";

/// The only session and the only chat of this example.
const SESSION: &str = "ahp-session:/example";
const CHAT: &str = "ahp-chat:/example";

#[tokio::main]
async fn main() -> ExitCode {
    let Some(host) = host(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match talk(host).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("toolcall_client: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// Parses the arguments and returns the endpoint of the host; `None` if they are invalid.
fn host(mut args: impl Iterator<Item = String>) -> Option<Endpoint> {
    let url = args.next().filter(|flag| flag == "--connect").and_then(|_| args.next())?;
    let (host, port) = url.strip_prefix("ws://")?.trim_end_matches('/').rsplit_once(':')?;
    args.next().is_none().then_some(Endpoint::tcp(host, port.parse().ok()?))
}

/// Sends the typed lines, and prints the events, until the input ends.
async fn talk(host: Endpoint) -> Result<(), Failure> {
    let config = ClientConfig {
        tools: Toolbox::of([Arc::new(Shout) as Arc<dyn Tool>]),
        ..ClientConfig::default()
    };
    let client = Client::new(&Env::real(), host, config);
    join_chat(&client).await?;
    let mut changes = client.changes();
    let mut lines = BufReader::new(stdin()).lines();
    let mut printed = Printed::default();
    loop {
        printed.print_new(&client);
        tokio::select! {
            biased;
            line = lines.next_line() => match line {
                Ok(Some(line)) => on_line(&client, line.trim()).await,
                _ => break,
            },
            changed = changes.changed() => if changed.is_err() { break },
        }
    }
    client.close().await;
    Ok(())
}

/// Joins the chat, and creates it if it does not exist.
async fn join_chat(client: &Client) -> Result<(), Failure> {
    // If another client has created them already, these requests fail.
    let _ = client.create_session(SESSION).await;
    let _ = client.create_chat(SESSION, CHAT).await;
    client.subscribe(SESSION).await?;
    client.subscribe(CHAT).await?;
    client.join(SESSION).await
}

/// Handles a typed line: an answer if a question is open, otherwise a new turn.
async fn on_line(client: &Client, line: &str) {
    let asked = seen(client).and_then(|seen| {
        let waiting = chat::calls(&seen)
            .find(|state| matches!(state, ToolCallState::PendingConfirmation(_)))?;
        Some((seen.active_turn.as_ref()?.id.clone(), call::id(waiting).to_owned()))
    });
    let outcome = match asked {
        Some((turn, call)) => client.confirm(CHAT, &turn, &call, line == "y").await,
        None if line.is_empty() => Ok(()),
        None => {
            let turn =
                format!("{}-{}", client.id(), seen(client).map_or(0, |seen| seen.turns.len()));
            match client.start_turn(CHAT, &turn, line).await {
                // A host that was restarted has forgotten the chat.
                Err(Failure::Gone) if join_chat(client).await.is_ok() => {
                    client.start_turn(CHAT, &turn, line).await
                }
                outcome => outcome,
            }
        }
    };
    if let Err(failure) = outcome {
        println!("not sent: {failure}");
    }
}

fn seen(client: &Client) -> Option<ChatState> {
    match client.view(CHAT)? {
        SnapshotState::Chat(chat) => Some(*chat),
        _ => None,
    }
}

/// The events that were printed already.
#[derive(Default)]
struct Printed {
    connected: bool,
    turns: usize,
    asked: Vec<String>,
}

impl Printed {
    /// Prints the new events.
    fn print_new(&mut self, client: &Client) {
        let connected = client.state() == State::Connected;
        if connected != self.connected {
            println!("{}", if connected { "connected" } else { "not connected" });
            self.connected = connected;
        }
        let Some(seen) = seen(client) else { return };
        for state in chat::calls(&seen) {
            if let ToolCallState::PendingConfirmation(call) = state
                && !self.asked.contains(&call.tool_call_id)
            {
                println!("{} wants to run: y or n", call.tool_name);
                self.asked.push(call.tool_call_id.clone());
            }
        }
        for turn in seen.turns.iter().skip(self.turns) {
            for part in &turn.response_parts {
                if let ResponsePart::Markdown(part) = part {
                    println!("agent: {}", part.content);
                }
            }
        }
        self.turns = seen.turns.len();
    }
}

/// Returns its input in capital letters.
struct Shout;

impl Tool for Shout {
    fn definition(&self) -> ToolDefinition {
        named("shout")
    }

    fn run(&self, run: Run) -> BoxFuture<'static, ToolCallResult> {
        let input: serde_json::Value = serde_json::from_str(&run.input).unwrap_or_default();
        let words = input["words"].as_str().unwrap_or_default().to_uppercase();
        Box::pin(std::future::ready(done(&words)))
    }
}
