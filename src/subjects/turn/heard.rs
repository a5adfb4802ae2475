//! A network that records the news that a client gets of the threads of others.
//!
//! A client owns a thread that one of its requests names, or an answer to it. It owns the subagents of the turn that
//! an answer names, or that starts on a thread that belongs to no subagent. The app-server of the world gives the threads of
//! subagents names that begin with those of their turns. A property knows the owner of each turn, and judges the record.

use std::collections::BTreeSet;
use std::io;
use std::mem::replace;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::notes::Heard;
use super::subagents::turn_of;
use crate::env::Env;
use crate::history::{Call, Stream};
use crate::net::{self, BoxFuture, Connect, Endpoint, Listener, Net, Network};
use crate::subject::{HostContext, Recorder};
use reknit_turn::wire::method;

/// Returns the environment of the client of a command, whose connections are recorded.
pub(super) fn recorded(host: &HostContext, call: Call) -> Env {
    let (net, record, stream) = (host.env.net.clone(), host.record.clone(), Heard::stream(call));
    Env { net: Arc::new(Recorded { net, record, stream }), ..host.env.clone() }
}

/// The network of one command.
struct Recorded {
    net: Net,
    record: Recorder,
    stream: Stream,
}

impl Connect for Recorded {
    fn connect<'a>(&'a self, to: &'a Endpoint) -> BoxFuture<'a, io::Result<net::Stream>> {
        Box::pin(async move {
            let socket = self.net.connect(to).await?;
            let (id, record, stream) = (socket.id(), self.record.clone(), self.stream.clone());
            let connection = Connection { socket, record, stream, lines: Lines::default() };
            Ok(net::Stream::new(connection, id))
        })
    }
}

impl Network for Recorded {
    fn listen<'a>(&'a self, at: &'a Endpoint) -> BoxFuture<'a, io::Result<Listener>> {
        self.net.listen(at)
    }
}

/// A connection to a broker.
struct Connection {
    socket: net::Stream,
    record: Recorder,
    stream: Stream,
    lines: Lines,
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        let polled = Pin::new(&mut this.socket).poll_read(cx, buf);
        for thread in this.lines.gets(&buf.filled()[before..]) {
            this.record.observed(&this.stream, Heard(thread));
        }
        polled
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.socket).poll_write(cx, buf);
        if let Poll::Ready(Ok(written)) = &polled {
            this.lines.sends(&buf[..*written]);
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

/// The lines of a connection, in both directions.
#[derive(Default)]
struct Lines {
    /// The threads and turns that the client owns.
    own: BTreeSet<String>,
    /// The other threads of which it got news.
    heard: BTreeSet<String>,
    /// The begins of lines.
    sent: Vec<u8>,
    got: Vec<u8>,
}

impl Lines {
    /// The client sends these bytes.
    fn sends(&mut self, bytes: &[u8]) {
        for line in complete(&mut self.sent, bytes) {
            self.own.extend(line["params"]["threadId"].as_str().map(str::to_owned));
        }
    }

    /// The client gets these bytes. Returns the threads of others of which it gets the first news.
    fn gets(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut news = Vec::new();
        for line in complete(&mut self.got, bytes) {
            if line["method"].is_null() {
                let answered =
                    [&line["result"]["thread"], &line["result"]["turn"]].map(|it| &it["id"]);
                self.own.extend(answered.into_iter().filter_map(Value::as_str).map(str::to_owned));
                continue;
            }
            self.own.extend(starts(&line));
            if let Some(thread) = of_a_command(&line["params"])
                && !self.own.contains(turn_of(thread).unwrap_or(thread))
                && self.heard.insert(thread.to_owned())
            {
                news.push(thread.to_owned());
            }
        }
        news
    }
}

/// Returns the turn that starts, if its thread is not that of a subagent.
fn starts(line: &Value) -> Option<String> {
    let params = &line["params"];
    let is_main = line["method"] == method::TURN_STARTED
        && params["threadId"].as_str().is_some_and(|thread| turn_of(thread).is_none());
    params["turn"]["id"].as_str().filter(|_| is_main).map(str::to_owned)
}

/// Returns the thread of news, if it is that of a command or a subagent, and not that of a review or a stranger. A
/// broker cannot read the scope of news whose turn is no text, so these may go to any client.
fn of_a_command(params: &Value) -> Option<&str> {
    let turn = &params["turnId"];
    let thread = params["threadId"].as_str().filter(|_| turn.is_null() || turn.is_string())?;
    let is_of_a_command = thread.starts_with("thread-") && !thread.ends_with("-stranger");
    (is_of_a_command || turn_of(thread).is_some()).then_some(thread)
}

/// Takes bytes, and returns the lines that they complete and that are JSON.
fn complete(begun: &mut Vec<u8>, bytes: &[u8]) -> Vec<Value> {
    let Some(end) = bytes.iter().rposition(|byte| *byte == b'\n') else {
        begun.extend_from_slice(bytes);
        return Vec::new();
    };
    let (complete, rest) = bytes.split_at(end + 1);
    begun.extend_from_slice(complete);
    let lines = replace(begun, rest.to_vec());
    lines
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_client_owns_the_threads_that_it_names_or_gets() {
        let mut lines = Lines::default();
        let news = |lines: &mut Lines, thread: &str, turn: Value| {
            let params = json!({ "threadId": thread, "turnId": turn });
            let line = json!({ "method": "item/completed", "params": params });
            lines.gets(format!("{line}\n").as_bytes())
        };
        lines.sends(
            b"{\"id\":1,\"method\":\"thread/resume\",\"params\":{\"threadId\":\"thread-a-1\"}}\n",
        );
        lines.gets(b"{\"id\":2,\"result\":{\"thread\":{\"id\":\"thr");
        lines.gets(b"ead-a-2\"}}}\n");
        assert_eq!(news(&mut lines, "thread-a-1", Value::Null), [""; 0]);
        assert_eq!(news(&mut lines, "thread-a-2", json!("turn-1")), [""; 0]);
        assert_eq!(news(&mut lines, "thread-a-3-stranger", Value::Null), [""; 0]);
        assert_eq!(news(&mut lines, "thread-a-3", json!(7)), [""; 0]);
        assert_eq!(news(&mut lines, "thread-a-3", json!("turn-1")), ["thread-a-3"]);
        assert_eq!(news(&mut lines, "thread-a-3", Value::Null), [""; 0]);
    }

    #[test]
    fn a_client_owns_the_subagents_of_its_turn() {
        let news = |before: &[Value]| {
            let mut lines = Lines::default();
            for line in before {
                assert_eq!(lines.gets(format!("{line}\n").as_bytes()), [""; 0]);
            }
            lines
                .gets(b"{\"method\":\"x\",\"params\":{\"threadId\":\"turn-a-4-agent-1-helper\"}}\n")
        };
        let foreign = ["turn-a-4-agent-1-helper"];
        let answer = |turn: &str| json!({ "id": 3, "result": { "turn": { "id": turn } } });
        let begins = |thread: &str| {
            let params = json!({ "threadId": thread, "turn": { "id": "turn-a-4" } });
            json!({ "method": "turn/started", "params": params })
        };
        assert_eq!(news(&[]), foreign);
        assert_eq!(news(&[answer("turn-a-3")]), foreign);
        assert_eq!(news(&[answer("turn-a-4")]), [""; 0]);
        assert_eq!(news(&[begins("review-a-2")]), [""; 0]);
    }
}
