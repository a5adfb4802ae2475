//! The axis of time: a moment in which something happens has a row of its own, and idle time is folded.
//!
//! It is an axis of order, not of length: a millisecond in which much happens is higher than a minute in which nothing does.

use std::ops::Range;

use crate::history::Time;

/// A pause of at least so many milliseconds has a row that says how long it was.
const IDLE: u64 = 1_000;

/// So many moments of a stretch of routine are shown at its beginning, and at its end.
const SHOWN: usize = 3;

/// What can be folded, of one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// When.
    pub at: Time,
    /// Whether only routine happens.
    pub routine: bool,
    /// How much is told of it; nothing of one that only an arrow ends at.
    pub weight: usize,
}

/// A row of the drawing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PictureRow {
    /// One moment.
    Moment(usize),
    /// Several moments of routine, shown as one.
    Folded(Range<usize>),
    /// Nothing happens from one time to the other.
    Idle(Time, Time),
}

/// The rows of these moments, which are in order. With `folds`, long stretches of routine are shown as one row each.
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
        // What is shown of a stretch before it is folded: its first moments, so the fold begins behind them.
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

/// A row, where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Band {
    /// Its first moment.
    pub from: Time,
    /// Its last moment.
    pub to: Time,
    /// Where its first moment is drawn.
    pub first: i32,
    /// Where its last moment is drawn.
    pub last: i32,
}

/// From moments to places.
#[derive(Clone, Debug, Default)]
pub struct Axis {
    bands: Vec<Band>,
    bottom: i32,
}

impl Axis {
    /// The axis of these rows, in order. It ends at `bottom`.
    pub fn new(bands: Vec<Band>, bottom: i32) -> Self {
        Self { bands, bottom }
    }

    /// Where a moment is; between two rows, if it has none.
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

    /// Where the drawing ends.
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
    fn a_pause_is_a_row_that_says_how_long() {
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
    fn a_short_stretch_stays_as_it_is() {
        let of: Vec<_> = (0..13).map(|n| (n, n != 0 && n != 12)).collect();
        assert!(!rows(&moments(&of), true).iter().any(|row| matches!(row, PictureRow::Folded(_))));
    }

    #[test]
    fn what_has_no_row_lies_between_its_neighbours() {
        let band = |from, to, first, last| Band { from: Time(from), to: Time(to), first, last };
        let axis = Axis::new(vec![band(10, 10, 100, 100), band(20, 40, 200, 300)], 400);
        let places: Vec<_> = [0, 10, 15, 20, 30, 40, 41].map(|at| axis.y(Time(at))).into();
        assert_eq!(places, [100, 100, 150, 200, 250, 300, 400]);
    }
}
