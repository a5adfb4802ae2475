//! `forgotten_in_time`: the host remembers an absent client for exactly its retention.
//!
//! A host that forgets too early makes a client start over. A host that forgets too late grows. The
//! network's record shows since when a client is absent, and the client's milestones show whether the
//! host still knew it. `no_residue` judges what remains at the end of a run.

use super::facts::{HostConnection, MS};
use super::story::{Story, window};
use crate::history::{EventKind, Time};
use crate::property::Violation;
use crate::property::violation::{fields, kinds};
use crate::subjects::judging::{host, judged, peers_may_lie};

kinds! {
    pub(super) FORGOTTEN_IN_TIME;
    EARLY = "early": "{subject:}the host forgot it at {at}, although it was connected until {away}";
    HERE = "here": "{subject:}the host forgot it at {at}, although it was connected";
    LATE = "late": "{subject:}the host still knew it at {at}, although it was absent since {away}";
}

/// See the module.
pub(super) fn forgotten_in_time(story: &Story<'_>) -> Vec<Violation> {
    if peers_may_lie(story.cx) {
        return Vec::new();
    }
    let early = story.forgotten.iter().filter_map(|(client, at)| too_early(story, client, *at));
    let late = judged(story.cx).filter_map(|event| match &event.what {
        EventKind::Milestone {
            name: "toolcall.client.replayed" | "toolcall.client.reseated",
            ..
        } => too_late(story, host(event), event.at),
        _ => None,
    });
    early.chain(late).take(5).collect()
}

fn too_early(story: &Story<'_>, client: &str, at: Time) -> Option<Violation> {
    story.of_client(client, at).next()?; // the host accepted it
    story.cx.judges("forgotten_in_time");
    // The client may return in the moment in which it is forgotten.
    let away = story.away_since(client, at).or_else(|| story.away_since(client, at.before(MS)));
    let (kind, data) = match away {
        None => (&HERE, fields! {}),
        Some(away) if away + story.host_limits.client_retention > at => (&EARLY, fields! { away }),
        Some(_) => return None,
    };
    Some(Violation::new("forgotten_in_time", client, at, kind, data))
}

/// Detects that the host knew the client of a window that returned after the retention. A handshake
/// in progress, and work that depends on the client, prolong the retention.
fn too_late(story: &Story<'_>, host: &str, at: Time) -> Option<Violation> {
    let own = |attached: &&HostConnection<'_>| {
        window(attached.client) == host && attached.at <= at && !attached.is_second()
    };
    let back = story.attached.iter().filter(own).max_by_key(|attached| attached.at)?;
    let began = story.handshake_began(back);
    let earlier = story.of_client(back.client, at).filter(|attached| attached.at < back.at);
    let away = earlier.map(|attached| attached.over).max()?;
    let limits = &story.host_limits;
    let kept = story.later(away, limits.client_retention.max(limits.grace));
    let bound = story.no_handshake(back.client, kept) + story.moment();
    // Until then, the host may know the client.
    if bound >= began {
        return None;
    }
    story.cx.judges("forgotten_in_time");
    Some(Violation::new("forgotten_in_time", back.client, at, &LATE, fields! { away }))
}
