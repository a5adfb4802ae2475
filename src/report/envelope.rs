//! A scenario file embedded in other output. If a run fails on a machine whose disk is lost, its
//! log still contains the file, and `reknit replay -` extracts it.

/// The line before the file.
pub const BEGIN: &str = "-----BEGIN REKNIT SCENARIO-----";
/// The line after it.
pub const END: &str = "-----END REKNIT SCENARIO-----";

/// Encloses a file's text in markers.
pub fn seal(text: &str) -> String {
    let border = if text.ends_with('\n') { "" } else { "\n" };
    format!("{BEGIN}\n{text}{border}{END}\n")
}

/// Extracts a file's text from between the markers. Returns the first file if there are several,
/// and the whole text if there is no marker. A log may put a prefix such as a time before each
/// line; the prefix before the first marker is removed from every line.
pub fn open(text: &str) -> String {
    let mut lines = text.lines();
    let Some(first) = lines.by_ref().find(|line| line.contains(BEGIN)) else {
        return text.to_owned();
    };
    let prefix = &first[..first.find(BEGIN).unwrap_or(0)];
    let inner = lines.take_while(|line| !line.contains(END));
    inner.map(|line| format!("{}\n", without(line, prefix))).collect()
}

/// Removes the log prefix from a line: the same text, or the leading blanks if the prefix is blank,
/// or else as many characters as the prefix has.
fn without<'a>(line: &'a str, prefix: &str) -> &'a str {
    match line.strip_prefix(prefix) {
        Some(rest) => rest,
        None if prefix.trim().is_empty() => line.trim_start(),
        None => line.char_indices().nth(prefix.chars().count()).map_or("", |(at, _)| &line[at..]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_file_can_be_opened() {
        assert_eq!(open(&seal("format = 1\n[x]\n")), "format = 1\n[x]\n");
        assert_eq!(open(&format!("noise\n{}more noise", seal("format = 1"))), "format = 1\n");
    }

    #[test]
    fn text_without_markers_is_unchanged() {
        assert_eq!(open("format = 1\n"), "format = 1\n");
    }

    #[test]
    fn a_log_prefix_is_removed_from_each_line() {
        let log = format!("12:01 | {BEGIN}\n12:02 | format = 1\n12:02 | \n12:03 | {END}\n");
        assert_eq!(open(&log), "format = 1\n\n");
        assert_eq!(open(&format!("    {BEGIN}\n    a = 1\n\n    {END}")), "a = 1\n\n");
    }

    #[test]
    fn a_marker_without_its_end_loses_nothing() {
        assert_eq!(open(&format!("{BEGIN}\nformat = 1")), "format = 1\n");
    }
}
