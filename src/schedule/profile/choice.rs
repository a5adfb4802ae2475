//! Choices: one value, one of several, or one of a range.
//!
//! Draws use only whole numbers, so that they are the same on every machine. A range is not drawn
//! evenly: boundary values often break protocols, so the ends are drawn more often than their
//! share, and small values as often as large ones.

use std::time::Duration;

use rand_chacha::rand_core::RngCore;

use crate::schedule::{Learns, LimitValue};

/// The source of a value: `3`, `[1, 2, 2]` or `"0..10"` in a file.
#[derive(Clone, Debug, PartialEq)]
pub enum Choice<T> {
    /// Always this value.
    Fixed(T),
    /// One of these, each with equal probability. A value that is listed twice is twice as likely.
    /// Never empty.
    OneOf(Vec<Choice<T>>),
    /// A value between these, both included.
    Range(T, T),
}

impl<T> Choice<T> {
    /// A choice of one of these values.
    pub fn one_of(values: impl IntoIterator<Item = T>) -> Self {
        Self::OneOf(values.into_iter().map(Self::Fixed).collect())
    }
}

impl<T: Ord + Clone> Choice<T> {
    /// Returns the least and the greatest possible value.
    pub fn ends(&self) -> (T, T) {
        match self {
            Choice::Fixed(value) => (value.clone(), value.clone()),
            Choice::OneOf(choices) => choices
                .iter()
                .map(Choice::ends)
                .reduce(|(least, most), (low, high)| (least.min(low), most.max(high)))
                .expect("a choice has something to choose from"),
            Choice::Range(low, high) => (low.clone(), high.clone()),
        }
    }
}

impl<T: Between> Choice<T> {
    /// Draws a value.
    pub fn draw(&self, rng: &mut impl RngCore) -> T {
        match self {
            Choice::Fixed(value) => value.clone(),
            Choice::OneOf(choices) => {
                pick(choices, rng).expect("a choice has something to choose from").draw(rng)
            }
            Choice::Range(low, high) => T::between(low, high, rng),
        }
    }
}

/// A type that can be the bound of a range.
pub trait Between: Clone {
    /// Draws a value between two values, both included.
    fn between(low: &Self, high: &Self, rng: &mut impl RngCore) -> Self;
}

impl Between for u64 {
    /// One eighth of the draws is the lower end, one eighth the upper end. Of the rest, half is
    /// uniform. The other half is uniform in the number of binary digits of the distance from the
    /// lower end.
    fn between(low: &u64, high: &u64, rng: &mut impl RngCore) -> u64 {
        let (low, width) = ((*low).min(*high), high.abs_diff(*low));
        match below(8, rng) {
            0 => low,
            1 => low + width,
            2..=4 => low + upto(width, rng),
            _ => {
                let digits = below(u64::from(u64::BITS - width.leading_zeros()) + 1, rng);
                let largest = 1u64.checked_shl(digits as u32).map_or(u64::MAX, |power| power - 1);
                low + upto(largest.min(width), rng)
            }
        }
    }
}

impl Between for Duration {
    /// Draws whole milliseconds, because virtual time has no finer unit.
    fn between(low: &Duration, high: &Duration, rng: &mut impl RngCore) -> Duration {
        let ms = |duration: &Duration| duration.as_millis() as u64;
        Duration::from_millis(u64::between(&ms(low), &ms(high), rng))
    }
}

impl Between for LimitValue {
    /// Draws between two values of the same kind; picks one of the two if the kinds differ.
    fn between(low: &LimitValue, high: &LimitValue, rng: &mut impl RngCore) -> LimitValue {
        match (low, high) {
            (LimitValue::Duration(low), LimitValue::Duration(high)) => {
                LimitValue::Duration(Duration::between(low, high, rng))
            }
            (LimitValue::Bytes(low), LimitValue::Bytes(high)) => {
                LimitValue::Bytes(u64::between(low, high, rng))
            }
            (LimitValue::Count(low), LimitValue::Count(high)) => {
                LimitValue::Count(u64::between(low, high, rng))
            }
            (low, high) => *pick(&[*low, *high], rng).expect("there are two"),
        }
    }
}

