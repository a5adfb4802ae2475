//! The time axis: a moment with events has its own row, and idle time is folded.
//!
//! The axis shows order, not duration: a millisecond with many events takes more space than an idle
//! minute.

use std::ops::Range;

use crate::history::Time;

/// A pause of at least this length, in milliseconds, gets a row that shows its length.
const IDLE: u64 = 1_000;

/// The number of moments to show at the beginning and at the end of a routine stretch.
const SHOWN: usize = 3;

/// A moment, with the data that decides whether it can be folded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The time.
    pub at: Time,
    /// Whether the moment contains only routine entries.
    pub routine: bool,
    /// The number of texts at this moment; zero if only an arrow ends here.
    pub weight: usize,
}

/// A row of the drawing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PictureRow {
    /// One moment.
    Moment(usize),
    /// Several routine moments, shown as one row.
    Folded(Range<usize>),
    /// The idle time between two moments.
    Idle(Time, Time),
}

/// Returns the rows of these moments, which are sorted. With `folds`, each long routine stretch
/// becomes one row.
pub fn rows(moments: &[Moment], folds: bool) -> Vec<PictureRow> {
    let mut rows = Vec::new();
    let mut n = 0;
    while n < moments.len() {
        if let Some(before) = n.checked_sub(1).map(|before| moments[before].at)
            && moments[n].at.0 - before.0 >= IDLE
        {
            rows.push(PictureRow::Idle(before, moments[n].at));
        }
        let routine = moments[n..].iter().take_while(|moment| moment.routine).count();
        // The first moments of a routine stretch are shown, so a fold can begin only after them.
        let begins = n
            .checked_sub(SHOWN)
            .is_some_and(|before| moments[before..n].iter().all(|moment| moment.routine));
        let inner = n..n + routine.saturating_sub(SHOWN);
        let weight: usize = moments[inner.clone()].iter().map(|moment| moment.weight).sum();
        if folds && begins && inner.len() > SHOWN && weight > 2 * SHOWN {
            n = inner.end;
            rows.push(PictureRow::Folded(inner));
        } else {
            rows.push(PictureRow::Moment(n));
            n += 1;
        }
    }
    rows
}

/// A row with its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Band {
    /// The time of its first moment.
    pub from: Time,
    /// The time of its last moment.
    pub to: Time,
    /// The y position of its first moment.
    pub first: i32,
    /// The y position of its last moment.
    pub last: i32,
}

/// Maps times to y positions.
#[derive(Clone, Debug, Default)]
pub struct Axis {
    bands: Vec<Band>,
    bottom: i32,
}

impl Axis {
    /// Creates the axis of these rows, which are sorted. The axis ends at `bottom`.
    pub fn new(bands: Vec<Band>, bottom: i32) -> Self {
        Self { bands, bottom }
    }

    /// Returns the y position of a time; between two rows if it has no row.
    pub fn y(&self, at: Time) -> i32 {
        let next = self.bands.partition_point(|band| band.to < at);
        let Some(band) = self.bands.get(next) else { return self.bottom };
        if band.from <= at {
            return between(at, (band.from, band.first), (band.to, band.last));
        }
        match next.checked_sub(1).map(|before| self.bands[before]) {
            Some(before) => between(at, (before.to, before.last), (band.from, band.first)),
            None => band.first,
        }
    }

    /// Returns the y position of the end of the drawing.
    pub fn bottom(&self) -> i32 {
        self.bottom
    }
}

fn between(at: Time, (from, first): (Time, i32), (to, last): (Time, i32)) -> i32 {
    if to <= from {
        return first;
    }
    first
        + ((at.0 - from.0) as f64 / (to.0 - from.0) as f64 * f64::from(last - first)).round() as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments(of: &[(u64, bool)]) -> Vec<Moment> {
        of.iter().map(|&(at, routine)| Moment { at: Time(at), routine, weight: 1 }).collect()
    }

    #[test]
    fn a_pause_is_a_row_with_its_length() {
        let moments = moments(&[(0, false), (999, false), (1999, false)]);
        let expected = [
            PictureRow::Moment(0),
            PictureRow::Moment(1),
            PictureRow::Idle(Time(999), Time(1999)),
            PictureRow::Moment(2),
        ];
        assert_eq!(rows(&moments, true), expected);
    }

    #[test]
    fn a_long_stretch_of_routine_is_one_row_between_its_ends() {
        let of: Vec<_> = (0..30).map(|n| (n, n != 0 && n != 29)).collect();
        let rows_ = rows(&moments(&of), true);
        let folded: Vec<_> =
            rows_.iter().filter(|row| matches!(row, PictureRow::Folded(_))).collect();
        assert_eq!(folded, [&PictureRow::Folded(4..26)]);
        assert_eq!(rows_.len(), 9);
        assert_eq!(rows(&moments(&of), false).len(), 30);
    }

    #[test]
    fn a_short_stretch_is_not_folded() {
        let of: Vec<_> = (0..13).map(|n| (n, n != 0 && n != 12)).collect();
        assert!(!rows(&moments(&of), true).iter().any(|row| matches!(row, PictureRow::Folded(_))));
    }

    #[test]
    fn a_moment_without_a_row_is_between_its_neighbours() {
        let band = |from, to, first, last| Band { from: Time(from), to: Time(to), first, last };
        let axis = Axis::new(vec![band(10, 10, 100, 100), band(20, 40, 200, 300)], 400);
        let places: Vec<_> = [0, 10, 15, 20, 30, 40, 41].map(|at| axis.y(Time(at))).into();
        assert_eq!(places, [100, 100, 150, 200, 250, 300, 400]);
    }
}
