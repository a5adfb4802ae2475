//! `app_server_is_greeted` and `ids_are_new`: the messages to an app-server, in order.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::history::Call;
use crate::property::Violation;
use crate::property::violation::{fields, kinds};
use crate::subjects::turn::story::Story;
use reknit_turn::wire::method;

kinds! {
    pub(in super::super) APP_SERVER_IS_GREETED;
    UNGREETED = "ungreeted": "an app-server got the request {request}, but its client had not said that it is initialized {moment}";
}

kinds! {
    pub(in super::super) IDS_ARE_NEW;
    USED = "used": "an app-server got the request {request}, but an earlier one had the same id, {id} {moment}";
}

/// Each connection numbers its requests, and an app-server has one connection.
pub(in super::super) fn ids_are_new(story: &Story<'_>) -> Vec<Violation> {
    let mut used: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    let mut found = Vec::new();
    for (at, process, got) in &story.got {
        let Ok(line) = serde_json::from_str::<Value>(got.line()) else { continue };
        let (Some(id), Some(request)) = (line.get("id"), line["method"].as_str()) else { continue };
        let used = used.entry(*process).or_default();
        // The next process may have the name of one that its host has lost.
        if request == method::INITIALIZE {
            used.clear();
        }
        if !used.is_empty() {
            story.cx.judges("ids_are_new");
        }
        if !used.insert(id.to_string()) {
            let data = fields! { request: request.to_owned(), id: id.to_string() };
            found.push(Violation::new("ids_are_new", Call::NONE, *at, &USED, data));
            break;
        }
    }
    found
}

/// The lines that an app-server got say in which order they came. A line that is cut, or of which only the
/// start is kept, says nothing.
pub(in super::super) fn app_server_is_greeted(story: &Story<'_>) -> Vec<Violation> {
    let mut greeted = BTreeSet::new();
    let mut found = Vec::new();
    for (at, process, got) in &story.got {
        let Ok(line) = serde_json::from_str::<Value>(got.line()) else { continue };
        match line["method"].as_str() {
            // The next process may have the name of one that its host has lost.
            Some(method::INITIALIZE) => _ = greeted.remove(process),
            Some(method::INITIALIZED) => _ = greeted.insert(*process),
            Some(request) => {
                story.cx.judges("app_server_is_greeted");
                if !greeted.insert(*process) {
                    continue;
                }
                let data = fields! { request: request.to_owned() };
                let kind = &UNGREETED;
                found.push(Violation::new("app_server_is_greeted", Call::NONE, *at, kind, data));
            }
            None => {}
        }
    }
    found
}
