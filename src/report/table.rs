//! The table of results, and the totals under it.

use std::time::Duration;

use crate::history::Digest;
use crate::hunt::{RunTotals, ScenarioVerdict};

use super::line::{Tone, paint};
use super::{phrases, sentence};

/// The results of one scenario.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TableRow {
    /// The file of the scenario.
    pub scenario: String,
    /// The number of schedules run.
    pub runs: u64,
    /// The total virtual time.
    pub virtual_time: Duration,
    /// The digests of all runs, chained in order.
    pub digest: Digest,
    /// The number of the subject's milestones that the runs reached together.
    pub reached: usize,
    /// The number of the subject's milestones.
    pub milestones: usize,
    /// The verdict.
    pub verdict: ScenarioVerdict,
}

fn verdict_cell(verdict: &ScenarioVerdict) -> (Tone, String) {
    match verdict {
        ScenarioVerdict::Held => (Tone::Good, "held".into()),
        ScenarioVerdict::BrokeAsItShould(property) => {
            (Tone::Good, format!("broke {property}, as expected"))
        }
        ScenarioVerdict::Broke { properties, runs } => (
            Tone::Broken,
            format!("BROKE {} in {}", properties.join(", "), phrases::count(*runs, "run")),
        ),
        ScenarioVerdict::Vacuous(_) => {
            (Tone::Broken, format!("VACUOUS: {}", why(verdict).unwrap_or_default()))
        }
        ScenarioVerdict::Changed(_) => {
            (Tone::Broken, format!("CHANGED: {}", why(verdict).unwrap_or_default()))
        }
        ScenarioVerdict::DidNotBreak(_) => {
            (Tone::Broken, format!("FAILED: {}", why(verdict).unwrap_or_default()))
        }
        ScenarioVerdict::NotRun(why) => (Tone::Quiet, why.clone()),
    }
}

/// Returns the explanation of a verdict, without the failures.
pub fn why(verdict: &ScenarioVerdict) -> Option<String> {
    match verdict {
        ScenarioVerdict::Vacuous(unmet) | ScenarioVerdict::Changed(unmet) => Some(sentence(unmet)),
        ScenarioVerdict::DidNotBreak(property) => {
            Some(format!("expected violation not detected: {property} held"))
        }
        ScenarioVerdict::NotRun(why) => Some(why.clone()),
        ScenarioVerdict::Held
        | ScenarioVerdict::BrokeAsItShould(_)
        | ScenarioVerdict::Broke { .. } => None,
    }
}

const HEAD: [&str; 5] = ["scenario", "runs", "virtual time", "milestones reached", "verdict"];

/// The table, printed line by line while the scenarios run. Its first column is as wide as the
/// longest scenario name; the others are as wide as their headings.
pub struct Table {
    wide: usize,
}

impl Table {
    /// Creates a table for scenarios with these names.
    pub fn new<'a>(scenarios: impl IntoIterator<Item = &'a str>) -> Self {
        let wide = scenarios.into_iter().map(|name| name.chars().count());
        Self { wide: wide.chain([HEAD[0].len()]).max().unwrap_or(0) }
    }

    /// Renders the headings.
    pub fn head(&self) -> String {
        let [scenario, runs, time, milestones, verdict] = HEAD;
        self.line([scenario, runs, time, milestones], verdict)
    }

    /// Renders the line of a scenario.
    pub fn row(&self, row: &TableRow) -> String {
        let (tone, verdict) = verdict_cell(&row.verdict);
        let (runs, time) = (row.runs.to_string(), phrases::span(whole_seconds(row.virtual_time)));
        let reached = format!("{}/{}", row.reached, row.milestones);
        self.line([&row.scenario, &runs, &time, &reached], &paint(tone.style(), &verdict))
    }

    fn line(&self, [scenario, runs, time, reached]: [&str; 4], verdict: &str) -> String {
        let (a, [_, b, c, d, _]) = (self.wide, HEAD.map(str::len));
        format!("{scenario:<a$}  {runs:>b$}  {time:>c$}  {reached:>d$}  {verdict}\n")
    }
}

/// Removes the milliseconds from a long duration, because a total does not need them.
fn whole_seconds(time: Duration) -> Duration {
    if time < Duration::from_secs(10) { time } else { Duration::from_secs(time.as_secs()) }
}

