//! Results for machines: one object a line, each with the version of the format and its kind. `docs/json.md` tells of them, and
//! its schema, `docs/json.schema.json`, is drawn from these very types.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod of;

pub use of::{find, hunt, kill, matrix, positions, scenario, sweep, totals};

/// The version of the format. Fields may be added to it; what is there keeps its meaning.
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
    /// What it tells.
    #[serde(flatten)]
    pub what: RecordKind,
}

/// What a line tells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum RecordKind {
    /// `run`: a scenario file, when its runs are done.
    Scenario(ScenarioRecord),
    /// `hunt`, `sweep`: a schedule that breaks something, as it is kept.
    Find(FindingRecord),
    /// `hunt`: what it did.
    Hunt(HuntRecord),
    /// `sweep --positions`: a position, with what came of the faults there.
    Position(PositionRecord),
    /// `sweep`: what it did.
    Sweep(SweepRecord),
    /// `defects`: a defect, and what it took to find it.
    Kill(KillRecord),
    /// `defects`: all of them.
    Matrix(MatrixRecord),
    /// `run`, `hunt`, `sweep`: the last line.
    Totals(TotalsRecord),
}

/// A scenario file that was run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScenarioRecord {
    /// The file.
    pub scenario: String,
    /// The protocol under test.
    pub subject: String,
    /// How many schedules were run.
    pub runs: u64,
    /// Virtual time of all of them.
    pub virtual_ms: u64,
    /// The digests of all of them, chained in order.
    pub digest: String,
    /// The subject's milestones.
    pub milestones: Milestones,
    /// What it comes to.
    pub verdict: VerdictRecord,
    /// Whether it is as it should be.
    pub held: bool,
    /// What a verdict says beyond the failures.
    pub why: Option<String>,
    /// The runs in which something broke.
    pub failures: Vec<FailureRecord>,
}

/// How many milestones were reached.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Milestones {
    /// By all runs together.
    pub reached: u64,
    /// Of so many.
    pub of: u64,
}

/// What the runs of a scenario come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum VerdictRecord {
    /// All held.
    Held,
    /// A canary broke what it was to break.
    BrokeAsItShould,
    /// Something broke.
    Broke,
    /// No run broke, but all together did not show what they must.
    TooTame,
    /// It could not be run.
    NotRun,
}

/// A run in which something broke.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FailureRecord {
    /// The seed of the run.
    pub seed: u64,
    /// What broke.
    pub broken: Vec<Breach>,
}

/// How a property broke.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Breach {
    /// The property.
    pub property: String,
    /// In which way it broke: a name.
    pub kind: String,
    /// What it is about; nothing where that is the whole run.
    pub subject: Option<AboutRecord>,
    /// When, in virtual time.
    pub at_ms: u64,
    /// The stream it is about, if it is about one.
    pub stream: Option<String>,
    /// The values of this kind.
    pub data: serde_json::Map<String, serde_json::Value>,
    /// How, in a sentence.
    pub sentence: String,
}

/// What a property broke of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AboutRecord {
    /// What sort of thing it is: `stream`, `call`, `host`, `mark`, `step`, `name`.
    pub sort: String,
    /// Its name.
    pub name: String,
}

/// A schedule that breaks something.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FindingRecord {
    /// The protocol under test.
    pub subject: String,
    /// What broke; the first is what it was made small for.
    pub broken: Vec<Breach>,
    /// The seed of the run.
    pub seed: u64,
    /// How many steps it has.
    pub steps: u64,
    /// Where it comes from.
    pub origin: String,
    /// Its file; nothing where that could not be written.
    pub file: Option<String>,
    /// What stands in its file.
    pub toml: String,
    /// The command that shows it again.
    pub replay: String,
    /// Where its picture is, or why there is none; nothing where none was to be drawn.
    pub picture: Option<String>,
}

/// A hunt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HuntRecord {
    /// The protocol under test.
    pub subject: String,
    /// How many schedules were run.
    pub schedules: u64,
    /// In how many of them something broke.
    pub broke: u64,
    /// In how many each property broke, by its name.
    pub properties: BTreeMap<String, u64>,
    /// How many finds were kept.
    pub kept: u64,
    /// How many broke like one that is kept.
    pub like: u64,
    /// The digests of all runs, chained in order.
    pub digest: String,
    /// What faults hit, by their words.
    pub faults: BTreeMap<String, FaultCoverageRecord>,
}

