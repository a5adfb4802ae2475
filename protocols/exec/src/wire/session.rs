//! The session family: the handshake of a connection.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::DirectoryForm;
use super::flow::{FlowReports, FlowWindow};

/// The parameters of `initialize`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InitializeParams {
    /// The name of the client, for logs.
    pub client_name: String,
    /// The session to resume; without it, the server opens a new session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume_session_id: Option<String>,
    /// The window of a client that supports flow control.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reknit_flow: Option<FlowWindow>,
}

/// The result of `initialize`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InitializeResult {
    /// The session that the connection is attached to.
    pub session_id: String,
    /// A description of the server's machine. Servers of June 2026 send none. It stays unparsed: a
    /// client can work with a server whose description it does not understand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment_info: Option<Value>,
    /// Present if the server controls the flow of processes on this connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reknit_flow: Option<FlowReports>,
}

impl InitializeResult {
    /// Returns the form of directories that the server reads.
    ///
    /// A server that describes its machine reads URIs, as codex 0.169.0 does, unless the description
    /// itself contains a plain path as the server's own directory. Any other server reads paths.
    pub fn directory_form(&self) -> DirectoryForm {
        let own =
            self.environment_info.as_ref().map(|info| info.get("cwd").and_then(Value::as_str));
        match own {
            None => DirectoryForm::Path,
            Some(Some(path)) if path.starts_with('/') => DirectoryForm::Path,
            Some(_) => DirectoryForm::Uri,
        }
    }
}

/// The parameters of `initialized`: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Initialized {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_of_directories_follows_from_the_description_of_the_machine() {
        for (result, form) in [
            (r#"{"sessionId":"s"}"#, DirectoryForm::Path),
            (r#"{"sessionId":"s","environmentInfo":null}"#, DirectoryForm::Path),
            (r#"{"sessionId":"s","environmentInfo":{"cwd":"/srv"}}"#, DirectoryForm::Path),
            (r#"{"sessionId":"s","environmentInfo":{"cwd":"file:///srv"}}"#, DirectoryForm::Uri),
            (r#"{"sessionId":"s","environmentInfo":{}}"#, DirectoryForm::Uri),
            (r#"{"sessionId":"s","environmentInfo":{"cwd":7}}"#, DirectoryForm::Uri),
            (r#"{"sessionId":"s","environmentInfo":7}"#, DirectoryForm::Uri),
        ] {
            let result: InitializeResult = serde_json::from_str(result).unwrap();
            assert_eq!(result.directory_form(), form, "{result:?}");
        }
    }
}
