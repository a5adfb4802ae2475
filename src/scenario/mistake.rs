//! A mistake in a file: one line with its position and a suggested fix.

use std::fmt;

/// A mistake in a scenario file. Its `Display` is one line: `file:line:column: message`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The file name, as the caller gave it.
    pub file: String,
    /// The line, from 1; 0 if the mistake is not in a line, for example if the file does not exist.
    pub line: usize,
    /// The column, from 1, counted in characters.
    pub column: usize,
    /// A description of the mistake and a correct alternative.
    pub message: String,
}

impl Mistake {
    /// Creates a mistake about the whole file.
    pub fn whole(file: impl Into<String>, message: impl Into<String>) -> Self {
        Self { file: file.into(), line: 0, column: 0, message: message.into() }
    }

    /// Creates a mistake at a byte position of the file's text.
    pub(super) fn at(file: &str, text: &str, wrong: MistakeAt) -> Self {
        let (line, column) = place(text, wrong.at);
        Self { file: file.to_owned(), line, column, message: wrong.message }
    }
}

/// Returns the line and column of a byte position, both from 1. Columns are counted in characters.
pub(super) fn place(text: &str, at: usize) -> (usize, usize) {
    let end = (0..=at.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    let before = &text[..end.unwrap_or(0)];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let column = before[line_start..].trim_start_matches('\u{feff}').chars().count() + 1;
    (before.matches('\n').count() + 1, column)
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.message),
            line => write!(f, "{}:{line}:{}: {}", self.file, self.column, self.message),
        }
    }
}

impl std::error::Error for Mistake {}

/// A mistake at a byte position of a text. The line is computed only if it is reported.
#[derive(Debug)]
pub(super) struct MistakeAt {
    pub at: usize,
    pub message: String,
}

/// The result of parsing.
pub(super) type Parsed<T> = Result<T, MistakeAt>;

/// Returns a message for an unknown name, with the nearest known name, or with the known names if
/// none is near.
///
/// `what` completes the sentence “`name` is …”: `no milestone of counter`.
pub fn unknown<'k>(what: &str, name: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    if let Some(near) = nearest(name, &known) {
        return format!("`{name}` is not {what}; did you mean `{near}`?");
    }
    match known.as_slice() {
        [] => format!("`{name}` is not {what}; none exists"),
        known if known.len() <= SHOWN => {
            format!("`{name}` is not {what}; known: {}", ticked(known))
        }
        known => format!(
            "`{name}` is not {what}; known: {} and {} more",
            ticked(&known[..SHOWN]),
            known.len() - SHOWN
        ),
    }
}

/// The maximum number of known names to list if none is near.
const SHOWN: usize = 12;

fn nearest<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    let plain = |name: &str| name.to_lowercase().replace('_', "-");
    let near = known
        .iter()
        .map(|known| (strsim::damerau_levenshtein(&plain(name), &plain(known)), *known))
        .min_by_key(|near| near.0);
    near.filter(|(distance, known)| *distance <= known.len().max(3) / 3).map(|(_, known)| known)
}

/// Returns the names between backticks, separated by commas.
pub(super) fn ticked(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_counted_in_lines_and_characters_from_1() {
        let text = "a = 1\nüü = 2\n";
        let at = |at| {
            let mistake = Mistake::at("f.toml", text, MistakeAt { at, message: "no".into() });
            (mistake.line, mistake.column)
        };
        assert_eq!([at(0), at(4), at(6), at(8), at(11)], [(1, 1), (1, 5), (2, 1), (2, 2), (2, 4)]);
    }

    #[test]
    fn a_mistake_about_the_whole_file_has_no_line() {
        assert_eq!(
            Mistake::whole("f.toml", "there is no such file").to_string(),
            "f.toml: there is no such file"
        );
    }

    #[test]
    fn the_nearest_known_name_is_offered_only_if_it_is_near() {
        assert_eq!(
            unknown("a word", "partitoin", ["cut", "partition"]),
            "`partitoin` is not a word; did you mean `partition`?"
        );
        assert_eq!(
            unknown("a word", "clock_jump", ["cut", "clock-jump"]),
            "`clock_jump` is not a word; did you mean `clock-jump`?"
        );
        assert_eq!(
            unknown("a word", "zebra", ["cut", "hold"]),
            "`zebra` is not a word; known: `cut`, `hold`"
        );
        assert_eq!(unknown("a word", "zebra", []), "`zebra` is not a word; none exists");
    }
}
