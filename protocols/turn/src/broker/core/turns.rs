//! Turns: their start, their end, and the interrupt of a turn that has lost its client.

use reknit_jsonrpc::notification_text;
use reknit_seams::{defect, milestone};
use serde_json::json;
use tokio::time::Instant;

use super::forwarded::Forwarded;
use super::outside::ClientId;
use super::threads::ThreadOwner;
use super::turn::{Interrupts, OwnedTurn, TurnKey, TurnToken};
use super::{BrokerCore, Client};
use crate::wire::{LONGEST_ID, StartAnswer, Turn, TurnInterruptParams, TurnStatus, method};

/// How many finished turns the broker remembers, to recognize their late notifications.
const MOST_FINISHED: usize = 64;

impl BrokerCore {
    pub(super) fn add_turn(
        &mut self,
        client: ClientId,
        thread: String,
        is_review: bool,
        now: Instant,
    ) -> TurnToken {
        let token = TurnToken(self.number());
        let turn = OwnedTurn::new(client, thread, is_review, now + self.limits.turn);
        self.turns.insert(token, turn);
        token
    }

    /// Learns from the answer to a start request; `None` if it failed.
    pub(super) fn on_start_answer(
        &mut self,
        token: TurnToken,
        answer: Option<StartAnswer>,
        now: Instant,
    ) {
        let Some(answer) = answer else {
            if !defect!(RefusedStartStaysLive) {
                self.turns.remove(&token);
            }
            return;
        };
        let id = answer.turn.id().filter(|id| id.len() <= LONGEST_ID).map(str::to_owned);
        let moved = answer.review_thread_id.filter(|id| !id.is_empty() && id.len() <= LONGEST_ID);
        let is_over = answer.turn.status.is_end();
        let says_nothing_new =
            |turn: &&mut OwnedTurn| turn.over && turn.reported.is_some() && turn.id == id;
        let turn = self.turns.get_mut(&token).filter(|turn| !says_nothing_new(turn));
        let Some(turn) = turn else { return };
        if let Some(thread) = moved {
            turn.thread.clone_from(&thread);
            let client = turn.client.map_or(ThreadOwner::Gone, ThreadOwner::Client);
            self.threads.set(&thread, client);
        }
        turn.start(id, is_over);
        // The bug: a turn without an id has as much time as any other.
        if (turn.id.is_none() && !defect!(NamelessTurnsStayLive)) || turn.ends {
            // The first turn on the thread is the one, if there is one soon. Or it ends soon.
            let soon = now + self.limits.settle;
            turn.until = Some(turn.until.map_or(soon, |until| until.min(soon)));
        }
    }

    /// Handles the answer to a start request whose deadline has passed. A client that follows the turn may
    /// learn only from this answer that the turn is over.
    pub(super) fn on_late_start_answer(
        &mut self,
        token: TurnToken,
        answer: Option<StartAnswer>,
        now: Instant,
    ) {
        let follows = |turn: &OwnedTurn| turn.is_live().then_some((turn.client?, turn.id.clone()?));
        let followed = self.turns.get(&token).and_then(follows);
        let over = answer.as_ref().map(|answer| answer.turn.clone());
        let over = over.filter(|turn| turn.status.is_end());
        self.on_start_answer(token, answer, now);
        if let (Some((client, id)), Some(turn)) = (followed, over)
            && !defect!(LateEndsAreLost)
        {
            let thread = self.turns.get(&token).map(|turn| turn.thread.clone());
            let params = json!({ "threadId": thread, "turn": Turn { id, ..turn } });
            self.tell(client, notification_text(method::TURN_COMPLETED, &params), now);
        }
    }

    /// Handles that the app-server did not answer a start request in time. If it reported the turn, and
    /// a client waits, returns an answer with that turn. Otherwise, nothing is left to follow: abandons
    /// the turn.
    pub(super) fn on_start_timeout(
        &mut self,
        token: TurnToken,
        now: Instant,
    ) -> Option<StartAnswer> {
        let reported = |turn: &OwnedTurn| turn.reported.clone().filter(|_| turn.client.is_some());
        let adopts = !defect!(TimeoutEndsAReportedTurn);
        let turn = self.turns.get_mut(&token).filter(|_| adopts);
        let Some((turn, id)) = turn.and_then(|turn| reported(turn).map(|id| (turn, id))) else {
            self.abandon(token, now);
            return None;
        };
        turn.adopt(id.clone());
        let review_thread_id = turn.is_review.then(|| turn.thread.clone());
        let turn = Turn { id, status: TurnStatus::InProgress, ..Turn::default() };
        Some(StartAnswer { turn, review_thread_id })
    }

