//! Fidelity: small exchanges over TCP, each with what both ends see of it on Linux.
//!
//! A world is worth as much as its sockets are like real ones. So some forty small exchanges stand here as data: a script
//! over [`reknit::net`], and the lines that Linux gives ([`exchanges`]). `linux` plays them on the loopback interface, in
//! real time, and compares: the lines are no belief, they are checked wherever the suite runs on Linux.

mod exchanges;
#[cfg(target_os = "linux")]
mod linux;
mod stage;

use std::collections::BTreeSet;

#[test]
fn every_exchange_has_a_name_of_its_own() {
    let names: BTreeSet<_> = exchanges::all().map(|exchange| exchange.name).collect();
    assert_eq!(names.len(), exchanges::all().count());
}

/// All of them at once: most of their time they wait.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn linux_says_what_stands_with_each_exchange() {
    let mut playing = tokio::task::JoinSet::new();
    for exchange in exchanges::all() {
        playing.spawn(async move { (exchange, linux::play(exchange).await) });
    }
    let mut other: Vec<_> = (playing.join_all().await.into_iter())
        .filter(|(exchange, seen)| seen != exchange.linux)
        .map(|(exchange, seen)| format!("{}: Linux says\n{}", exchange.name, table(&seen)))
        .collect();
    other.sort();
    assert!(other.is_empty(), "{}", other.join("\n"));
}

/// Lines as they stand in an exchange, to be pasted there.
#[cfg(target_os = "linux")]
fn table(lines: &[String]) -> String {
    lines.iter().map(|line| format!("            {line:?},\n")).collect()
}
