//! The arguments of the command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::hunt::Pool;
use crate::scenario::ScenarioFile;
use crate::schedule::TieOrder;
use crate::schedule::units::read_duration;

use super::engine_option::EngineOption;

/// Deterministic simulation of protocols that must survive a dropped connection.
#[derive(Debug, Parser)]
#[command(
    version,
    max_term_width = 100,
    after_help = "Exit status: 0 no violation, 1 a property was violated or two runs diverge, 2 wrong command line or file, 130 Ctrl-C ended a hunt or sweep early."
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run scenario files and report violations
    Run(Run),
    /// Print the full story of one run
    Replay(Replay),
    /// Run random schedules; save and report violations
    Hunt(HuntArgs),
    /// Run a schedule with a fault at each of its positions; save and report violations
    Sweep(SweepArgs),
    /// Shrink the first failing run of a file and save it as a new file
    Shrink(Shrink),
    /// Move a saved finding into the suite of its subject
    Keep {
        /// Scenario file; hunts save theirs in `scenarios/found`
        file: PathBuf,
    },
    /// Hunt each defect with random schedules and report how many runs it took
    Defects(Defects),
    /// Check scenario files and every name in them without running anything
    Check {
        /// Scenario files and folders [default: scenarios, except the saved findings in scenarios/found]
        files: Vec<PathBuf>,
    },
    /// Print a starter scenario file
    New {
        /// Protocol under test; see `list subjects`
        subject: String,
    },
    /// Show where two runs diverge
    Diff(Diff),
    /// List the names that scenario files and the command line accept
    List {
        /// Kind of names to list
        #[arg(value_enum)]
        what: Option<ListKind>,
        /// Only the names of this subject
        subject: Option<String>,
    },
}

