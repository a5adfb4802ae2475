//! The lists of exchanges and differences in the page `docs/fidelity.md` are generated from the
//! tables.

use std::fmt::Write;
use std::path::Path;

use crate::{exchanges, world};

const BEGIN: &str = "<!-- drawn: REKNIT_BLESS=1 cargo test --test fidelity -->\n";
const END: &str = "<!-- end -->";

/// Renders the part of the page that comes from the tables.
fn drawn() -> String {
    let mut text = String::new();
    let (all, other) = (exchanges::all().count(), world::DIFFERS.len());
    writeln!(text, "{all} exchanges are compared. Linux and a world differ in {other}, and each of these is pinned by a test:\n")
        .unwrap();
    text += "| exchange | Linux | a world | because |\n|---|---|---|---|\n";
    for row in world::DIFFERS {
        let exchange = exchanges::all()
            .find(|exchange| exchange.name == row.exchange)
            .expect("it is an exchange");
        let name = row.exchange.replace('_', " ");
        let (linux, world) = (exchange.linux.join("; "), row.world.join("; "));
        writeln!(text, "| {name} | {linux} | {world} | {} |", row.because).unwrap();
    }
    text
}

#[test]
fn the_page_matches_the_tables() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/fidelity.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the page has a part that is drawn");
    let (there, after) = rest.split_once(END).expect("the part that is drawn has an end");
    let drawn = drawn();
    if std::env::var_os("REKNIT_BLESS").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{drawn}{END}{after}")).unwrap();
    } else {
        assert_eq!(there, drawn, "REKNIT_BLESS=1 cargo test --test fidelity writes it anew");
    }
}
