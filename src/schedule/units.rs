//! Durations, sizes and ranges as text: `25s`, `64KiB`, `1ms..20ms`.
//!
//! The syntax is one whole number and one unit, without a space. All text that this module writes
//! can be read back by it. The errors suggest the correct text. Virtual time has a resolution of
//! one millisecond, so there are no finer units.

use std::fmt::Display;
use std::time::Duration;

mod written;

pub use written::{Size, WrittenDuration};

/// The reason why a text is not a duration, size or range, and a suggestion for the correct text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotAUnit(String);

/// A unit: its name, and its factor relative to the smallest unit.
type Unit = (&'static str, u64);

/// Units of time, in milliseconds, the largest first.
const TIME: &[Unit] = &[("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

/// Units of size, in bytes, the largest first.
const SIZE: &[Unit] = &[("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// The longest duration that can be written, in milliseconds: more than a year.
const LONGEST: u64 = 10_000 * 3_600_000;

/// Formats a duration in the largest exact unit: `25s`, `1500ms`. Fractions of a millisecond are
/// cut off.
pub fn duration(d: Duration) -> String {
    write(u64::try_from(d.as_millis()).unwrap_or(u64::MAX), TIME)
}

/// Formats a forward or backward jump of a clock, given in milliseconds: `3s`, `-250ms`.
pub fn jump(ms: i64) -> String {
    format!("{}{}", if ms < 0 { "-" } else { "" }, write(ms.unsigned_abs(), TIME))
}

/// Formats a number of bytes in the largest exact unit: `64KiB`, `1B`.
pub fn size(bytes: u64) -> String {
    write(bytes, SIZE)
}

/// Formats a range with both ends: `1ms..20ms`; as one value if both ends are equal.
pub fn range<T: PartialEq>((low, high): (T, T), write: impl Fn(T) -> String) -> String {
    if low == high { write(low) } else { format!("{}..{}", write(low), write(high)) }
}

/// Parses a duration: a whole number and a unit, like `50ms` or `25s`.
///
/// # Errors
/// If the text is not a duration. The error suggests the correct text.
pub fn read_duration(text: &str) -> Result<Duration, NotAUnit> {
    read(text, TIME, "duration", "`25s`, `50ms`, `3m` or `1h`").and_then(|ms| {
        let too_long = || {
            NotAUnit(format!(
                "`{text}` is too long: the longest duration is `{}`",
                write(LONGEST, TIME)
            ))
        };
        if ms > LONGEST { Err(too_long()) } else { Ok(Duration::from_millis(ms)) }
    })
}

/// Reads a jump of a clock, in milliseconds.
///
/// # Errors
/// If the text is not a jump. The error suggests the correct text.
pub fn read_jump(text: &str) -> Result<i64, NotAUnit> {
    let (sign, amount) = text.strip_prefix('-').map_or((1, text), |amount| (-1, amount));
    let ms = i64::try_from(read_duration(amount)?.as_millis()).expect("the longest duration fits");
    Ok(sign * ms)
}

/// Reads a number of bytes.
///
/// # Errors
/// If the text is not a size. The error suggests the correct text.
pub fn read_size(text: &str) -> Result<u64, NotAUnit> {
    read(text, SIZE, "size", "`1B`, `64KiB` or `1MiB`")
}

/// Reads a range with both ends (`1ms..20ms`). A single value is a range, too.
///
/// # Errors
/// If an end cannot be read, or the second end is less than the first.
pub fn read_range<T, E>(text: &str, read: impl Fn(&str) -> Result<T, E>) -> Result<(T, T), NotAUnit>
where
    T: PartialOrd + Clone,
    E: Display,
{
    let read = |end: &str| read(end).map_err(|error| NotAUnit(error.to_string()));
    let Some((low, high)) = text.split_once("..") else {
        return read(text).map(|only| (only.clone(), only));
    };
    let (low_end, high_end) = (read(low)?, read(high)?);
    if low_end > high_end {
        return Err(NotAUnit(format!(
            "the range `{text}` is in descending order; write `{high}..{low}`"
        )));
    }
    Ok((low_end, high_end))
}

fn write(amount: u64, units: &[Unit]) -> String {
    let smallest = units.last().expect("a table of units has rows");
    let exact = units
        .iter()
        .find(|(_, worth)| amount > 0 && amount.is_multiple_of(*worth))
        .unwrap_or(smallest);
    format!("{}{}", amount / exact.1, exact.0)
}

fn read(text: &str, units: &[Unit], what: &str, like: &str) -> Result<u64, NotAUnit> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    if let (Ok(number), Some((_, worth))) =
        (number.parse::<u64>(), units.iter().find(|(name, _)| *name == unit))
    {
        return number
            .checked_mul(*worth)
            .ok_or_else(|| NotAUnit(format!("`{text}` is too large")));
    }
    Err(NotAUnit(match instead(number, unit, units) {
        Some(instead) => format!("`{text}` is not a {what}; write `{instead}`"),
        None => format!("`{text}` is not a {what}; write a whole number and a unit, like {like}"),
    }))
}

/// Guesses the intended text for this number and unit.
fn instead(number: &str, unit: &str, units: &[Unit]) -> Option<String> {
    let whole: u64 = number.parse().ok()?;
    let known = |name: &str| units.iter().find(|(known, _)| *known == name).copied();
    let meant = match unit.trim().to_ascii_lowercase().as_str() {
        "" if unit.is_empty() => return None,
        "sec" | "secs" | "second" | "seconds" => known("s"),
        "min" | "mins" | "minute" | "minutes" => known("m"),
        "hour" | "hours" => known("h"),
        "msec" | "millis" => known("ms"),
        "byte" | "bytes" => known("B"),
        "k" | "kb" => known("KiB"),
        "mb" => known("MiB"),
        "g" | "gb" => known("GiB"),
        other => units.iter().find(|(name, _)| name.eq_ignore_ascii_case(other)).copied(),
    };
    if let Some((name, _)) = meant {
        return Some(format!("{whole}{name}"));
    }
    // For a fraction (`1.5s`) or several units (`1m30s`), suggest the sum in the largest exact
    // unit.
    sum(&format!("{number}{unit}"), units).map(|amount| write(amount, units))
}

fn sum(text: &str, units: &[Unit]) -> Option<u64> {
    let compact: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let mut rest = compact.as_str();
    let mut total = 0.0;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
        let letters = rest[digits..].bytes().take_while(u8::is_ascii_alphabetic).count();
        let number: f64 = rest[..digits].parse().ok()?;
        let (_, worth) = units.iter().find(|(name, _)| *name == &rest[digits..digits + letters])?;
        total += number * *worth as f64;
        rest = &rest[digits + letters..];
    }
    (total.fract() == 0.0 && total < LONGEST as f64).then_some(total as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_values_can_be_read_back() {
        for ms in [0, 1, 999, 1000, 1500, 60_000, 90_000, 924_000, 3_600_000] {
            let d = Duration::from_millis(ms);
            assert_eq!(read_duration(&duration(d)), Ok(d));
        }
        for bytes in [0, 1, 1023, 1024, 65_536, 3 << 20, 5 << 30] {
            assert_eq!(read_size(&size(bytes)), Ok(bytes));
        }
        assert_eq!([-250, 0, 3000].map(jump), ["-250ms", "0ms", "3s"]);
        assert_eq!(read_jump("-3s"), Ok(-3000));
    }

    #[test]
    fn the_largest_exact_unit_is_used() {
        let times =
            [0, 1, 1000, 1500, 90_000, 120_000].map(|ms| duration(Duration::from_millis(ms)));
        assert_eq!(times, ["0ms", "1ms", "1s", "1500ms", "90s", "2m"]);
        assert_eq!([0, 1, 4096, 1 << 20].map(size), ["0B", "1B", "4KiB", "1MiB"]);
    }

    #[test]
    fn a_range_includes_both_ends() {
        let ms = Duration::from_millis;
        assert_eq!(read_range("1ms..20ms", read_duration), Ok((ms(1), ms(20))));
        assert_eq!(read_range("5ms", read_duration), Ok((ms(5), ms(5))));
        assert_eq!(
            (range((ms(1), ms(20)), duration), range((ms(5), ms(5)), duration)),
            ("1ms..20ms".into(), "5ms".into())
        );
    }

    #[test]
    fn an_error_suggests_what_to_write() {
        let like = "write a whole number and a unit, like `25s`, `50ms`, `3m` or `1h`";
        for (text, error) in [
            ("25 s", "`25 s` is not a duration; write `25s`".to_owned()),
            ("25sec", "`25sec` is not a duration; write `25s`".to_owned()),
            ("1.5s", "`1.5s` is not a duration; write `1500ms`".to_owned()),
            ("1m 30s", "`1m 30s` is not a duration; write `90s`".to_owned()),
            ("1.5ms", format!("`1.5ms` is not a duration; {like}")),
            ("250us", format!("`250us` is not a duration; {like}")),
            ("25", format!("`25` is not a duration; {like}")),
            ("", format!("`` is not a duration; {like}")),
            ("-1s", format!("`-1s` is not a duration; {like}")),
            ("99999h", "`99999h` is too long: the longest duration is `10000h`".to_owned()),
        ] {
            assert_eq!(read_duration(text).map_err(|e| e.to_string()), Err(error));
        }
        assert_eq!(read_size("4kb").unwrap_err().to_string(), "`4kb` is not a size; write `4KiB`");
        assert_eq!(
            read_size("4096").unwrap_err().to_string(),
            "`4096` is not a size; write a whole number and a unit, like `1B`, `64KiB` or `1MiB`"
        );
        let backwards = read_range("20ms..1ms", read_duration).unwrap_err();
        assert_eq!(
            backwards.to_string(),
            "the range `20ms..1ms` is in descending order; write `1ms..20ms`"
        );
    }
}
