//! GitHub Actions: reads the environment of a job, and reports failures to it.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::report::ci_report::CiReport;
use crate::report::github::{annotation, summary};

/// The job environment. All fields are empty outside a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Github {
    /// Whether failures are annotated at their lines: `GITHUB_ACTIONS` is `true`.
    pub marks: bool,
    /// The job summary file: `GITHUB_STEP_SUMMARY`.
    pub summary: Option<PathBuf>,
    /// The root folder of the repository: `GITHUB_WORKSPACE`.
    pub workspace: Option<PathBuf>,
}

/// The open job summary file.
#[derive(Debug)]
pub struct JobSummary(File);

impl Github {
    /// Reads the job environment from these variables.
    pub fn of(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let path = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        Self {
            marks: variable("GITHUB_ACTIONS").is_some_and(|value| value == "true"),
            summary: path("GITHUB_STEP_SUMMARY"),
            workspace: path("GITHUB_WORKSPACE"),
        }
    }

    /// Reads the job environment from the environment of this process.
    pub fn of_this_process() -> Self {
        Self::of(|name| std::env::var_os(name))
    }

    /// Opens the job summary, if there is one.
    ///
    /// # Errors
    /// If it cannot be written. The error is one line.
    pub fn open(&self) -> Result<Option<JobSummary>, String> {
        let Some(path) = &self.summary else { return Ok(None) };
        let file = OpenOptions::new().append(true).create(true).open(path);
        let why = |error| {
            format!("GITHUB_STEP_SUMMARY={}: this file cannot be written: {error}", path.display())
        };
        file.map(|file| Some(JobSummary(file))).map_err(why)
    }

    /// Returns one annotation line for each failure, if annotations are enabled.
    pub fn marks(&self, ci_report: &CiReport) -> String {
        let breaks = ci_report.failures().filter(|_| self.marks);
        breaks
            .map(|(case, it)| {
                annotation(
                    it,
                    case,
                    it.place.as_ref().map(|place| self.file(&place.file)).as_deref(),
                )
            })
            .collect()
    }

    /// Returns the path of a file relative to the repository root; the command may run in a
    /// subfolder.
    fn file(&self, file: &str) -> String {
        let whole = std::path::absolute(file).ok();
        let inside = whole
            .as_deref()
            .zip(self.workspace.as_deref())
            .and_then(|(whole, root)| whole.strip_prefix(root).ok());
        inside.unwrap_or(Path::new(file)).display().to_string()
    }
}

impl JobSummary {
    /// Appends a CI report.
    ///
    /// # Errors
    /// If the file cannot be written. The error is one line.
    pub fn append(mut self, ci_report: &CiReport) -> Result<(), String> {
        let written = self.0.write_all(summary(ci_report).as_bytes());
        written
            .map_err(|error| format!("the file of GITHUB_STEP_SUMMARY cannot be written: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::ci_report::tests::some_ci_report;

    #[test]
    fn output_is_written_only_inside_a_job() {
        let none = Github::of(|_| None);
        assert_eq!(none, Github::default());
        assert_eq!(none.marks(&some_ci_report()), "");
        assert!(none.open().unwrap().is_none());
        assert_eq!(
            Github::of(|name| (name == "GITHUB_ACTIONS").then(|| "false".into())),
            Github::default()
        );
        assert_eq!(Github::of(|_| Some("".into())), Github::default());
    }

    #[test]
    fn a_file_is_named_relative_to_the_repository_root() {
        let here = std::env::current_dir().unwrap();
        let github =
            Github { marks: true, workspace: here.parent().map(Path::to_owned), summary: None };
        let own = here.file_name().unwrap().to_string_lossy();
        let marks = github.marks(&some_ci_report());
        assert!(
            marks.starts_with(&format!(
                "::error file={own}/scenarios/counter/cut.toml,line=12,title="
            )),
            "{marks}"
        );
        assert_eq!(marks.lines().count(), 1);
        let elsewhere = Github { workspace: Some("/nowhere".into()), ..github };
        assert!(
            elsewhere
                .marks(&some_ci_report())
                .starts_with("::error file=scenarios/counter/cut.toml,")
        );
    }

    #[test]
    fn pages_are_appended_and_an_unwritable_page_is_an_error() {
        let path = std::env::temp_dir().join(format!("reknit-summary-{}.md", std::process::id()));
        std::fs::write(&path, "before\n").unwrap();
        let github = Github { summary: Some(path.clone()), ..Github::default() };
        github.open().unwrap().unwrap().append(&some_ci_report()).unwrap();
        let page = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(page.starts_with("before\n### ❌ reknit run: 1 of 3 cases broke"), "{page}");
        let nowhere = Github { summary: Some("/dev/null/page.md".into()), ..Github::default() };
        let why = nowhere.open().unwrap_err();
        assert!(
            why.starts_with("GITHUB_STEP_SUMMARY=/dev/null/page.md: this file cannot be written: "),
            "{why}"
        );
    }
}