/// What the faults of one kind hit. One fault can hit several of these at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FaultCoverageRecord {
    /// How many were drawn.
    pub drawn: u64,
    /// How many of them came.
    pub came: u64,
    /// How many hit payload on its way.
    pub in_flight: u64,
    /// How many hit a connection whose handshake was under way.
    pub handshake: u64,
    /// How many hit a connection on which a client caught up.
    pub catch_up: u64,
    /// How many came while a task was held on a host that they hit.
    pub held_task: u64,
    /// How many hit nothing of all that.
    pub nothing: u64,
}

/// A position of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PositionRecord {
    /// When, in virtual time.
    pub at_ms: u64,
    /// The host that it is on; of a packet or a message, its sender.
    pub host: String,
    /// `packet`, `message`, `milestone` or `point`.
    pub what: String,
    /// What it is, in words.
    pub name: String,
    /// What was tried there.
    pub trials: Vec<TrialRecord>,
}

/// A fault at a position.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrialRecord {
    /// The fault.
    pub fault: String,
    /// What came of it: `untouched`, `recovered`, `failed` or `broken`; nothing where it was not run any more.
    pub outcome: Option<String>,
    /// The properties that broke.
    pub broken: Vec<String>,
    /// Why it found nothing to do, where it did not.
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
    /// How many positions it has.
    pub positions: u64,
    /// How many runs there were to make.
    pub trials: u64,
    /// How many of them were made.
    pub done: u64,
    /// In how many runs something broke; also in the one without a fault, which is then the only one.
    pub broke: u64,
    /// How many finds were kept.
    pub kept: u64,
    /// How many broke like one that is kept.
    pub like: u64,
    /// The digests of all runs, chained in order.
    pub digest: String,
    /// What came of each fault, by its name: how many runs, by outcome.
    pub faults: BTreeMap<String, BTreeMap<String, u64>>,
}

/// What it took to find a defect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KillRecord {
    /// The protocol under test.
    pub subject: String,
    /// The defect.
    pub defect: String,
    /// How many random schedules were run, the one that broke among them.
    pub schedules: u64,
    /// What broke; nothing where nothing did.
    pub found: Option<FoundRecord>,
    /// What sweeps came to; nothing where there was nothing to sweep.
    pub swept: Option<SweptRecord>,
}

/// What broke first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FoundRecord {
    /// The property.
    pub property: String,
    /// The seed.
    pub seed: u64,
    /// How many steps the schedule had.
    pub drawn: u64,
    /// How many it has when it is made small; nothing where it cannot be.
    pub steps: Option<u64>,
}

/// What sweeps came to that looked for a defect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SweptRecord {
    /// How many positions were there.
    pub positions: u64,
    /// How many runs were made, the one that broke among them.
    pub runs: u64,
    /// The property that broke first; nothing where nothing did.
    pub property: Option<String>,
}

/// A kill matrix.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MatrixRecord {
    /// The protocol under test.
    pub subject: String,
    /// How many defects were looked for.
    pub defects: u64,
    /// How many were found by random schedules.
    pub by_chance: u64,
    /// How many were found by sweeps.
    pub by_sweep: u64,
    /// How many were found by neither.
    pub missed: u64,
}

/// What all runs come to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TotalsRecord {
    /// How many schedules were run.
    pub schedules: u64,
    /// Virtual time of all of them.
    pub virtual_ms: u64,
    /// Real time.
    pub wall_ms: u64,
    /// How many runs were repeated, and came out the same.
    pub repeated: u64,
    /// How many ended in a failure that is neither surely justified nor surely not.
    pub inconclusive: u64,
    /// Milestones and points that no run reached, and that a good subject reaches.
    pub unreached: Vec<String>,
}

impl From<RecordKind> for Record {
    fn from(what: RecordKind) -> Self {
        Record { reknit: Version, what }
    }
}

impl Record {
    /// The line, with its end.
    pub fn text(&self) -> String {
        serde_json::to_string(self).expect("these types have a form in JSON") + "\n"
    }

    /// The schema of a line.
    pub fn schema() -> schemars::Schema {
        let mut schema = schemars::schema_for!(Record);
        schema.insert("title".into(), "A line of reknit with --format json".into());
        schema
    }
}

#[cfg(test)]
pub(crate) mod tests;
