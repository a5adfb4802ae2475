//! Random walks: clients come, work and leave, while the app-server answers in any order that it may
//! choose.

use std::collections::BTreeMap;

use super::*;
use crate::testing::with_defect;

/// A turn of the app-server.
struct Running {
    thread: String,
    owner: ClientId,
    /// Whether `turn/started` was sent. The app-server refuses an interrupt before that.
    begun: bool,
    interrupted: bool,
}

struct Walk {
    bench: Bench,
    random: u64,
    clients: Vec<ClientId>,
    last: u64,
    turns: BTreeMap<String, Running>,
    /// The first violation.
    violation: Option<&'static str>,
}

impl Walk {
    fn new(seed: u64) -> Self {
        let mut bench = Bench::starting();
        bench.answer("initialize", json!({}));
        let random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        Self {
            bench,
            random,
            clients: Vec::new(),
            last: 0,
            turns: BTreeMap::new(),
            violation: None,
        }
    }

    fn expect(&mut self, holds: bool, violation: &'static str) {
        if !holds {
            self.violation.get_or_insert(violation);
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 33) as usize % bound
    }

    fn any_turn(&mut self) -> Option<String> {
        let count = self.turns.len();
        (count > 0).then(|| self.below(count)).and_then(|at| self.turns.keys().nth(at).cloned())
    }

    fn step(&mut self) {
        match self.below(10) {
            0 if self.clients.len() < 4 => {
                self.last += 1;
                self.clients.push(ClientId(self.last));
                self.bench.open(ClientId(self.last));
            }
            1 if !self.clients.is_empty() => {
                let at = self.below(self.clients.len());
                let client = self.clients.swap_remove(at);
                self.check(client);
                self.bench.close(client);
            }
            2 | 3 if !self.clients.is_empty() => self.ask(),
            4..=6 if !self.bench.received.is_empty() => {
                let at = self.below(self.bench.received.len());
                self.answer(at);
            }
            7 | 8 => {
                if let Some(turn) = self.any_turn() {
                    self.advance(&turn);
                }
            }
            _ => {
                let pause = S * self.below(8) as u32;
                self.bench.wait(pause);
            }
        }
    }

    fn ask(&mut self) {
        let at = self.below(self.clients.len());
        let client = self.clients[at];
        let thread = format!("t{}", self.below(3));
        let (method, params) = match self.below(5) {
            0 => ("thread/resume", json!({ "threadId": thread })),
            1 => ("account/read", json!({})),
            2 => match self.any_turn() {
                Some(turn) => {
                    let thread = &self.turns[&turn].thread;
                    ("turn/interrupt", json!({ "threadId": thread, "turnId": turn }))
                }
                None => ("account/read", json!({})),
            },
            _ => ("turn/start", json!({ "threadId": thread, "owner": client.0 })),
        };
        self.bench.ask(client, method, params);
    }

    fn answer(&mut self, at: usize) {
        let Received { ticket, method, params } = self.bench.received.remove(at);
        let text = |key: &str| params[key].as_str().unwrap_or_default().to_owned();
        let refuse = match method.as_str() {
            "turn/start" => self.below(6) == 0,
            "turn/interrupt" => match self.turns.get_mut(&text("turnId")) {
                Some(turn) => {
                    turn.interrupted |= turn.begun;
                    !turn.begun
                }
                None => true,
            },
            _ => false,
        };
        if refuse {
            let error = ErrorBody { code: -32600, message: "no".into(), data: None };
            self.bench.core.on_answer(ticket, Err(error), false, self.bench.now);
            return self.bench.carry_out();
        }
        if method != "turn/start" {
            let result = json!({ "thread": { "id": text("threadId") } });
            return self.bench.answer_ticket(ticket, result);
        }
        self.last += 1;
        let (turn, thread) = (format!("u{}", self.last), text("threadId"));
        let owner = ClientId(params["owner"].as_u64().unwrap_or_default());
        let running = Running { thread, owner, begun: false, interrupted: false };
        self.turns.insert(turn.clone(), running);
        // Notifications may precede the answer, even all of them.
        for _ in 0..self.below(4) {
            self.advance(&turn);
        }
        self.bench.answer_ticket(ticket, started(&turn));
    }

    /// Lets a turn begin, work, or end.
    fn advance(&mut self, turn: &str) {
        let choice = self.below(4);
        let Some(running) = self.turns.get_mut(turn) else { return };
        let thread = running.thread.clone();
        if !running.begun {
            running.begun = true;
            self.bench.turn_started(&thread, turn);
        } else if choice == 0 {
            self.turns.remove(turn);
            self.bench.turn_completed(&thread, turn);
        } else {
            let text = format!("owner {}", running.owner.0);
            self.bench.item(&thread, turn, &text);
        }
    }

    /// Checks that a client has received only notifications of its turns.
    fn check(&mut self, client: ClientId) {
        for seen in self.bench.seen(client) {
            if let Some(owner) = seen.strip_prefix("owner ") {
                let is_own = owner == client.0.to_string();
                self.expect(is_own, LEAK);
            }
        }
    }

    /// Answers all requests, and checks that no turn without a client was left alone.
    fn finish(&mut self) {
        for client in self.clients.clone() {
            self.check(client);
        }
        for client in std::mem::take(&mut self.clients) {
            self.bench.close(client);
        }
        for _ in 0..1000 {
            while !self.bench.received.is_empty() {
                self.answer(0);
            }
            for turn in self.turns.keys().cloned().collect::<Vec<_>>() {
                if !self.turns[&turn].begun {
                    self.advance(&turn);
                }
            }
            if self.bench.core.due().is_none() && self.bench.received.is_empty() {
                break;
            }
            self.bench.wait(S / 4);
        }
        self.expect(self.turns.values().all(|turn| turn.interrupted), ALONE);
        self.bench.open(ClientId(0));
        let admits = self.bench.admits(ClientId(0));
        self.expect(admits, BUSY);
        self.bench.close(ClientId(0));
        self.expect(self.bench.core.due().is_none(), "the broker waits for something");
    }
}

const LEAK: &str = "a client received a notification of another client";
const ALONE: &str = "a turn runs on without a client";
const BUSY: &str = "the broker is busy without work";

/// Walks from each seed. Returns the first violation.
fn walks(seeds: u64) -> Option<&'static str> {
    (0..seeds).find_map(|seed| {
        let mut walk = Walk::new(seed);
        for _ in 0..120 {
            walk.step();
        }
        walk.finish();
        walk.violation
    })
}

#[test]
fn turns_keep_their_owners_and_the_broker_is_free_at_the_end() {
    assert_eq!(walks(300), None);
}

#[test]
fn walks_find_seeded_bugs() {
    for (defect, violation) in [
        ("OwnerPerSocket", LEAK),
        ("AbandonedTurnRunsOn", ALONE),
        ("StartOfAGoneClientStaysLive", ALONE),
    ] {
        assert_eq!(with_defect(defect, || walks(300)), Some(violation), "{defect}");
    }
}
