//! A session: its chats and its active clients.

use reknit_seams::defect;

use super::outcome::ActionOutcome;
use crate::wire::StateAction;
use crate::wire::ahp::actions::PartialChatSummary;
use crate::wire::ahp::state::{
    ChatState, ChatSummary, SessionActiveClient, SessionLifecycle, SessionState, SessionStatus,
};

/// Creates a session without chats.
pub fn new(provider: &str, title: &str) -> SessionState {
    SessionState {
        provider: provider.to_owned(),
        title: title.to_owned(),
        status: SessionStatus::Idle.bits(),
        activity: None,
        origin: None,
        project: None,
        working_directories: None,
        annotations: None,
        lifecycle: SessionLifecycle::Ready,
        creation_error: None,
        server_tools: None,
        active_clients: Vec::new(),
        chats: Vec::new(),
        default_chat: None,
        config: None,
        customizations: None,
        changesets: None,
        input_needed: None,
        meta: None,
    }
}

/// Returns the entry of an active client.
pub fn active<'s>(session: &'s SessionState, client: &str) -> Option<&'s SessionActiveClient> {
    session.active_clients.iter().find(|active| active.client_id == client)
}

/// Returns the summary of a chat in its session.
pub fn summary(chat: &ChatState) -> ChatSummary {
    ChatSummary {
        resource: chat.resource.clone(),
        title: chat.title.clone(),
        status: chat.status,
        activity: chat.activity.clone(),
        modified_at: chat.modified_at.clone(),
        changes: chat.changes.clone(),
        origin: chat.origin.clone(),
        movable: chat.movable,
        interactivity: chat.interactivity,
        working_directories: chat.working_directories.clone(),
    }
}

/// Applies an action to a session.
pub fn apply(session: &mut SessionState, action: &StateAction) -> ActionOutcome {
    match action {
        StateAction::SessionTitleChanged(changed) => session.title = changed.title.clone(),
        StateAction::SessionActiveClientSet(set) => {
            let client = &set.active_client;
            match session
                .active_clients
                .iter_mut()
                .find(|active| active.client_id == client.client_id)
            {
                Some(active) => *active = client.clone(),
                None => session.active_clients.push(client.clone()),
            }
        }
        StateAction::SessionActiveClientRemoved(removed) => {
            let before = session.active_clients.len();
            session.active_clients.retain(|active| {
                active.client_id != removed.client_id && !defect!(LeavingEmptiesTheSession)
            });
            if session.active_clients.len() == before {
                return ActionOutcome::Ignored("no such active client");
            }
        }
        StateAction::SessionChatAdded(added) => {
            let chat = &added.summary;
            match session.chats.iter_mut().find(|known| known.resource == chat.resource) {
                Some(known) => *known = chat.clone(),
                None => session.chats.push(chat.clone()),
            }
        }
        StateAction::SessionChatRemoved(removed) => {
            let before = session.chats.len();
            session.chats.retain(|chat| chat.resource != removed.chat);
            if session.chats.len() == before {
                return ActionOutcome::Ignored("no such chat");
            }
            if !defect!(DefaultChatStays) {
                session.default_chat.take_if(|default| *default == removed.chat);
            }
        }
        StateAction::SessionChatUpdated(updated) => {
            let Some(chat) = session.chats.iter_mut().find(|chat| chat.resource == updated.chat)
            else {
                return ActionOutcome::Ignored("no such chat");
            };
            update(chat, &updated.changes);
        }
        StateAction::SessionDefaultChatChanged(changed) => {
            session.default_chat = changed.default_chat.clone()
        }
        _ => return ActionOutcome::Ignored("not supported here"),
    }
    ActionOutcome::Applied
}

fn update(chat: &mut ChatSummary, changes: &PartialChatSummary) {
    let PartialChatSummary { title, status, activity, modified_at, .. } = changes;
    title.iter().for_each(|title| chat.title.clone_from(title));
    status.iter().for_each(|status| chat.status = *status);
    activity.iter().for_each(|activity| chat.activity = Some(activity.clone()));
    modified_at.iter().for_each(|modified_at| chat.modified_at.clone_from(modified_at));
}
