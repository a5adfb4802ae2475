//! The outside world of product code, except time: connections, processes, files, the wall
//! clock, randomness, and the machine.
//!
//! Each is a small trait with a real and a simulated implementation, except the machine, which is
//! plain data; [`Env`] passes all of them to a client or a server at once. Time itself is plain
//! `tokio::time`.
//!
//! The simulated implementations belong to the world (`world` of the crate `reknit`): sockets of a
//! simulated kernel; a wall clock that shows virtual time, starts on 1 January 2026, and jumps
//! where a step says so; randomness from the seed, new for each start of each host; files in memory,
//! which outlive a crash of their host; on servers whose plan has a table `process`, scripted
//! processes; and, if the subject has programs, processes that run these. On all other hosts, launching
//! a process fails. The processes of a host share its files, its process table and its unix sockets: see
//! "Several processes" in `world::process`. The machine of a root is the default one: it has no
//! variables.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use crate::files::{self, Files};
use crate::net::{self, Net};
use crate::process::{self, Launch, ProcessTable};

/// The wall clock, for time stamps in records only. It can jump, so a deadline must never depend on
/// it.
pub trait WallClock: Send + Sync {
    /// Returns the wall-clock time of this host.
    fn now(&self) -> SystemTime;
}

/// Randomness for identifiers and jitter.
pub trait Entropy: Send + Sync {
    /// Fills `bytes`.
    fn fill(&self, bytes: &mut [u8]);
}

impl dyn Entropy {
    /// Returns a random number below `bound`, or 0 if `bound` is 0. The bias is below `bound /
    /// 2^64`.
    pub fn below(&self, bound: u64) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        ((u128::from(u64::from_le_bytes(bytes)) * u128::from(bound)) >> 64) as u64
    }
}

/// The machine that the program runs on, as the program found it when it started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The program's environment variables. Names and values that are not UTF-8 are left out.
    pub variables: BTreeMap<String, String>,
    /// The program's working directory, an absolute path.
    pub directory: String,
}

/// A machine without variables, in the root directory.
impl Default for Machine {
    fn default() -> Self {
        Self { variables: BTreeMap::new(), directory: "/".to_owned() }
    }
}

impl Machine {
    /// Returns the machine that this program runs on. A working directory that is unknown or not
    /// UTF-8 is reported as the root.
    pub fn of_this_program() -> Self {
        let text = |(name, value): (OsString, OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        let directory =
            std::env::current_dir().ok().and_then(|path| path.to_str().map(str::to_owned));
        Self {
            variables: std::env::vars_os().filter_map(text).collect(),
            directory: directory.unwrap_or_else(|| Self::default().directory),
        }
    }
}

/// The complete outside world of product code.
#[derive(Clone)]
pub struct Env {
    /// Connections.
    pub net: Net,
    /// Processes that end with this program.
    pub launch: Arc<dyn Launch>,
    /// The other processes of the machine.
    pub processes: Arc<dyn ProcessTable>,
    /// Files.
    pub files: Arc<dyn Files>,
    /// The wall clock.
    pub clock: Arc<dyn WallClock>,
    /// Randomness.
    pub entropy: Arc<dyn Entropy>,
    /// The machine.
    pub machine: Arc<Machine>,
}

impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Env").finish_non_exhaustive()
    }
}

impl Env {
    /// Returns the real world: the operating system's sockets, processes, files, clock and
    /// randomness, and the machine that this program runs on.
    pub fn real() -> Self {
        Self {
            net: Arc::new(net::System),
            launch: Arc::new(process::System),
            processes: Arc::new(process::System),
            files: Arc::new(files::System::default()),
            clock: Arc::new(SystemClock),
            entropy: Arc::new(SystemEntropy),
            machine: Arc::new(Machine::of_this_program()),
        }
    }
}

/// The operating system's wall clock.
struct SystemClock;

impl WallClock for SystemClock {
    #[allow(clippy::disallowed_methods)] // the one place where the real clock is meant
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}

/// A generator seeded by the operating system.
struct SystemEntropy;

impl Entropy for SystemEntropy {
    #[allow(clippy::disallowed_methods)] // the one place where real randomness is meant
    fn fill(&self, bytes: &mut [u8]) {
        rand::RngCore::fill_bytes(&mut rand::rng(), bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn below_stays_below() {
        let env = Env::real();
        assert!((0..100).all(|_| env.entropy.below(7) < 7));
        assert_eq!(env.entropy.below(0), 0);
    }
}
