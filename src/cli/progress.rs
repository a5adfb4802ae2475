//! The progress of long work: one line on standard error, which is redrawn in place and removed
//! before any other output. It is not shown unless the output is interactive.

use std::fmt::Write;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

/// The progress line.
#[derive(Clone, Debug)]
pub struct ProgressLine {
    live: bool,
    bar: ProgressBar,
}

/// The template if the total is known.
const COUNTED: &str = "{bar:24} {pos}/{len}  {rate}/s, {eta} left  {wide_msg}";
/// The template if the total is unknown.
const ENDLESS: &str = "{pos}  {rate}/s, after {elapsed}  {wide_msg}";
/// The template for a message alone.
const WORDS: &str = "{wide_msg}";

impl ProgressLine {
    /// Creates a line on standard error, if the output is interactive.
    pub fn new(live: bool) -> Self {
        Self { live, bar: ProgressBar::hidden() }
    }

    fn target(&self) -> ProgressDrawTarget {
        if self.live { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() }
    }

    /// Starts to count, up to a maximum if there is one.
    pub fn begin(&mut self, most: Option<u64>) {
        self.begin_on(self.target(), most);
    }

    fn begin_on(&mut self, target: ProgressDrawTarget, most: Option<u64>) {
        self.clear();
        let bar = ProgressBar::with_draw_target(most, target);
        self.bar = bar.with_style(style(if most.is_some() { COUNTED } else { ENDLESS }));
    }

    /// Sets the number of finished runs and the message.
    pub fn at(&self, done: u64, words: String) {
        self.bar.set_position(done);
        self.bar.set_message(words);
    }

    /// Shows a message, with or without a count.
    pub fn print(&mut self, words: String) {
        if self.live && self.bar.is_hidden() {
            self.bar = ProgressBar::with_draw_target(None, self.target()).with_style(style(WORDS));
        }
        self.bar.set_message(words);
    }

    /// Removes the line while `print` writes other output.
    pub fn suspend<T>(&self, print: impl FnOnce() -> T) -> T {
        self.bar.suspend(print)
    }

    /// Removes the line.
    pub fn clear(&mut self) {
        self.bar.finish_and_clear();
        self.bar = ProgressBar::hidden();
    }
}

fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template)
        .expect("the templates in this file are valid")
        .progress_chars("█▌░");
    // People need the rate without decimals. A write error only hides the rate.
    style.with_key("rate", |state: &ProgressState, line: &mut dyn Write| {
        let _ = write!(line, "{:.0}", state.per_sec());
    })
}

#[cfg(test)]
mod tests {
    use indicatif::InMemoryTerm;

    use super::*;

    fn line(draw: impl FnOnce(&mut ProgressLine)) -> (String, InMemoryTerm, ProgressLine) {
        let term = InMemoryTerm::new(4, 100);
        let mut progress = ProgressLine::new(true);
        progress.begin_on(ProgressDrawTarget::term_like(Box::new(term.clone())), Some(200));
        draw(&mut progress);
        progress.bar.tick();
        (term.contents(), term, progress)
    }

    #[test]
    fn the_line_shows_count_rate_and_findings() {
        let (shown, term, mut progress) = line(|progress| progress.at(100, "3 broke".into()));
        assert!(
            shown.contains("100/200")
                && shown.contains("/s, ")
                && shown.contains(" left")
                && shown.ends_with("3 broke"),
            "{shown}"
        );
        assert_eq!(shown.lines().count(), 1);
        progress.clear();
        assert_eq!(term.contents(), "");
    }

    #[test]
    fn the_line_is_hidden_while_other_output_is_printed() {
        let (_, term, progress) = line(|progress| progress.at(7, String::new()));
        let there = progress.suspend(|| term.contents());
        assert_eq!(there, "");
        assert!(term.contents().contains("7/200"));
    }

    #[test]
    fn the_line_is_hidden_if_the_output_is_not_interactive() {
        let mut progress = ProgressLine::new(false);
        progress.begin(Some(3));
        progress.at(1, "x".into());
        progress.print("y".into());
        assert!(progress.bar.is_hidden());
    }
}
