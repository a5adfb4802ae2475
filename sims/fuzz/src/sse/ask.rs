//! The requests of hostile clients.

use arbitrary::Arbitrary;
use serde_json::{Value, json};

use crate::machine::PRINTERS;
use crate::script::{Bytes, Name, Number, Rarely, SendOptions, Writes};

/// The knowledge of a hostile client.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// The secret of the server.
    pub token: Option<&'static str>,
    /// The id of the well-behaved client's command.
    pub own: String,
    /// The last shell session.
    pub session: Option<String>,
    /// The last run that the server named.
    pub epoch: Option<String>,
}

/// A request.
#[derive(Arbitrary, Debug)]
pub struct Ask {
    what: What,
    /// Whether the client wants standard events.
    standard: bool,
    /// The name and the number of the client.
    owner: Option<(u8, Number)>,
    odd: Rarely<OddHead>,
    manner: SendOptions,
}

/// The purpose of a request.
#[derive(Arbitrary, Debug)]
enum What {
    Ping,
    Start { id: Option<Name>, program: u8, background: bool, odd: Rarely<OddStart> },
    Resume(Target, CursorText),
    Status(Target),
    Logs(Target, CursorText),
    Interrupt(Target),
    CreateSession(Rarely<Name>),
    RunInSession(Target, u8),
    DeleteSession(Target),
    Other(u8, Target),
}

/// The command or the session of a request.
#[derive(Arbitrary, Debug)]
enum Target {
    /// One of the hostile clients' own.
    Known(Name),
    /// That of the well-behaved client.
    Own,
    /// The last session.
    Session,
    /// Another one.
    Odd(u8),
}

/// Ids that are none.
const ODD_IDS: [&str; 10] = [
    "..",
    "../../etc/passwd",
    "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
    "%00",
    "%ff",
    "%",
    "",
    "a/b",
    "a?id=b",
    "........................................................................................................................................",
];

/// A cursor.
#[derive(Arbitrary, Debug)]
enum CursorText {
    Start,
    /// A position of the last run that the server named.
    Position(Number),
    /// One of another run.
    Foreign(Number),
    /// One of no run.
    Bare(Number),
    /// Something else.
    Odd(Name),
}

/// A field of a start.
#[derive(Arbitrary, Debug)]
enum OddStart {
    Timeout(Number),
    Cwd(Name),
    Variable(Name, Name),
    User(u8),
    Both,
    Argument(Bytes),
}

/// Something in the head of a request.
#[derive(Arbitrary, Debug)]
enum OddHead {
    LastEvent(CursorText),
    Age(Number),
    Token(Rarely<Name>),
    Owner(Name),
    Old,
    Chunked,
    Length(Number),
    Continues,
    Header(Name, Bytes),
    /// A head that is too large.
    Large(u16),
}

impl Target {
    fn text(&self, known: &Known) -> String {
        match self {
            Self::Known(name) => name.text(),
            Self::Own => known.own.clone(),
            Self::Session => known.session.clone().unwrap_or_else(|| "p0".to_owned()),
            Self::Odd(n) => ODD_IDS[usize::from(*n) % ODD_IDS.len()].to_owned(),
        }
    }

    /// The same, but never the command of the well-behaved client, which anyone may interrupt.
    fn harmless(&self, known: &Known) -> String {
        if matches!(self, Self::Own) { "p1".to_owned() } else { self.text(known) }
    }
}

impl CursorText {
    fn text(&self, known: &Known) -> String {
        let epoch = known.epoch.as_deref().unwrap_or("0000000000000000");
        match self {
            Self::Start => String::new(),
            Self::Position(number) => format!("{epoch}-{}", number.value()),
            Self::Foreign(number) => format!("{:016x}-{}", 7, number.value()),
            Self::Bare(number) => number.value().to_string(),
            Self::Odd(name) => name.text(),
        }
    }
}

