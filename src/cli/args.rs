//! The words of the command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::hunt::Pool;
use crate::schedule::TieOrder;
use crate::schedule::units::read_duration;

use super::engine_option::EngineOption;

/// Deterministic simulation of protocols that must survive a dropped connection.
#[derive(Debug, Parser)]
#[command(
    version,
    max_term_width = 100,
    after_help = "Exit status: 0 no violation, 1 a property was violated or two runs diverge, 2 wrong command line or file."
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run scenario files, and tell what broke
    Run(Run),
    /// Tell the whole story of one run
    Replay(Replay),
    /// Run random schedules, keep and tell what broke
    Hunt(HuntArgs),
    /// Run a schedule with a fault at every position that it has, keep and tell what broke
    Sweep(SweepArgs),
    /// Make the first run of a file that breaks small, and keep it as a file of its own
    Shrink(Shrink),
    /// Take a file that was found into the suite of its subject
    Keep {
        /// The file; hunts put theirs into `scenarios/found`
        file: PathBuf,
    },
    /// Find each defect by random schedules, and tell how many it took
    Defects(Defects),
    /// Read scenario files and look up every name in them; run nothing
    Check {
        /// Scenario files, and folders of them [default: scenarios]
        files: Vec<PathBuf>,
    },
    /// Print a scenario file to begin with
    New {
        /// The protocol under test; `list subjects` names them
        subject: String,
    },
    /// Show where two runs part
    Diff(Diff),
    /// Print what there is to write into a scenario file, or onto the command line
    List {
        /// Of what
        #[arg(value_enum)]
        what: Option<ListKind>,
        /// Only of this subject
        subject: Option<String>,
    },
}

