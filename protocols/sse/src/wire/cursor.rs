//! The place from which a stream continues.
//!
//! A cursor is the position of the last event that its owner has. Positions count the events of one
//! run of a command, so a cursor is only valid for that run: after a restart of the server the
//! positions start again. The [`Epoch`] identifies the run.
//!
//! execd writes a cursor as a number (`42`). This crate also accepts and writes the epoch with it:
//! `7c0ffee15bad0042-42`. There are three reasons to refuse a cursor, and each is reported before
//! the first byte of a stream: it is [malformed](MalformedCursor), it belongs to
//! [another run](CursorError::Foreign), or it lies [in the future](CursorError::Future). (execd takes
//! a malformed cursor for 0 and repeats everything.)

use std::fmt;
use std::str::FromStr;

use reknit_seams::defect;

/// Identifies one run of a command. Written as 16 hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

/// The place after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cursor {
    /// The run that the position counts. A client of execd does not know it.
    pub epoch: Option<Epoch>,
    /// The position of the last event that the owner of the cursor has; 0 before the first.
    pub after: u64,
}

/// The text is not a cursor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a cursor is a number, or an epoch of 16 hex digits, `-` and a number, not {0:?}")]
pub struct MalformedCursor(
    /// The text, shortened.
    pub String,
);

/// The reason why a well-formed cursor is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CursorError {
    /// It counts the events of another run of this command.
    #[error("the cursor belongs to run {theirs} of this command, and this is run {ours}")]
    Foreign {
        /// The epoch of the cursor.
        theirs: Epoch,
        /// The epoch of the run that the server has.
        ours: Epoch,
    },
    /// It names an event that does not exist yet.
    #[error("the cursor is {after}, but the last event is {last}")]
    Future {
        /// The position of the cursor.
        after: u64,
        /// The position of the last event; 0 if there is none.
        last: u64,
    },
}

/// How many characters of a malformed cursor an error repeats.
const SHOWN: usize = 40;

/// The number of digits of a written epoch.
const EPOCH_DIGITS: usize = 16;

impl Cursor {
    /// The place before the first event of any run.
    pub const START: Self = Self { epoch: None, after: 0 };

    /// Returns the place after an event of a run.
    pub fn new(epoch: Epoch, after: u64) -> Self {
        Self { epoch: Some(epoch), after }
    }

    /// Checks the cursor for the run `epoch`, whose last event is `last` (0 if there is none).
    ///
    /// # Errors
    /// [`CursorError`]. A cursor without an epoch is only refused if it lies in the future.
    pub fn check(&self, epoch: Epoch, last: u64) -> Result<(), CursorError> {
        // The bug: the position of the next event counts as one that is there.
        let is_future = self.after > last.saturating_add(u64::from(defect!(NextIsThere)));
        let is_foreign = |theirs| theirs != epoch && !(is_future && defect!(FutureBeforeRun));
        match self.epoch {
            Some(theirs) if is_foreign(theirs) => Err(CursorError::Foreign { theirs, ours: epoch }),
            _ if is_future => Err(CursorError::Future { after: self.after, last }),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.epoch {
            Some(epoch) => write!(f, "{epoch}-{}", self.after),
            None => self.after.fmt(f),
        }
    }
}

impl FromStr for Epoch {
    type Err = MalformedCursor;

    fn from_str(text: &str) -> Result<Self, MalformedCursor> {
        let is_hex = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let number = (is_hex && text.len() == EPOCH_DIGITS).then(|| u64::from_str_radix(text, 16));
        number.and_then(Result::ok).map(Self).ok_or_else(|| malformed(text))
    }
}

impl FromStr for Cursor {
    type Err = MalformedCursor;

    fn from_str(text: &str) -> Result<Self, MalformedCursor> {
        let (epoch, number) = match text.split_once('-') {
            Some((epoch, number)) => (Some(epoch.parse().map_err(|_| malformed(text))?), number),
            None => (None, text),
        };
        // `u64::from_str` accepts a sign.
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
            || defect!(SignsAreNumbers);
        let after = is_number.then(|| number.parse().ok()).flatten();
        Ok(Self { epoch, after: after.ok_or_else(|| malformed(text))? })
    }
}

fn malformed(text: &str) -> MalformedCursor {
    MalformedCursor(text.chars().take(SHOWN).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const EPOCH: Epoch = Epoch(0xc0ffee);

    #[test]
    fn a_cursor_is_a_number_with_or_without_an_epoch() {
        assert_eq!("0".parse(), Ok(Cursor::START));
        assert_eq!("42".parse(), Ok(Cursor { epoch: None, after: 42 }));
        assert_eq!("0000000000c0ffee-7".parse(), Ok(Cursor::new(EPOCH, 7)));
        assert_eq!(Cursor::new(EPOCH, 7).to_string(), "0000000000c0ffee-7");
    }

    #[test]
    fn everything_else_is_malformed() {
        for text in [
            "",
            "-",
            "-1",
            "+1",
            " 1",
            "1 ",
            "1.0",
            "0x1",
            "x",
            "18446744073709551616",
            "c0ffee-7",
            "0000000000C0FFEE-7",
            "0000000000c0ffee",
            "0000000000c0ffee-",
            "0000000000c0ffee--7",
            "0000000000c0ffee-+7",
            "0000000000c0ffee-7-7",
            "+000000000c0ffee-7",
            "é-1",
        ] {
            assert_eq!(text.parse::<Cursor>(), Err(MalformedCursor(text.into())), "{text}");
        }
        let long = "9".repeat(1000).parse::<Cursor>().unwrap_err();
        assert_eq!(long.0.len(), SHOWN);
    }

    #[test]
    fn a_cursor_of_another_run_is_foreign_wherever_it_points() {
        let theirs = Epoch(1);
        for after in [0, 5, 99] {
            let checked = Cursor::new(theirs, after).check(EPOCH, 9);
            assert_eq!(checked, Err(CursorError::Foreign { theirs, ours: EPOCH }));
        }
    }

    #[test]
    fn a_cursor_behind_the_last_event_is_in_the_future() {
        for cursor in [Cursor::new(EPOCH, 10), Cursor { epoch: None, after: 10 }] {
            assert_eq!(cursor.check(EPOCH, 10), Ok(()));
            assert_eq!(cursor.check(EPOCH, 9), Err(CursorError::Future { after: 10, last: 9 }));
        }
    }

    proptest! {
        #[test]
        fn a_written_cursor_is_read_back(epoch: Option<u64>, after: u64) {
            let cursor = Cursor { epoch: epoch.map(Epoch), after };
            prop_assert_eq!(cursor.to_string().parse(), Ok(cursor));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text: String) {
            if let Ok(cursor) = text.parse::<Cursor>() {
                prop_assert_eq!(cursor.to_string().parse(), Ok(cursor));
            }
        }
    }
}
