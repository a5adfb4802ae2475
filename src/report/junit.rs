//! A CI report as JUnit XML, which every CI server reads. A test suite is a subject or a file; a
//! test case is a scenario file or a finding.

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use super::ci_report::{CaseFailure, CaseResult, CiCase, CiReport, Group};

/// Returns the XML document. Characters that XML does not allow are left out.
pub fn xml(ci_report: &CiReport) -> String {
    let mut report = Report::new(ci_report.title.as_str());
    report.set_time(ci_report.wall);
    let totals = (ci_report.groups.len() == 1).then_some(ci_report.totals.as_str());
    report.add_test_suites(ci_report.groups.iter().map(|group| suite(group, totals)));
    report.to_string().expect("text can be written to a string")
}

/// Returns a test suite. The totals become its output only if it is the only suite.
fn suite(group: &Group, totals: Option<&str>) -> TestSuite {
    let mut suite = TestSuite::new(group.name.as_str());
    suite.add_test_cases(group.cases.iter().map(|case| self::case(case, &group.name)));
    totals.into_iter().for_each(|totals| {
        suite.set_system_out(totals);
    });
    suite
}

fn case(case: &CiCase, group: &str) -> TestCase {
    let mut test_case = TestCase::new(case.name.as_str(), status(&case.result));
    test_case.set_classname(group).set_system_out(case.about.as_str());
    test_case
}

fn status(result: &CaseResult) -> TestCaseStatus {
    match result {
        CaseResult::Passed => TestCaseStatus::success(),
        CaseResult::NotRun(why) => {
            let mut status = TestCaseStatus::skipped();
            status.set_message(why.as_str());
            status
        }
        CaseResult::Failed(it) => failure(it),
    }
}

fn failure(it: &CaseFailure) -> TestCaseStatus {
    let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
    status
        .set_message(it.sentence.as_str())
        .set_type(it.property.as_str())
        .set_description(it.body());
    status
}

#[cfg(test)]
mod tests {
    use super::super::ci_report::tests::some_ci_report;
    use super::*;

    #[test]
    fn an_independent_parser_reads_failures_and_successes() {
        let ci_report = some_ci_report();
        let read = junit_parser::from_reader(xml(&ci_report).as_bytes()).unwrap();
        assert_eq!((read.tests, read.failures, read.skipped, read.errors), (3, 1, 1, 0));
        let [suite] = &read.suites[..] else { panic!("a suite a subject: {read:?}") };
        assert_eq!(
            (suite.name.as_str(), suite.system_out.as_deref()),
            ("counter", Some(ci_report.totals.as_str()))
        );
        let names: Vec<_> = suite.cases.iter().map(|case| case.original_name.as_str()).collect();
        assert_eq!(
            names,
            [
                "scenarios/counter/cut.toml",
                "scenarios/counter/plain.toml",
                "scenarios/counter/slow.toml"
            ]
        );
        let failure = suite.cases[0].status.failure_as_ref();
        assert_eq!(failure.message, "s1: item 20 was delivered after item 18; 19 < 20 never was");
        assert_eq!(failure.failure_type, "gap_free");
        assert!(
            failure.text.contains("replay   reknit replay scenarios/counter/cut.toml --seed 1"),
            "{}",
            failure.text
        );
        assert!(suite.cases[1].status.is_success() && suite.cases[2].status.is_skipped());
    }

    #[test]
    fn characters_invalid_in_xml_are_removed() {
        let mut ci_report = some_ci_report();
        let CaseResult::Failed(it) = &mut ci_report.groups[0].cases[0].result else {
            panic!("the first case broke")
        };
        it.sentence = "a \u{1b}[31mred\u{1b}[0m word, a \u{0} and \"&\" <".into();
        let read = junit_parser::from_reader(xml(&ci_report).as_bytes()).unwrap();
        assert_eq!(
            read.suites[0].cases[0].status.failure_as_ref().message,
            "a red word, a  and \"&\" <"
        );
    }
}
