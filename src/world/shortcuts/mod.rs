//! Shortcuts: work that a world skips because no user, milestone or property can see its effect.
//!
//! [`Shortcuts`](super::options::Shortcuts) turns each off. With all of them off, every run has the
//! same verdict, and users see the same at the same times (`sims/shortcuts.rs`).
//! `cargo bench --bench speed -- shortcuts` measures the gain of each. One that gains less than 5 % for
//! random schedules of `exec` and for an echo is removed.

pub(in crate::world) mod quiet_acks;
pub(in crate::world) mod still_turns;
