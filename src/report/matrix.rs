//! A kill matrix as a page: one row per defect, the defects that were found first at the top. The
//! page is one self-contained HTML file without scripts.

use crate::hunt::matrix::{BySweep, DefectKill, FirstViolation};

use super::phrases;
use super::picture::markup::escaped;
use super::picture::page;

/// The style sheet of the page.
const STYLE: &str = include_str!("matrix/matrix.css");

/// A matrix to draw.
#[derive(Clone, Copy, Debug)]
pub struct MatrixView<'a> {
    /// The protocol under test.
    pub subject: &'a str,
    /// The command that produces it again.
    pub again: &'a str,
    /// The maximum number of schedules per defect.
    pub most: u64,
    /// The defects, in any order.
    pub rows: &'a [MatrixRow<'a>],
}

/// A defect and the work that it took to find it.
#[derive(Clone, Debug)]
pub struct MatrixRow<'a> {
    /// The description of the defect.
    pub doc: &'a str,
    /// The result of the random schedules.
    pub kill: DefectKill,
    /// The result of the sweeps, if there was something to sweep.
    pub swept: Option<BySweep>,
}

impl MatrixRow<'_> {
    /// Whether a sweep found it.
    pub fn is_swept(&self) -> bool {
        self.swept.is_some_and(|swept| swept.found.is_some())
    }

    /// Whether it was found at all.
    pub fn is_found(&self) -> bool {
        self.kill.found.is_some() || self.is_swept()
    }

    /// The sort key: first the defects that random schedules found, in the order of the number of
    /// schedules; then the defects that only a sweep found; then the missed ones.
    fn rank(&self) -> (bool, bool, u64) {
        (self.kill.found.is_none(), !self.is_swept(), self.kill.schedules)
    }

    fn class(&self) -> &'static str {
        match (self.kill.found.is_some(), self.is_swept()) {
            (true, _) => "found",
            (false, true) => "swept",
            (false, false) => "missed",
        }
    }
}

/// Renders the page.
pub fn html(matrix: &MatrixView<'_>) -> String {
    let MatrixView { subject, rows, most, .. } = *matrix;
    let missed = rows.iter().filter(|row| !row.is_found()).count();
    let title = match missed {
        0 => format!("{subject}: every defect was found"),
        missed => format!("{subject}: {} not found", phrases::count(missed as u64, "defect")),
    };
    let mut sorted: Vec<_> = rows.iter().collect();
    sorted.sort_by_key(|row| row.rank());
    let swept = rows.iter().any(|row| row.swept.is_some());
    let scale = Scale { most };
    let ticks: String =
        scale.ticks().map(|n| format!("<i style=\"left:{:.1}%\">{n}</i>", scale.part(n))).collect();
    let by_sweep = if swept { "<th>by a sweep</th>" } else { "" };
    let mut body = head(matrix, missed);
    body += &format!(
        "<table>\n<thead><tr><th>defect</th><th class=\"scale\">random schedules until found<div>{ticks}</div></th><th></th>\
         <th>what broke</th><th>steps, made small</th>{by_sweep}</tr></thead>\n<tbody>\n"
    );
    sorted.iter().for_each(|row| body += &line(row, scale, swept));
    body += "</tbody>\n</table>\n";
    page(&title, STYLE, &body)
}

/// Renders the part above the rows.
fn head(matrix: &MatrixView<'_>, missed: usize) -> String {
    let MatrixView { subject, again, most, rows } = *matrix;
    let verdict = match missed {
        0 => {
            format!(
                "<b class=\"held\">all found: {}</b>",
                phrases::count(rows.len() as u64, "defect")
            )
        }
        missed => format!(
            "<b class=\"fail\">{missed} of {} not found</b>",
            phrases::count(rows.len() as u64, "defect")
        ),
    };
    let found: Vec<&DefectKill> =
        rows.iter().map(|row| &row.kill).filter(|kill| kill.found.is_some()).collect();
    let within = |most: u64| found.iter().filter(|kill| kill.schedules <= most).count();
    let only_swept = rows.iter().filter(|row| row.kill.found.is_none() && row.is_swept()).count();
    let mut steps: Vec<_> = found.iter().filter_map(|kill| kill.found.as_ref()?.steps).collect();
    steps.sort_unstable();
    let median = steps.get(steps.len() / 2).map_or("–".to_owned(), ToString::to_string);
    let counts = [
        ("found", within(10).to_string(), "found within 10 schedules"),
        ("found", within(100).to_string(), "within 100"),
        ("found", found.len().to_string(), "found by random schedules"),
        ("swept", only_swept.to_string(), "found only by a sweep"),
        ("missed", missed.to_string(), "by neither"),
        ("steps", median, "steps after shrinking (median)"),
    ];
    let counts: String = counts
        .iter()
        .map(|(class, n, what)| format!("<li class=\"{class}\"><b>{n}</b>{what}</li>"))
        .collect();
    format!(
        "<header>\n<h1>{verdict} <small>{}</small></h1>\n<p class=\"lead\">A harness that finds nothing proves nothing. So \
         <b>each row is a bug that was switched on</b>, and then looked for as a stranger would: by random schedules of operations and \
         faults, from the first seed on, {} at most. <b>The bar is how many it took until a property broke</b>, on a scale in which each \
         line is ten times the one before. What was found is made small: the fewer steps, the easier to read.</p>\n\
         <ul class=\"counts\">{counts}</ul>\n<p class=\"about\">again: <code>{}</code></p>\n</header>\n",
        escaped(subject),
        most,
        escaped(again)
    )
}

