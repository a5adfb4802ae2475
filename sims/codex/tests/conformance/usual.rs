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
        "fs/open" => json!({"handleId": "h", "path": "file://$DIR/file"}),
        "fs/readBlock" => json!({"handleId": "h", "offset": 0, "len": 3}),
        "fs/writeBlock" => json!({"handleId": "h", "offset": 0, "chunk": "aGkK"}),
        "fs/close" => json!({"handleId": "h"}),
        "fs/watchMissing" => json!({"watchId": 1, "missing": ["file://$DIR/new"]}),
        "fs/walk" => json!({
            "path": "file://$DIR/d",
            "options": {
                "maxDepth": 9, "maxDirectories": 99, "maxEntries": 99,
                "followDirectorySymlinks": false,
            },
        }),
        method if method.starts_with("fs/") => json!({"path": "file://$DIR/file"}),
        _ => json!({}),
    }
}

/// Returns the usual sandbox: it grants nothing.
pub fn sandbox() -> Value {
    json!({
        "permissions": {
            "type": "managed",
            "file_system": {"type": "restricted", "entries": []},
            "network": "restricted",
        },
        "cwd": "file://$DIR",
        "workspaceRoots": ["file://$DIR"],
        "windowsSandboxLevel": "disabled",
    })
}