impl Between for Learns {
    /// Draws between two delays; picks one of the two if one of them is `Never`.
    fn between(low: &Learns, high: &Learns, rng: &mut impl RngCore) -> Learns {
        match (low, high) {
            (Learns::After(low), Learns::After(high)) => {
                Learns::After(Duration::between(low, high, rng))
            }
            (low, high) => *pick(&[*low, *high], rng).expect("there are two"),
        }
    }
}

/// Draws a number from 0 to `most`, both included, uniformly.
pub(crate) fn upto(most: u64, rng: &mut impl RngCore) -> u64 {
    ((u128::from(rng.next_u64()) * (u128::from(most) + 1)) >> 64) as u64
}

/// Draws a number below `bound`, uniformly. `bound` must not be 0.
pub(crate) fn below(bound: u64, rng: &mut impl RngCore) -> u64 {
    upto(bound - 1, rng)
}

/// Returns `true` with this probability (from 0 to 1).
pub(crate) fn happens(chance: f64, rng: &mut impl RngCore) -> bool {
    below(1_000_000, rng) < (chance * 1_000_000.0) as u64
}

/// Picks an element, each with equal probability; `None` if the slice is empty.
pub(crate) fn pick<'a, T>(from: &'a [T], rng: &mut impl RngCore) -> Option<&'a T> {
    if from.is_empty() { None } else { from.get(below(from.len() as u64, rng) as usize) }
}

/// Picks a position with a probability proportional to its weight; `None` if all weights are 0.
pub(crate) fn pick_weighted(weights: &[u64], rng: &mut impl RngCore) -> Option<usize> {
    let total: u64 = weights.iter().sum();
    let mut left = below(total.max(1), rng);
    weights.iter().position(|&weight| {
        let here = left < weight;
        left = left.saturating_sub(weight);
        here
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::keyed::keyed;

    fn draws<T: Between>(choice: &Choice<T>) -> Vec<T> {
        (0..1000).map(|n| choice.draw(&mut keyed(1, "test", &[n]))).collect()
    }

    #[test]
    fn a_range_reaches_both_ends_and_nothing_beyond() {
        let drawn = draws(&Choice::Range(3, 1000));
        assert!(drawn.iter().all(|n| (3..=1000).contains(n)));
        for end in [3, 1000] {
            assert!(drawn.iter().filter(|n| **n == end).count() > 50, "{end} comes often");
        }
        assert!(drawn.iter().filter(|n| **n < 20).count() > 200, "small values come often");
        assert!(drawn.iter().filter(|n| **n > 500).count() > 200, "large values come often");
        assert_eq!(draws(&Choice::Range(7, 7)), vec![7; 1000]);
        assert!(draws(&Choice::Range(0, u64::MAX)).contains(&u64::MAX));
    }

    #[test]
    fn a_value_listed_twice_is_drawn_twice_as_often() {
        let drawn = draws(&Choice::one_of([1, 1, 2]));
        let ones = drawn.iter().filter(|n| **n == 1).count();
        assert!((600..730).contains(&ones), "{ones}");
    }

    #[test]
    fn a_choice_may_hold_a_range() {
        let secs = Duration::from_secs;
        let drawn =
            draws(&Choice::OneOf(vec![Choice::Fixed(secs(0)), Choice::Range(secs(5), secs(6))]));
        assert!(drawn.iter().all(|d| *d == secs(0) || (secs(5)..=secs(6)).contains(d)));
        assert!(drawn.iter().all(|d| d.subsec_nanos() % 1_000_000 == 0), "whole milliseconds");
    }

    #[test]
    fn an_entry_without_weight_is_never_drawn() {
        let drawn: Vec<_> =
            (0..1000).map(|n| pick_weighted(&[0, 3, 0, 1], &mut keyed(1, "test", &[n]))).collect();
        let threes = drawn.iter().filter(|at| **at == Some(1)).count();
        assert!((690..810).contains(&threes), "{threes}");
        assert!(drawn.iter().all(|at| matches!(at, Some(1 | 3))));
        assert_eq!(pick_weighted(&[0, 0], &mut keyed(1, "test", &[])), None);
        assert_eq!(pick_weighted(&[], &mut keyed(1, "test", &[])), None);
    }
}
