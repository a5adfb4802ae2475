//! Smaller and rounder numbers.

use std::time::Duration;

/// Durations that are shorter or rounder, the simplest first. None is zero.
pub fn lengths(length: Duration) -> Vec<Duration> {
    let ms = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
    let rounded = [1000, 100, 10]
        .into_iter()
        .flat_map(|grid| [ms / grid * grid, ms.div_ceil(grid).saturating_mul(grid)]);
    let shorter = [1000, ms / 2, ms / 4 * 3].map(coarse);
    let candidates = shorter[..2].iter().copied().chain(rounded).chain([shorter[2]]);
    distinct(candidates.filter(|n| *n > 0), ms).into_iter().map(Duration::from_millis).collect()
}

/// Rounds a number of milliseconds down to whole seconds, tenths or hundredths: the coarsest unit
/// of which at least two remain.
fn coarse(ms: u64) -> u64 {
    let grid = [1000, 100, 10].into_iter().find(|grid| ms >= 2 * grid).unwrap_or(1);
    ms / grid * grid
}

/// Smaller numbers, the smallest first.
pub fn numbers(n: u64) -> Vec<u64> {
    let candidates = [0, 1, n / 8, n / 2, n / 4 * 3, n.saturating_sub(1)];
    distinct(candidates.into_iter().filter(|candidate| *candidate < n), n)
}

/// Removes duplicates and the value `but`.
fn distinct(candidates: impl Iterator<Item = u64>, but: u64) -> Vec<u64> {
    let mut list = Vec::new();
    for candidate in candidates {
        if candidate != but && !list.contains(&candidate) {
            list.push(candidate);
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_become_shorter_and_rounder() {
        let plainer = |ms| {
            lengths(Duration::from_millis(ms))
                .iter()
                .map(|d| d.as_millis() as u64)
                .collect::<Vec<_>>()
        };
        assert_eq!(plainer(3412), [1000, 1700, 3000, 4000, 3400, 3500, 3410, 3420, 2000]);
        assert_eq!(plainer(1000), [500, 700]);
        assert_eq!(plainer(1), [1000, 100, 10]);
        assert_eq!(plainer(0), [1000]);
    }

    #[test]
    fn numbers_become_smaller() {
        assert_eq!(numbers(100), [0, 1, 12, 50, 75, 99]);
        assert_eq!((numbers(1), numbers(0)), (vec![0], vec![]));
    }
}
