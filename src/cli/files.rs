//! Finds and loads the scenario files that a command names.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::frontend::scenario_files;
use crate::hunt::plans::is_swarm;
use crate::report::envelope;
use crate::scenario::ScenarioFile;
use crate::subject::DynSubject;

use super::page::{FOUND, Page, UserError};

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

/// Returns the scenario files among these files and folders, in order. If the user named none, returns
/// the files of [`FOLDER`] without those of [`FOUND`]: hunts and `shrink` write there.
pub fn find(named: &[PathBuf]) -> Result<Vec<FoundFile>, UserError> {
    if named.is_empty() && !Path::new(FOLDER).is_dir() {
        return Err(UserError(format!(
            "no folder `{FOLDER}` here; name scenario files, or create one with `new SUBJECT`"
        )));
    }
    if named.is_empty() {
        return suites(Path::new(FOLDER), Path::new(FOUND));
    }
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

/// Returns the scenario files of a folder, without those of a folder inside it.
fn suites(folder: &Path, without: &Path) -> Result<Vec<FoundFile>, UserError> {
    let mut inside = Vec::new();
    scenario_files(folder, &mut inside).map_err(UserError)?;
    inside.retain(|path| !path.starts_with(without));
    if inside.is_empty() {
        return Err(UserError(format!(
            "{}: no scenario file (*.toml) in this folder, except in {}",
            folder.display(),
            without.display()
        )));
    }
    Ok(inside.into_iter().map(|path| FoundFile { path, named: false }).collect())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saved_findings_are_no_suite() {
        let folder = std::env::temp_dir().join(format!("reknit-suites-{}", std::process::id()));
        let found = folder.join("found");
        for path in [found.join("a.toml"), folder.join("counter/b.toml")] {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let all = suites(&folder, &found);
        std::fs::remove_file(folder.join("counter/b.toml")).unwrap();
        let none = suites(&folder, &found);
        let named = find(std::slice::from_ref(&found));
        std::fs::remove_dir_all(&folder).unwrap();
        let file = |path| FoundFile { path, named: false };
        assert_eq!(all.unwrap(), [file(folder.join("counter/b.toml"))]);
        assert_eq!(named.unwrap(), [file(found.join("a.toml"))]);
        let UserError(why) = none.unwrap_err();
        assert!(why.ends_with(&format!(", except in {}", found.display())), "{why}");
    }
}
