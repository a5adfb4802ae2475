//! Finding scenario files.

use std::path::{Path, PathBuf};

use crate::property::Violation;
use crate::report::ci_report::SourceLine;
use crate::scenario::expect::EXPECT;

/// Collects all scenario files of a folder and its subfolders, sorted by name. Does not follow
/// symbolic links to folders.
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

/// Returns the source line to show for a failure of this scenario file. For an unmet expectation,
/// it is the line of the expectation. If no run has a violation, `unmet` is the expectation that
/// the runs together did not meet. Returns `None` for standard input.
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
