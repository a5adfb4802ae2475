//! `check`: validates scenario files. `new`: prints a starter file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::report::phrases;
use crate::scenario::{self, Undeclared, undeclared};
use crate::subject::DynSubject;

use super::files;
use super::page::{Page, UserError};

/// Reads scenario files and looks up every name in them, without running anything. Stops at the
/// first mistake. A name in an operation that no table declares gets a note.
pub fn check(
    named: &[PathBuf],
    subjects: &[Arc<dyn DynSubject>],
    page: &mut Page<'_>,
) -> Result<bool, UserError> {
    let found = files::find(named)?;
    for found in &found {
        let scenario = files::load(&found.path, subjects, page)?;
        let subject = files::subject(&scenario, subjects)?;
        for Undeclared { line, table, name } in undeclared(&scenario, &**subject) {
            let line = line.map_or(String::new(), |line| format!(":{line}"));
            let file = scenario.path.display();
            page.print(&format!(
                "{file}{line}: note: no [{table}.{name}] declares `{name}`, so it does not exist in the run\n"
            ))?;
        }
    }
    page.print(&format!("{}: no mistake\n", phrases::count(found.len() as u64, "scenario file")))?;
    Ok(true)
}

/// The schema of scenario files in a crate that has one, and the comment for a crate that has none.
const SCHEMA: &str = "scenarios/schema.json";
const NO_SCHEMA: &str = "# To complete names in an editor: `reknit list schema > scenarios/schema.json`, and\n# `#:schema ../schema.json` on the first line.\n";

/// Prints a commented starter file for a subject.
pub fn new(
    name: &str,
    subjects: &[Arc<dyn DynSubject>],
    page: &mut Page<'_>,
) -> Result<bool, UserError> {
    let has_schema = Path::new(SCHEMA).exists();
    let head = if has_schema { "#:schema ../schema.json\n" } else { NO_SCHEMA };
    page.print(&format!("{head}{}", scenario::starter(files::named(name, subjects)?)))?;
    Ok(true)
}
