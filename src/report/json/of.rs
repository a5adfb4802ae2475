//! Converts results to JSON lines.

use crate::hunt::coverage::FaultHits;
use crate::hunt::matrix as kills;
use crate::hunt::random::Hunted;
use crate::hunt::sweep::{FAULTS, FaultOutcome};
use crate::hunt::{self, SweepProgress as WholeSweep};
use crate::property::{self, Violation};
use crate::report::{TableRow, position, sentence, table};
use crate::schedule::Plan;

use super::{
    AboutRecord, Breach, FailureRecord, FaultCoverageRecord, FindingRecord, FoundRecord,
    HuntRecord, KillRecord, MatrixRecord, Milestones, PositionRecord, Record, RecordKind,
    ScenarioRecord, SweepRecord, SweptRecord, TotalsRecord, TrialRecord, VerdictRecord,
};

/// Returns the line of a scenario. `broken` contains each failed seed with its violations.
pub fn scenario(row: &TableRow, subject: &str, broken: &[(u64, &[Violation])]) -> Record {
    let TableRow { scenario, runs, virtual_time, digest, reached, milestones, verdict: came } = row;
    let (scenario, subject, digest) = (scenario.clone(), subject.to_owned(), digest.to_string());
    let milestones = Milestones { reached: *reached as u64, of: *milestones as u64 };
    let (verdict, held, why) = (verdict(came), came.is_good(), table::why(came));
    let failures = broken
        .iter()
        .map(|(seed, broken)| FailureRecord { seed: *seed, broken: self::broken(broken) })
        .collect();
    let (runs, virtual_ms) = (*runs, virtual_time.as_millis() as u64);
    RecordKind::Scenario(ScenarioRecord {
        scenario,
        subject,
        runs,
        virtual_ms,
        digest,
        milestones,
        verdict,
        held,
        why,
        failures,
    })
    .into()
}

fn verdict(verdict: &hunt::ScenarioVerdict) -> VerdictRecord {
    match verdict {
        hunt::ScenarioVerdict::Held => VerdictRecord::Held,
        hunt::ScenarioVerdict::BrokeAsItShould(_) => VerdictRecord::BrokeAsItShould,
        hunt::ScenarioVerdict::Broke { .. } => VerdictRecord::Broke,
        hunt::ScenarioVerdict::Vacuous(_) | hunt::ScenarioVerdict::DidNotBreak(_) => {
            VerdictRecord::Vacuous
        }
        hunt::ScenarioVerdict::Changed(_) => VerdictRecord::Changed,
        hunt::ScenarioVerdict::NotRun(_) => VerdictRecord::NotRun,
    }
}

fn broken(broken: &[Violation]) -> Vec<Breach> {
    broken.iter().map(breach).collect()
}

fn breach(broken: &Violation) -> Breach {
    let about = |subject: &property::About| AboutRecord {
        sort: subject.sort().to_owned(),
        name: subject.to_string(),
    };
    let data = match serde_json::to_value(&broken.data) {
        Ok(serde_json::Value::Object(data)) => data,
        _ => serde_json::Map::new(),
    };
    Breach {
        property: broken.property.to_owned(),
        kind: broken.kind.name.to_owned(),
        subject: Some(&broken.subject)
            .filter(|subject| **subject != property::About::Run)
            .map(about),
        at_ms: broken.at.0,
        stream: broken.stream().map(ToString::to_string),
        data,
        sentence: sentence(broken),
    }
}

/// Returns the last line, with the totals.
pub fn totals(totals: &hunt::RunTotals) -> Record {
    let hunt::RunTotals {
        schedules,
        virtual_time,
        wall,
        repeated,
        inconclusive,
        unsupported,
        unreached,
        seldom,
    } = totals.clone();
    let (virtual_ms, wall_ms) = (virtual_time.as_millis() as u64, wall.as_millis() as u64);
    RecordKind::Totals(TotalsRecord {
        schedules,
        virtual_ms,
        wall_ms,
        repeated,
        inconclusive,
        unsupported,
        unreached,
        seldom: seldom.into_iter().collect(),
    })
    .into()
}

