//! Which files are meant.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::frontend::scenario_files;
use crate::hunt::plans::is_swarm;
use crate::report::envelope;
use crate::scenario::ScenarioFile;
use crate::subject::DynSubject;

use super::page::{Page, Stop};

/// Where scenario files are, where nobody says it.
pub const FOLDER: &str = "scenarios";

/// A scenario file that is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundFile {
    /// Where it is; `-` is standard input.
    pub path: PathBuf,
    /// Whether somebody named this very file, and not a folder that it is in.
    pub named: bool,
}

/// The scenario files among these files and folders, in order; those of [`FOLDER`] where none is named.
pub fn find(named: &[PathBuf]) -> Result<Vec<FoundFile>, Stop> {
    if named.is_empty() && !Path::new(FOLDER).is_dir() {
        return Err(Stop(format!(
            "there is no folder `{FOLDER}` here; name scenario files, or write one with `new SUBJECT`"
        )));
    }
    let default = [PathBuf::from(FOLDER)];
    let named = if named.is_empty() { &default } else { named };
    let mut found = Vec::new();
    for path in named {
        if path.is_dir() {
            let mut inside = Vec::new();
            scenario_files(path, &mut inside).map_err(Stop)?;
            if inside.is_empty() {
                return Err(Stop(format!(
                    "{}: there is no scenario file (*.toml) in this folder",
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

/// Reads a scenario from a file, or from standard input where the file is `-`.
pub fn load(
    path: &Path,
    subjects: &[Arc<dyn DynSubject>],
    page: &mut Page<'_>,
) -> Result<ScenarioFile, Stop> {
    if path != Path::new("-") {
        return Ok(ScenarioFile::load(path, subjects)?);
    }
    let mut bytes = Vec::new();
    page.input
        .read_to_end(&mut bytes)
        .map_err(|error| Stop(format!("standard input cannot be read: {error}")))?;
    let text =
        String::from_utf8(bytes).map_err(|_| Stop("-: standard input is not UTF-8 text".into()))?;
    Ok(ScenarioFile::parse(&envelope::open(&text), "-", subjects)?)
}

/// Reads a scenario that is a schedule, for a sweep.
pub fn load_schedule(
    path: &Path,
    subjects: &[Arc<dyn DynSubject>],
    page: &mut Page<'_>,
) -> Result<ScenarioFile, Stop> {
    let scenario = load(path, subjects, page)?;
    if is_swarm(&scenario) {
        let file = path.display();
        return Err(Stop(format!(
            "{file}: this file is a swarm; a sweep needs a schedule, which is a file with steps"
        )));
    }
    Ok(scenario)
}

/// The subject of a scenario.
pub fn subject<'s>(
    scenario: &ScenarioFile,
    subjects: &'s [Arc<dyn DynSubject>],
) -> Result<&'s Arc<dyn DynSubject>, Stop> {
    named(&scenario.subject, subjects)
}

/// The subject of this name.
pub fn named<'s>(
    name: &str,
    subjects: &'s [Arc<dyn DynSubject>],
) -> Result<&'s Arc<dyn DynSubject>, Stop> {
    let known = subjects.iter().map(|subject| subject.name());
    let found = subjects.iter().find(|subject| subject.name() == name);
    found.ok_or_else(|| Stop(crate::scenario::mistake::unknown("a subject", name, known)))
}