    /// Handles that a turn of an owner runs. The app-server refuses an interrupt before that, so a
    /// refused interrupt is repeated now, also if the broker has given the turn up.
    pub(super) fn on_turn_started(
        &mut self,
        token: TurnToken,
        key: TurnKey,
        root: Option<&str>,
        now: Instant,
    ) {
        let settle = now + self.limits.settle;
        let Some(turn) = self.turns.get_mut(&token) else { return };
        let is_inner = turn.thread == key.0 && turn.id.as_ref() != Some(&key.1);
        if key.1.is_empty() || (turn.over && is_inner) {
            return;
        }
        if !turn.answered && turn.thread == key.0 {
            // The turn inside of a review names the review.
            turn.reported.get_or_insert_with(|| root.unwrap_or(&key.1).to_owned());
        }
        // The end of a turn can come before its start.
        if turn.ended.contains(&key) {
            return;
        }
        // A review begins with the turn inside of it, and the broker interrupts the review.
        if is_inner
            && turn.is_review
            && let Some(id) = turn.id.clone()
            && let Some(interrupts) = turn.running.get_mut(&(turn.thread.clone(), id))
        {
            interrupts.begins();
        }
        // A turn that is known takes no more room.
        if turn.running.len() >= self.limits.threads && !turn.running.contains_key(&key) {
            return;
        }
        turn.running.entry(key).or_default().begins();
        if turn.ends {
            turn.until.get_or_insert(settle);
        }
    }

    /// Handles the end of a turn.
    pub(super) fn on_turn_completed(&mut self, key: &TurnKey) {
        for turn in self.turns.values_mut() {
            // The bug: a turn cannot end before the answer to its start request.
            if turn.answered || !defect!(FastTurnStaysLive) {
                turn.on_completed(key, self.limits.threads);
            }
        }
    }

    /// Handles that the app-server has unloaded a thread: nothing runs on it any more.
    pub(super) fn on_thread_closed(&mut self, thread: &str) {
        // The bug: only a report ends a turn.
        if defect!(ClosedThreadsStayLive) {
            return;
        }
        for turn in self.turns.values_mut() {
            turn.running.retain(|(other, _), _| other != thread);
            if turn.thread == thread && turn.id.is_some() {
                turn.end();
            }
        }
    }

    /// Handles that no turn runs on a thread. For a subagent, the app-server may report that instead of
    /// the end of its turn. The end of a turn of a client still needs a report.
    pub(super) fn on_thread_rests(&mut self, thread: &str) {
        if defect!(RestingSubagentsRun) {
            return;
        }
        for turn in self.turns.values_mut().filter(|turn| turn.thread != thread) {
            turn.running.retain(|(other, _), _| other != thread);
        }
    }

    /// Abandons everything of a client that has disconnected.
    pub(super) fn abandon_all(&mut self, client: ClientId, now: Instant) {
        // The bug: the broker assigns a new turn to its client after the client has disconnected.
        let keeps_start = defect!(StartOfAGoneClientStaysLive);
        if let Some(known) = self.clients.get_mut(&client) {
            known.reserved = None;
        }
        self.orphan_requests(client);
        let owned = |turn: &OwnedTurn| turn.client == Some(client);
        let tokens: Vec<TurnToken> = self
            .turns
            .iter()
            .filter(|(_, turn)| owned(turn) && (turn.answered || !keeps_start))
            .map(|(token, _)| *token)
            .collect();
        for token in tokens {
            self.abandon(token, now);
        }
    }

    /// Handles that no client waits for a turn any more: the broker interrupts it.
    pub(super) fn abandon(&mut self, token: TurnToken, now: Instant) {
        let settle = now + self.limits.settle;
        let Some(turn) = self.turns.get_mut(&token) else { return };
        if turn.is_live() {
            milestone!("turn.broker.abandoned", answered = turn.answered);
        }
        turn.client = None;
        // The bug: a turn runs on without a client.
        if !defect!(AbandonedTurnRunsOn) {
            turn.ends = true;
        }
        // The answer to a start request comes, or the request fails. The bug: the turn is given up
        // before that.
        let start = if turn.answered || defect!(UnansweredStartsAreGivenUp) {
            settle
        } else {
            settle + self.limits.connection.request
        };
        turn.until = Some(turn.until.map_or(start, |until| until.min(start)));
        self.interrupt_all(now);
    }

