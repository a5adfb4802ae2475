//! A CI report for GitHub Actions: an annotation at a line of a file for each failure, and a job
//! summary.

use super::ci_report::{CaseFailure, CaseResult, CiCase, CiReport};
use super::phrases;

/// The maximum number of failures with a story. GitHub limits the summary of a step to one
/// megabyte.
const STORIES: usize = 20;

/// The maximum number of cases in the visible list. Further passing cases are folded; failures are
/// always visible.
const LISTED: usize = 40;

/// The maximum length of a story, in characters.
const LONG: usize = 20_000;

/// Returns the workflow command that annotates the line of a failure. `file` is the file's path in
/// the repository.
pub fn annotation(it: &CaseFailure, case: &CiCase, file: Option<&str>) -> String {
    let place = it
        .place
        .as_ref()
        .zip(file)
        .map(|(place, file)| format!("file={},line={},", property(file), place.line));
    let title = property(&format!("{} breaks {}", case.name, it.property));
    let again =
        if it.replay.is_empty() { String::new() } else { format!("\nagain: {}", it.replay) };
    format!(
        "::error {}title={title}::{}\n",
        place.unwrap_or_default(),
        data(&format!("{}{again}", it.sentence))
    )
}

/// Escapes the message of a workflow command, so that it fits in one line.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Escapes a property value of a workflow command, which commas separate.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

/// Returns the job summary in Markdown: the command, the totals, and each failure with its story.
pub fn summary(ci_report: &CiReport) -> String {
    let broke = ci_report.failures().count();
    let of = phrases::count(ci_report.cases().count() as u64, "case");
    let (mark, verdict) = if broke == 0 {
        ("✅", format!("all held ({of})"))
    } else {
        ("❌", format!("{broke} of {of} broke"))
    };
    let mut page = format!("### {mark} {}: {verdict}\n\n", inline(&ci_report.title));
    page += &match ci_report.cases().count() <= LISTED {
        true => table(ci_report.cases()),
        false => {
            let broken = if broke == 0 {
                String::new()
            } else {
                table(ci_report.failures().map(|(case, _)| case)) + "\n"
            };
            format!(
                "{broken}<details><summary>All {of}</summary>\n\n{}\n</details>\n",
                table(ci_report.cases())
            )
        }
    };
    page += &format!("\n{}\n", fenced(&ci_report.totals));
    ci_report.failures().take(STORIES).for_each(|(case, it)| page += &failure(case, it));
    if broke > STORIES {
        page += &format!("\n{} more: see the log for their stories.\n", broke - STORIES);
    }
    page + "\n"
}

fn table<'a>(cases: impl Iterator<Item = &'a CiCase>) -> String {
    let rows: String = cases.map(row).collect();
    format!("| | case | runs | result |\n|---|---|---|---|\n{rows}")
}

fn row(case: &CiCase) -> String {
    let (mark, result) = match &case.result {
        CaseResult::Passed => ("✅", "held".to_owned()),
        CaseResult::NotRun(why) => ("➖", inline(why)),
        CaseResult::Failed(it) => {
            ("❌", format!("**{}** {}", inline(&it.property), inline(&it.sentence)))
        }
    };
    format!("| {mark} | {} | {} | {result} |\n", code(&case.name), inline(&case.about))
}

fn failure(case: &CiCase, it: &CaseFailure) -> String {
    let mut rendered = format!(
        "\n#### ❌ {}: {}\n\n{}\n",
        inline(&it.property),
        code(&case.name),
        inline(&it.sentence)
    );
    if !it.replay.is_empty() {
        rendered += &format!("\n{}\n", fenced(&it.replay));
    }
    if it.story.is_empty() {
        return rendered;
    }
    let story = match it.story.char_indices().nth(LONG) {
        Some((at, _)) => format!("{}\n… see the log for the rest", &it.story[..at]),
        None => it.story.clone(),
    };
    rendered + &format!("\n<details><summary>Story</summary>\n\n{}\n</details>\n", fenced(&story))
}

/// Escapes text for one line of Markdown, so that no character has a special meaning.
fn inline(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '\n' | '\r' => safe.push(' '),
            '|' | '*' | '_' | '`' | '[' | ']' | '\\' | '#' | '~' => safe.extend(['\\', c]),
            c => safe.push(c),
        }
    }
    safe
}

/// Returns text as inline code that is also valid in a table.
fn code(text: &str) -> String {
    format!("<code>{}</code>", inline(text))
}

/// Returns text as a code block, with fences longer than any in the text.
fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}text\n{}\n{fence}\n", text.trim_end())
}

#[cfg(test)]
mod tests {
    use super::super::ci_report::tests::some_ci_report;
    use super::*;

    #[test]
    fn a_failure_is_annotated_at_its_line() {
        let ci_report = some_ci_report();
        let (case, it) = ci_report.failures().next().unwrap();
        insta::assert_snapshot!(annotation(it, case, Some("a,b:c/cut.toml")), @"::error file=a%2Cb%3Ac/cut.toml,line=12,title=scenarios/counter/cut.toml breaks gap_free::s1: item 20 was delivered after item 18; 19 < 20 never was%0Aagain: reknit replay scenarios/counter/cut.toml --seed 1");
        let it = CaseFailure {
            sentence: "100 %\r\nlost".into(),
            place: None,
            replay: String::new(),
            ..it.clone()
        };
        insta::assert_snapshot!(annotation(&it, case, Some("x")), @"::error title=scenarios/counter/cut.toml breaks gap_free::100 %25%0D%0Alost");
    }

    #[test]
    fn a_job_summary_has_a_table_the_totals_and_each_story() {
        insta::assert_snapshot!(summary(&some_ci_report()), @r"
        ### ❌ reknit run: 1 of 3 cases broke

        | | case | runs | result |
        |---|---|---|---|
        | ❌ | <code>scenarios/counter/cut.toml</code> | 20 runs, 20 min of virtual time | **gap\_free** s1: item 20 was delivered after item 18; 19 &lt; 20 never was |
        | ✅ | <code>scenarios/counter/plain.toml</code> | 20 runs, 20 min of virtual time | held |
        | ➖ | <code>scenarios/counter/slow.toml</code> | 20 runs, 20 min of virtual time | not on turmoil: slow |

        ```text
        40 schedules, 40 min of virtual time
        ```


        #### ❌ gap\_free: <code>scenarios/counter/cut.toml</code>

        s1: item 20 was delivered after item 18; 19 &lt; 20 never was

        ```text
        reknit replay scenarios/counter/cut.toml --seed 1
        ```


        <details><summary>Story</summary>

        ```text
        FAIL  counter  gap_free

          replay   reknit replay scenarios/counter/cut.toml --seed 1
        ```

        </details>
        ");
    }

    #[test]
    fn markdown_characters_are_escaped() {
        assert_eq!(inline("a|b *c* <d>\n_e_"), "a\\|b \\*c\\* &lt;d&gt; \\_e\\_");
        assert_eq!(fenced("a\n```\nb\n"), "````text\na\n```\nb\n````\n");
    }

    #[test]
    fn a_page_stays_small_however_much_broke() {
        let mut ci_report = some_ci_report();
        let mut case = ci_report.groups[0].cases[0].clone();
        if let CaseResult::Failed(it) = &mut case.result {
            it.story = "ä".repeat(100_000);
        }
        ci_report.groups[0].cases = vec![case; 100];
        let page = summary(&ci_report);
        assert!(page.len() < 1_000_000, "{} bytes", page.len());
        assert!(page.contains("80 more: see the log for their stories."), "{page}");
    }
}
