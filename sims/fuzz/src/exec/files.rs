//! The requests of a hostile client for files.

use arbitrary::Arbitrary;
use serde_json::{Value, json};

use crate::script::{Bytes, Name, Number, Rarely};

/// A request for files, by its method. There are few paths, so that they meet.
#[derive(Arbitrary, Debug)]
pub(super) struct FileAsk {
    /// Which method.
    method: u8,
    path: FilePath,
    /// The second path of a copy, and the present path of a watch.
    other: FilePath,
    handle: Name,
    bytes: Bytes,
    offset: Number,
    len: Number,
    flags: [Option<bool>; 3],
    sandbox: Rarely<u8>,
}

/// A path: two names below the root, or a text that may be no path.
#[derive(Arbitrary, Debug)]
pub(super) struct FilePath {
    depth: u8,
    names: [Name; 2],
    odd: Rarely<Name>,
}

/// The methods.
const METHODS: [&str; 14] = [
    "readFile",
    "writeFile",
    "createDirectory",
    "getMetadata",
    "canonicalize",
    "readDirectory",
    "walk",
    "remove",
    "copy",
    "open",
    "readBlock",
    "writeBlock",
    "close",
    "watchMissing",
];

impl FilePath {
    fn uri(&self) -> String {
        match &self.odd.0 {
            Some(odd) => odd.text(),
            None => format!("file://{}", self.path()),
        }
    }

    /// Returns the path, without the text that may be none.
    pub(super) fn path(&self) -> String {
        let names = &self.names[..usize::from(self.depth % 3)];
        names.iter().map(|name| format!("/{}", name.text())).collect()
    }
}

impl FileAsk {
    /// Returns the method and the parameters of a request in a sandbox. The files that it writes do
    /// not contain any secret.
    pub(super) fn confined(&self, sandbox: &Value) -> (String, Value) {
        let (method, mut params) = self.carries();
        params["sandbox"] = sandbox.clone();
        params["dataBase64"] = "eg==".into();
        params["chunk"] = "eg==".into();
        (method, params)
    }

    /// Returns the method and the parameters. Each request has the parameters of all methods: a
    /// server ignores those that it does not know.
    pub(super) fn carries(&self) -> (String, Value) {
        let method = METHODS[usize::from(self.method) % METHODS.len()];
        let [first, second, third] = self.flags;
        let (path, other) = (self.path.uri(), self.other.uri());
        let params = json!({
            "path": path, "sourcePath": path, "destinationPath": other,
            "dataBase64": self.bytes.base64(), "chunk": self.bytes.base64(),
            "handleId": self.handle.text(), "offset": self.offset.value(), "len": self.len.value(),
            "mode": if first == Some(true) { "replace" } else { "read" },
            "recursive": first.unwrap_or_default(), "force": second, "followSymlinks": third,
            "options": {
                "maxDepth": self.len.value(), "maxDirectories": self.offset.value(), "maxEntries": 3,
                "followDirectorySymlinks": second.unwrap_or_default(),
            },
            "watchId": self.offset.value(), "missing": [path], "present": second.map(|_| other),
            "sandbox": self.sandbox.0.map(sandbox),
        });
        (format!("fs/{method}"), params)
    }
}

/// Returns one of a few sandboxes.
fn sandbox(which: u8) -> Value {
    let special = |kind: &str, access: &str| json!({"path": {"type": "special", "value": {"kind": kind}}, "access": access});
    let entries = match which % 5 {
        0 => json!([]),
        1 => json!([special("root", "read")]),
        2 => json!([special("root", "read"), special("project_roots", "write")]),
        3 => json!([{"path": {"type": "glob_pattern", "pattern": "*"}, "access": "deny"}]),
        _ => return json!({"permissions": which}),
    };
    json!({
        "permissions": {"type": "managed", "file_system": {"type": "restricted", "entries": entries}, "network": "restricted"},
        "cwd": "file:///p0", "workspaceRoots": ["file:///p0"], "windowsSandboxLevel": "disabled",
    })
}
