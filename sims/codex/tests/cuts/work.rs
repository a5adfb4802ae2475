//! The commands that run while the connection breaks, and what a correct run shows.

use codex_peer::model::Call;
use serde::Deserialize;

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// Prints a line now and then for two seconds, and exits with 7.
    Lines,
    /// Prints at once, is quiet for four seconds, and exits with 7.
    Quiet,
    /// Prints 200 lines as fast as a shell can, and then one line each 50 ms; exits with 7.
    Burst,
    /// Reads a word from a terminal and prints it; exits with 7.
    Typed,
    /// Prints 20 MB as fast as it can; exits with 0.
    Flood,
    /// Prints 20 MB in pieces of 100 kB, 5 in two seconds; exits with 0.
    Paced,
    /// Prints the same, 20 pieces in a second.
    Rushed,
    /// Prints a short line every millisecond or so, for ten seconds; exits with 0.
    Chatty,
    /// Prints a line each second for 25 seconds; exits with 7.
    Slow,
    /// Prints a line each second for a minute; exits with 7.
    Minute,
}

/// The text that is typed.
pub const WORD: &str = "word";
/// How many numbers a flood has: 20 MB.
const NUMBERS: u32 = 2_700_000;
/// The pieces of a paced flood: how many, and how many bytes each has.
const PIECES: usize = 200;
const PIECE: usize = 100_000;
/// How many lines a chatty command prints.
const CHATS: u32 = 8_000;

impl Work {
    /// Returns the command for a shell.
    pub fn command(self) -> String {
        match self {
            Self::Lines => "for n in 1 2 3 4 5 6 7 8; do echo line $n; sleep 0.25; done; exit 7".into(),
            Self::Quiet => "echo begins; sleep 4; echo ends; exit 7".into(),
            Self::Burst => "for n in $(seq 200); do echo line $n; done; for n in $(seq 201 240); do echo line $n; sleep 0.05; done; exit 7".into(),
            Self::Typed => "stty -echo; echo ready; read word; echo heard $word; sleep 1; echo ends; exit 7".into(),
            Self::Flood => format!("seq {NUMBERS}"),
            Self::Paced => pieces("0.4"),
            Self::Rushed => pieces("0.05"),
            Self::Chatty => format!("exec 9<> <(:); for n in $(seq {CHATS}); do echo $n; read -t 0.0005 -u 9; done; exit 0"),
            Self::Slow => "for n in $(seq 25); do echo line $n; sleep 1; done; exit 7".into(),
            Self::Minute => "for n in $(seq 60); do echo line $n; sleep 1; done; exit 7".into(),
        }
    }

    pub fn is_typed(self) -> bool {
        self == Self::Typed
    }

    /// Returns what a scripted model does.
    pub fn turns(self) -> Vec<Vec<Call>> {
        if self.is_typed() {
            let run = Call::Run { command: self.command(), tty: true, wait: 2_000 };
            return vec![vec![run], vec![Call::Type(format!("{WORD}\n"))]];
        }
        vec![vec![Call::run(self.command())]]
    }

    /// Returns the whole output.
    pub fn output(self) -> String {
        let lines = |count: u32| (1..=count).map(|n| format!("line {n}\n")).collect();
        match self {
            Self::Lines => lines(8),
            Self::Quiet => "begins\nends\n".into(),
            Self::Burst => lines(240),
            Self::Typed => format!("ready\r\nheard {WORD}\r\nends\r\n"),
            Self::Flood => (1..=NUMBERS).map(|n| format!("{n}\n")).collect(),
            Self::Paced | Self::Rushed => {
                let mut piece: String = (1..=20_000).map(|n| format!("{n}\n")).collect();
                piece.truncate(PIECE - 1);
                format!("{piece}\n").repeat(PIECES)
            }
            Self::Chatty => (1..=CHATS).map(|n| format!("{n}\n")).collect(),
            Self::Slow => lines(25),
            Self::Minute => lines(60),
        }
    }

    pub fn exit(self) -> i64 {
        if matches!(self, Self::Flood | Self::Paced | Self::Rushed | Self::Chatty) { 0 } else { 7 }
    }
}

/// Returns a command that prints the pieces, with this pause in seconds between them.
fn pieces(pause: &str) -> String {
    let length = PIECE - 1;
    format!(
        "piece=$(seq 20000 | head -c {length}); for n in $(seq {PIECES}); do echo \"$piece\"; sleep {pause}; done; exit 0"
    )
}
