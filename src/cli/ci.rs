//! Reports for CI servers: JUnit XML if the user names a file, and the annotations and job summary
//! of GitHub Actions.

use std::path::PathBuf;

use crate::frontend::github::JobSummary;
use crate::report::ci_report::CiReport;
use crate::report::junit;

use super::outputs::OutputFile;
use super::page::{Page, UserError};

/// All outputs of the CI report, already open.
#[derive(Debug)]
pub struct Ci {
    junit: Option<OutputFile>,
    summary: Option<JobSummary>,
}

impl Ci {
    /// Opens all files to write.
    ///
    /// # Errors
    /// If a file cannot be written. The message is one line.
    pub fn open(junit: Option<&PathBuf>, page: &Page<'_>) -> Result<Self, UserError> {
        let junit = OutputFile::if_requested(junit, "--junit")?;
        Ok(Self { junit, summary: page.github.open().map_err(UserError)? })
    }

    /// Whether any CI output was requested.
    pub fn listens(&self, page: &Page<'_>) -> bool {
        self.junit.is_some() || self.summary.is_some() || page.github.marks
    }

    /// Writes the report. Annotations go to standard error, because a machine may read the results
    /// on standard output.
    ///
    /// # Errors
    /// If writing fails after all.
    pub fn summarize(self, ci_report: &CiReport, page: &mut Page<'_>) -> Result<(), UserError> {
        let marks = page.github.marks(ci_report);
        page.mark(&marks);
        self.junit.map_or(Ok(()), |junit| junit.write(&junit::xml(ci_report)))?;
        self.summary.map_or(Ok(()), |summary| summary.append(ci_report)).map_err(UserError)
    }
}

#[cfg(test)]
mod tests;
