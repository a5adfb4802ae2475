//! What is left of processes on the server, and has to be ended there: those of ambiguous starts, of callers who went away, and
//! those that cannot be followed any more.
//!
//! Each is ended with `process/terminate` over whatever connection is current, until the server has answered. Its id is taken
//! until then, so that the end of an older process never hits a newer one of the same id.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

/// How one of them stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// It is to be asked for, as soon as there is a connection.
    Owed,
    /// It was asked for, over the connection that there is.
    Asked { tries: u32 },
    /// The answer was an error that may pass: again then.
    Again { at: Instant, tries: u32 },
}

/// Those that are to be ended, by their ids.
#[derive(Default)]
pub(super) struct Endings(BTreeMap<Arc<str>, Ending>);

impl Endings {
    /// This one, too.
    pub(super) fn put(&mut self, id: Arc<str>) {
        self.0.insert(id, Ending::Owed);
    }

    /// Whether this one is not ended yet.
    pub(super) fn has(&self, id: &str) -> bool {
        self.0.contains_key(id)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Those that are to be asked for now; they count as asked.
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

    /// When the next one is to be asked for again.
    pub(super) fn due(&self) -> Option<Instant> {
        let at =
            |ending: &Ending| if let Ending::Again { at, .. } = ending { Some(*at) } else { None };
        self.0.values().filter_map(at).min()
    }

    /// The server has answered.
    pub(super) fn settle(&mut self, id: &str) {
        self.0.remove(id);
    }

    /// The server has answered with an error that may pass: asked for again after a pause, but so often only.
    pub(super) fn refused(&mut self, id: &str, now: Instant, pause: Duration, at_most: u32) {
        let Some(ending) = self.0.get_mut(id) else { return };
        match *ending {
            Ending::Asked { tries } if tries < at_most => {
                *ending = Ending::Again { at: now + pause, tries: tries + 1 }
            }
            _ => self.settle(id),
        }
    }

    /// Their connection is gone: all are to be asked for again.
    pub(super) fn connection_lost(&mut self) {
        self.0.values_mut().for_each(|ending| *ending = Ending::Owed);
    }

    /// The session is gone, and everything in it.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_millis(100);

    #[tokio::test(start_paused = true)]
    async fn one_is_asked_for_once_a_connection_until_it_is_settled() {
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
    async fn an_error_that_may_pass_is_tried_again_so_often_only() {
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