#[derive(Debug, Args)]
pub struct Run {
    /// Scenario files, and folders of them [default: scenarios]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub select: Select,
    /// How many seeds of each file, instead of what it says
    #[arg(long, value_name = "N", value_parser = positive)]
    pub seeds: Option<u64>,
    #[command(flatten)]
    pub engine_option: EngineOption,
    /// Repeat every run, and compare digest and verdict
    #[arg(long)]
    pub check: bool,
    #[command(flatten)]
    pub pool: Workers,
    /// List the milestones and points that no run reached, as it is always done for a folder
    #[arg(long)]
    pub unreached: bool,
    /// How results are printed
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Write what came of each file, too: JUnit XML, as CI servers read it
    #[arg(long, value_name = "OUT")]
    pub junit: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct HuntArgs {
    /// The protocol under test; `list subjects` names them
    pub subject: String,
    /// The swarm file from which schedules are drawn [default: the subject's own]
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,
    /// How many schedules [default: 1000, or as many as there is time for]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub runs: Option<u64>,
    /// How long, in real time: `10m`
    #[arg(long = "for", value_name = "TIME", value_parser = some_time)]
    pub time: Option<Duration>,
    /// The first seed; the others follow it, one by one
    #[arg(long, value_name = "S", value_parser = number)]
    pub seed: Option<u64>,
    #[command(flatten)]
    pub changes: Changes,
    #[command(flatten)]
    pub pool: Workers,
    /// How results are printed
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Write what was found, too: JUnit XML, as CI servers read it
    #[arg(long, value_name = "OUT")]
    pub junit: Option<PathBuf>,
}

impl HuntArgs {
    /// The most schedules that are run.
    pub fn count(&self) -> u64 {
        self.runs.unwrap_or(if self.time.is_some() { u64::MAX } else { 1000 })
    }
}

#[derive(Debug, Args)]
pub struct SweepArgs {
    /// A scenario file with steps; `-` reads it from standard input, also from the middle of a log
    pub file: PathBuf,
    #[command(flatten)]
    pub select: Select,
    /// List every position, with what came of the faults there
    #[arg(long)]
    pub positions: bool,
    /// Make only this run of it, by its number on the map, and tell its whole story
    #[arg(long, value_name = "N", value_parser = positive, conflicts_with_all = ["positions", "junit", "format"])]
    pub trial: Option<u64>,
    /// Draw a map: a page to look at, also over one that is there; with --trial, a picture of that run
    #[arg(long, value_name = "OUT")]
    pub html: Option<PathBuf>,
    #[command(flatten)]
    pub pool: Workers,
    /// How results are printed
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Write what was found, too: JUnit XML, as CI servers read it
    #[arg(long, value_name = "OUT")]
    pub junit: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct Defects {
    /// The protocol under test; `list subjects` names them
    pub subject: String,
    /// Only this defect; may be given several times
    #[arg(long, value_name = "NAME")]
    pub defect: Vec<String>,
    /// The swarm file from which schedules are drawn [default: the subject's own]
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,
    /// A schedule that is swept for each defect, too; may be given several times
    #[arg(long, value_name = "FILE")]
    pub sweep: Vec<PathBuf>,
    /// Draw the matrix: a page to look at, also over one that is there
    #[arg(long, value_name = "OUT")]
    pub html: Option<PathBuf>,
    /// The most schedules for each defect
    #[arg(long, value_name = "N", value_parser = positive, default_value_t = 2000)]
    pub runs: u64,
    #[command(flatten)]
    pub pool: Workers,
    /// How results are printed
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// What the command line changes in a subject.
#[derive(Debug, Default, Args)]
pub struct Changes {
    /// Switch a defect on; may be given several times
    #[arg(long, value_name = "NAME")]
    pub defect: Vec<String>,
    /// Set a limit; may be given several times
    #[arg(long, value_name = "LIMIT=VALUE")]
    pub set: Vec<String>,
}

/// Who carries runs out.
#[derive(Debug, Args)]
pub struct Workers {
    /// How many threads work [default: as many as there are cores]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub jobs: Option<u64>,
    /// How long a run may take without a sign of life, in real time, before it is given up [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub patience: Option<Duration>,
}

/// More threads than this are nobody's wish.
const MOST_JOBS: u64 = 1024;

impl Workers {
    /// The pool that is meant.
    pub fn pool(&self) -> Pool {
        let Pool { jobs, patience } = Pool::default();
        let jobs = self.jobs.map_or(jobs, |jobs| jobs.min(MOST_JOBS) as usize);
        Pool { jobs, patience: self.patience.unwrap_or(patience) }
    }
}

#[derive(Debug, Args)]
pub struct Replay {
    /// A scenario file, or a seed as a hunt prints it; `-` reads a file from standard input, also from the middle of a log
    pub file: PathBuf,
    #[command(flatten)]
    pub select: Select,
    /// Leave out what happened later: `3.4s`
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
    /// Print what the subject logged, too
    #[arg(long)]
    pub log: bool,
    /// Tell of every segment, too
    #[arg(long)]
    pub packets: bool,
    /// Draw the run, too: a page to look at, also over one that is there
    #[arg(long, value_name = "OUT")]
    pub html: Option<PathBuf>,
    #[command(flatten)]
    pub engine_option: EngineOption,
}

#[derive(Debug, Args)]
pub struct Shrink {
    /// A scenario file; `-` reads it from standard input, also from the middle of a log
    pub file: PathBuf,
    #[command(flatten)]
    pub select: Select,
    /// The file to write, also over one that is there [default: beside FILE, NAME.shrunk.toml]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct Diff {
    /// A scenario file
    pub a: PathBuf,
    /// Another one [default: the same]
    pub b: Option<PathBuf>,
    #[command(flatten)]
    pub select: Select,
    #[command(flatten)]
    pub only_a: OnlyA,
    #[command(flatten)]
    pub only_b: OnlyB,
}

/// What is changed in the first run of two alone.
#[derive(Debug, Args)]
pub struct OnlyA {
    /// The seed of the first run alone
    #[arg(long, value_name = "S", value_parser = number)]
    pub seed_a: Option<u64>,
    /// Switch a defect on in the first run alone
    #[arg(long, value_name = "NAME")]
    pub defect_a: Vec<String>,
    /// Set a limit in the first run alone
    #[arg(long, value_name = "LIMIT=VALUE")]
    pub set_a: Vec<String>,
}

/// What is changed in the second run of two alone.
#[derive(Debug, Args)]
pub struct OnlyB {
    /// The seed of the second run alone
    #[arg(long, value_name = "S", value_parser = number)]
    pub seed_b: Option<u64>,
    /// Switch a defect on in the second run alone
    #[arg(long, value_name = "NAME")]
    pub defect_b: Vec<String>,
    /// Set a limit in the second run alone
    #[arg(long, value_name = "LIMIT=VALUE")]
    pub set_b: Vec<String>,
}

/// Which runs of a file, and what is changed in them.
#[derive(Debug, Default, Args)]
pub struct Select {
    /// The seed, or the first of several, instead of what the file says
    #[arg(long, value_name = "S", value_parser = number)]
    pub seed: Option<u64>,
    /// Switch a defect on, besides those of the file; may be given several times
    #[arg(long, value_name = "NAME")]
    pub defect: Vec<String>,
    /// Set a limit; may be given several times
    #[arg(long, value_name = "LIMIT=VALUE")]
    pub set: Vec<String>,
    /// The order of packets and timers within a millisecond, instead of what the file says
    #[arg(long, value_enum)]
    pub order: Option<WhichOrder>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A table and stories
    #[default]
    Text,
    /// One object a line
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
    /// The protocols under test
    Subjects,
    /// The words for faults, with their fields
    Faults,
    /// Sizes, windows, deadlines and budgets, with their defaults
    Limits,
    /// What triggers and expectations can name
    Milestones,
    /// Where a task can be held
    Points,
    /// Historical bugs that can be switched on
    Defects,
    /// Versions of the subject, each a set of its bugs
    Variants,
    /// The ledger: what the subject keeps
    Rules,
    /// What must hold over every run
    Properties,
    /// What the user of a client can ask for
    Operations,
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "write a whole number below 2^64".into())
}

fn positive(text: &str) -> Result<u64, String> {
    number(text).ok().filter(|n| *n > 0).ok_or_else(|| "write a whole number from 1 up".into())
}

fn some_time(text: &str) -> Result<Duration, String> {
    let time = read_duration(text).map_err(|error| error.to_string())?;
    if time.is_zero() { Err("write a duration that is longer than `0ms`".into()) } else { Ok(time) }
}
