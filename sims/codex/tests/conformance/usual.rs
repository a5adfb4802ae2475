//! The parameters that a case does not mention.

use serde_json::{Value, json};

/// Returns the usual parameters of a method.
pub fn params(method: &str) -> Value {
    match method {
        "initialize" => json!({"clientName": "conformance"}),
        "process/start" => json!({
            "processId": "p", "argv": ["/bin/echo", "hello"], "cwd": "file://$DIR", "env": {}, "tty": false,
        }),
        "process/read" | "process/terminate" => json!({"processId": "p"}),
        "process/write" => json!({"processId": "p", "chunk": "aGkK", "writeId": "1"}),
        "process/signal" => json!({"processId": "p", "signal": "interrupt"}),
        "http/request" => json!({
            "method": "GET", "url": "http://$WEB/hello", "headers": [], "requestId": "r", "streamResponse": false,
        }),
        "fs/copy" => json!({
            "sourcePath": "file://$DIR/file", "destinationPath": "file://$DIR/copy", "recursive": false,
        }),
        "fs/writeFile" => json!({"path": "file://$DIR/file", "dataBase64": "aGkK"}),
        method if method.starts_with("fs/") => json!({"path": "file://$DIR/file"}),
        _ => json!({}),
    }
}
