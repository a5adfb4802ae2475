//! The target of a request: its method, its path, its query.

use std::time::Duration;

use hyper::{HeaderMap, Method, Uri};
use percent_encoding::percent_decode_str;
use reknit_seams::defect;

use crate::wire::{
    AgeQuestion, CommandId, Cursor, Framing, MalformedCursor, MalformedOwner, Refusal, StreamOwner,
    header,
};

/// The target of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// `GET /ping`
    Ping,
    /// `POST /command`
    Start,
    /// `DELETE /command?id=`
    Interrupt(CommandId),
    /// `GET /command/{id}/resume`
    Resume(CommandId),
    /// `GET /command/status/{id}`
    Status(CommandId),
    /// `GET /command/{id}/logs`
    Logs(CommandId),
    /// `POST /session`
    CreateSession,
    /// `POST /session/{id}/run`
    RunInSession(String),
    /// `DELETE /session/{id}`
    DeleteSession(String),
}

impl Route {
    /// Returns what a request asks for.
    ///
    /// # Errors
    /// If there is no such path, or the path does not have the method, or an id is wrong or missing.
    pub(super) fn of(method: &Method, uri: &Uri) -> Result<Self, Refusal> {
        let decoded: Option<Vec<String>> = (uri.path().trim_start_matches('/').split('/'))
            .map(|segment| Some(percent_decode_str(segment).decode_utf8().ok()?.into_owned()))
            .collect();
        let segments = decoded.ok_or(Refusal::UnknownPath)?;
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        let known = |allowed: Method, route: &dyn Fn() -> Result<Self, Refusal>| {
            if *method == allowed { route() } else { Err(Refusal::WrongMethod) }
        };
        match segments[..] {
            ["ping"] => known(Method::GET, &|| Ok(Self::Ping)),
            ["command"] if *method == Method::DELETE => {
                let id = parameter(uri, "id").filter(|id| !id.is_empty());
                Ok(Self::Interrupt(command(&id.ok_or(Refusal::Missing("id"))?)?))
            }
            ["command"] => known(Method::POST, &|| Ok(Self::Start)),
            ["command", "status", id] => known(Method::GET, &|| Ok(Self::Status(command(id)?))),
            ["command", id, "resume"] => known(Method::GET, &|| Ok(Self::Resume(command(id)?))),
            ["command", id, "logs"] => known(Method::GET, &|| Ok(Self::Logs(command(id)?))),
            ["session"] => known(Method::POST, &|| Ok(Self::CreateSession)),
            ["session", id, "run"] => known(Method::POST, &|| Ok(Self::RunInSession(session(id)?))),
            ["session", id] => known(Method::DELETE, &|| Ok(Self::DeleteSession(session(id)?))),
            _ => Err(Refusal::UnknownPath),
        }
    }
}

fn command(id: &str) -> Result<CommandId, Refusal> {
    match id {
        "" => Err(Refusal::Missing("id")),
        id => Ok(id.parse::<CommandId>()?),
    }
}

/// The id of a session follows the rules of a command's id.
fn session(id: &str) -> Result<String, Refusal> {
    command(id).map(|id| id.to_string())
}

/// Returns a parameter of the query.
fn parameter(uri: &Uri, name: &str) -> Option<String> {
    let query = uri.query().unwrap_or_default();
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    pairs.find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

/// Returns a cursor from the query. An empty one is the start.
///
/// # Errors
/// If it is malformed.
pub(super) fn cursor(uri: &Uri, name: &str) -> Result<Cursor, Refusal> {
    let text = parameter(uri, name).filter(|text| !text.is_empty());
    parse(&text.unwrap_or_else(|| "0".to_owned()))
}

/// Returns the cursor of a stream request: the id of the last event that a standard client has,
/// because its repeated requests have the query of the first; otherwise the parameter `after_eid`.
///
/// # Errors
/// If it is malformed.
pub(super) fn stream_cursor(uri: &Uri, headers: &HeaderMap) -> Result<Cursor, Refusal> {
    if defect!(ParameterBeforeHeader) && parameter(uri, "after_eid").is_some() {
        return cursor(uri, "after_eid");
    }
    match headers.get(header::LAST_EVENT_ID).map(|value| value.to_str()) {
        None | Some(Ok("")) => cursor(uri, "after_eid"),
        Some(Ok(text)) => parse(text),
        Some(Err(_)) if defect!(StrangeHeaderIsNone) => cursor(uri, "after_eid"),
        Some(Err(_)) => Err(MalformedCursor("other characters".to_owned()).into()),
    }
}

fn parse(text: &str) -> Result<Cursor, Refusal> {
    match text.parse() {
        Err(_) if defect!(GarbageCursorIsZero) => Ok(Cursor::START),
        parsed => Ok(parsed?),
    }
}

/// Returns the owner of the stream that a request opens.
///
/// # Errors
/// If it is malformed.
pub(super) fn owner(headers: &HeaderMap) -> Result<Option<StreamOwner>, Refusal> {
    let Some(value) = headers.get(header::OWNER) else { return Ok(None) };
    let text = value.to_str().map_err(|_| MalformedOwner)?;
    Ok(Some(text.parse::<StreamOwner>()?))
}

/// Returns how long ago the client has sent this start for the first time.
pub(super) fn age(headers: &HeaderMap) -> Duration {
    let age = headers.get(header::REPEATS).and_then(|age| age.to_str().ok()?.parse().ok());
    age.map_or(Duration::ZERO, Duration::from_millis)
}

/// Returns the question that the age of this start answers.
pub(super) fn asked(headers: &HeaderMap) -> Option<AgeQuestion> {
    headers.get(header::ASKED)?.to_str().ok()?.parse().ok()
}

/// Returns the framing that the client asks for. Several headers are one list.
pub(super) fn framing(headers: &HeaderMap) -> Framing {
    let most = if defect!(FirstAcceptCounts) { 1 } else { usize::MAX };
    let all: Vec<_> = headers.get_all(hyper::header::ACCEPT).iter().take(most).collect();
    let texts = all.iter().filter_map(|value| value.to_str().ok());
    Framing::accepted(Some(&texts.collect::<Vec<_>>().join(",")))
}

/// Whether the request carries this access token. The time does not depend on how much of a wrong
/// token is right.
pub(super) fn is_authorized(headers: &HeaderMap, token: &str) -> bool {
    let given = headers.get(header::ACCESS_TOKEN).map_or(&b""[..], |value| value.as_bytes());
    let differing =
        given.iter().zip(token.as_bytes()).fold(0, |all, (one, other)| all | (one ^ other));
    given.len() == token.len() && std::hint::black_box(differing) == 0
}

#[cfg(test)]
#[path = "tests/route.rs"]
mod tests;
