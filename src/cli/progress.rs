//! How far long work is: a line on standard error that is drawn over, and is gone before anything else is printed. Nothing at all
//! where nobody watches.

use std::fmt::Write;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

/// The line.
#[derive(Clone, Debug)]
pub struct ProgressLine {
    live: bool,
    bar: ProgressBar,
}

/// How much there is, and how fast it goes.
const COUNTED: &str = "{bar:24} {pos}/{len}  {rate}/s, {eta} left  {wide_msg}";
/// The same where nobody knows how much there is.
const ENDLESS: &str = "{pos}  {rate}/s, after {elapsed}  {wide_msg}";
/// Only words.
const WORDS: &str = "{wide_msg}";

impl ProgressLine {
    /// On standard error, if somebody watches it.
    pub fn new(live: bool) -> Self {
        Self { live, bar: ProgressBar::hidden() }
    }

    fn target(&self) -> ProgressDrawTarget {
        if self.live { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() }
    }

    /// Begins to count, up to a number if there is one.
    pub fn begin(&mut self, most: Option<u64>) {
        self.begin_on(self.target(), most);
    }

    fn begin_on(&mut self, target: ProgressDrawTarget, most: Option<u64>) {
        self.clear();
        let bar = ProgressBar::with_draw_target(most, target);
        self.bar = bar.with_style(style(if most.is_some() { COUNTED } else { ENDLESS }));
    }

    /// So much is done, and these words say what came of it.
    pub fn at(&self, done: u64, words: String) {
        self.bar.set_position(done);
        self.bar.set_message(words);
    }

    /// Words, in the middle of counting or without.
    pub fn print(&mut self, words: String) {
        if self.live && self.bar.is_hidden() {
            self.bar = ProgressBar::with_draw_target(None, self.target()).with_style(style(WORDS));
        }
        self.bar.set_message(words);
    }

    /// Takes the line away for as long as something else is printed.
    pub fn suspend<T>(&self, print: impl FnOnce() -> T) -> T {
        self.bar.suspend(print)
    }

    /// Takes the line away.
    pub fn clear(&mut self) {
        self.bar.finish_and_clear();
        self.bar = ProgressBar::hidden();
    }
}

fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template)
        .expect("a template of this file is right")
        .progress_chars("█▌░");
    // Whoever watches wants to know the rate, not its decimals; what cannot be written is not shown.
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
    fn it_tells_how_much_is_done_how_fast_and_what_was_found() {
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
    fn it_is_out_of_the_way_while_something_is_printed() {
        let (_, term, progress) = line(|progress| progress.at(7, String::new()));
        let there = progress.suspend(|| term.contents());
        assert_eq!(there, "");
        assert!(term.contents().contains("7/200"));
    }

    #[test]
    fn nobody_sees_anything_where_nobody_watches() {
        let mut progress = ProgressLine::new(false);
        progress.begin(Some(3));
        progress.at(1, "x".into());
        progress.print("y".into());
        assert!(progress.bar.is_hidden());
    }
}
