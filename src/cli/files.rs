//! Finds and loads the scenario files that a command names.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::frontend::scenario_files;
use crate::hunt::plans::is_swarm;
use crate::report::envelope;
use crate::scenario::ScenarioFile;
use crate::subject::DynSubject;

use super::page::{Page, UserError};

/// The default folder of scenario files.
pub const FOLDER: &str = "scenarios";

/// A scenario file to use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundFile {
    /// The path; `-` for standard input.
    pub path: PathBuf,
    /// Whether the user named this file itself, not a folder that contains it.
    pub named: bool,
}

/// Returns the scenario files among these files and folders, in order; the files of [`FOLDER`] if
/// the user named none.
pub fn find(named: &[PathBuf]) -> Result<Vec<FoundFile>, UserError> {
    if named.is_empty() && !Path::new(FOLDER).is_dir() {
        return Err(UserError(format!(
            "no folder `{FOLDER}` here; name scenario files, or create one with `new SUBJECT`"
        )));
    }
    let default = [PathBuf::from(FOLDER)];
    let named = if named.is_empty() { &default } else { named };
    let mut found = Vec::new();
    for path in named {
        if path.is_dir() {
            let mut inside = Vec::new();
            scenario_files(path, &mut inside).map_err(UserError)?;
            if inside.is_empty() {
                return Err(UserError(format!(
                    "{}: no scenario file (*.toml) in this folder",
                    path.display()
                )));
            }
            found.extend(inside.into_iter().map(|path| FoundFile { path, named: false }));
        } else {
            found.push(FoundFile { path: path.clone(), named: true });
        }
    }
    Ok(found)
}

/// Reads a scenario from a file, or from standard input if the path is `-`.
pub fn load(
    path: &Path,
    subjects: &[Arc<dyn DynSubject>],
    page: &mut Page<'_>,
) -> Result<ScenarioFile, UserError> {
    if path != Path::new("-") {
        return Ok(ScenarioFile::load(path, subjects)?);
    }
    let mut bytes = Vec::new();
    page.input
        .read_to_end(&mut bytes)
        .map_err(|error| UserError(format!("standard input cannot be read: {error}")))?;
    let text = String::from_utf8(bytes)
        .map_err(|_| UserError("-: standard input is not UTF-8 text".into()))?;
    Ok(ScenarioFile::parse(&envelope::open(&text), "-", subjects)?)
}

/// Reads a scenario to sweep. It must be a schedule.
pub fn load_schedule(
    path: &Path,
    subjects: &[Arc<dyn DynSubject>],
    page: &mut Page<'_>,
) -> Result<ScenarioFile, UserError> {
    let scenario = load(path, subjects, page)?;
    if is_swarm(&scenario) {
        let file = path.display();
        return Err(UserError(format!(
            "{file}: this file is a swarm; a sweep needs a schedule, which is a file with steps"
        )));
    }
    Ok(scenario)
}

/// Returns the subject of a scenario.
pub fn subject<'s>(
    scenario: &ScenarioFile,
    subjects: &'s [Arc<dyn DynSubject>],
) -> Result<&'s Arc<dyn DynSubject>, UserError> {
    named(&scenario.subject, subjects)
}

/// Returns the subject with this name.
pub fn named<'s>(
    name: &str,
    subjects: &'s [Arc<dyn DynSubject>],
) -> Result<&'s Arc<dyn DynSubject>, UserError> {
    let known = subjects.iter().map(|subject| subject.name());
    let found = subjects.iter().find(|subject| subject.name() == name);
    found.ok_or_else(|| UserError(crate::scenario::mistake::unknown("a subject", name, known)))
}
