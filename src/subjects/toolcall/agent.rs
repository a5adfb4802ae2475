//! The agent of the simulated host: it plays the script of each turn, and records what really
//! happened.
//!
//! The agent's words are the stream of the turn. If a call started the turn, the start of the turn
//! is the effect of that call.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::archive;
use super::notes::{Became, By, CallEnd, OfCall, OfChannel, Question};
use super::setup::{self, Asking, Calling, STRANGER, Saying, Scene, Whose};
use crate::history::{Call, Stream};
use crate::net::BoxFuture;
use crate::schedule::Plan;
use crate::subject::{Disk, Recorder};
use crate::subjects::records;
use reknit_toolcall::host::{self, CallId, Ended, Owner, Permission, Turn};

/// The ending of a completed or cancelled turn for its readers.
pub(super) const OVER: &str = "over";

/// A text of an agent that is no part of its words.
pub(super) const ASIDE: &str = "aside\n";

/// The question that a window can answer.
pub(super) const READ: &str = "resourceRead";

/// Plays the scripts of a plan.
#[derive(Clone)]
pub(super) struct ScriptedAgent {
    plan: Arc<Plan>,
    record: Recorder,
    questions: Arc<AtomicU64>,
    /// The calls whose turns began in this incarnation of the host, and how often their chat had been
    /// deleted. The disk stores the calls of all incarnations.
    begun: Arc<Mutex<BTreeSet<(Call, u64)>>>,
    disk: Disk,
}

impl ScriptedAgent {
    pub(super) fn new(plan: Arc<Plan>, record: Recorder, disk: Disk) -> Self {
        Self { plan, record, questions: Arc::default(), begun: Arc::default(), disk }
    }

    /// Counts a beginning of a turn, in all incarnations of the host. If its client did not receive
    /// the first answer, a turn that a dead host had begun begins again on the restarted host.
    fn count(&self, turn: &str) -> u64 {
        let key = format!("turns {turn}");
        let times = self.disk.read(&key).and_then(|times| times.parse().ok()).unwrap_or(0u64) + 1;
        self.disk.write(&key, times.to_string());
        times
    }

    /// Records that a call's turn began. If the turn of the same call also began in an earlier
    /// incarnation of the host, or in a chat of this name that was deleted since, it is the same effect,
    /// and is not recorded again.
    fn begins(&self, call: Call, chat: &str) {
        let key = format!("began {call}");
        let begun = (call, archive::deletions(&self.disk, chat));
        let is_new = self.begun.lock().unwrap_or_else(PoisonError::into_inner).insert(begun);
        if !is_new || self.disk.read(&key).is_none() {
            self.record.effect(call, chat);
        }
        self.disk.write(&key, "");
    }
}

impl host::Agent for ScriptedAgent {
    fn turn(&self, turn: Turn) -> BoxFuture<'static, ()> {
        let player = self.clone();
        let stream = Stream::from(turn.id.as_str());
        if let Ok(call) = turn.text.parse() {
            player.begins(Call(call), &turn.chat);
        }
        OfChannel::TurnBegan(turn.id.clone()).note(&player.record, &turn.chat);
        let ends = Ends { record: player.record.clone(), stream: stream.clone() };
        let speaker = match player.count(&turn.id) {
            1 => turn.id.clone(),
            times => {
                // It lives again, although it may say nothing.
                player.record.produced(&stream, "");
                format!("{}/{times}", turn.id)
            }
        };
        Box::pin(async move {
            let _ends = ends;
            let script = setup::turn(&player.plan, records::declared(&turn.id)).script;
            let (record, chat) = (player.record.clone(), turn.chat.clone());
            let played = OfChannel::TurnPlayed(turn.id.clone());
            Part { player, turn, stream, speaker }.play(script).await;
            played.note(&record, &chat);
        })
    }
}

/// Records the end of the agent's words when dropped, for any reason.
struct Ends {
    record: Recorder,
    stream: Stream,
}

impl Drop for Ends {
    fn drop(&mut self) {
        self.record.ended(&self.stream, OVER);
    }
}

/// The agent's part in one turn.
struct Part {
    player: ScriptedAgent,
    turn: Turn,
    stream: Stream,
    /// The start of each word. It differs if the turn begins again, so that the words of the second
    /// beginning do not look like those of the first.
    speaker: String,
}

impl Part {
    async fn play(self, script: Vec<Scene>) {
        let mut calls = JoinSet::new();
        for scene in script {
            match scene {
                Scene::Wait(span) => sleep(span.0).await,
                Scene::Say(saying) => self.send_text(saying).await,
                Scene::Call(calling) => {
                    let waits = calling.waits;
                    let call = Calls {
                        record: self.player.record.clone(),
                        turn: self.turn.clone(),
                        stream: self.stream.clone(),
                        speaker: self.speaker.clone(),
                    };
                    if waits {
                        call.play(calling).await;
                    } else {
                        calls.spawn(call.play(calling));
                    }
                }
                Scene::Ask(asking) => self.ask(asking).await,
                Scene::BreakDown => {
                    let broken = OfChannel::TurnBroken(self.turn.id.clone());
                    broken.note(&self.player.record, &self.turn.chat);
                    self.player.record.panic_outside("the agent panicked").await;
                }
            }
        }
        while calls.join_next().await.is_some() {}
    }

