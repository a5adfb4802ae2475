//! `keep`: turns a found file into a scenario of its subject's suite.

use std::path::Path;
use std::sync::Arc;

use crate::subject::DynSubject;

use super::files::{self, FOLDER};
use super::page::{Page, UserError};

/// Moves a file to its subject's folder. The file must parse, and no existing file is replaced.
pub fn keep(
    file: &Path,
    subjects: &[Arc<dyn DynSubject>],
    page: &mut Page<'_>,
) -> Result<bool, UserError> {
    let scenario = files::load(file, subjects, page)?;
    let name = file
        .file_name()
        .ok_or_else(|| UserError(format!("{}: not a scenario file", file.display())))?;
    let to = Path::new(FOLDER).join(&scenario.subject).join(name);
    if to.exists() {
        return Err(UserError(format!(
            "{} already exists; rename one of the two files",
            to.display()
        )));
    }
    let folder = to.parent().map_or(Ok(()), std::fs::create_dir_all);
    let moved = folder.and_then(|()| std::fs::rename(file, &to));
    moved.map_err(|error| {
        UserError(format!("{}: cannot be moved to {}: {error}", file.display(), to.display()))
    })?;
    page.print(&format!("{} is now a test of the {} suite\n", to.display(), scenario.subject))?;
    Ok(true)
}
