//! For whom the host waits: only while something depends on a client that is not there.

use std::collections::BTreeMap;

use super::story::{Story, text, window};
use crate::history::{Time, What};
use crate::property::path::NEVER;
use crate::property::{Broken, Evidence};
use crate::subjects::judging::{broken, host, judged};
use crate::subjects::toolcall::setup::SESSION;

/// The host waited for a client in a channel.
struct Wait<'a> {
    client: &'a str,
    channel: &'a str,
    from: Time,
    to: Time,
}

/// G8.
pub(super) fn waits_have_causes(story: &Story<'_>) -> Vec<Broken> {
    let waits = waits(story.evidence);
    let found = waits.iter().filter_map(|wait| {
        let Wait { client, channel, .. } = wait;
        let (at, why) = story.is_here_all_along(wait).or_else(|| story.nothing_depends(wait))?;
        let sentence = format!("{client}: it was waited for in {channel} from {} on, though {why} (at {at})", wait.from);
        (at < story.until).then(|| broken("waits_have_causes", at, None, sentence))
    });
    found.collect()
}

/// All waits, as the host says. What it said last before it died may stand behind its death.
fn waits<'a>(evidence: &Evidence<'a>) -> Vec<Wait<'a>> {
    let mut all: Vec<Wait<'a>> = Vec::new();
    let mut open: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut is_dead = false;
    for event in judged(evidence) {
        match &event.what {
            What::Milestone { name: "toolcall.host.waits", fields } if !is_dead => {
                let (client, channel) = (text(fields, "client"), text(fields, "channel"));
                open.insert((client, channel), all.len());
                all.push(Wait { client, channel, from: event.at, to: NEVER });
            }
            What::Milestone { name: "toolcall.host.waits-no-more", fields } => {
                let ended = open.remove(&(text(fields, "client"), text(fields, "channel")));
                ended.into_iter().for_each(|n| all[n].to = event.at);
            }
            What::Died { .. } if evidence.servers.contains(&host(event)) => {
                is_dead = true;
                std::mem::take(&mut open).into_values().for_each(|n| all[n].to = event.at);
            }
            What::Started if evidence.servers.contains(&host(event)) => is_dead = false,
            _ => {}
        }
    }
    all
}

impl Story<'_> {
    /// When a wait went on for a moment for a client that was connected, and whose user looked at the channel.
    fn is_here_all_along(&self, wait: &Wait<'_>) -> Option<(Time, String)> {
        let own = self.attached.iter().filter(|attached| attached.client == wait.client && !attached.second);
        let looks = || self.looks.iter().filter(|look| look.host == window(wait.client) && look.channel == wait.channel);
        own.flat_map(|attached| looks().map(move |look| (attached, look))).find_map(|(attached, look)| {
            let from = wait.from.max(attached.at).max(look.from);
            let at = self.later(from, self.moment());
            let goes_on = [wait.to, attached.gone, attached.over, look.to].iter().all(|until| *until > at);
            (goes_on && self.is_newest(wait.client, at)).then(|| (at, "it was connected, and looked at that".to_owned()))
        })
    }

    /// When a wait began, or went on for a moment, with nothing that depended on the client.
    fn nothing_depends(&self, wait: &Wait<'_>) -> Option<(Time, String)> {
        let causes: Vec<(Time, Time)> = match wait.channel == SESSION {
            true => self.places(wait.client),
            false => {
                let own = self.calls.iter().filter(|call| call.owner == wait.client && call.chat == wait.channel);
                own.map(|call| (call.began, call.left)).collect()
            }
        };
        let mut covered = wait.from;
        while let Some((_, to)) = causes.iter().find(|(from, to)| *from <= covered && *to > covered) {
            covered = *to;
        }
        if covered >= self.until {
            return None;
        }
        let at = self.later(covered, self.moment());
        let why = match wait.channel == SESSION {
            true => format!("it had no place there since {covered}"),
            false => format!("no call of its was open there since {covered}"),
        };
        (wait.to > at).then_some((at, why))
    }

    /// From when to when a client may have been active in the session: since it was taken in, or joined again, until it lost its
    /// place.
    fn places(&self, client: &str) -> Vec<(Time, Time)> {
        let milestones = judged(self.evidence).filter_map(|event| match &event.what {
            What::Milestone { name, fields } => Some((event, *name, fields)),
            _ => None,
        });
        let milestones: Vec<_> = milestones.collect();
        let joined =
            milestones.iter().filter(|(event, name, _)| *name == "toolcall.client.joins-again" && host(event) == window(client));
        let joined = joined.map(|(event, ..)| event.at);
        let lost = |from: Time| {
            let lost = milestones
                .iter()
                .filter(|(_, name, fields)| *name == "toolcall.host.deactivated" && text(fields, "client") == client);
            lost.map(|(event, ..)| event.at).filter(|at| *at > from).min()
        };
        let taken_in = self.attached.iter().filter(|attached| attached.client == client).map(|attached| attached.at);
        taken_in.chain(joined).map(|from| (from, lost(from).unwrap_or(NEVER))).collect()
    }
}
