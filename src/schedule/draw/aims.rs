//! Draws the aims of operations: the moment of an aimed operation, and the operations that follow
//! another one within a round trip.

use rand_chacha::rand_core::RngCore;

use super::{Drawing, DrawnOperation, Values, millis, mixed, ms};
use crate::schedule::profile::choice::{Between, happens, pick};
use crate::schedule::{Operation, Trigger};

/// The share of the operations that are aimed, if their verb has targets, and of those that another one
/// follows, if their verb lists followers.
const AIMED: f64 = 0.5;

/// The greatest number of operations that follow each other.
const LONGEST: u64 = 3;

/// The number of searches for a following operation. No other verb is accepted.
const ROUNDS: u64 = 4;

impl Drawing<'_> {
    /// Draws the trigger of a client's n-th operation, if it is aimed.
    pub(super) fn aim_of(&self, verb: &str, client: u64, n: u64) -> Option<Trigger> {
        let targets = &self.profile.aims.get(verb)?.at;
        let mut rng = self.rng("asked.aim", &[client, n]);
        if !happens(AIMED, &mut rng) {
            return None;
        }
        let target = pick(targets, &mut rng)?.clone();
        let delay = target.delay + self.wake(&mut rng);
        Some(target.delay(delay))
    }

    /// Draws the operations that follow another one of the same user, one after the other.
    pub(super) fn following(
        &self,
        values: &mut Values,
        first: &DrawnOperation,
    ) -> Vec<DrawnOperation> {
        let mut all: Vec<DrawnOperation> = Vec::new();
        for link in 0..LONGEST {
            let before = all.last().unwrap_or(first);
            let Some(next) = self.next_behind(values, before, link) else { break };
            all.push(next);
        }
        all
    }

    /// Draws the operation that follows another one. It has the same value in each field that both
    /// have, so that both are about the same thing.
    fn next_behind(
        &self,
        values: &mut Values,
        before: &DrawnOperation,
        link: u64,
    ) -> Option<DrawnOperation> {
        let [client, n] = before.key;
        let verbs = &self.profile.aims.get(&before.operation.verb)?.then;
        let mut rng = self.rng("asked.then", &[client, n, link]);
        if !happens(AIMED, &mut rng) {
            return None;
        }
        let verb = pick(verbs, &mut rng)?;
        values.begin(mixed(self.seed, "operation.then", &[client, n, link]));
        let drawn = (0..ROUNDS).find_map(|_| values.of_verb(verb))?;
        let mut operation = Operation { client: before.operation.client.clone(), ..drawn };
        for (name, value) in &before.operation.fields {
            if let Some(own) = operation.fields.get_mut(name) {
                own.clone_from(value);
            }
        }
        let behind = before.behind + ms(self.moment_behind(&mut rng));
        let is_accepted = self.subject.accepts(&operation);
        is_accepted.then(|| DrawnOperation { behind, operation, ..before.clone() })
    }

    /// Draws a delay of at most a round trip. It is often zero.
    fn moment_behind(&self, rng: &mut impl RngCore) -> u64 {
        u64::between(&0, &millis(self.latency.1 * 2), rng)
    }
}
