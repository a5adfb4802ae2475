//! The server: it runs commands, keeps their output, and streams it.
//!
//! - `lines`: bytes of a pipe to lines. `log`: the numbered events of one command. Neither uses a
//!   clock, a socket or a task.

#[allow(dead_code)] // the tasks that use it follow
mod lines;
#[allow(dead_code)] // the tasks that use it follow
mod log;
