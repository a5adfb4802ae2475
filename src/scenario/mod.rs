//! Scenario files: TOML ↔ schedule. The suite runs every file that a user adds, and a hunt saves
//! its findings in the same format.
//!
//! - [`ScenarioFile`]: the data of a file. [`ScenarioFile::load`] and [`ScenarioFile::parse`] read
//!   it, [`ScenarioFile::to_toml`] writes it.
//! - [`Expect`]: the expectations, in addition to the properties.
//! - [`Snapshot`]: what users saw in the first run, to notice changes that no rule covers.
//! - [`Mistake`]: a mistake in a file, with file, line and column.
//! - [`keys`]: the keys of a file. Together with the fault table ([`crate::schedule::words`]) and a
//!   subject's own tables, they define the whole content of a file. [`parse`](ScenarioFile::parse),
//!   [`schema()`], [`reference()`] and [`starter()`] are derived from them.
//!
//! The parser is strict: an unknown key, a wrong type, a wrong unit or an unknown name is always
//! reported, never ignored. This module runs nothing.

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
pub mod snapshot;
pub mod starter;
#[cfg(test)]
mod tests;
mod undeclared;
mod verbs;
mod vocabulary;
mod write;

pub use expect::{
    CallEnds, Expect, ExpectCall, ExpectProcess, ExpectStream, ExpectedOutput, Idle, ProcessExit,
    StreamEnds, SwarmTally,
};
pub use file::{Body, ScenarioFile};
pub use mistake::Mistake;
pub use parse::limits::{find_profile, read_limit};
pub use reference::reference;
pub use schema::schema;
pub use snapshot::Snapshot;
pub use starter::starter;
pub use undeclared::{Undeclared, undeclared};
pub use vocabulary::FORMAT;

impl ScenarioFile {
    /// Reads a file. `subjects` are the subjects that the file may use.
    ///
    /// # Errors
    /// If the file cannot be read or parsed. The message is one line with the position and a
    /// suggested fix.
    pub fn load(path: &Path, subjects: &[Arc<dyn DynSubject>]) -> Result<Self, Mistake> {
        let file = path.display().to_string();
        if path.is_dir() {
            return Err(Mistake::whole(file, "this is a folder; name a scenario file in it"));
        }
        let text = std::fs::read_to_string(path)
            .map_err(|error| Mistake::whole(file.as_str(), unreadable(&error)))?;
        let snapshot =
            Snapshot::load(path).map_err(|error| Mistake::whole(file.as_str(), error))?;
        Ok(Self { snapshot, ..Self::parse(&text, &file, subjects)? })
    }

    /// Parses the text of a file. `file` is its name for messages. `subjects` are the subjects that
    /// the file may use.
    ///
    /// # Errors
    /// If the text cannot be parsed. The message is one line with the position and a suggested fix.
    pub fn parse(
        text: &str,
        file: &str,
        subjects: &[Arc<dyn DynSubject>],
    ) -> Result<Self, Mistake> {
        parse::file(text, file, subjects)
    }

    /// Returns the text of the file. [`parse`](Self::parse) reads it back as the same scenario.
    /// Comments are lost.
    pub fn to_toml(&self) -> String {
        write::file(self)
    }

    /// Creates a scenario of one plan, as a hunt saves it. The plan's seed is the only seed, and
    /// there are no expectations.
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
            snapshot: None,
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