/// Returns the line of a finding. `kept` supplies the fields about the saved file.
pub fn find(plan: &Plan, broken: &[Violation], kept: FindingRecord) -> Record {
    let (subject, seed, steps) = (plan.subject.clone(), plan.seed, plan.steps.len() as u64);
    RecordKind::Find(FindingRecord { subject, seed, steps, broken: self::broken(broken), ..kept })
        .into()
}

/// Returns the line of a hunt. `finds` supplies the fields about its findings.
pub fn hunt(hunted: &Hunted, finds: HuntRecord) -> Record {
    let hit = |hit: &FaultHits| {
        let FaultHits { drawn, began, in_flight, handshake, catch_up, held: held_task, nothing } =
            *hit;
        FaultCoverageRecord { drawn, began, in_flight, handshake, catch_up, held_task, nothing }
    };
    let faults =
        hunted.coverage.0.iter().map(|(word, its)| ((*word).to_owned(), hit(its))).collect();
    let (schedules, broke, digest) =
        (hunted.tally.runs, hunted.broke, hunted.tally.digest.to_string());
    RecordKind::Hunt(HuntRecord { schedules, broke, digest, faults, ..finds }).into()
}

/// Returns one line per position.
pub fn positions(swept: &WholeSweep) -> impl Iterator<Item = Record> {
    let trial = |trial: &hunt::sweep::SweepTrial| TrialRecord {
        fault: trial.fault.name.to_owned(),
        outcome: trial.outcome.map(|outcome| outcome.name().to_owned()),
        broken: trial.broken.iter().map(|property| (*property).to_owned()).collect(),
        idle: trial.idle.clone(),
    };
    swept.positions.iter().map(move |position| {
        let trials = position.trials.iter().map(|number| trial(&swept.trials[*number])).collect();
        let (host, what) = (position.host.to_string(), position.kind().name().to_owned());
        RecordKind::Position(PositionRecord {
            at_ms: position.at.0,
            host,
            what,
            name: self::position(position),
            trials,
        })
        .into()
    })
}

/// Returns the line of a sweep. `finds` supplies the fields about its findings.
pub fn sweep(swept: &WholeSweep, finds: SweepRecord) -> Record {
    let outcomes = |fault| {
        let counts = FaultOutcome::ALL
            .iter()
            .map(|(outcome, name, _)| ((*name).to_owned(), swept.count_outcomes(fault, *outcome)));
        counts.filter(|(_, runs)| *runs > 0).collect()
    };
    let faults = FAULTS.iter().map(|fault| (fault.name.to_owned(), outcomes(fault)));
    let faults = faults
        .filter(|(_, counts): &(_, std::collections::BTreeMap<_, _>)| !counts.is_empty())
        .collect();
    RecordKind::Sweep(SweepRecord {
        subject: swept.plan.subject.clone(),
        seed: swept.plan.seed,
        positions: swept.positions.len() as u64,
        trials: swept.trials.len() as u64,
        done: swept.done as u64,
        broke: swept.broke,
        digest: swept.tally.digest.to_string(),
        faults,
        ..finds
    })
    .into()
}

/// Returns the line of a defect.
pub fn kill(subject: &str, kill: &kills::DefectKill, swept: Option<kills::BySweep>) -> Record {
    let found = kill.found.as_ref().map(|found| FoundRecord {
        property: found.property.to_owned(),
        seed: found.seed,
        drawn: found.drawn as u64,
        steps: found.steps.map(|steps| steps as u64),
    });
    let swept = swept.map(|kills::BySweep { positions, runs, found }| SweptRecord {
        positions: positions as u64,
        runs,
        property: found.map(str::to_owned),
    });
    let (subject, defect) = (subject.to_owned(), kill.defect.to_owned());
    RecordKind::Kill(KillRecord { subject, defect, schedules: kill.schedules, found, swept }).into()
}

/// Returns the line of all defects: the numbers found by random schedules, by sweeps, and by
/// neither.
pub fn matrix(
    subject: &str,
    defects: usize,
    by_chance: usize,
    by_sweep: usize,
    missed: usize,
) -> Record {
    let [defects, by_chance, by_sweep, missed] =
        [defects, by_chance, by_sweep, missed].map(|n| n as u64);
    RecordKind::Matrix(MatrixRecord {
        subject: subject.to_owned(),
        defects,
        by_chance,
        by_sweep,
        missed,
    })
    .into()
}