fn line(row: &MatrixRow<'_>, scale: Scale, swept: bool) -> String {
    let DefectKill { defect, schedules, found } = &row.kill;
    let (bar, number) = match found {
        Some(_) => (
            format!("<i style=\"width:{:.1}%\"></i>", scale.part(*schedules).max(0.6)),
            schedules.to_string(),
        ),
        None => (
            format!("<i style=\"width:{:.1}%\"></i>", scale.part(*schedules)),
            format!("not in {schedules}"),
        ),
    };
    let (property, steps) = found
        .as_ref()
        .map_or((String::new(), String::new()), |found| (escaped(found.property), steps(found)));
    let by_sweep = match row.swept {
        _ if !swept => String::new(),
        None => "<td></td>".to_owned(),
        Some(BySweep { runs, found: Some(property), .. }) => {
            format!("<td>{} <small>in run {runs}</small></td>", escaped(property))
        }
        Some(BySweep { runs, found: None, .. }) => {
            format!("<td><small>not in {}</small></td>", phrases::count(runs, "run"))
        }
    };
    format!(
        "<tr class=\"{}\"><th scope=\"row\">{}<small>{}</small></th><td class=\"until\">{bar}</td><td class=\"n\">{number}</td>\
         <td>{property}</td><td class=\"steps\">{steps}</td>{by_sweep}</tr>\n",
        row.class(),
        escaped(defect),
        escaped(row.doc)
    )
}

/// Renders the steps of a finding: one square per step, and the number before shrinking.
fn steps(found: &FirstViolation) -> String {
    match found.steps {
        Some(steps) => {
            format!("{} {steps} <small>of {}</small>", "<i></i>".repeat(steps.min(12)), found.drawn)
        }
        None => format!("<small>{} drawn, not shrunk</small>", found.drawn),
    }
}

/// Maps a number of schedules to a position on a logarithmic scale.
#[derive(Clone, Copy)]
struct Scale {
    most: u64,
}

impl Scale {
    /// Returns the distance from the left edge, in percent.
    fn part(self, n: u64) -> f64 {
        let whole = (self.most.max(10) as f64).log10();
        (n.max(1) as f64).log10() / whole * 100.0
    }

    fn ticks(self) -> impl Iterator<Item = u64> {
        let most = self.most.max(10);
        std::iter::successors(Some(1u64), |n| n.checked_mul(10)).take_while(move |n| *n <= most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(
        defect: &'static str,
        schedules: u64,
        found: Option<&'static str>,
        swept: Option<Option<&'static str>>,
    ) -> MatrixRow<'static> {
        let found =
            found.map(|property| FirstViolation { property, seed: 1, drawn: 11, steps: Some(2) });
        let swept = swept.map(|found| BySweep { positions: 10, runs: 30, found });
        MatrixRow { doc: "It <forgets>.", kill: DefectKill { defect, schedules, found }, swept }
    }

    fn page_of(rows: &[MatrixRow<'_>]) -> String {
        html(&MatrixView {
            subject: "counter",
            again: "reknit defects counter --runs 1000",
            most: 1000,
            rows,
        })
    }

    #[test]
    fn early_finds_come_first_and_missed_defects_last() {
        let rows = [
            row("missed", 1000, None, Some(None)),
            row("late", 100, Some("gap_free"), Some(None)),
            row("swept", 1000, None, Some(Some("one_ending"))),
            row("soon", 1, Some("gap_free"), Some(Some("gap_free"))),
        ];
        let page = page_of(&rows);
        let at = |name: &str| page.find(&format!("<th scope=\"row\">{name}<")).unwrap();
        assert!(at("soon") < at("late") && at("late") < at("swept") && at("swept") < at("missed"));
        for part in [
            "<title>counter: 1 defect not found</title>",
            "1 of 4 defects not found",
            "<tr class=\"missed\"><th scope=\"row\">missed",
            "<tr class=\"swept\"><th scope=\"row\">swept",
            "<i style=\"width:66.7%\"></i></td><td class=\"n\">100</td>",
            "<i style=\"width:0.6%\"></i></td><td class=\"n\">1</td>",
            "not in 1000",
            "It &lt;forgets&gt;.",
            "<i></i><i></i> 2 <small>of 11</small>",
            "one_ending <small>in run 30</small>",
            "<code>reknit defects counter --runs 1000</code>",
        ] {
            assert!(page.contains(part), "{part}\n{page}");
        }
        assert!(!page.contains("<script") && !page.contains("http:") && !page.contains("https:"));
    }

    #[test]
    fn without_sweeps_there_is_no_sweep_column() {
        let page = page_of(&[row("soon", 1, Some("gap_free"), None)]);
        assert!(
            page.contains("all found: 1 defect<") && !page.contains("by a sweep</th>"),
            "{page}"
        );
    }

    #[test]
    fn the_scale_has_a_line_for_each_power_of_ten() {
        let scale = Scale { most: 2000 };
        assert_eq!(scale.ticks().collect::<Vec<_>>(), [1, 10, 100, 1000]);
        assert!(scale.part(1) == 0.0 && (scale.part(2000) - 100.0).abs() < 1e-9);
        assert_eq!(Scale { most: 1 }.ticks().count(), 2);
    }
}
