//! What a client offers: tools that it runs for agents, and answers to what the host asks.

use std::collections::BTreeMap;
use std::sync::Arc;

use reknit_seams::net::BoxFuture;
use serde_json::value::RawValue;

use super::core::Run;
use crate::wire::ahp::StringOrMarkdown;
use crate::wire::ahp::state::{
    ToolCallResult, ToolDefinition, ToolResultContent, ToolResultTextContent,
};
use crate::wire::code;

/// Something that a client runs for an agent.
pub trait Tool: Send + Sync {
    /// What it is called, and what it takes.
    fn definition(&self) -> ToolDefinition;

    /// Runs it. The future is dropped when the call is over before it is done. One that panics has failed.
    fn run(&self, run: Run) -> BoxFuture<'static, ToolCallResult>;
}

/// Answers what the host asks, as for a file.
pub trait Answers: Send + Sync {
    /// The answer to a request, or an error's number and text.
    fn answer(
        &self,
        method: String,
        params: Option<Box<RawValue>>,
    ) -> BoxFuture<'static, Result<Box<RawValue>, (i64, String)>>;
}

/// Answers nothing.
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
            "this client answers nothing".to_owned(),
        ))))
    }
}

/// The tools of a client, by name.
#[derive(Clone, Default)]
pub struct Toolbox(BTreeMap<String, Arc<dyn Tool>>);

impl Toolbox {
    /// With these tools; of two with one name the later counts.
    pub fn of(tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        Self(tools.into_iter().map(|tool| (tool.definition().name, tool)).collect())
    }

    /// What they are called, and what they take.
    pub fn definitions(&self) -> Vec<ToolDefinition> {
        self.0.values().map(|tool| tool.definition()).collect()
    }

    pub(super) fn run(&self, run: Run) -> BoxFuture<'static, ToolCallResult> {
        match self.0.get(&run.tool) {
            Some(tool) => tool.run(run),
            None => Box::pin(std::future::ready(failed("there is no such tool here"))),
        }
    }
}

/// A tool without more than a name.
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

/// A result that says this.
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

/// A result that says why there is none.
pub fn failed(why: &str) -> ToolCallResult {
    ToolCallResult {
        success: false,
        past_tense_message: StringOrMarkdown::from(why),
        content: None,
        structured_content: None,
        error: Some(serde_json::json!({ "message": why })),
    }
}
