//! A scenario file in the middle of other output: where a run failed on a machine whose disk is lost, its log still has the
//! file, and `reknit replay -` takes it out again.

/// The line before the file.
pub const BEGIN: &str = "-----BEGIN REKNIT SCENARIO-----";
/// The line after it.
pub const END: &str = "-----END REKNIT SCENARIO-----";

/// Puts a file's text between the markers.
pub fn seal(text: &str) -> String {
    let border = if text.ends_with('\n') { "" } else { "\n" };
    format!("{BEGIN}\n{text}{border}{END}\n")
}

/// Takes a file's text out from between the markers: the first one, if there are several; all of it where there is no marker.
/// What a log put before each line (a time, a column) is taken off as far as it stands before the first marker, too.
pub fn open(text: &str) -> String {
    let mut lines = text.lines();
    let Some(first) = lines.by_ref().find(|line| line.contains(BEGIN)) else {
        return text.to_owned();
    };
    let prefix = &first[..first.find(BEGIN).unwrap_or(0)];
    let inner = lines.take_while(|line| !line.contains(END));
    inner.map(|line| format!("{}\n", without(line, prefix))).collect()
}

/// The line without a prefix of that length, where the prefix is blank or the line begins with it.
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
    fn what_was_sealed_can_be_opened() {
        assert_eq!(open(&seal("format = 1\n[x]\n")), "format = 1\n[x]\n");
        assert_eq!(open(&format!("noise\n{}more noise", seal("format = 1"))), "format = 1\n");
    }

    #[test]
    fn text_without_markers_is_itself() {
        assert_eq!(open("format = 1\n"), "format = 1\n");
    }

    #[test]
    fn what_a_log_puts_before_each_line_is_taken_off() {
        let log = format!("12:01 | {BEGIN}\n12:02 | format = 1\n12:02 | \n12:03 | {END}\n");
        assert_eq!(open(&log), "format = 1\n\n");
        assert_eq!(open(&format!("    {BEGIN}\n    a = 1\n\n    {END}")), "a = 1\n\n");
    }

    #[test]
    fn a_marker_without_its_end_loses_nothing() {
        assert_eq!(open(&format!("{BEGIN}\nformat = 1")), "format = 1\n");
    }
}
