//! The arguments of a test program.

use std::thread::available_parallelism;

use anstream::ColorChoice;

/// The output of `--help`.
pub const HELP: &str = "\
Usage: [OPTIONS] [FILTER]...

Runs the tests whose names contain one of the filters; all of them without a filter.

Options:
      --exact              A filter is a whole name
      --skip FILTER        Leave out tests whose names contain this; may be given several times
      --list               Print the names, and run nothing
      --test-threads N     How many tests run at once [default: RUST_TEST_THREADS, or as many as there are cores]
  -q, --quiet              Print a letter for each test
      --format FORMAT      pretty, or terse as --quiet
      --color WHEN         auto, always or never
  -h, --help               Print this

Accepted without an effect: --nocapture, --no-capture, --show-output, --include-ignored, --test, -Z FLAG.
With --ignored or --bench no test is selected: there are no ignored tests, and no benchmarks.
";

/// The action of the program: it runs its tests, or lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunnerMode {
    /// Runs the tests.
    Run,
    /// Prints the names of the tests.
    List,
    /// Prints [`HELP`].
    Help,
}

/// The parsed arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Args {
    /// The action to take.
    pub mode: RunnerMode,
    /// Filters that select tests. Without a filter, all tests are selected.
    pub filters: Vec<String>,
    /// Filters that exclude tests.
    pub skip: Vec<String>,
    /// Whether a filter must match the whole name.
    pub exact: bool,
    /// Whether no test is selected, because only ignored tests or benchmarks are requested.
    pub none: bool,
    /// Whether to print one letter per test instead of a line.
    pub quiet: bool,
    /// The number of tests that run at once.
    pub threads: usize,
    /// Whether the output has colours.
    pub colour: ColorChoice,
}

impl Default for Args {
    fn default() -> Self {
        Self {
            mode: RunnerMode::Run,
            filters: Vec::new(),
            skip: Vec::new(),
            exact: false,
            none: false,
            quiet: false,
            threads: available_parallelism().map_or(1, usize::from),
            colour: ColorChoice::Auto,
        }
    }
}

impl Args {
    /// Parses the arguments of this process.
    ///
    /// # Errors
    /// If an argument is invalid. The error is one sentence.
    pub fn of_this_process() -> Result<Self, String> {
        let words = std::env::args_os().skip(1).map(|word| word.into_string());
        let words = words
            .collect::<Result<Vec<_>, _>>()
            .map_err(|word| format!("{} is not UTF-8", word.display()))?;
        let mut args = Self::default();
        if let Ok(threads) = std::env::var("RUST_TEST_THREADS") {
            args.threads = count("RUST_TEST_THREADS", &threads)?;
        }
        args.and(words)
    }

    /// Adds the given command-line words to these arguments.
    ///
    /// # Errors
    /// If a word is invalid. The error is one sentence.
    pub fn and(mut self, words: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let (flag, value) = match word.split_once('=') {
                Some((flag, value)) if flag.starts_with("--") => (flag, Some(value.to_owned())),
                _ => (word.as_str(), None),
            };
            let takes_one =
                matches!(flag, "--skip" | "--test-threads" | "--format" | "--color" | "-Z");
            let value = match (takes_one, value) {
                (true, value) => value
                    .or_else(|| words.next())
                    .ok_or_else(|| format!("{flag} needs a value; see --help"))?,
                (false, None) => String::new(),
                (false, Some(_)) => return Err(format!("{flag} takes no value; see --help")),
            };
            match flag {
                "--" => self.filters.extend(words.by_ref()),
                "--skip" => self.skip.push(value),
                "--test-threads" => self.threads = count(flag, &value)?,
                "--format" => {
                    self.quiet = one_of(flag, &value, &[("pretty", false), ("terse", true)])?
                }
                "--color" => self.colour = one_of(flag, &value, &COLOURS)?,
                "--list" => self.mode = RunnerMode::List,
                "-h" | "--help" => self.mode = RunnerMode::Help,
                "--exact" => self.exact = true,
                "-q" | "--quiet" => self.quiet = true,
                "--ignored" | "--bench" => self.none = true,
                "--nocapture" | "--no-capture" | "--show-output" | "--include-ignored"
                | "--test" | "-Z" => {}
                unknown if unknown.starts_with('-') => {
                    return Err(format!("unknown option {unknown}; see --help"));
                }
                _ => self.filters.push(word),
            }
        }
        Ok(self)
    }

    /// Returns whether a test with this name is selected.
    pub fn selects(&self, name: &str) -> bool {
        let is = |filter: &String| {
            if self.exact { name == filter } else { name.contains(filter.as_str()) }
        };
        !self.none
            && (self.filters.is_empty() || self.filters.iter().any(is))
            && !self.skip.iter().any(is)
    }
}

const COLOURS: [(&str, ColorChoice); 3] =
    [("auto", ColorChoice::Auto), ("always", ColorChoice::Always), ("never", ColorChoice::Never)];

fn count(flag: &str, value: &str) -> Result<usize, String> {
    let count = value.parse().ok().filter(|count| *count > 0);
    count.ok_or_else(|| format!("{flag} is `{value}`, but must be a number from 1"))
}

fn one_of<T: Copy>(flag: &str, value: &str, known: &[(&str, T)]) -> Result<T, String> {
    let found = known.iter().find(|(name, _)| *name == value).map(|(_, meaning)| *meaning);
    let names: Vec<_> = known.iter().map(|(name, _)| *name).collect();
    found.ok_or_else(|| format!("{flag} is `{value}`, but must be one of {}", names.join(", ")))
}
