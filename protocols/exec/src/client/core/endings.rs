//! The leftover processes that the client has to terminate on the server: processes whose start has
//! an unknown outcome, processes whose caller was dropped, and processes that the client cannot
//! follow any longer.
//!
//! The client sends `process/terminate` for each, over whatever connection is current, until the
//! server has answered. The id stays taken until then, so that terminating an older process never
//! hits a newer one with the same id.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

/// The state of one termination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// Not requested yet; it will be as soon as there is a connection.
    Owed,
    /// Requested over the current connection.
    Asked { tries: u32 },
    /// The answer was a transient error; the client retries at this time.
    Again { at: Instant, tries: u32 },
}

/// The processes to terminate, by their ids.
#[derive(Default)]
pub(super) struct Endings(BTreeMap<Arc<str>, Ending>);

impl Endings {
    /// Adds a process.
    pub(super) fn put(&mut self, id: Arc<str>) {
        self.0.insert(id, Ending::Owed);
    }

    /// Whether this process has not been terminated yet.
    pub(super) fn has(&self, id: &str) -> bool {
        self.0.contains_key(id)
    }

    /// Returns the number of processes to terminate.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the processes to terminate now, and marks them as requested.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<Arc<str>> {
        let mut due = Vec::new();
        for (id, ending) in &mut self.0 {
            let tries = match *ending {
                Ending::Owed => 0,
                Ending::Again { at, tries } if at <= now => tries,
                Ending::Again { .. } | Ending::Asked { .. } => continue,
            };
            *ending = Ending::Asked { tries };
            due.push(id.clone());
        }
        due
    }

    /// Returns the time of the next retry.
    pub(super) fn due(&self) -> Option<Instant> {
        let at =
            |ending: &Ending| if let Ending::Again { at, .. } = ending { Some(*at) } else { None };
        self.0.values().filter_map(at).min()
    }

    /// Removes a process for which the server has answered.
    pub(super) fn settle(&mut self, id: &str) {
        self.0.remove(id);
    }

    /// Handles a transient error: retries after a pause, but at most `at_most` times.
    pub(super) fn refused(&mut self, id: &str, now: Instant, pause: Duration, at_most: u32) {
        let Some(ending) = self.0.get_mut(id) else { return };
        match *ending {
            Ending::Asked { tries } if tries < at_most => {
                *ending = Ending::Again { at: now + pause, tries: tries + 1 }
            }
            _ => self.settle(id),
        }
    }

    /// Handles a lost connection: all terminations must be requested again.
    pub(super) fn connection_lost(&mut self) {
        self.0.values_mut().for_each(|ending| *ending = Ending::Owed);
    }

    /// Removes all processes: the session is lost, or the client has ended.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_millis(100);

    #[tokio::test(start_paused = true)]
    async fn a_termination_is_requested_once_per_connection_until_it_is_settled() {
        let (mut endings, now) = (Endings::default(), Instant::now());
        endings.put("p1".into());
        assert_eq!(endings.take_due(now), ["p1".into()]);
        assert_eq!(endings.take_due(now), []);
        endings.connection_lost();
        assert_eq!(endings.take_due(now), ["p1".into()]);
        assert!(endings.has("p1"));
        endings.settle("p1");
        endings.connection_lost();
        assert_eq!((endings.take_due(now), endings.len()), (vec![], 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_transient_error_is_retried_a_limited_number_of_times() {
        let (mut endings, now) = (Endings::default(), Instant::now());
        endings.put("p1".into());
        endings.take_due(now);
        endings.refused("p1", now, PAUSE, 1);
        assert_eq!((endings.take_due(now), endings.due()), (vec![], Some(now + PAUSE)));
        assert_eq!(endings.take_due(now + PAUSE), ["p1".into()]);
        endings.refused("p1", now + PAUSE, PAUSE, 1);
        assert!(!endings.has("p1"));
    }
}
