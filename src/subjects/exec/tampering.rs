//! How the fault `tamper` changes the messages of a server.
//!
//! It refuses only reads and handshakes. They have no effect, so a client that repeats them does no harm.

use crate::schedule::Tampering;
use crate::subjects::tampering::{json_of, message_of, refusal_of};

/// The session that no server knows.
const ANOTHER: &str = "another-session";

/// Returns what a client receives instead of a message of its server.
pub(super) fn tamper(how: Tampering, message: &[u8]) -> Option<Vec<u8>> {
    let mut json = json_of(message)?;
    let is_handshake = json["result"]["sessionId"].is_string();
    match how {
        Tampering::Drop => Some(Vec::new()),
        Tampering::Repeat => Some([message, message].concat()),
        Tampering::Refuse if is_handshake || json["result"]["chunks"].is_array() => {
            refusal_of(&json)
        }
        Tampering::Misname if is_handshake => {
            json["result"]["sessionId"] = ANOTHER.into();
            message_of(&json)
        }
        Tampering::Refuse | Tampering::Misname => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn tampered(how: Tampering, json: Value) -> Option<Vec<u8>> {
        tamper(how, &message_of(&json).unwrap())
    }

    #[test]
    fn reads_and_handshakes_are_refused_and_nothing_else() {
        let read = json!({ "id": 3, "result": { "chunks": [], "nextSeq": 1 } });
        let refusal = tampered(Tampering::Refuse, read).unwrap();
        assert_eq!(json_of(&refusal).unwrap()["id"], 3);
        for other in [
            json!({ "id": 3, "result": { "status": "accepted" } }),
            json!({ "method": "process/output", "params": {} }),
        ] {
            assert_eq!(tampered(Tampering::Refuse, other), None);
        }
    }

    #[test]
    fn a_handshake_names_another_session() {
        let handshake = json!({ "id": 1, "result": { "sessionId": "s1" } });
        let changed = tampered(Tampering::Misname, handshake).unwrap();
        assert_eq!(json_of(&changed).unwrap()["result"]["sessionId"], ANOTHER);
        assert_eq!(tampered(Tampering::Misname, json!({ "id": 1, "result": {} })), None);
    }

    #[test]
    fn a_pong_passes() {
        assert_eq!(tamper(Tampering::Drop, b"\x8a\x00"), None);
    }
}
