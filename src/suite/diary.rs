//! Collects the test results of a process for the CI server.

use std::sync::Mutex;
use std::time::Instant;

use crate::frontend::Github;
use crate::report::ci_report::{CaseResult, CiCase, CiReport};
use crate::report::phrases;

use super::failure::TestFailure;

/// The results so far. Tests run on several threads.
pub struct ResultLog {
    github: Github,
    started: Instant,
    ci_report: Mutex<CiReport>,
}

impl ResultLog {
    /// Returns an empty log for the CI job of the environment.
    #[allow(clippy::disallowed_methods)] // how long the tests take is real time
    pub fn new(github: Github) -> Self {
        Self { github, started: Instant::now(), ci_report: Mutex::default() }
    }

    /// Records the result of a test.
    pub fn enter(&self, subject: &str, name: String, tested: &Result<String, TestFailure>) {
        let (about, result) = match tested {
            Ok(about) => (about.clone(), CaseResult::Passed),
            Err(wrong) => (String::new(), CaseResult::Failed(wrong.it.clone())),
        };
        let mut ci_report = self.ci_report.lock().expect("no holder of the lock panics");
        ci_report.group(subject).cases.push(CiCase { name, about, result });
    }

    /// Writes the report to the CI job summary, if there is one, and returns the lines for the
    /// job's log. If each test runs in a separate process (`one_each`), only failed tests are
    /// reported.
    ///
    /// # Errors
    /// If the job summary cannot be written. The error is one line.
    pub fn summarize(&self, one_each: bool) -> Result<String, String> {
        let mut ci_report = self.ci_report.lock().expect("no holder of the lock panics").clone();
        let (all, broke) = (ci_report.cases().count() as u64, ci_report.failures().count());
        if all == 0 || (one_each && broke == 0) {
            return Ok(String::new());
        }
        ci_report
            .groups
            .iter_mut()
            .for_each(|group| group.cases.sort_by(|a, b| a.name.cmp(&b.name)));
        let names: Vec<_> = ci_report.groups.iter().map(|group| group.name.clone()).collect();
        ci_report.title = format!("suite of {}", names.join(", "));
        ci_report.wall = self.started.elapsed();
        ci_report.totals = format!(
            "{}, {broke} failed, in {:.1} s",
            phrases::count(all, "test"),
            ci_report.wall.as_secs_f64()
        );
        self.github.open()?.map_or(Ok(()), |page| page.append(&ci_report))?;
        Ok(self.github.marks(&ci_report))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ci_report_lists_each_test_after_all_are_done() {
        let path = std::env::temp_dir().join(format!("reknit-diary-{}.md", std::process::id()));
        let diary =
            ResultLog::new(Github { marks: true, summary: Some(path.clone()), workspace: None });
        diary.enter("counter", "counter::late".into(), &Ok("3 runs".into()));
        assert_eq!(diary.summarize(true), Ok(String::new()));
        diary.enter(
            "counter",
            "counter::early".into(),
            &Err(TestFailure::from("a.toml:3:1: it is early".to_owned())),
        );
        let marks = diary.summarize(false).unwrap();
        let page = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(
            marks.starts_with("::error file=a.toml,line=3,title=counter%3A%3Aearly breaks suite::a.toml:3:1: it is early"),
            "{marks}"
        );
        assert_eq!(marks.lines().count(), 1);
        assert!(page.starts_with("### ❌ suite of counter: 1 of 2 cases broke"), "{page}");
        assert!(page.contains("2 tests, 1 failed, in "), "{page}");
    }
}