    /// Interrupts every turn that must end.
    pub(super) fn interrupt_all(&mut self, now: Instant) {
        let due: Vec<(TurnToken, TurnKey)> = self
            .turns
            .iter()
            .flat_map(|(token, turn)| turn.to_interrupt(now).into_iter().map(|key| (*token, key)))
            .collect();
        for (token, key) in due {
            if let Some(running) = self.running(token, &key) {
                running.sent += 1;
                running.retry = None;
            }
            milestone!("turn.broker.interrupted", turn = %key.1);
            let params = TurnInterruptParams { thread_id: key.0.clone(), turn_id: key.1.clone() };
            let params = serde_json::value::to_raw_value(&params).ok();
            let forwarded = Forwarded::Interrupt { token, key };
            self.send(method::TURN_INTERRUPT.to_owned(), params, forwarded);
        }
    }

    fn running(&mut self, token: TurnToken, key: &TurnKey) -> Option<&mut Interrupts> {
        self.turns.get_mut(&token)?.running.get_mut(key)
    }

    /// Handles the answer to an interrupt. A refusal means that the turn has ended, or that it has
    /// not begun yet.
    pub(super) fn on_interrupt_answer(
        &mut self,
        token: TurnToken,
        key: &TurnKey,
        accepted: bool,
        now: Instant,
    ) {
        let again = now + self.limits.retry;
        let Some(turn) = self.turns.get_mut(&token).filter(|_| !accepted) else { return };
        let Some(running) = turn.running.get_mut(key) else { return };
        running.refused = true;
        // The bug: the turn runs on after the first refusal.
        running.retry =
            (running.may_repeat() && !defect!(RefusedInterruptIsFinal)).then_some(again);
        // Nothing is left to try. A subagent works on another thread, so the next turn need not wait for its
        // end. The bug: it waits.
        let is_awaited = turn.thread == key.0 || defect!(RefusedSubagentsAreAwaited);
        if !running.may_repeat() && !is_awaited {
            turn.running.remove(key);
        }
    }

    /// Ends the time of turns: a turn of a connected client is interrupted, and an interrupted turn
    /// is given up.
    pub(super) fn expire_turns(&mut self, now: Instant) {
        let settle = now + self.limits.settle;
        for turn in self.turns.values_mut() {
            if turn.until.is_none_or(|until| until > now) {
                continue;
            }
            if turn.ends || turn.client.is_none() || turn.running.is_empty() {
                // The bug: a turn that does not end stays forever.
                if defect!(AbandonedTurnsAreKept) {
                    turn.until = None;
                    continue;
                }
                turn.give_up();
            } else {
                turn.ends = true;
                turn.answered = true;
                turn.over = true;
                turn.until = Some(settle);
            }
        }
    }

    /// Interrupts all turns, because the broker ends.
    pub(super) fn end_turns(&mut self, now: Instant) {
        for turn in self.turns.values_mut() {
            // The bug: a turn whose start has no answer runs on.
            turn.ends |= turn.answered || !defect!(ShutdownSparesUnansweredStarts);
        }
        self.interrupt_all(now);
    }

    /// Whether a turn of a connected client is live.
    pub(super) fn has_live_turn(&self) -> bool {
        let waits = |turn: &OwnedTurn| {
            let client = turn.client.and_then(|client| self.clients.get(&client));
            turn.is_live() && client.is_some_and(|client: &Client| client.cut.is_none())
        };
        self.turns.values().any(waits)
    }

    /// Forgets the oldest finished turns.
    pub(super) fn forget_finished(&mut self) {
        let finished: Vec<TurnToken> = self
            .turns
            .iter()
            .filter(|(_, turn)| turn.is_finished())
            .map(|(token, _)| *token)
            .collect();
        for token in finished.iter().take(finished.len().saturating_sub(MOST_FINISHED)) {
            self.turns.remove(token);
            // A start that was never answered. The bug: its answer is awaited forever.
            self.forwarded.retain(|_, forwarded| {
                !forwarded.starts(*token) || defect!(ForgottenStartsAreAwaited)
            });
        }
        for token in finished {
            if let Some(turn) = self.turns.get_mut(&token) {
                turn.until = None;
            }
        }
    }
}
