//! The tools that a client runs for agents, and its answers to requests of the host.

use std::collections::BTreeMap;
use std::sync::Arc;

use reknit_seams::defect;
use reknit_seams::net::BoxFuture;
use serde_json::value::RawValue;

use super::core::Run;
use crate::wire::ahp::StringOrMarkdown;
use crate::wire::ahp::state::{
    ToolCallResult, ToolDefinition, ToolResultContent, ToolResultTextContent,
};
use crate::wire::code;

/// A tool that a client runs for an agent.
pub trait Tool: Send + Sync {
    /// Returns the name and the input of the tool.
    fn definition(&self) -> ToolDefinition;

    /// Runs the tool. If the call ends early, the future is dropped. A panic counts as a failure.
    fn run(&self, run: Run) -> BoxFuture<'static, ToolCallResult>;
}

/// Answers requests of the host, such as reads of a file.
pub trait Answers: Send + Sync {
    /// Returns the answer to a request, or the code and text of an error.
    fn answer(
        &self,
        method: String,
        params: Option<Box<RawValue>>,
    ) -> BoxFuture<'static, Result<Box<RawValue>, (i64, String)>>;
}

/// Refuses every request.
#[derive(Clone, Copy, Debug)]
pub struct NoAnswers;

impl Answers for NoAnswers {
    fn answer(
        &self,
        _: String,
        _: Option<Box<RawValue>>,
    ) -> BoxFuture<'static, Result<Box<RawValue>, (i64, String)>> {
        Box::pin(std::future::ready(Err((
            code::UNKNOWN_METHOD,
            "this client does not answer requests".to_owned(),
        ))))
    }
}

/// The tools of a client, by name.
#[derive(Clone, Default)]
pub struct Toolbox(BTreeMap<String, Arc<dyn Tool>>);

impl Toolbox {
    /// Creates a toolbox with these tools. If two have the same name, the later one replaces the
    /// earlier one.
    pub fn of(tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        Self(tools.into_iter().map(|tool| (tool.definition().name, tool)).collect())
    }

    /// Returns the definitions of the tools.
    pub fn definitions(&self) -> Vec<ToolDefinition> {
        self.0.values().map(|tool| tool.definition()).collect()
    }

    pub(super) fn run(&self, run: Run) -> BoxFuture<'static, ToolCallResult> {
        match self.0.get(&run.tool) {
            Some(tool) => tool.run(run),
            None if defect!(UnknownToolsSucceed) => Box::pin(std::future::ready(done("done"))),
            None => Box::pin(std::future::ready(failed("this client has no such tool"))),
        }
    }
}

/// Returns a tool definition with only a name.
pub fn named(name: &str) -> ToolDefinition {
    ToolDefinition {
        name: name.to_owned(),
        title: None,
        description: None,
        input_schema: None,
        output_schema: None,
        annotations: None,
        meta: None,
    }
}

/// Returns a successful result with this text.
pub fn done(text: &str) -> ToolCallResult {
    ToolCallResult {
        success: true,
        past_tense_message: StringOrMarkdown::from("ran"),
        content: Some(vec![ToolResultContent::Text(ToolResultTextContent {
            text: text.to_owned(),
        })]),
        structured_content: None,
        error: None,
    }
}

/// Returns a failed result with this reason.
pub fn failed(why: &str) -> ToolCallResult {
    ToolCallResult {
        success: false,
        past_tense_message: StringOrMarkdown::from(why),
        content: None,
        structured_content: None,
        error: Some(serde_json::json!({ "message": why })),
    }
}
