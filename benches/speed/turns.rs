//! Measurement in turns: in each round every side runs once, and the result is the median of all
//! rounds.
//!
//! criterion decides how often a round repeats the measured code, stores the results of the first
//! side between runs, and reports whether they changed. criterion cannot compare two things under
//! the same machine conditions; this module does that.

use std::fmt::Display;
use std::time::{Duration, Instant};

use criterion::{Criterion, SamplingMode};

/// The number of measured rounds: the minimum that criterion accepts.
const ROUNDS: usize = 10;

/// One side of a comparison.
pub struct Side<'a> {
    /// How often this side runs in a turn, per run of the other sides.
    times: u32,
    /// Runs the code once and returns how long it took.
    once: Box<dyn FnMut() -> Duration + 'a>,
}

impl<'a> Side<'a> {
    /// A side whose calls are timed from start to end.
    pub fn new<R>(mut work: impl FnMut() -> R + 'a) -> Self {
        Self::clocked(move || {
            let start = Instant::now();
            std::hint::black_box(work());
            start.elapsed()
        })
    }

    /// A side that measures its own duration.
    pub fn clocked(once: impl FnMut() -> Duration + 'a) -> Self {
        Self { times: 1, once: Box::new(once) }
    }

    /// Runs this side `times` times per run of the other sides, so that a fast side is measured for
    /// as long as a slow one.
    pub fn times(self, times: u32) -> Self {
        Self { times, ..self }
    }

    fn turn(&mut self, repetitions: u32) -> Duration {
        let all = self.times * repetitions;
        (0..all).map(|_| (self.once)()).sum::<Duration>() / all
    }
}

/// Takes the measurements. Without criterion, it runs everything once, to check that it works.
pub struct Meter {
    criterion: Option<Criterion>,
}

impl Meter {
    /// A meter configured from the command line: `cargo bench` passes `--bench`, and `cargo test`
    /// passes the arguments of other suites.
    pub fn from_args() -> Self {
        let timed = has_arg("--bench") && !has_arg("--test");
        let criterion = || {
            Criterion::default()
                .sample_size(ROUNDS)
                .warm_up_time(Duration::from_millis(500))
                .measurement_time(Duration::from_secs(5))
                .nresamples(10_000)
                .configure_from_args()
        };
        Self { criterion: timed.then(criterion) }
    }

    /// Whether this run measures times.
    pub fn is_timed(&self) -> bool {
        self.criterion.is_some()
    }

    /// Returns `timed` if this run measures times, else `once`: a run that only checks that the
    /// code works can be small.
    pub fn size<T>(&self, timed: T, once: T) -> T {
        if self.is_timed() { timed } else { once }
    }

    /// Returns how long each side takes, in seconds; `None` if this run does not measure times.
    pub fn turns<const N: usize>(
        &mut self,
        name: &str,
        mut sides: [Side<'_>; N],
    ) -> Option<[f64; N]> {
        let Some(criterion) = &mut self.criterion else {
            if is_named(name) {
                sides.iter_mut().for_each(|side| _ = (side.once)());
            }
            return None;
        };
        let mut rounds: Vec<[Duration; N]> = Vec::new();
        let (group, row) = name.split_once('/').expect("a name has a group and a row");
        let mut group = criterion.benchmark_group(group);
        group.sampling_mode(SamplingMode::Flat).bench_function(row, |bencher| {
            bencher.iter_custom(|repetitions| {
                let repetitions = u32::try_from(repetitions).expect("a round is short");
                let round = sides.each_mut().map(|side| side.turn(repetitions));
                rounds.push(round);
                round[0] * repetitions
            });
        });
        group.finish();
        // Earlier rounds belong to the warm-up.
        let measured = rounds.len().checked_sub(ROUNDS)?;
        Some(std::array::from_fn(|side| median(rounds[measured..].iter().map(|round| round[side]))))
    }
}

/// Whether the command line names this row, or no row at all.
pub fn is_named(name: &str) -> bool {
    let mut words = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).peekable();
    words.peek().is_none() || words.any(|word| name.contains(&word))
}

/// Whether the command line has this argument.
pub fn has_arg(word: &str) -> bool {
    std::env::args().skip(1).any(|arg| arg == word)
}

/// Prints a result and its target.
pub fn print_figure(name: &str, figure: impl Display, held_to: &str) {
    println!("{name}: {figure} (held to {held_to})");
}

fn median(times: impl Iterator<Item = Duration>) -> f64 {
    let mut times: Vec<_> = times.collect();
    times.sort();
    times[times.len() / 2].as_secs_f64()
}
