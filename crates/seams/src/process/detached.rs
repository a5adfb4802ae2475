//! The start of a program that outlives this one.
//!
//! Until this program ends, it stays the parent of the new one, and tokio reaps it when it ends.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::process::Stdio;

use rustix::process::Pid;
use tokio::process as os;

use super::launcher::{Steps, before_exec};
use super::system::{explained, on_launcher_thread, receive_ignored_signals};
use super::table::{Detached, Identity};

/// Starts a program. `identity` returns the identity of a process that certainly exists.
pub(super) async fn launch_detached(
    program: Detached,
    identity: fn(Pid) -> io::Result<Identity>,
) -> io::Result<Identity> {
    on_launcher_thread(move || {
        let held = start(&program)?;
        // The id is not reused while the handle exists, even if the program ends at once.
        let pid = held.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        identity(pid.ok_or(io::ErrorKind::NotFound)?)
    })
    .await?
}

fn start(program: &Detached) -> io::Result<os::Child> {
    let (name, arguments) = program.argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let log = OpenOptions::new().append(true).create(true).mode(0o600).open(&program.log);
    let log = log.map_err(|error| {
        let why = format!("cannot open the log `{}`: {error}", program.log.display());
        io::Error::new(error.kind(), why)
    })?;
    let mut builder = os::Command::new(name);
    builder.args(arguments).env_clear().envs(program.env.iter().cloned());
    if let Some(cwd) = &program.cwd {
        builder.current_dir(cwd);
    }
    builder.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    receive_ignored_signals()?;
    before_exec(
        &mut builder,
        Steps {
            dies_with: None,
            terminal: false,
            #[cfg(target_os = "linux")]
            confined: None,
        },
    );
    builder.spawn().map_err(|error| explained(name, program.cwd.as_deref(), error))
}
