//! The whole page, for a history built by hand and for real runs.

use std::collections::BTreeSet;
use std::path::Path;

use super::*;
use crate::property::About;
use crate::property::violation::sample_violation;
use crate::report::story::tests::a_gap;
use crate::scenario::ScenarioFile;
use crate::world::{Detail, Options, run};

/// Returns the page of the first run of a scenario file with these defects enabled, and the number
/// of its segments. The run is not judged: the page always shows a violation of `gap_free` at the
/// end of the run.
fn page_of(file: &str, defects: &[&str], detail: Detail) -> (String, u64) {
    let subjects = crate::subjects::built_in();
    let scenario = ScenarioFile::load(&Path::new("scenarios").join(file), &subjects).unwrap();
    let mut plan = scenario.plans().remove(0);
    plan.defects.extend(defects.iter().map(|defect| (*defect).to_owned()));
    let subject = subjects.iter().find(|subject| subject.name() == plan.subject).unwrap();
    let history = run(subject, &plan, &Options { detail, ..Options::default() }).unwrap().history;
    let sentence = "s1: 3 < 4 & 5 > 4".to_owned();
    let broken = [sample_violation("gap_free", About::Run, history.end, &sentence)];
    (
        html(&Picture {
            plan: &plan,
            history: &history,
            broken: &broken,
            replay: "reknit replay 'a&b.toml'",
        }),
        history.packets,
    )
}

#[test]
fn a_history_without_messages_shows_lanes_connections_faults_and_violations() {
    let (plan, history, broken) = a_gap();
    let page = html(&Picture {
        plan: &plan,
        history: &history,
        broken: &broken,
        replay: "reknit replay a.toml",
    });
    for part in [
        "<title>counter: gap_free breaks</title>",
        ">client</text>",
        ">server</text>",
        "class=\"ribbon g1\"",
        "class=\"ribbon g2\"",
        "class=\"fault kills\"",
        ">cut client#1: client learns at once, server after",
        "id=\"broken-0\"",
        "href=\"#broken-0\"",
        "s1: item 42 was delivered after item 40; 41 never was (generation 2, at 4.231 s)",
        ">42 ✖, end ✔</text>",
        "1 operation and 2 faults, seed 1",
        "<code>reknit replay a.toml</code>",
    ] {
        assert!(page.contains(part), "{part}\n{page}");
    }
    assert!(!page.contains("class=\"message "));
}

#[test]
fn a_page_shows_each_kind_of_mark_that_its_run_has() {
    let marks: [(&str, &[&str], &[&str]); 5] = [
        (
            "counter/short-cut-while-numbers-flow.toml",
            &["resumes-one-too-late"],
            &[
                "message g1 delivered",
                "message many g1",
                "tick g1",
                "fault kills",
                "idle",
                "fold",
                "cell wrong",
                "strip",
                "note plain",
            ],
        ),
        (
            "counter/half-open-toward-the-client.toml",
            &[],
            &["message g1 waited", "message g2 delivered"],
        ),
        (
            "counter/data-of-generation-1-is-late.toml",
            &["old-numbers-delivered"],
            &["message g1 late", "fault slows"],
        ),
        (
            "counter/server-restarts-after-a-crash.toml",
            &[],
            &["down", "ribbon g0", "message g1 delivered"],
        ),
        ("counter/held-between-attach-and-welcome.toml", &[], &["held", "fault slows"]),
    ];
    for (file, defects, classes) in marks {
        let (page, _) = page_of(file, defects, Detail::Full);
        for class in classes {
            assert!(page.contains(&format!("class=\"{class}")), "{file}: {class}");
        }
    }
}

#[test]
fn markup_characters_in_texts_are_escaped() {
    let (page, _) = page_of("counter/short-cut-while-numbers-flow.toml", &[], Detail::Verdict);
    assert!(
        page.contains("s1: 3 &lt; 4 &amp; 5 &gt; 4")
            && page.contains("reknit replay &#39;a&amp;b.toml&#39;")
    );
    assert!(!page.contains("3 < 4"));
}

#[test]
fn a_page_is_self_contained() {
    let (page, _) = page_of("counter/two-clients-one-cut.toml", &[], Detail::Full);
    for needs in ["<script", "<link", "src=", "http:", "https:", "@import"] {
        assert!(!page.contains(needs), "{needs}");
    }
    let names: Vec<_> =
        page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let known: BTreeSet<_> = names.iter().copied().collect();
    assert_eq!(known.len(), names.len(), "each name is given once");
    let links = page.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next());
    links.for_each(|link| assert!(known.contains(link), "#{link} leads nowhere"));
}

#[cfg(feature = "exec")]
#[test]
fn a_run_of_thousands_of_segments_is_a_page_below_a_megabyte() {
    for file in ["exec/http-slow-reader.toml", "exec/a-flood-beside-a-quiet-process.toml"] {
        let (page, packets) = page_of(file, &[], Detail::Full);
        assert!(packets >= 2_000, "{file}: {packets} segments");
        assert!(page.len() < 1_000_000, "{file}: {} bytes", page.len());
    }
}
