//! Results for machines: one object a line.

use serde_json::{Value, json};

use crate::property::Broken;

use super::table::{Row, Totals, Verdict};

/// A scenario's line. `broken` holds the seeds that failed, each with what broke in it.
pub fn row(row: &Row, subject: &str, broken: &[(u64, &[Broken])]) -> Value {
    json!({
        "kind": "scenario",
        "scenario": row.scenario,
        "subject": subject,
        "runs": row.runs,
        "virtual_ms": row.virtual_time.as_millis() as u64,
        "digest": row.digest.to_string(),
        "milestones": { "reached": row.reached, "of": row.milestones },
        "verdict": verdict(&row.verdict),
        "held": row.verdict.is_good(),
        "why": why(&row.verdict),
        "failures": broken.iter().map(|(seed, broken)| failure(*seed, broken)).collect::<Vec<_>>(),
    })
}

fn verdict(verdict: &Verdict) -> Value {
    match verdict {
        Verdict::Held => json!("held"),
        Verdict::BrokeAsItShould(_) => json!("broke-as-it-should"),
        Verdict::Broke { .. } => json!("broke"),
        Verdict::TooTame(_) => json!("too-tame"),
        Verdict::NotRun(_) => json!("not-run"),
    }
}

/// What a verdict says beyond the failures.
fn why(verdict: &Verdict) -> Option<&str> {
    match verdict {
        Verdict::TooTame(why) | Verdict::NotRun(why) => Some(why),
        Verdict::Held | Verdict::BrokeAsItShould(_) | Verdict::Broke { .. } => None,
    }
}

fn failure(seed: u64, broken: &[Broken]) -> Value {
    let broken: Vec<_> = broken
        .iter()
        .map(|broken| {
            json!({
                "property": broken.property,
                "at_ms": broken.at.0,
                "stream": broken.stream.as_ref().map(ToString::to_string),
                "sentence": broken.sentence,
            })
        })
        .collect();
    json!({ "seed": seed, "broken": broken })
}

/// The last line.
pub fn totals(totals: &Totals) -> Value {
    json!({
        "kind": "totals",
        "schedules": totals.schedules,
        "virtual_ms": totals.virtual_time.as_millis() as u64,
        "wall_ms": totals.wall.as_millis() as u64,
        "repeated": totals.repeated,
        "grey": totals.grey,
        "unreached": totals.unreached,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Time;

    #[test]
    fn a_line_has_all_that_the_table_has_and_the_failures() {
        let broken = Broken { property: "gap_free", at: Time(4231), stream: Some("s1".into()), sentence: "s1: gone".into() };
        let verdict = Verdict::Broke { properties: vec!["gap_free".into()], runs: 1 };
        let line = row(&Row { scenario: "a.toml".into(), runs: 2, verdict, ..Row::default() }, "counter", &[(7, &[broken])]);
        insta::assert_snapshot!(line, @r#"{"kind":"scenario","scenario":"a.toml","subject":"counter","runs":2,"virtual_ms":0,"digest":"cbf29ce484222325","milestones":{"reached":0,"of":0},"verdict":"broke","held":false,"why":null,"failures":[{"seed":7,"broken":[{"property":"gap_free","at_ms":4231,"stream":"s1","sentence":"s1: gone"}]}]}"#);
    }

    #[test]
    fn totals_are_a_line_of_their_own() {
        insta::assert_snapshot!(totals(&Totals { schedules: 3, ..Totals::default() }), @r#"{"kind":"totals","schedules":3,"virtual_ms":0,"wall_ms":0,"repeated":0,"grey":0,"unreached":[]}"#);
    }
}
