//! Machine-readable results: one JSON object per line. Each object contains the version of the
//! format and its kind. `docs/json.md` documents the lines. Their schema, `docs/json.schema.json`,
//! is generated from these types.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod of;

pub use of::{find, hunt, kill, matrix, positions, scenario, sweep, totals};

/// The version of the format. A later version may add fields; existing fields keep their meaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Version;

impl Version {
    const NUMBER: u64 = 1;
}

impl Serialize for Version {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(Self::NUMBER)
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match u64::deserialize(deserializer)? {
            Self::NUMBER => Ok(Version),
            other => Err(serde::de::Error::custom(format!(
                "{other} is not a version that this program reads"
            ))),
        }
    }
}

impl JsonSchema for Version {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Version".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "const": Self::NUMBER, "description": "The version of the format." })
    }
}

/// A line that reknit prints with `--format json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Record {
    /// The version of the format.
    pub reknit: Version,
    /// The content of the line.
    #[serde(flatten)]
    pub what: RecordKind,
}

/// The content of a line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum RecordKind {
    /// `run`: a scenario file, after its runs.
    Scenario(ScenarioRecord),
    /// `hunt`, `sweep`: a saved finding, a schedule that violates a property.
    Find(FindingRecord),
    /// `hunt`: its result.
    Hunt(HuntRecord),
    /// `sweep --positions`: a position, with the outcomes of the faults there.
    Position(PositionRecord),
    /// `sweep`: its result.
    Sweep(SweepRecord),
    /// `defects`: a defect, and the work that it took to find it.
    Kill(KillRecord),
    /// `defects`: the totals of all defects.
    Matrix(MatrixRecord),
    /// `run`, `hunt`, `sweep`: the last line.
    Totals(TotalsRecord),
}

/// A scenario file that was run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScenarioRecord {
    /// The path of the file.
    pub scenario: String,
    /// The protocol under test.
    pub subject: String,
    /// The number of schedules run.
    pub runs: u64,
    /// The total virtual time of all runs.
    pub virtual_ms: u64,
    /// The digests of all runs, chained in order.
    pub digest: String,
    /// How many of the subject's milestones were reached.
    pub milestones: Milestones,
    /// The verdict over all runs.
    pub verdict: VerdictRecord,
    /// Whether the result is the expected one.
    pub held: bool,
    /// An explanation of the verdict, in addition to the failures.
    pub why: Option<String>,
    /// The runs with violations.
    pub failures: Vec<FailureRecord>,
}

/// The number of milestones reached.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Milestones {
    /// The number that all runs reached together.
    pub reached: u64,
    /// The number that the subject has.
    pub of: u64,
}

/// The verdict over the runs of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum VerdictRecord {
    /// All properties and expectations held.
    Held,
    /// A canary violated its property, as it should.
    BrokeAsItShould,
    /// A property or an expectation was violated.
    Broke,
    /// No run failed, but the runs together did not show what the file requires.
    Vacuous,
    /// No run failed, but users saw something else than in the snapshot.
    Changed,
    /// The scenario could not be run.
    NotRun,
}

/// A run with violations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FailureRecord {
    /// The seed of the run.
    pub seed: u64,
    /// The violations.
    pub broken: Vec<Breach>,
}

/// A violation of a property.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Breach {
    /// The property.
    pub property: String,
    /// The kind of the violation: a name.
    pub kind: String,
    /// The subject of the violation; null if it is the whole run.
    pub subject: Option<AboutRecord>,
    /// The time of the violation, in virtual time.
    pub at_ms: u64,
    /// The stream of the violation, if it is about a stream.
    pub stream: Option<String>,
    /// The values of this kind of violation.
    pub data: serde_json::Map<String, serde_json::Value>,
    /// The violation, in one sentence.
    pub sentence: String,
}

/// The subject of a violation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AboutRecord {
    /// The sort of the subject: `stream`, `call`, `host`, `mark`, `step`, `name`.
    pub sort: String,
    /// The name of the subject.
    pub name: String,
}

/// A schedule that violates a property.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FindingRecord {
    /// The protocol under test.
    pub subject: String,
    /// The violations; the first one is the one that shrinking preserved.
    pub broken: Vec<Breach>,
    /// The seed of the run.
    pub seed: u64,
    /// The number of steps of the schedule.
    pub steps: u64,
    /// The origin of the schedule.
    pub origin: String,
    /// The saved file; null if it could not be written.
    pub file: Option<String>,
    /// The content of the file.
    pub toml: String,
    /// The command that replays it.
    pub replay: String,
    /// The path of its picture, or the reason why there is none; null if no picture was requested.
    pub picture: Option<String>,
}

/// A hunt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HuntRecord {
    /// The protocol under test.
    pub subject: String,
    /// The number of schedules run.
    pub schedules: u64,
    /// The number of schedules with a violation.
    pub broke: u64,
    /// The number of schedules that violated each property, by the property's name.
    pub properties: BTreeMap<String, u64>,
    /// The number of saved findings.
    pub saved: u64,
    /// The number of failed schedules that duplicate a saved finding.
    pub duplicates: u64,
    /// The digests of all runs, chained in order.
    pub digest: String,
    /// The coverage of the faults, by fault word.
    pub faults: BTreeMap<String, FaultCoverageRecord>,
}

