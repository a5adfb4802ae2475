//! Changes of JSON messages in WebSocket frames, for the fault `tamper`.

use std::io::Cursor;

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::frame::{Frame, FrameHeader};

/// The error code of a refusal that may pass.
const INTERNAL: i64 = -32603;

/// Returns the JSON of a message that a server wrote. Returns `None` for an upgrade, a control frame, and a
/// message of several frames.
pub(super) fn json_of(message: &[u8]) -> Option<Value> {
    let mut rest = Cursor::new(message);
    let (header, length) = FrameHeader::parse(&mut rest).ok()??;
    let payload = &message[rest.position() as usize..];
    let is_whole = header.is_final && payload.len() as u64 == length && header.mask.is_none();
    let is_text = header.opcode == OpCode::Data(Data::Text);
    (is_whole && is_text).then(|| serde_json::from_slice(payload).ok())?
}

/// Returns the message of a server with this JSON.
pub(super) fn message_of(json: &Value) -> Option<Vec<u8>> {
    let frame = Frame::message(json.to_string(), OpCode::Data(Data::Text), true);
    let mut message = Vec::new();
    frame.format(&mut message).ok()?;
    Some(message)
}

/// Returns an answer that refuses the request that `answer` grants.
pub(super) fn refusal_of(answer: &Value) -> Option<Vec<u8>> {
    let id = answer.get("id")?;
    let error = json!({ "code": INTERNAL, "message": "too busy" });
    message_of(&json!({ "jsonrpc": "2.0", "id": id, "error": error }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_keeps_its_json() {
        for text in ["x".to_owned(), "x".repeat(200), "x".repeat(70_000)] {
            let json = json!({ "id": 1, "result": text });
            assert_eq!(json_of(&message_of(&json).unwrap()), Some(json));
        }
    }

    #[test]
    fn only_whole_text_messages_of_a_server_are_json() {
        for message in [
            &b"HTTP/1.1 101 Switching Protocols\r\n\r\n"[..],
            b"\x8a\x00",                   // a pong
            b"\x01\x02{}",                 // the first frame of several
            b"\x81\x03{}",                 // a frame that is cut off
            b"\x81\x82\x00\x00\x00\x00{}", // a client masks its frames
        ] {
            assert_eq!(json_of(message), None);
        }
    }

    #[test]
    fn a_refusal_has_the_id_of_the_answer() {
        let refusal = refusal_of(&json!({ "id": 7, "result": {} })).unwrap();
        let refusal = json_of(&refusal).unwrap();
        assert_eq!((&refusal["id"], &refusal["error"]["code"]), (&json!(7), &json!(INTERNAL)));
        assert_eq!(refusal_of(&json!({ "method": "action" })), None);
    }
}