/// Renders the lines under the table.
pub fn totals(totals: &RunTotals) -> String {
    let RunTotals {
        schedules,
        virtual_time,
        wall,
        repeated,
        inconclusive,
        unsupported,
        unreached,
        seldom,
    } = totals;
    let mut text = format!(
        "{}, {} of virtual time in {:.2} s: {} times real time\n",
        phrases::count(*schedules, "schedule"),
        phrases::span(whole_seconds(*virtual_time)),
        wall.as_secs_f64(),
        thousands(totals.speed())
    );
    if *repeated > 0 {
        text += &format!(
            "{} repeated, to check that they are deterministic\n",
            phrases::count(*repeated, "run")
        );
    }
    if *inconclusive > 0 {
        text += &format!(
            "{} inconclusive: either outcome would have been correct\n",
            phrases::count(*inconclusive, "run")
        );
    }
    if *unsupported > 0 {
        text += &format!(
            "{} left out: not supported by the engine\n",
            phrases::count(*unsupported, "schedule")
        );
    }
    if !unreached.is_empty() {
        text += &format!("milestones and points that no run reached: {}\n", unreached.join(", "));
    }
    if !seldom.is_empty() {
        let names: Vec<_> = seldom.iter().map(|(name, runs)| format!("{name} {runs}")).collect();
        let names = names.join(", ");
        text +=
            &format!("properties that judged something in under 1 % of the schedules: {names}\n");
    }
    text
}

/// Renders rows of cells. The first column is aligned left, all others are aligned right.
pub fn columns(rows: &[Vec<String>]) -> String {
    let wide = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    };
    let line = |row: &Vec<String>| {
        let cells = row.iter().enumerate().map(|(column, cell)| match column {
            0 => format!("{cell:<wide$}", wide = wide(0)),
            _ => format!("  {cell:>wide$}", wide = wide(column)),
        });
        cells.collect::<String>() + "\n"
    };
    rows.iter().map(line).collect()
}

fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::story::tests::plain;
    use super::*;
    use crate::history::Time;
    use crate::property::About;
    use crate::property::violation::sample_violation;

    pub(crate) fn some_rows() -> Vec<TableRow> {
        let row = |scenario: &str, runs, secs, reached, verdict| TableRow {
            scenario: scenario.into(),
            runs,
            virtual_time: Duration::from_secs(secs),
            reached,
            milestones: 14,
            verdict,
            ..TableRow::default()
        };
        vec![
            row("scenarios/counter/short-cut.toml", 20, 1200, 9, ScenarioVerdict::Held),
            row(
                "scenarios/counter/canary.toml",
                1,
                60,
                3,
                ScenarioVerdict::BrokeAsItShould("gap_free".into()),
            ),
            row(
                "late.toml",
                2,
                2,
                12,
                ScenarioVerdict::Broke {
                    properties: vec!["gap_free".into(), "one_ending".into()],
                    runs: 1,
                },
            ),
            row(
                "turmoil.toml",
                0,
                0,
                0,
                ScenarioVerdict::NotRun(
                    "not on turmoil: slow: stock turmoil has no byte windows".into(),
                ),
            ),
            row(
                "swarm.toml",
                300,
                54_000,
                12,
                ScenarioVerdict::Vacuous(
                    sample_violation(
                        "expect",
                        About::Run,
                        Time::ZERO,
                        "counter.client.gap was never reached",
                    )
                    .into(),
                ),
            ),
        ]
    }

    #[test]
    fn the_table_is_aligned() {
        let rows = some_rows();
        let table = Table::new(rows.iter().map(|row| row.scenario.as_str()));
        let lines = rows.iter().map(|row| table.row(row)).collect::<String>();
        insta::assert_snapshot!(plain(&(table.head() + &lines)), @r"
        scenario                          runs  virtual time  milestones reached  verdict
        scenarios/counter/short-cut.toml    20        20 min                9/14  held
        scenarios/counter/canary.toml        1          60 s                3/14  broke gap_free, as expected
        late.toml                            2           2 s               12/14  BROKE gap_free, one_ending in 1 run
        turmoil.toml                         0          0 ms                0/14  not on turmoil: slow: stock turmoil has no byte windows
        swarm.toml                         300    15 h 0 min               12/14  VACUOUS: counter.client.gap was never reached
        ");
    }

    #[test]
    fn the_totals_list_the_work_and_the_unreached_milestones() {
        let all = RunTotals {
            schedules: 323,
            virtual_time: Duration::from_secs(55_262),
            wall: Duration::from_millis(1500),
            repeated: 3,
            inconclusive: 1,
            unsupported: 2,
            unreached: vec!["counter.server.fenced".into()],
            seldom: vec![("gap_free".into(), 3), ("isolation".into(), 0)],
        };
        insta::assert_snapshot!(totals(&all), @r"
        323 schedules, 15 h 21 min of virtual time in 1.50 s: 36,841 times real time
        3 runs repeated, to check that they are deterministic
        1 run inconclusive: either outcome would have been correct
        2 schedules left out: not supported by the engine
        milestones and points that no run reached: counter.server.fenced
        properties that judged something in under 1 % of the schedules: gap_free 3, isolation 0
        ");
    }

    #[test]
    fn counts_that_are_zero_have_no_line() {
        let few = RunTotals { schedules: 1, ..RunTotals::default() };
        assert_eq!(totals(&few).lines().count(), 1);
        let one = RunTotals { unsupported: 1, ..few };
        assert!(totals(&one).ends_with("\n1 schedule left out: not supported by the engine\n"));
    }

    #[test]
    fn zero_wall_time_does_not_divide_by_zero() {
        assert_eq!(RunTotals::default().speed(), 0);
    }
}
