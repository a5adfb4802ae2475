//! Fidelity: small exchanges over TCP, each with what both ends see of it on Linux.
//!
//! A world is worth as much as its sockets are like real ones. So some forty small exchanges stand here as data: a script
//! over [`reknit::net`], and the lines that Linux gives ([`exchanges`]). `linux` plays them on the loopback interface, in
//! real time, and compares: the lines are no belief, they are checked wherever the suite runs on Linux.

mod docs;
mod exchanges;
#[cfg(target_os = "linux")]
mod linux;
mod stage;
mod world;

use std::collections::BTreeSet;

#[test]
fn every_exchange_has_a_name_of_its_own() {
    let names: BTreeSet<_> = exchanges::all().map(|exchange| exchange.name).collect();
    assert_eq!(names.len(), exchanges::all().count());
}

#[test]
fn a_world_says_the_same_but_for_what_stands_in_the_table() {
    let mut other = Vec::new();
    for exchange in exchanges::all() {
        let differs = world::DIFFERS.iter().find(|row| row.exchange == exchange.name);
        let expected = differs.map_or(exchange.linux, |row| row.world);
        let seen = world::play(exchange);
        if seen != expected {
            other.push(format!(
                "{}: expected {expected:#?}, a world shows\n{}",
                exchange.name,
                table(&seen)
            ));
        }
    }
    assert!(other.is_empty(), "{}", other.join("\n"));
}

#[test]
fn each_row_of_the_table_differs_and_says_why() {
    for row in world::DIFFERS {
        let exchange = exchanges::all()
            .find(|exchange| exchange.name == row.exchange)
            .expect("it is an exchange");
        assert_ne!(exchange.linux, row.world, "{}", row.exchange);
        assert!(row.because.len() > 20, "{}", row.exchange);
    }
}

/// All of them at once: most of their time they wait.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn linux_says_what_stands_with_each_exchange() {
    let mut playing = tokio::task::JoinSet::new();
    for (exchange, address) in exchanges::all().zip(linux::addresses()) {
        playing.spawn(async move { (exchange, linux::play(exchange, address).await) });
    }
    let mut other: Vec<_> = (playing.join_all().await.into_iter())
        .filter(|(exchange, seen)| seen != exchange.linux)
        .map(|(exchange, seen)| format!("{}: Linux says\n{}", exchange.name, table(&seen)))
        .collect();
    other.sort();
    assert!(other.is_empty(), "{}", other.join("\n"));
}

/// Lines as they stand in an exchange, to be pasted there.
fn table(lines: &[String]) -> String {
    lines.iter().map(|line| format!("            {line:?},\n")).collect()
}
