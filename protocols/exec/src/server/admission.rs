//! The choice of the session that ends to make room for a new one.
//!
//! - A host has at most a fixed number of sessions, so one host cannot take all of them. At that
//!   number, its new session replaces its oldest detached session without a running process. If
//!   there is none, the server refuses the new session.
//! - If the server is full, the host with the most sessions loses one, if it has more than its share
//!   (the sessions divided by the hosts) and at least two more than the host of the new one. First
//!   come detached sessions without a running process, then the other detached ones; among these,
//!   the oldest. If there is none, the server refuses the new session.
//!
//! An attached session never ends this way. A session of a host within its share does not end this
//! way either: its client finds it for the whole lifetime of a detached session.

use std::collections::BTreeMap;

use reknit_seams::defect;
use tokio::time::Instant;

use super::peer::Peer;

/// A session, as far as the choice depends on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate<'a> {
    pub(super) id: &'a str,
    pub(super) peer: Peer,
    /// Since when no connection is attached, if none is.
    pub(super) detached: Option<Instant>,
    /// Whether one of its processes runs.
    pub(super) runs: bool,
}

/// Returns the session of this host to end, if the host has as many sessions as it may have.
pub(super) fn own_to_end<'a>(all: &[Candidate<'a>], peer: Peer) -> Option<&'a str> {
    let may_end = |session: &&Candidate<'_>| !session.runs || defect!(RunningSessionEvicted);
    oldest(all.iter().filter(|session| session.peer == peer).filter(may_end))
}

/// Returns the session to end if there are `most` sessions and this host opens another one.
pub(super) fn to_end<'a>(all: &[Candidate<'a>], newcomer: Peer, most: usize) -> Option<&'a str> {
    let mut counts: BTreeMap<Peer, usize> = BTreeMap::from([(newcomer, 0)]);
    all.iter().for_each(|session| *counts.entry(session.peer).or_default() += 1);
    let (own, share) = (counts[&newcomer], most / counts.len());
    let more = if defect!(NeighbourLosesSession) { 0 } else { 1 };
    let mut rich: Vec<_> =
        counts.into_iter().filter(|(_, count)| *count > share && *count > own + more).collect();
    rich.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let of = |runs: bool| {
        rich.iter().find_map(|(peer, _)| {
            oldest(all.iter().filter(|session| session.peer == *peer && session.runs == runs))
        })
    };
    if defect!(RunningEndsFirst) {
        return of(true).or_else(|| of(false));
    }
    of(false).or_else(|| of(true))
}

/// Returns the session that was detached first.
fn oldest<'s, 'a: 's>(sessions: impl Iterator<Item = &'s Candidate<'a>>) -> Option<&'a str> {
    let detached = sessions.filter_map(|session| Some((session.detached?, session.id)));
    let first = if defect!(NewestSessionEvicted) { detached.max() } else { detached.min() };
    first.map(|(_, id)| id)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Sessions in short form: `1a` is attached and of peer 1, `1d5` detached at 5 s, `1r5` the same
    /// with a running process.
    fn sessions<'a>(ids: &[&'a str], start: Instant) -> Vec<Candidate<'a>> {
        let candidate = |id: &&'a str| Candidate {
            id,
            peer: Peer::number(id[..1].parse().unwrap()),
            detached: (&id[1..2] != "a")
                .then(|| start + Duration::from_secs(id[2..].parse().unwrap())),
            runs: &id[1..2] == "r",
        };
        ids.iter().map(candidate).collect()
    }

    fn ends<'a>(ids: &[&'a str], newcomer: u8) -> Option<&'a str> {
        to_end(&sessions(ids, Instant::now()), Peer::number(newcomer), ids.len())
    }

    #[test]
    fn the_host_with_the_most_sessions_loses_its_oldest_one() {
        assert_eq!(ends(&["1d3", "1d2", "1d4", "2d1"], 3), Some("1d2"));
        assert_eq!(ends(&["1r1", "1d2", "1d4", "2d1"], 3), Some("1d2"), "no process ends");
        assert_eq!(ends(&["1r3", "1r2", "1a", "2d1"], 3), Some("1r2"));
    }

    #[test]
    fn an_attached_session_never_ends() {
        assert_eq!(ends(&["1a", "1a", "1a", "2d1"], 3), None);
    }

    #[test]
    fn a_host_within_its_share_loses_nothing() {
        assert_eq!(ends(&["1d1", "2d1", "3d1", "4d1"], 5), None);
        assert_eq!(ends(&["1d1", "1d2", "2d1", "2d2"], 3), Some("1d1"));
        assert_eq!(ends(&["1d1", "1d2", "2d1", "2d2"], 2), None, "it has as many itself");
    }

    #[test]
    fn a_host_with_all_its_sessions_replaces_its_own_without_processes() {
        let start = Instant::now();
        let own = |ids: &[&'static str]| own_to_end(&sessions(ids, start), Peer::number(1));
        assert_eq!(own(&["1d3", "1d2", "2d1", "1r1"]), Some("1d2"));
        assert_eq!(own(&["1a", "1r2", "2d1"]), None);
    }
}
