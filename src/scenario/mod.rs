//! Scenario files: TOML ↔ schedule. A person adds a file, and the suite runs it; a hunt keeps what broke in the same form.
//!
//! - [`ScenarioFile`]: a file as data. [`ScenarioFile::load`] and [`ScenarioFile::parse`] read one, [`ScenarioFile::to_toml`] writes one.
//! - [`Expect`]: what must come out of it, besides the properties.
//! - [`Mistake`]: what a person got wrong, with file, line and column.
//! - [`keys`]: the keys of a file. With the fault table ([`crate::schedule::words`]) and a subject's own tables, they are all
//!   that can stand in one; [`parse`](ScenarioFile::parse), [`schema()`], [`reference()`] and [`starter()`] are drawn from them.
//!
//! Reading is strict everywhere: an unknown key, a wrong type, a wrong unit, an unknown name is a mistake, never ignored.
//! Nothing is run here.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::schedule::Plan;
use crate::subject::DynSubject;
use crate::world::Engine;

pub mod expect;
mod file;
pub mod keys;
pub mod mistake;
mod parse;
mod reader;
pub mod reference;
pub mod schema;
pub mod starter;
#[cfg(test)]
mod tests;
mod verbs;
mod vocabulary;
mod write;

pub use expect::{
    CallEnds, Expect, ExpectCall, ExpectProcess, ExpectStream, ExpectedOutput, Idle, ProcessExit,
    StreamEnds, SwarmTally,
};
pub use file::{Body, ScenarioFile};
pub use mistake::Mistake;
pub use parse::limits::read_limit;
pub use reference::reference;
pub use schema::schema;
pub use starter::starter;
pub use vocabulary::FORMAT;

impl ScenarioFile {
    /// Reads a file. `subjects` are those that it may be about.
    ///
    /// # Errors
    /// If it cannot be read, or not understood: one line that says where, and what to do.
    pub fn load(path: &Path, subjects: &[Arc<dyn DynSubject>]) -> Result<Self, Mistake> {
        let file = path.display().to_string();
        if path.is_dir() {
            return Err(Mistake::whole(file, "this is a folder; name a scenario file in it"));
        }
        let text = std::fs::read_to_string(path)
            .map_err(|error| Mistake::whole(file.as_str(), unreadable(&error)))?;
        Self::parse(&text, &file, subjects)
    }

    /// Reads the text of a file that is called `file`. `subjects` are those that it may be about.
    ///
    /// # Errors
    /// If it is not understood: one line that says where, and what to do.
    pub fn parse(
        text: &str,
        file: &str,
        subjects: &[Arc<dyn DynSubject>],
    ) -> Result<Self, Mistake> {
        parse::file(text, file, subjects)
    }

    /// The file's text: what [`parse`](Self::parse) reads back as the same scenario. Comments are not kept.
    pub fn to_toml(&self) -> String {
        write::file(self)
    }

    /// A scenario of one plan, as a hunt keeps it: its seed is the only one, and nothing is expected but the properties.
    pub fn of_plan(mut plan: Plan, title: impl Into<String>) -> Self {
        write::drop_nulls(&mut plan);
        Self {
            path: PathBuf::new(),
            step_lines: Vec::new(),
            subject: plan.subject.clone(),
            title: title.into(),
            source: Vec::new(),
            kills: Vec::new(),
            defects: plan.defects.clone(),
            seeds: 1,
            first_seed: plan.seed,
            engines: vec![Engine::Event],
            engines_because: None,
            both_orders: false,
            body: Body::Schedule(plan),
            expect: Expect::default(),
        }
    }
}

fn unreadable(error: &std::io::Error) -> String {
    use std::io::ErrorKind::{InvalidData, NotFound, PermissionDenied};
    match error.kind() {
        NotFound => "there is no such file; `reknit new SUBJECT` writes one to begin with".into(),
        PermissionDenied => "this file may not be read; change its permissions".into(),
        InvalidData => "this file is not UTF-8 text".into(),
        _ => format!("this file cannot be read: {error}"),
    }
}