    /// Says words that are unique to this beginning of this turn.
    async fn send_text(&self, saying: Saying) {
        let mut part: Option<String> = None;
        for n in 1..=saying.times {
            sleep(saying.every.0).await;
            let mut word = format!("{}:{n}", self.speaker);
            word.extend(std::iter::repeat_n(
                '.',
                (saying.letters as usize).saturating_sub(word.len()),
            ));
            word.push('\n');
            let wording = match &part {
                None => self.turn.send(&word).map(|name| part = Some(name)),
                Some(part) => self.turn.continue_saying(part, &word),
            };
            match wording {
                Ok(()) => self.player.record.produced(&self.stream, word),
                Err(refused) => return tracing::debug!(%refused, "nothing more can be said"),
            }
            if saying.aside && n == 1 {
                // A chat that is full refuses the next word as well.
                let _ = self.turn.send(ASIDE);
            }
        }
    }

    async fn ask(&self, asking: Asking) {
        let Some(client) = self.turn.client.clone() else { return };
        let number =
            format!("question-{}", self.player.questions.fetch_add(1, Ordering::Relaxed) + 1);
        let note = |what| {
            OfCall { by: By::Agent, call: number.clone(), what }
                .note(&self.player.record, &self.stream)
        };
        let takes = u64::try_from(asking.takes.0.as_millis()).unwrap_or(u64::MAX);
        let is_unknown = asking.is_unknown;
        note(Became::Asks(Question { client: client.clone(), takes, is_unknown }));
        let method = if asking.is_unknown { "unknown" } else { READ };
        let answer =
            self.turn.ask(&client, method, &json!({ "uri": "file:///x", "takes": takes })).await;
        if answer.is_err() {
            self.player.record.unanswered(&self.stream, number.clone());
        }
        let heard = answer.map(|answer| answer.get().to_owned()).map_err(|why| why.to_string());
        let told = match &heard {
            Ok(answer) => format!("answer: {answer}"),
            Err(why) => format!("no answer: {why}"),
        };
        note(Became::Hears(heard));
        if asking.tells {
            tell(&self.turn, (&self.player.record, &self.stream), &self.speaker, &told);
        }
    }
}

/// Says how a call or a question ended.
fn tell(turn: &Turn, (record, stream): (&Recorder, &Stream), speaker: &str, what: &str) {
    let word = format!("{speaker}: {what}\n");
    match turn.send(&word) {
        Ok(_) => record.produced(stream, word),
        Err(refused) => tracing::debug!(%refused, "nothing more can be said"),
    }
}

/// The agent's part in one tool call.
struct Calls {
    record: Recorder,
    turn: Turn,
    stream: Stream,
    /// The start of each word of the agent.
    speaker: String,
}

impl Calls {
    fn note(&self, id: &CallId, what: Became) {
        OfCall { by: By::Agent, call: id.id.clone(), what }.note(&self.record, &self.stream);
    }

    async fn play(self, calling: Calling) {
        if calling.in_one_step {
            return self.play_in_one_step(calling).await;
        }
        let owner = match (calling.owner, &self.turn.client) {
            (Whose::Starter, Some(client)) => Owner::Client(client.clone()),
            (Whose::Stranger, _) => Owner::Client(STRANGER.to_owned()),
            _ => Owner::Any,
        };
        let id = match self.turn.start_call(&calling.tool, owner) {
            Ok(id) => id,
            Err(refused) => return tracing::debug!(%refused, "no call can begin"),
        };
        let of_its_choice = calling.owner != Whose::Any;
        self.note(&id, Became::Calls { tool: calling.tool.clone(), of_its_choice });
        if timeout(calling.patience.0, self.go_on(&id, &calling)).await.is_err() {
            self.note(&id, Became::GivenUp);
        }
    }

    async fn play_in_one_step(&self, Calling { tool, confirm, patience, .. }: Calling) {
        let input = input();
        let call = self.turn.call(&tool, &input, confirm);
        let note = |what| {
            OfCall { by: By::Agent, call: tool.clone(), what }.note(&self.record, &self.stream)
        };
        let Ok(outcome) = timeout(patience.0, call).await else { return note(Became::GivenUp) };
        let returned = outcome.map(end_of).map_err(|refused| refused.to_string());
        let returned = Became::Returns(returned);
        let told = format!("{tool} {returned}");
        note(returned);
        tell(&self.turn, (&self.record, &self.stream), &self.speaker, &told);
    }

    async fn go_on(&self, id: &CallId, calling: &Calling) {
        tokio::select! {
            biased;
            _ = self.turn.ended(id) => {}
            () = self.stream(id, calling) => {}
        }
        if self.turn.ready(id, &input(), calling.confirm).is_ok() {
            self.note(id, Became::Ready { asks: calling.confirm });
        }
        if calling.confirm {
            let permission = self.turn.permission(id).await;
            self.note(id, Became::Permitted(permission == Permission::Granted));
        }
        let ended = self.turn.ended(id).await;
        self.note_end(id, ended);
    }

    async fn stream(&self, id: &CallId, calling: &Calling) {
        for piece in PIECES {
            // A call that has failed in the meantime refuses further parameters.
            let _ = self.turn.stream(id, piece);
            sleep(calling.streams.0 / 2).await;
        }
    }

    fn note_end(&self, id: &CallId, ended: Ended) {
        self.note(id, Became::Over(end_of(ended)));
    }
}

fn end_of(ended: Ended) -> CallEnd {
    match ended {
        Ended::Completed(result) if result.success => CallEnd::Completed,
        Ended::Completed(result) => CallEnd::Failed(result.past_tense_message.as_text().to_owned()),
        Ended::Cancelled => CallEnd::Cancelled,
    }
}

/// The pieces in which the parameters of a call are streamed, each for half of the time.
pub(super) const PIECES: [&str; 2] = [r#"{"n":"#, "1}"];

/// The complete parameters of a call.
pub(super) fn input() -> Value {
    json!({ "n": 1 })
}
