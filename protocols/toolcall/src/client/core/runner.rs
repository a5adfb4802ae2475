//! The calls that this client runs.
//!
//! A call starts when the host has confirmed that it is running and that this client owns it, and
//! only while the client is up to date. A replay is evaluated as a whole, so a call that started
//! and failed during the outage never starts here. Each call starts once. If the client
//! unsubscribed from the chat of a call, and the call still runs when the client subscribes again,
//! the call has failed. When the host ends a call, the client stops it and does not send its
//! result.

use reknit_resume::SeenIds;
use reknit_seams::{defect, milestone};

use super::phase::Line;
use super::run::{Key, Run, Running};
use super::{ClientCore, ClientEffect};
use crate::client::failed;
use crate::state::{call, chat};
use crate::wire::ahp::actions::ChatToolCallCompleteAction;
use crate::wire::ahp::state::{ToolCallResult, ToolCallState, ToolInput};
use crate::wire::{SnapshotState, StateAction};

impl ClientCore {
    /// Starts the calls that run at the host, and stops those that are over.
    pub(super) fn look_for_calls(&mut self) {
        if !matches!(self.line, Line::Connected { .. }) && !defect!(RunsBeforeCaughtUp) {
            return;
        }
        let own = self.own_calls();
        self.stop_calls(|key| !own.iter().any(|(run, _)| run.key() == *key));
        for (run, runs) in own {
            let is_working = |running: &&Running| {
                **running == Running::Works || defect!(UnconfirmedResultsTakeRoom)
            };
            // The bug: only the tools of the same chat take room.
            let is_near =
                |(of, _): &(&Key, &Running)| of.0 == run.chat || !defect!(EachChatHasItsOwnRoom);
            let near = self.running.iter().filter(is_near).map(|(_, running)| running);
            let working = near.filter(is_working).count();
            if working >= self.limits.running_tools {
                break; // the next look comes when one of these is done
            }
            if runs && self.begun.contains(&run.key()) && !self.running.contains_key(&run.key()) {
                if defect!(StoppedCallsHang) {
                    continue;
                }
                self.running.insert(run.key(), Running::Works);
                self.finished(&run.key(), failed("the client had already stopped this call"));
            } else if runs && !self.running.contains_key(&run.key()) {
                milestone!(
                    "toolcall.client.runs",
                    call = run.call.as_str(),
                    tool = run.tool.as_str()
                );
                self.running.insert(run.key(), Running::Works);
                self.begun.insert(run.key());
                self.push_effect(ClientEffect::Run(run));
            }
        }
    }

    /// Stops the calls with these keys.
    pub(super) fn stop_calls(&mut self, which: impl Fn(&Key) -> bool) {
        // The bug: a call whose result was sent is kept.
        let stays = |running: &Running| *running == Running::Told && defect!(EndedCallsStay);
        let over = self.running.iter().filter(|(key, running)| which(key) && !stays(running));
        let over = over.map(|(key, _)| key.clone()).collect::<Vec<_>>();
        for key in over {
            if self.running.remove(&key) == Some(Running::Works) && !defect!(WorksOn) {
                milestone!("toolcall.client.stopped", call = key.2.as_str());
                self.push_effect(ClientEffect::Stop(key));
            }
        }
    }

    /// Stops all calls, and forgets that they ever started.
    pub(super) fn forget_calls(&mut self) {
        self.stop_calls(|_| true);
        self.begun = SeenIds::new(self.limits.begun_calls);
    }

    /// Returns this client's calls that are not over, and whether they run.
    fn own_calls(&self) -> Vec<(Run, bool)> {
        let mut own = Vec::new();
        for (name, replica) in &self.replicas {
            let Some(SnapshotState::Chat(state)) = replica.confirmed() else { continue };
            let Some(turn) = &state.active_turn else { continue };
            for state in
                chat::calls(state).filter(|state| self.is_own(state) && !call::is_over(state))
            {
                let (tool, input) = match state {
                    ToolCallState::Running(running) => {
                        (running.tool_name.clone(), inline(running.tool_input.as_ref()))
                    }
                    _ => (String::new(), String::new()),
                };
                let runs = matches!(state, ToolCallState::Running(_));
                let call = call::id(state).to_owned();
                own.push((
                    Run { chat: name.clone(), turn: turn.id.clone(), call, tool, input },
                    runs,
                ));
            }
        }
        own
    }

    fn is_own(&self, state: &ToolCallState) -> bool {
        let owner = call::owner(state);
        owner == Some(&self.identity.client) || defect!(RunsForOthers) && owner.is_some()
    }

    /// Records the result of a call. If the call is over at the host, the result is dropped.
    pub fn finished(&mut self, key: &Key, result: ToolCallResult) {
        let Some(running) = self.running.get_mut(key).filter(|running| **running == Running::Works)
        else {
            return;
        };
        *running = Running::Told;
        let (chat, turn, call) = key;
        milestone!("toolcall.client.ran", call = call.as_str());
        let complete = ChatToolCallCompleteAction {
            turn_id: turn.clone(),
            tool_call_id: call.clone(),
            meta: None,
            result,
            requires_result_confirmation: None,
        };
        // The bug: a client without a connection drops the result.
        if self.is_connected() || !defect!(ResultsNeedAConnection) {
            self.dispatch_unchecked(chat, StateAction::ChatToolCallComplete(complete), None);
        }
        self.look_for_calls();
    }
}

fn inline(input: Option<&ToolInput>) -> String {
    match input {
        Some(ToolInput::Inline(input)) => input.clone(),
        _ => String::new(),
    }
}
