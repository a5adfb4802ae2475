//! The records of jobs: a store for many processes at once, which survives crashes.
//!
//! A job is one run of a command. Its record outlives the processes that work on it, so that later
//! commands can show, await and cancel it. Each process that uses the jobs of a workspace opens a
//! [`JobStore`] on the same directory.
//!
//! # Rules
//!
//! - **One record a job**, a separate file. There is no index, so no two files can disagree, and a
//!   damaged file affects one job only. Such a file is an error for that job, and is kept.
//! - **States** are queued, running, completed, failed, cancelled; [`StateName::successors`] is the
//!   table of transitions. The last three are terminal: they absorb every later change.
//! - **Compare and set.** A process that changes a record holds the store's lock, reads the record,
//!   checks the transition, and replaces the file at once: it writes a new file, syncs it and renames it.
//!   So a crash leaves the old or the new record. Readers need no lock.
//! - **Recorded before started.** [`JobStore::launch`] creates the record before it starts the worker,
//!   so a worker always finds it. A worker that finds a cancelled job does nothing.
//! - **The dead do not work.** A record names the process on which the job depends. Each reader checks
//!   that it is alive; if it is not, the job failed.
//! - **Only the worker** reports progress and the end of a job. It holds a [`Claim`].
//! - **Pruning** removes the oldest jobs that are over, and never an active one.
//!
//! # No database
//!
//! An embedded database brings its own file access. It would not see the files of
//! [`Env`](reknit_seams::Env), so it could not run in a simulated world; and most of them let one
//! process open a store at a time, while here many short commands and workers share it. A record is a
//! few kilobytes, and a store has some dozen.

mod cancel;
mod defects;
mod error;
mod files;
mod id;
mod launch;
mod log;
mod prune;
mod reconcile;
mod record;
mod state;
mod store;

#[cfg(test)]
mod tests;

pub use cancel::{CancelPlan, Stopped};
pub use error::{BrokenRecord, Damage, JobError};
pub use id::JobId;
pub use log::JobLog;
pub use prune::Pruned;
pub use record::{Job, JobKind, NewJob};
pub use state::{State, StateName};
pub use store::{Claim, Ending, JobStore, Listing, Update};
