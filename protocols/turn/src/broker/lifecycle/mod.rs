//! The life of a broker in its directory, which is the meeting point of a workspace's clients.
//!
//! - [`BrokerSearch`]: a client finds the broker, or starts one.
//! - [`Publication`]: a broker listens, and writes its [`BrokerRecord`].
//! - `directory`: the files: `broker.json`, `start.lock`, `run.lock`.
//!
//! A record names its broker by process id and start. So the record of a dead broker is recognized,
//! also if another program has got its process id. One lock makes one client start a broker, another
//! one makes one broker serve the directory.

mod defects;
mod directory;
mod find;
mod publish;
mod record;
#[cfg(test)]
mod tests;

pub use find::{BrokerSearch, NoBroker};
pub use publish::{NotPublished, Publication};
pub use record::BrokerRecord;