/// The coverage of the faults of one kind. One fault can count for several of these fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FaultCoverageRecord {
    /// The number of faults drawn.
    pub drawn: u64,
    /// The number of faults that began.
    pub began: u64,
    /// The number that hit payload in flight.
    pub in_flight: u64,
    /// The number that hit a connection during its handshake.
    pub handshake: u64,
    /// The number that hit a connection on which a client was catching up.
    pub catch_up: u64,
    /// The number that began while a task was held on an affected host.
    pub held_task: u64,
    /// The number that hit none of these.
    pub nothing: u64,
}

/// A position of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PositionRecord {
    /// The time, in virtual time.
    pub at_ms: u64,
    /// The host of the position; for a packet or a message, its sender.
    pub host: String,
    /// The kind of the position: `packet`, `message`, `milestone` or `point`.
    pub what: String,
    /// A description of the position.
    pub name: String,
    /// The trials at the position.
    pub trials: Vec<TrialRecord>,
}

/// A fault at a position.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrialRecord {
    /// The fault.
    pub fault: String,
    /// The outcome: `untouched`, `recovered`, `failed` or `broken`; null if the sweep stopped
    /// before this trial.
    pub outcome: Option<String>,
    /// The violated properties.
    pub broken: Vec<String>,
    /// The reason why the fault had no effect, if it had none.
    pub idle: Option<String>,
}

/// A sweep.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SweepRecord {
    /// The protocol under test.
    pub subject: String,
    /// The file that was swept.
    pub file: String,
    /// The seed of its run.
    pub seed: u64,
    /// The number of positions in the run.
    pub positions: u64,
    /// The number of runs planned.
    pub trials: u64,
    /// The number of runs made.
    pub done: u64,
    /// The number of runs with a violation. If the run without a fault has one, no other run is
    /// made.
    pub broke: u64,
    /// The number of saved findings.
    pub saved: u64,
    /// The number of failed runs that duplicate a saved finding.
    pub duplicates: u64,
    /// The digests of all runs, chained in order.
    pub digest: String,
    /// The outcomes of each fault, by its name: the number of runs per outcome.
    pub faults: BTreeMap<String, BTreeMap<String, u64>>,
}

/// The work that it took to find a defect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KillRecord {
    /// The protocol under test.
    pub subject: String,
    /// The defect.
    pub defect: String,
    /// The number of random schedules run, including the one with the violation.
    pub schedules: u64,
    /// The first violation; null if there was none.
    pub found: Option<FoundRecord>,
    /// The result of the sweeps; null if there was nothing to sweep.
    pub swept: Option<SweptRecord>,
}

/// The first violation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FoundRecord {
    /// The property.
    pub property: String,
    /// The seed of the run.
    pub seed: u64,
    /// The number of steps of the drawn schedule.
    pub drawn: u64,
    /// The number of steps after shrinking; null if the schedule could not be shrunk.
    pub steps: Option<u64>,
}

/// The result of the sweeps for a defect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SweptRecord {
    /// The number of positions.
    pub positions: u64,
    /// The number of runs made, including the one with the violation.
    pub runs: u64,
    /// The first violated property; null if there was none.
    pub property: Option<String>,
}

/// A kill matrix.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MatrixRecord {
    /// The protocol under test.
    pub subject: String,
    /// The number of defects hunted.
    pub defects: u64,
    /// The number found by random schedules.
    pub by_chance: u64,
    /// The number found by sweeps.
    pub by_sweep: u64,
    /// The number found by neither.
    pub missed: u64,
}

/// The totals over all runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TotalsRecord {
    /// The number of schedules run.
    pub schedules: u64,
    /// The total virtual time of all runs.
    pub virtual_ms: u64,
    /// The elapsed real time.
    pub wall_ms: u64,
    /// The number of runs that were repeated with the same result.
    pub repeated: u64,
    /// The number of runs that ended in an inconclusive failure: either outcome would have been
    /// correct.
    pub inconclusive: u64,
    /// The number of schedules that were left out, because the engine does not support them.
    pub unsupported: u64,
    /// Milestones and points that no run reached, although a good subject reaches them.
    pub unreached: Vec<String>,
    /// Properties that judged something in less than 1 % of the schedules of a hunt, and in how many.
    pub seldom: BTreeMap<String, u64>,
}

impl From<RecordKind> for Record {
    fn from(what: RecordKind) -> Self {
        Record { reknit: Version, what }
    }
}

impl Record {
    /// Returns the line, with its line break.
    pub fn text(&self) -> String {
        serde_json::to_string(self).expect("these types have a form in JSON") + "\n"
    }

    /// Returns the JSON schema of a line.
    pub fn schema() -> schemars::Schema {
        let mut schema = schemars::schema_for!(Record);
        schema.insert("title".into(), "A line of reknit with --format json".into());
        schema
    }
}

#[cfg(test)]
pub(crate) mod tests;
