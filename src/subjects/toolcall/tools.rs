//! The tools that the windows of simulated clients run for agents, and the windows' answers to the
//! host.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::{Duration, sleep};

use super::agent::READ;
use super::notes::{Became, By, OfCall, ToolWork};
use super::setup::{self, ToolEnds, ToolSetup};
use crate::history::Stream;
use crate::net::BoxFuture;
use crate::subject::{HostContext, Recorder};
use reknit_toolcall::client::{self, Answers, NoAnswers, Run, Tool, Toolbox};
use reknit_toolcall::wire::ahp::state::{ToolCallResult, ToolDefinition};

/// The text of a result that reports a failure.
pub(super) const FAILED: &str = "the tool failed";

/// All tools that the window of a host offers.
pub(super) fn toolbox(host: &HostContext) -> Toolbox {
    let tools = setup::tools_of(&host.plan, host.name.as_str()).into_iter();
    Toolbox::of(tools.map(|(name, setup)| -> Arc<dyn Tool> {
        Arc::new(Scripted { name, setup, record: host.record.clone() })
    }))
}

/// A tool with the duration and the ending that the scenario declares.
struct Scripted {
    name: String,
    setup: ToolSetup,
    record: Recorder,
}

impl Tool for Scripted {
    fn definition(&self) -> ToolDefinition {
        client::named(&self.name)
    }

    fn run(&self, run: Run) -> BoxFuture<'static, ToolCallResult> {
        let (setup, record) = (self.setup.clone(), self.record.clone());
        Box::pin(async move {
            let mut working = Working { record, run, is_done: false };
            working.note(ToolWork::Begins);
            sleep(setup.takes.0).await;
            working.is_done = true;
            working.note(ToolWork::Ends);
            match setup.ends {
                ToolEnds::Works => client::done(&result(setup.letters)),
                ToolEnds::Fails => client::failed(FAILED),
                ToolEnds::BreaksDown => {
                    match working.record.panic_outside("the tool panicked").await {}
                }
            }
        })
    }
}

/// The text of a result with at least this many letters.
pub(super) fn result(letters: u64) -> String {
    format!("done{}", ".".repeat((letters as usize).saturating_sub("done".len())))
}

/// A running tool, which notes when it is stopped.
struct Working {
    record: Recorder,
    run: Run,
    is_done: bool,
}

impl Working {
    fn note(&self, work: ToolWork) {
        let turn = Stream::from(self.run.turn.as_str());
        OfCall { by: By::Tool, call: self.run.call.clone(), what: Became::Works(work) }
            .note(&self.record, &turn);
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        if !self.is_done {
            self.note(ToolWork::Stopped);
        }
    }
}

/// Answers the host after the delay that the host's agent requests.
pub(super) struct DelayedAnswers;

#[derive(Deserialize)]
struct Question {
    takes: u64,
}

impl Answers for DelayedAnswers {
    fn answer(
        &self,
        method: String,
        params: Option<Box<RawValue>>,
    ) -> BoxFuture<'static, Result<Box<RawValue>, (i64, String)>> {
        if method != READ {
            return NoAnswers.answer(method, params);
        }
        let question: Option<Question> =
            params.and_then(|params| serde_json::from_str(params.get()).ok());
        Box::pin(async move {
            sleep(Duration::from_millis(question.map_or(0, |question| question.takes))).await;
            Ok(serde_json::value::to_raw_value("text").expect("a text is JSON"))
        })
    }
}
