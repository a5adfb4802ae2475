//! `[puppet.HOST]`: the script of a scripted peer.

use std::time::Duration;

use super::values::one_of;
use crate::scenario::keys;
use crate::scenario::mistake::{MistakeAt, Parsed, ticked};
use crate::scenario::reader::{Node, Table};
use crate::schedule::puppet::SPEAKS;
use crate::schedule::{Puppet, PuppetStep, Speaks};

/// Returns a puppet.
pub fn puppet(node: &Node<'_>) -> Parsed<Puppet> {
    parts(&node.table(keys::PUPPET.names())?)
}

/// Returns a puppet from a table that may also have other keys.
pub fn parts(table: &Table<'_>) -> Parsed<Puppet> {
    let script = table.need("script", "a list of tables like `{ expect = \"hello\" }`")?;
    let lines = |node: &Node<'_>| {
        node.list("a list of tables")?.iter().map(line).collect::<Parsed<Vec<_>>>()
    };
    Ok(Puppet {
        connections: table.get("connections").map(|node| node.number(1)).transpose()?,
        speaks: table.get("speaks").map_or(Ok(Speaks::default()), |node| one_of(&node, &SPEAKS))?,
        script: lines(&script)?,
        again: table.get("again").map(|node| lines(&node)).transpose()?,
    })
}

/// The verbs of a script.
const VERBS: &[&str] = &["expect", "send", "wait", "drain", "close", "reset"];

fn line(node: &Node<'_>) -> Parsed<PuppetStep> {
    let table = node.table(keys::SCRIPT.names())?;
    let mut verbs = table.entries().filter(|entry| VERBS.contains(&entry.label));
    let Some(verb) = verbs.next() else {
        return table.wrong(format!("an entry of a script needs one of {}", ticked(VERBS)));
    };
    if let Some(second) = verbs.next() {
        let message = format!(
            "an entry of a script has one verb; write a separate entry for `{}`",
            second.label
        );
        return Err(MistakeAt { at: second.key_at, message });
    }
    if let Some(stray) =
        table.entries().find(|entry| entry.label != verb.label && verb.label != "send")
    {
        return Err(MistakeAt {
            at: stray.key_at,
            message: format!("`{}` needs `send`; leave it out", stray.label),
        });
    }
    Ok(match verb.label {
        "expect" if verb.text()?.is_empty() => {
            return verb.wrong("`expect` must be a text that is not empty");
        }
        "expect" => PuppetStep::Expect { text: verb.text()?.to_owned() },
        "send" => PuppetStep::Send {
            text: verb.text()?.to_owned(),
            times: table.get("times").map_or(Ok(1), |node| node.number(1))?,
            every: table.get("every").map_or(Ok(Duration::ZERO), |node| node.duration())?,
        },
        "wait" => PuppetStep::Wait { lasts: verb.duration()? },
        _ if !verb.flag()? => {
            return verb
                .wrong(format!("`{}` must be `true`; leave the entry out instead", verb.label));
        }
        "drain" => PuppetStep::Drain,
        "close" => PuppetStep::Close,
        _ => PuppetStep::Reset,
    })
}
