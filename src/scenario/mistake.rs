//! What a person got wrong in a file: one line, with the place, that says what to do.

use std::fmt;

/// A mistake in a scenario file. Its `Display` is one line: `file:line:column: message`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The file, as it was named by whoever asked for it.
    pub file: String,
    /// The line, from 1; 0 where the mistake is not in a line (a file that is not there).
    pub line: usize,
    /// The column, from 1, counted in characters.
    pub column: usize,
    /// What is wrong, and what would be right.
    pub message: String,
}

impl Mistake {
    /// A mistake with the whole file.
    pub fn whole(file: impl Into<String>, message: impl Into<String>) -> Self {
        Self { file: file.into(), line: 0, column: 0, message: message.into() }
    }

    /// A mistake at a byte of the file's text.
    pub(super) fn at(file: &str, text: &str, wrong: MistakeAt) -> Self {
        let (line, column) = place(text, wrong.at);
        Self { file: file.to_owned(), line, column, message: wrong.message }
    }
}

/// The line and the column of a byte of a text, both from 1; columns are counted in characters.
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

/// A mistake at a byte of a text, before anybody asked for its line.
#[derive(Debug)]
pub(super) struct MistakeAt {
    pub at: usize,
    pub message: String,
}

/// What reading gives.
pub(super) type Parsed<T> = Result<T, MistakeAt>;

/// Says that a name is unknown, with the nearest known one, or all of them where none is near.
///
/// `what` completes the sentence “`name` is …”: `no milestone of counter`.
pub fn unknown<'k>(what: &str, name: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    if let Some(near) = nearest(name, &known) {
        return format!("`{name}` is not {what}; did you mean `{near}`?");
    }
    match known.as_slice() {
        [] => format!("`{name}` is not {what}; there are none"),
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

/// So many known names are printed where none is near.
const SHOWN: usize = 12;

fn nearest<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    let plain = |name: &str| name.to_lowercase().replace('_', "-");
    let near = known
        .iter()
        .map(|known| (strsim::damerau_levenshtein(&plain(name), &plain(known)), *known))
        .min_by_key(|near| near.0);
    near.filter(|(distance, known)| *distance <= known.len().max(3) / 3).map(|(_, known)| known)
}

/// Names between backticks, with commas.
pub(super) fn ticked(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_counted_in_lines_and_characters_from_1() {
        let text = "a = 1\nüü = 2\n";
        let at = |at| {
            let mistake = Mistake::at("f.toml", text, MistakeAt { at, message: "no".into() });
            (mistake.line, mistake.column)
        };
        assert_eq!([at(0), at(4), at(6), at(8), at(11)], [(1, 1), (1, 5), (2, 1), (2, 2), (2, 4)]);
    }

    #[test]
    fn a_mistake_with_the_whole_file_has_no_line() {
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
        assert_eq!(unknown("a word", "zebra", []), "`zebra` is not a word; there are none");
    }
}