#[derive(Debug, Args)]
pub struct Run {
    /// Scenario files and folders [default: scenarios, except the saved findings in scenarios/found]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub select: Select,
    /// Number of seeds per file, instead of the file's number
    #[arg(long, value_name = "N", value_parser = seeds)]
    pub seeds: Option<u64>,
    #[command(flatten)]
    pub engine_option: EngineOption,
    /// Run everything twice and compare digests and verdicts
    #[arg(long)]
    pub check: bool,
    #[command(flatten)]
    pub pool: Workers,
    /// List milestones and points that no run reached (always on for folders)
    #[arg(long)]
    pub unreached: bool,
    /// Write what users saw in each file's first run into its snapshot
    #[arg(long, conflicts_with_all = ["seed", "defect", "set", "order", "seeds", "engine"])]
    pub update_snapshots: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Also write a JUnit XML report with one case per file
    #[arg(long, value_name = "OUT")]
    pub junit: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct HuntArgs {
    /// Protocol under test; see `list subjects`
    pub subject: String,
    /// Swarm file from which schedules are drawn [default: the subject's own]
    #[arg(long, value_name = "FILE")]
    pub swarm: Option<PathBuf>,
    /// Number of schedules [default: 1000, or unlimited with --for]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub runs: Option<u64>,
    /// Time limit in real time, such as `10m`
    #[arg(long = "for", value_name = "TIME", value_parser = some_time)]
    pub time: Option<Duration>,
    /// First seed; each following run uses the next seed
    #[arg(long, value_name = "S", value_parser = number)]
    pub seed: Option<u64>,
    #[command(flatten)]
    pub changes: Changes,
    #[command(flatten)]
    pub pool: Workers,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Also write the findings as a JUnit XML report
    #[arg(long, value_name = "OUT")]
    pub junit: Option<PathBuf>,
}

impl HuntArgs {
    /// Returns the maximum number of schedules to run.
    pub fn count(&self) -> u64 {
        self.runs.unwrap_or(if self.time.is_some() { u64::MAX } else { 1000 })
    }
}

#[derive(Debug, Args)]
pub struct SweepArgs {
    /// Scenario file with steps; `-` reads standard input and finds a file inside a log
    pub file: PathBuf,
    #[command(flatten)]
    pub select: Select,
    /// List every position with the outcome of each fault there
    #[arg(long)]
    pub positions: bool,
    /// Run only the trial with this number on the map and print its full story
    #[arg(long, value_name = "N", value_parser = positive, conflicts_with_all = ["positions", "junit", "format"])]
    pub trial: Option<u64>,
    /// Write the map as an HTML page, overwriting an existing file; with --trial, a picture of that
    /// run
    #[arg(long, value_name = "OUT")]
    pub html: Option<PathBuf>,
    #[command(flatten)]
    pub pool: Workers,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Also write the findings as a JUnit XML report
    #[arg(long, value_name = "OUT")]
    pub junit: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct Defects {
    /// Protocol under test; see `list subjects`
    pub subject: String,
    /// Only hunt this defect; may be given several times [default: all that random schedules can find]
    #[arg(long, value_name = "NAME")]
    pub defect: Vec<String>,
    /// Swarm file from which schedules are drawn [default: the subject's own]
    #[arg(long, value_name = "FILE")]
    pub swarm: Option<PathBuf>,
    /// Also sweep this schedule for each defect; may be given several times
    #[arg(long, value_name = "FILE")]
    pub sweep: Vec<PathBuf>,
    /// Write the matrix as an HTML page, overwriting an existing file
    #[arg(long, value_name = "OUT")]
    pub html: Option<PathBuf>,
    /// Maximum number of schedules per defect
    #[arg(long, value_name = "N", value_parser = positive, default_value_t = 2000)]
    pub runs: u64,
    #[command(flatten)]
    pub pool: Workers,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// Changes that the command line makes to a subject.
#[derive(Debug, Default, Args)]
pub struct Changes {
    /// Enable a defect; may be given several times
    #[arg(long, value_name = "NAME")]
    pub defect: Vec<String>,
    /// Set a limit, or all limits of a profile (`profile=NAME`); may be given several times
    #[arg(long, value_name = "LIMIT=VALUE")]
    pub set: Vec<String>,
}

/// The settings of the worker pool.
#[derive(Debug, Args)]
pub struct Workers {
    /// Number of threads [default: number of cores]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub jobs: Option<u64>,
    /// Real time after which a run without progress is abandoned [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub patience: Option<Duration>,
}

/// An upper bound for `--jobs`. More threads are never useful.
const MOST_JOBS: u64 = 1024;

impl Workers {
    /// Returns the pool with these settings.
    pub fn pool(&self) -> Pool {
        let Pool { jobs, patience } = Pool::default();
        let jobs = self.jobs.map_or(jobs, |jobs| jobs.min(MOST_JOBS) as usize);
        Pool { jobs, patience: self.patience.unwrap_or(patience) }
    }
}

#[derive(Debug, Args)]
pub struct Replay {
    /// Scenario file or seed printed by a hunt; `-` reads standard input and finds a file inside a
    /// log
    pub file: PathBuf,
    #[command(flatten)]
    pub select: Select,
    /// Omit everything after this virtual time, such as `3.4s`
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
    /// Omit everything before this virtual time
    #[arg(long, value_name = "TIME")]
    pub from: Option<String>,
    /// Print the short story, without routine events
    #[arg(long)]
    pub brief: bool,
    /// Also print the subject's log
    #[arg(long)]
    pub log: bool,
    /// Also print every segment
    #[arg(long)]
    pub packets: bool,
    /// Also write a picture of the run as an HTML page, overwriting an existing file
    #[arg(long, value_name = "OUT")]
    pub html: Option<PathBuf>,
    #[command(flatten)]
    pub engine_option: EngineOption,
}

#[derive(Debug, Args)]
pub struct Shrink {
    /// Scenario file; `-` reads standard input and finds a file inside a log
    pub file: PathBuf,
    #[command(flatten)]
    pub select: Select,
    /// File to write, overwriting an existing one [default: NAME.shrunk.toml in scenarios/found]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct Diff {
    /// Scenario file
    pub a: PathBuf,
    /// Second scenario file [default: the same file]
    pub b: Option<PathBuf>,
    #[command(flatten)]
    pub select: Select,
    #[command(flatten)]
    pub only_a: OnlyA,
    #[command(flatten)]
    pub only_b: OnlyB,
}

/// Changes to the first of two runs only.
#[derive(Debug, Args)]
pub struct OnlyA {
    /// Seed of the first run only
    #[arg(long, value_name = "S", value_parser = number)]
    pub seed_a: Option<u64>,
    /// Enable a defect in the first run only
    #[arg(long, value_name = "NAME")]
    pub defect_a: Vec<String>,
    /// Set a limit in the first run only
    #[arg(long, value_name = "LIMIT=VALUE")]
    pub set_a: Vec<String>,
}

/// Changes to the second of two runs only.
#[derive(Debug, Args)]
pub struct OnlyB {
    /// Seed of the second run only
    #[arg(long, value_name = "S", value_parser = number)]
    pub seed_b: Option<u64>,
    /// Enable a defect in the second run only
    #[arg(long, value_name = "NAME")]
    pub defect_b: Vec<String>,
    /// Set a limit in the second run only
    #[arg(long, value_name = "LIMIT=VALUE")]
    pub set_b: Vec<String>,
}

/// The selection of a file's runs, and the changes to them.
#[derive(Debug, Default, Args)]
pub struct Select {
    /// Seed, or first of several seeds, instead of the file's seed
    #[arg(long, value_name = "S", value_parser = number)]
    pub seed: Option<u64>,
    /// Enable a defect in addition to the file's defects; may be given several times
    #[arg(long, value_name = "NAME")]
    pub defect: Vec<String>,
    /// Set a limit, or all limits of a profile (`profile=NAME`); may be given several times
    #[arg(long, value_name = "LIMIT=VALUE")]
    pub set: Vec<String>,
    /// Order of packets and timers within one millisecond, instead of the file's order
    #[arg(long, value_enum)]
    pub order: Option<WhichOrder>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A table and stories
    #[default]
    Text,
    /// One JSON object per line
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WhichOrder {
    Drawn,
    PacketsFirst,
    TimersFirst,
}

impl From<WhichOrder> for TieOrder {
    fn from(order: WhichOrder) -> Self {
        match order {
            WhichOrder::Drawn => TieOrder::Drawn,
            WhichOrder::PacketsFirst => TieOrder::PacketsFirst,
            WhichOrder::TimersFirst => TieOrder::TimersFirst,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ListKind {
    /// Protocols under test
    Subjects,
    /// Fault words and their fields
    Faults,
    /// Sizes, windows, deadlines and budgets, with their defaults
    Limits,
    /// Profiles: named sets of values for limits
    Profiles,
    /// Names that triggers and expectations can use
    Milestones,
    /// Places where a task can be held
    Points,
    /// Historical bugs that can be enabled
    Defects,
    /// Versions of the subject, each a set of its bugs
    Variants,
    /// The ledger: rules that the subject follows
    Rules,
    /// Properties that must hold over every run
    Properties,
    /// Operations that the user of a client can request
    Operations,
    /// JSON schema of scenario files, for editors
    Schema,
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "write a whole number below 2^64".into())
}

fn positive(text: &str) -> Result<u64, String> {
    number(text).ok().filter(|n| *n > 0).ok_or_else(|| "write a whole number from 1".into())
}

fn seeds(text: &str) -> Result<u64, String> {
    let most = ScenarioFile::MOST_SEEDS;
    positive(text)
        .ok()
        .filter(|n| *n <= most)
        .ok_or_else(|| format!("write a whole number from 1 to {most}; a hunt runs more"))
}

fn some_time(text: &str) -> Result<Duration, String> {
    let time = read_duration(text).map_err(|error| error.to_string())?;
    if time.is_zero() { Err("write a duration longer than `0ms`".into()) } else { Ok(time) }
}
