//! A client for turns: it runs a command on codex and prints the result, also in the background.
//!
//! ```console
//! $ cargo run -p reknit-turn --example turn_client -- task 'Say hello'
//! $ cargo run -p reknit-turn --example turn_client -- write 'Add a test for the parser'
//! $ cargo run -p reknit-turn --example turn_client -- resume THREAD 'And one for the printer'
//! $ cargo run -p reknit-turn --example turn_client -- review
//! $ cargo run -p reknit-turn --example turn_client -- --broker unix:/tmp/broker/broker.sock adversarial-review 'the lock'
//! ```
//!
//! The client starts `codex app-server` in the current folder, and ends it after the command. The
//! variable `TURN_APP_SERVER` names another program. With `--broker ADDRESS`, the client runs the command
//! through the broker at this address, or, if that is busy or absent, on its own app-server. An
//! address is `unix:PATH` or `HOST:PORT`.
//!
//! With `--state DIRECTORY`, or the variable `TURN_STATE`, the client finds or starts the broker of this
//! directory (the example `turn_broker`; the variable `TURN_BROKER` names another program), and records
//! each command as a job there:
//!
//! ```console
//! $ cargo build -p reknit-turn --examples
//! $ alias turn='target/debug/examples/turn_client --state /tmp/turn'
//! $ turn task --background 'Find the slowest test'     # prints the id of the job
//! $ turn status                                        # the jobs of this session, or of all with --all
//! $ turn status JOB                                    # one job, with its last log lines
//! $ turn wait JOB                                      # waits for its end, and prints its result
//! $ turn result JOB
//! $ turn cancel JOB
//! $ turn end-session                                   # cancels the jobs of this session
//! ```
//!
//! The variable `TURN_SESSION` names the session. The start of an id is enough for `JOB`. With `--json`,
//! the output is JSON.
//!
//! The client prints the result on the standard output, and the progress on the standard error. Ctrl-C
//! and SIGTERM interrupt the turn; a second Ctrl-C ends the client at once.
//!
//! The exit status is 0 if and only if the turn completed. It is 130 if the user cancelled the turn, 2
//! if the arguments are invalid, and otherwise 1. `status`, `cancel` and `end-session` run no turn: their
//! exit status is 0 if they did what they say.

mod arguments;
mod foreground;
mod jobs;

use std::process::exit;

use reknit_seams::Env;

use arguments::{Arguments, Task};

const NAME: &str = "turn_client";

/// The reason why a command failed, in one line, and the exit status.
struct Failure(i32, String);

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(1, error.to_string())
    }
}

#[tokio::main]
async fn main() {
    let env = Env::real();
    let words: Vec<_> = std::env::args().skip(1).collect();
    let done = match Arguments::parse(&words, &env.machine.variables) {
        Ok(Arguments { options, task: Task::Run { command, background: false } }) => {
            foreground::run(&env, &options, command).await
        }
        Ok(Arguments { options, task }) => jobs::run(&env, &options, task).await,
        Err(why) => Err(Failure(2, format!("{why}; {}", arguments::USAGE))),
    };
    let status = done.unwrap_or_else(|Failure(status, why)| {
        eprintln!("{NAME}: {why}");
        status
    });
    exit(status)
}
