//! Properties of standard output: its width, and whether it has colours.

use std::io::IsTerminal;

use crate::report::WIDTH;

/// Returns the width of standard output in columns.
pub fn width() -> usize {
    let (columns, _) = terminal_size::terminal_size_of(std::io::stdout()).unzip();
    let set = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    columns
        .map(|columns| usize::from(columns.0))
        .or(set)
        .filter(|width| *width > 0)
        .unwrap_or(WIDTH)
}

/// Returns the text with colours if standard output is a terminal, and without them otherwise or if
/// `NO_COLOR` is set.
pub fn colours(text: &str) -> String {
    let choice = anstream::AutoStream::choice(&std::io::stdout());
    if choice == anstream::ColorChoice::Never || !std::io::stdout().is_terminal() {
        anstream::adapter::strip_str(text).to_string()
    } else {
        text.to_owned()
    }
}

/// Returns the text without colours, for a file.
pub fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}
