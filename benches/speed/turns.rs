//! Measuring in turns: in each round every side has its turn, and what counts is the median of the rounds.
//!
//! criterion decides how often a round repeats what it measures, keeps the figures of the first side from one run to the next, and
//! says whether they changed. What it cannot do is compare two things while the machine is the same: that is done here.

use std::fmt::Display;
use std::time::{Duration, Instant};

use criterion::{Criterion, SamplingMode};

/// So many rounds are measured: the least that criterion takes.
const ROUNDS: usize = 10;

/// One of the things that are compared.
pub struct Side<'a> {
    /// How often it is done in a turn for each time that the others are.
    times: u32,
    /// Does it once, and tells how long that took.
    once: Box<dyn FnMut() -> Duration + 'a>,
}

impl<'a> Side<'a> {
    /// Something whose every call is measured from its beginning to its end.
    pub fn new<R>(mut work: impl FnMut() -> R + 'a) -> Self {
        Self::clocked(move || {
            let start = Instant::now();
            std::hint::black_box(work());
            start.elapsed()
        })
    }

    /// Something that knows by itself how long it took.
    pub fn clocked(once: impl FnMut() -> Duration + 'a) -> Self {
        Self { times: 1, once: Box::new(once) }
    }

    /// The same, so many times for each time that another side is done: what is quick has to be as long as what is slow.
    pub fn times(self, times: u32) -> Self {
        Self { times, ..self }
    }

    fn turn(&mut self, repetitions: u32) -> Duration {
        let all = self.times * repetitions;
        (0..all).map(|_| (self.once)()).sum::<Duration>() / all
    }
}

/// What measures; without criterion, all is carried out once, to see that it can be.
pub struct Meter {
    criterion: Option<Criterion>,
}

impl Meter {
    /// One that does what the command line wants: `cargo bench` adds `--bench`, and `cargo test` what belongs to other suites.
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

    /// Whether anything is timed.
    pub fn is_timed(&self) -> bool {
        self.criterion.is_some()
    }

    /// The first where times are measured, the second where not: what is carried out once may be small.
    pub fn size<T>(&self, timed: T, once: T) -> T {
        if self.is_timed() { timed } else { once }
    }

    /// How long each side takes, in seconds; `None` where nobody wants to know.
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
        // What came before the last rounds was to get warm.
        let measured = rounds.len().checked_sub(ROUNDS)?;
        Some(std::array::from_fn(|side| median(rounds[measured..].iter().map(|round| round[side]))))
    }
}

/// Whether the command line names this row, or none.
pub fn is_named(name: &str) -> bool {
    let mut words = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).peekable();
    words.peek().is_none() || words.any(|word| name.contains(&word))
}

/// Whether the command line has this word.
pub fn has_arg(word: &str) -> bool {
    std::env::args().skip(1).any(|arg| arg == word)
}

/// Prints what came out, and what it is held to.
pub fn tell(name: &str, figure: impl Display, held_to: &str) {
    println!("{name}: {figure} (held to {held_to})");
}

fn median(times: impl Iterator<Item = Duration>) -> f64 {
    let mut times: Vec<_> = times.collect();
    times.sort();
    times[times.len() / 2].as_secs_f64()
}
