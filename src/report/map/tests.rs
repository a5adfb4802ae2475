//! The maps of real sweeps.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use super::*;
use crate::hunt::{self, Checks, Pool};
use crate::scenario::ScenarioFile;

const PLAIN: &str = "format = 1\nsubject = \"counter\"\ntitle = \"Three <numbers>\"\nhorizon = \"3s\"\n[stream.s1]\nnumbers = 3\n\
                     every = \"300ms\"\n[[step]]\nat = \"1s\"\nwatch = { stream = \"s1\" }\n";

/// Returns the map of a stream of three numbers, with these defects enabled. The sweep stops after
/// `most` runs. The first failure has a story.
fn map_of(defects: &[&str], most: usize) -> (SweepProgress, String) {
    let scenario = ScenarioFile::parse(PLAIN, "-", &crate::subjects::built_in()).unwrap();
    let mut plan = scenario.plans().remove(0);
    plan.defects.extend(defects.iter().map(|defect| (*defect).to_owned()));
    let each = |swept: &SweepProgress, _| {
        if swept.done < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    let swept =
        hunt::sweep(&crate::subjects::counter(), &plan, &Checks::default(), &Pool::default(), each)
            .unwrap();
    let first = swept
        .trials
        .iter()
        .position(|trial| !trial.broken.is_empty())
        .map(|number| (number, "it <broke> so".to_owned()));
    let stories = first.into_iter().collect();
    let page = html(&Map {
        swept: &swept,
        title: &scenario.title,
        again: "reknit sweep 'a&b.toml'",
        stories: &stories,
    });
    (swept, page)
}

fn count(page: &str, part: &str) -> usize {
    page.matches(part).count()
}

#[test]
fn each_position_is_a_row_and_each_run_a_cell() {
    let (swept, page) = map_of(&[], usize::MAX);
    assert_eq!(count(&page, "<details class=\"row"), swept.positions.len());
    let cells: usize = swept.positions.iter().map(|position| position.trials.len()).sum();
    let coloured = ["u", "r", "f", "b"].map(|class| {
        let rows = page
            .split("<span class=\"cells\">")
            .skip(2)
            .filter_map(|row| row.split("</span>").next());
        rows.map(|row| count(row, &format!("<i class=\"{class}\">"))).sum::<usize>()
    });
    assert_eq!((coloured.iter().sum::<usize>(), coloured[3]), (cells, 0));
    for trial in 1..=swept.trials.len() {
        assert!(
            page.contains(&format!(
                "<code>reknit sweep &#39;a&amp;b.toml&#39; --trial {trial}</code>"
            )),
            "{trial}"
        );
    }
    for part in [
        "no violation",
        "counter: Three &lt;numbers&gt;",
        ">client</text>",
        "1st counter.client.connected on client",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("<script") && !page.contains("http:") && !page.contains("https:"));
    assert!(page.len() < 250_000, "{} bytes", page.len());
}

#[test]
fn failures_are_listed_at_the_top_with_links_to_their_stories() {
    let (swept, page) = map_of(&["eof-is-completion"], usize::MAX);
    let broken = swept.trials.iter().find(|trial| !trial.broken.is_empty()).unwrap();
    assert!(page.contains("failed</b> <small>"), "{page}");
    assert!(
        page.contains(&format!(
            "<li><a href=\"#s{}\">{}</a>",
            broken.position,
            broken.broken.join(", ")
        )),
        "{page}"
    );
    assert!(page.contains(&format!("is-broken\" id=\"p{}\"", broken.position)));
    assert!(page.contains("<details open><summary>story</summary><pre>it &lt;broke&gt; so</pre>"));
}

#[test]
fn skipped_trials_are_marked() {
    let (swept, page) = map_of(&[], 5);
    assert!(page.contains(&format!("It was stopped after 5 of {} runs.", swept.trials.len())));
    assert!(count(&page, "<i class=\"x\"></i>") >= swept.trials.len() - 5);
}

#[test]
fn a_schedule_that_fails_without_a_fault_has_no_map() {
    let (swept, page) = map_of(&["resumes-one-too-late", "eof-is-completion"], 0);
    assert!(!swept.trials.is_empty());
    let empty = SweepProgress { trials: Vec::new(), positions: Vec::new(), broke: 1, ..swept };
    let page_of_none =
        html(&Map { swept: &empty, title: "x", again: "y", stories: &BTreeMap::new() });
    assert!(
        page_of_none.contains("The schedule violates a property")
            && !page_of_none.contains("<main"),
        "{page}"
    );
}
