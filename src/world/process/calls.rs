//! Assigns process launches and input lines to calls. The adapter of a subject marks them, because
//! only the process itself sees them.

use crate::history::Call;
use crate::history::content::PADDING;
use crate::process::Command;

/// The environment variable that contains the name of the process in the history.
pub const NAME: &str = "REKNIT_NAME";

/// The environment variable that contains the call that launched the process.
pub const CALL: &str = "REKNIT_CALL";

/// Returns a command line that sets these variables, and starts a program.
pub fn command_line(name: &str, call: Call, program: &str) -> String {
    format!("{NAME}={name} {CALL}={} {program}", call.0)
}

/// Returns a command with the variables that its command line sets, as a shell does.
pub(super) fn assigned(command: &Command) -> Command {
    let mut command = command.clone();
    let Some(line) = command.argv.first_mut() else { return command };
    while let Some((assigned, rest)) = line.split_once(' ')
        && let Some((name, value)) = assigned.split_once('=')
    {
        command.env.push((name.to_owned(), value.to_owned()));
        *line = rest.to_owned();
    }
    command
}

/// Returns a variable of a command, if it is set.
pub(super) fn variable<'c>(command: &'c Command, name: &str) -> Option<&'c str> {
    command.env.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

/// Returns the line that a call writes to the standard input of a process: `#12 ......`. It is
/// `bytes` long, or longer if the number needs more.
pub fn line(call: Call, bytes: usize) -> Vec<u8> {
    let mut line = format!("#{} ", call.0).into_bytes();
    line.resize(bytes.saturating_sub(1).max(line.len()), PADDING);
    line.push(b'\n');
    line
}

/// The length of the start of a line in which the call number is searched.
const HEAD: usize = 24;

/// Finds the lines of calls in the input of a process.
#[derive(Debug, Default)]
pub(super) struct CallLines {
    head: Vec<u8>,
}

impl CallLines {
    /// Returns the calls whose lines end in these bytes.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Vec<Call> {
        let mut calls = Vec::new();
        for byte in bytes {
            if *byte == b'\n' {
                calls.extend(call(&self.head));
                self.head.clear();
            } else if self.head.len() < HEAD {
                self.head.push(*byte);
            }
        }
        calls
    }
}

fn call(head: &[u8]) -> Option<Call> {
    let digits = std::str::from_utf8(head).ok()?.strip_prefix('#')?.split(' ').next()?;
    digits.parse().ok().map(Call)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complete_line_names_its_call() {
        let mut lines = CallLines::default();
        let long = line(Call(12), 100);
        assert_eq!(long.len(), 100);
        assert_eq!(lines.feed(&long[..99]), []);
        assert_eq!(lines.feed(&long[99..]), [Call(12)]);
        let two = [line(Call(3), 0), line(Call(4), 2)].concat();
        assert_eq!(two, b"#3 \n#4 \n");
        assert_eq!(lines.feed(&two), [Call(3), Call(4)]);
    }

    #[test]
    fn a_command_line_can_set_variables() {
        let argv = vec![command_line("client-session/p1", Call(7), "p1")];
        let command = assigned(&Command { argv, ..Command::default() });
        assert_eq!(command.argv, ["p1"]);
        assert_eq!(variable(&command, NAME), Some("client-session/p1"));
        assert_eq!(variable(&command, CALL), Some("7"));
    }

    #[test]
    fn other_lines_are_not_calls() {
        assert_eq!(CallLines::default().feed(b"hello\n#\n#x 1\n\n12\n"), []);
    }
}
