//! Fidelity: small exchanges over TCP, each with the observations of both ends on Linux.
//!
//! A world is only as good as its sockets are realistic. So this suite contains some forty small
//! exchanges as data: a script over [`reknit::net`], and the lines observed on Linux
//! ([`exchanges`]). `linux` runs them on the loopback interface in real time and compares, so the
//! lines are verified wherever the suite runs on Linux.

mod docs;
mod exchanges;
#[cfg(target_os = "linux")]
mod linux;
mod stage;
mod world;

use std::collections::BTreeSet;

#[test]
fn exchange_names_are_unique() {
    let names: BTreeSet<_> = exchanges::all().map(|exchange| exchange.name).collect();
    assert_eq!(names.len(), exchanges::all().count());
}

#[test]
fn a_world_matches_linux_except_for_the_table() {
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
fn each_row_of_the_table_differs_and_has_a_reason() {
    for row in world::DIFFERS {
        let exchange = exchanges::all()
            .find(|exchange| exchange.name == row.exchange)
            .expect("it is an exchange");
        assert_ne!(exchange.linux, row.world, "{}", row.exchange);
        assert!(row.because.len() > 20, "{}", row.exchange);
    }
}

/// Runs all exchanges at once, because they mostly wait.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn linux_matches_the_recorded_lines() {
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

/// Formats lines for pasting into an exchange.
fn table(lines: &[String]) -> String {
    lines.iter().map(|line| format!("            {line:?},\n")).collect()
}
