//! Scenario files as front ends find them.

use std::path::{Path, PathBuf};

use crate::property::Violation;
use crate::report::ci_report::SourceLine;
use crate::scenario::expect::EXPECT;

/// All scenario files of a folder and the folders in it, by name. Links to folders are not followed.
pub fn scenario_files(folder: &Path, found: &mut Vec<PathBuf>) -> Result<(), String> {
    let unreadable = |error: std::io::Error| {
        format!("{}: this folder cannot be read: {error}", folder.display())
    };
    let entries = std::fs::read_dir(folder).map_err(unreadable)?;
    let mut entries = entries.collect::<Result<Vec<_>, _>>().map_err(unreadable)?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        if entry.file_type().map_err(unreadable)?.is_dir() {
            scenario_files(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "toml") {
            found.push(path);
        }
    }
    Ok(())
}

/// Where a person looks first when a scenario of this file breaks: where it stands what was expected, if that is what broke. Where
/// nothing broke, `unmet` is what all runs did not show. Standard input is no place.
pub fn place(file: &Path, broken: &[Violation], unmet: Option<&Violation>) -> Option<SourceLine> {
    if file.as_os_str().is_empty() || file == Path::new("-") {
        return None;
    }
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let first = broken.iter().find(|broken| broken.property == EXPECT).or(broken.first());
    Some(SourceLine::of(file.display().to_string(), &text, first.or(unmet)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_cannot_be_read_is_named() {
        let why = scenario_files(Path::new("no/such/folder"), &mut Vec::new()).unwrap_err();
        assert!(
            why.starts_with("no/such/folder: this folder cannot be read: ") && !why.contains('\n'),
            "{why}"
        );
    }
}
