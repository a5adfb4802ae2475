//! Commands as text.

use crate::schedule::units::duration;
use crate::world::Engine;

/// Returns the command-line options that select an engine, with a leading space. Returns an empty
/// string for the default engine.
pub fn words_for(engine: Engine) -> String {
    match engine {
        Engine::Event => String::new(),
        Engine::TURMOIL => " --engine turmoil".to_owned(),
        Engine::Turmoil(tick) => format!(" --engine turmoil --tick {}", duration(tick.length())),
    }
}

/// Returns a command-line word, in quotes if a shell would split or expand it.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_a_shell_would_split_is_quoted() {
        assert_eq!(quoted("scenarios/a.toml"), "scenarios/a.toml");
        assert_eq!(quoted("it's here.toml"), r"'it'\''s here.toml'");
        assert_eq!(quoted(""), "''");
    }
}
