//! What a CI server is told of a command: JUnit XML, where a file is named for it, and what GitHub asks for.

use std::path::PathBuf;

use crate::frontend::github::JobSummary;
use crate::report::ci_report::CiReport;
use crate::report::junit;

use super::outputs::OutputFile;
use super::page::{Page, Stop};

/// Everything that is to be told in the end, open.
#[derive(Debug)]
pub struct Ci {
    junit: Option<OutputFile>,
    summary: Option<JobSummary>,
}

impl Ci {
    /// Opens what there is to write.
    ///
    /// # Errors
    /// If something cannot be written, in one line.
    pub fn open(junit: Option<&PathBuf>, page: &Page<'_>) -> Result<Self, Stop> {
        let junit = OutputFile::wanted(junit, "--junit")?;
        Ok(Self { junit, summary: page.github.open().map_err(Stop)? })
    }

    /// Whether anybody is told.
    pub fn listens(&self, page: &Page<'_>) -> bool {
        self.junit.is_some() || self.summary.is_some() || page.github.marks
    }

    /// Tells it. Marks go to standard error: results may be read by a machine.
    ///
    /// # Errors
    /// If something cannot be written after all.
    pub fn summarize(self, ci_report: &CiReport, page: &mut Page<'_>) -> Result<(), Stop> {
        let marks = page.github.marks(ci_report);
        page.mark(&marks);
        self.junit.map_or(Ok(()), |junit| junit.write(&junit::xml(ci_report)))?;
        self.summary.map_or(Ok(()), |summary| summary.append(ci_report)).map_err(Stop)
    }
}

#[cfg(test)]
mod tests;
