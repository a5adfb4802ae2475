//! Commands as jobs: a process runs a command and records it, and other processes show, await and
//! cancel it.
//!
//! - [`JobRunner`]: runs a job to its end, in the foreground or as the worker of a job in the
//!   background. `news`: what it records meanwhile.
//! - [`cancel`], [`end_session`]: end jobs from another process. [`wait`]: waits for a job.
//! - [`view`]: jobs and reports as text, and as JSON.
//!
//! A job in the background begins with [`JobStore::launch`](crate::jobs::JobStore::launch): it records
//! the order of the user, and starts a process that calls [`JobRunner::work`]. If that process dies,
//! the job has failed for each reader.
//!
//! A cancel is recorded first. Then the turn is interrupted through the broker, if there is one, and
//! the worker gets SIGTERM, and SIGKILL if it does not end. The worker takes SIGTERM as the wish of its
//! user to cancel the command. A worker that cannot record news because its job is over does the same.

mod cancel;
mod news;
mod run;
mod session;
#[cfg(test)]
mod tests;
pub mod view;
mod wait;

pub use cancel::{Cancelled, Interrupted, cancel};
pub use run::{JobRun, JobRunner};
pub use session::{SessionEnd, end_session};
pub use wait::wait;