impl What {
    /// Returns the method, the path, and the body.
    fn parts(&self, known: &Known) -> (&'static str, String, Value) {
        let program = |n: &u8| PRINTERS[usize::from(*n) % PRINTERS.len()];
        match self {
            Self::Ping => ("GET", "/ping".into(), Value::Null),
            Self::Start { id, program: n, background, odd } => {
                let id = id.as_ref().map(Name::text);
                let mut body =
                    json!({"command": program(n), "background": background, "operation_id": id});
                match &odd.0 {
                    Some(OddStart::Timeout(time)) => body["timeout"] = json!(time.value()),
                    Some(OddStart::Cwd(cwd)) => body["cwd"] = json!(cwd.text()),
                    Some(OddStart::Variable(name, value)) => {
                        body["envs"] = json!({ name.text(): value.text() })
                    }
                    Some(OddStart::User(user)) => body["uid"] = json!(user),
                    Some(OddStart::Both) => body["argv"] = json!(["print"]),
                    Some(OddStart::Argument(bytes)) => {
                        body["command"] = Value::Null;
                        body["argv"] = json!(["print", String::from_utf8_lossy(&bytes.bytes())]);
                    }
                    None => {}
                }
                ("POST", "/command".into(), body)
            }
            Self::Resume(target, cursor) => {
                let (id, after) = (target.text(known), cursor.text(known));
                ("GET", format!("/command/{id}/resume?after_eid={after}"), Value::Null)
            }
            Self::Status(target) => {
                ("GET", format!("/command/status/{}", target.text(known)), Value::Null)
            }
            Self::Logs(target, cursor) => {
                let (id, after) = (target.text(known), cursor.text(known));
                ("GET", format!("/command/{id}/logs?cursor={after}"), Value::Null)
            }
            Self::Interrupt(target) => {
                ("DELETE", format!("/command?id={}", target.harmless(known)), Value::Null)
            }
            Self::CreateSession(cwd) => {
                let cwd = cwd.0.as_ref().map(Name::text);
                ("POST", "/session".into(), cwd.map_or(Value::Null, |cwd| json!({ "cwd": cwd })))
            }
            Self::RunInSession(target, n) => {
                let path = format!("/session/{}/run", target.text(known));
                ("POST", path, json!({ "command": program(n) }))
            }
            Self::DeleteSession(target) => {
                ("DELETE", format!("/session/{}", target.text(known)), Value::Null)
            }
            Self::Other(n, target) => {
                let method = ["PUT", "OPTIONS", "PATCH", "TRACE"][usize::from(*n) % 4];
                (method, format!("/{}", target.text(known)), Value::Null)
            }
        }
    }
}

impl Ask {
    /// Returns the cursor of the request, if it is for a stream that exists; `None` if it is not certain
    /// that the server reads one request.
    pub fn cursor(&self, known: &Known) -> Option<Option<String>> {
        let is_one = self.odd.0.is_none() && self.manner.is_exact();
        let (target, cursor) = match &self.what {
            What::Resume(target, cursor) => (target, cursor),
            What::Other(..) => return None,
            _ => return is_one.then_some(None),
        };
        let (id, text) = (target.text(known), cursor.text(known));
        let is_plain =
            |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        (is_one && is_plain(&id) && is_plain(&text))
            .then(|| Some(if text.is_empty() { "0".to_owned() } else { text }))
    }

    /// Encodes the request, into writes.
    pub fn writes(&self, known: &Known) -> Writes {
        let (method, path, body) = self.what.parts(known);
        let body = if body.is_null() { Vec::new() } else { self.manner.content(body) };
        let (mut version, mut length) = ("1.1", format!("content-length: {}\r\n", body.len()));
        let mut token = known.token.map(str::to_owned);
        let (mut extra, mut owner) = (Vec::new(), None);
        let mut header = |name: &str, value: &[u8]| {
            extra.extend_from_slice(format!("{name}: ").as_bytes());
            extra.extend_from_slice(value);
            extra.extend_from_slice(b"\r\n");
        };
        if self.standard {
            header("accept", b"text/event-stream");
        }
        if let Some((name, attempt)) = &self.owner {
            owner = Some(format!("hostile{}.{}", name % 2, attempt.value()));
        }
        let mut encoded = body.clone();
        match &self.odd.0 {
            None => {}
            Some(OddHead::LastEvent(cursor)) => {
                header("last-event-id", cursor.text(known).as_bytes())
            }
            Some(OddHead::Age(age)) => {
                header("x-reknit-repeats", age.value().to_string().as_bytes())
            }
            Some(OddHead::Token(other)) => token = other.0.as_ref().map(Name::text),
            Some(OddHead::Owner(name)) => owner = Some(name.text()),
            Some(OddHead::Old) => version = "1.0",
            Some(OddHead::Chunked) => {
                length = "transfer-encoding: chunked\r\n".to_owned();
                encoded = format!("{:x}\r\n", body.len()).into_bytes();
                encoded.extend_from_slice(&body);
                encoded.extend_from_slice(if body.is_empty() { b"\r\n" } else { b"\r\n0\r\n\r\n" });
            }
            Some(OddHead::Length(other)) => {
                length = format!("content-length: {}\r\n", other.value())
            }
            Some(OddHead::Continues) => header("expect", b"100-continue"),
            Some(OddHead::Header(name, value)) => header(&name.text(), &value.bytes()),
            Some(OddHead::Large(count)) => header("x", &vec![b'x'; usize::from(*count)]),
        }
        if let Some(owner) = owner {
            header("x-reknit-owner", owner.as_bytes());
        }
        if let Some(token) = token {
            header("x-execd-access-token", token.as_bytes());
        }
        let mut bytes =
            format!("{method} {path} HTTP/{version}\r\nhost: server\r\n{length}").into_bytes();
        bytes.extend_from_slice(&extra);
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(&encoded);
        self.manner.pieces(bytes)
    }
}
