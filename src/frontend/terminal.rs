//! What standard output shows: how wide it is, and whether it has colours.

use std::io::IsTerminal;

use crate::report::WIDTH;

/// How wide standard output is.
pub fn width() -> usize {
    let (columns, _) = terminal_size::terminal_size_of(std::io::stdout()).unzip();
    let set = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    columns
        .map(|columns| usize::from(columns.0))
        .or(set)
        .filter(|width| *width > 0)
        .unwrap_or(WIDTH)
}

/// The text as standard output shows it: with its colours on a terminal, without them elsewhere or where `NO_COLOR` is set.
pub fn colours(text: &str) -> String {
    let choice = anstream::AutoStream::choice(&std::io::stdout());
    if choice == anstream::ColorChoice::Never || !std::io::stdout().is_terminal() {
        anstream::adapter::strip_str(text).to_string()
    } else {
        text.to_owned()
    }
}

/// Text as it stands in a file: without colours.
pub fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}
