//! The page about the architecture is true: the layers are those of the script, the arrows are imports,
//! and each function is in its file.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::root;

/// The parts of the world that the picture leaves out, because almost every part imports them.
const LEFT_OUT: [&str; 3] = ["options", "thread", "waiting"];

fn page() -> String {
    fs::read_to_string(root().join("docs/architecture.md")).unwrap()
}

/// Returns the cells of the rows of all tables whose first line begins with this heading.
fn rows<'p>(page: &'p str, heading: &'p str) -> impl Iterator<Item = Vec<&'p str>> {
    let tables =
        page.split("\n\n").filter(move |block| block.starts_with(&format!("| {heading} |")));
    tables.flat_map(|table| table.lines().skip(2)).map(|row| {
        row.trim_matches('|').split(" | ").map(|cell| cell.trim().trim_matches('`')).collect()
    })
}

#[test]
fn the_layers_of_the_architecture_are_those_of_the_script() {
    let script = fs::read_to_string(root().join(".ci/cycles")).unwrap();
    let layers = script.split("LAYERS = \"\"\"").nth(1).unwrap().split("\"\"\"").next().unwrap();
    let layers: Vec<_> = layers.split_whitespace().map(|layer| format!("src/{layer}")).collect();
    let page = page();
    let shown: Vec<_> = rows(&page, "folder").map(|cells| cells[0]).collect();
    assert_eq!(shown, layers);
}

#[test]
fn the_functions_of_the_architecture_stand_in_their_files() {
    let page = page();
    let mut checked = 0;
    for cells in rows(&page, "what happens") {
        let [_, file, function] = cells[..] else { panic!("a row has three cells: {cells:?}") };
        if function.is_empty() {
            continue;
        }
        let text =
            fs::read_to_string(root().join(file)).unwrap_or_else(|_| panic!("no file {file}"));
        let heads = [format!("fn {function}("), format!("fn {function}<")];
        assert!(heads.iter().any(|head| text.contains(head)), "{file} has no function {function}");
        checked += 1;
    }
    assert!(checked > 20, "{checked} rows");
}

/// Returns the Rust files of a folder and its folders, without tests.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let sources = entries.filter(|path| path.file_stem().is_some_and(|name| name != "tests"));
    let found = sources.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] });
    found.filter(|path| path.extension().is_some_and(|extension| extension == "rs")).collect()
}

/// Returns the arrows between the parts of the world, as lines of the picture.
fn arrows() -> BTreeSet<String> {
    let world = root().join("src/world");
    let mut arrows = BTreeSet::new();
    for file in files(&world) {
        let path = file.strip_prefix(&world).unwrap().with_extension("");
        let module: Vec<_> = path.iter().map(|part| part.to_str().unwrap()).collect();
        let module: Vec<_> = module.into_iter().filter(|part| *part != "mod").collect();
        let Some(from) = module.first() else { continue };
        let text = fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        for import in code.split("use ").skip(1).filter_map(|rest| rest.split(';').next()) {
            let ups = import.matches("super::").count();
            let to = match import.strip_prefix("crate::world::") {
                Some(rest) => rest.split("::").next(),
                None if ups == module.len() => {
                    import.rsplit("super::").next().unwrap().split("::").next()
                }
                None => None,
            };
            let known =
                to.filter(|to| world.join(to).is_dir() || world.join(format!("{to}.rs")).is_file());
            arrows.extend(
                known
                    .filter(|to| to != from && !LEFT_OUT.contains(to) && !LEFT_OUT.contains(from))
                    .map(|to| format!("  {from} --> {to}\n")),
            );
        }
    }
    arrows
}

#[test]
fn the_arrows_of_the_architecture_are_imports() {
    let arrows: String = arrows().into_iter().collect();
    assert!(arrows.contains("  run --> network\n"), "{arrows}");
    let page = page();
    let (before, rest) = page.split_once("```mermaid\n").unwrap();
    let (there, after) = rest.split_once("```\n").unwrap();
    let drawn = format!("graph TD\n{arrows}");
    if std::env::var_os("REKNIT_BLESS").is_some() {
        fs::write(
            root().join("docs/architecture.md"),
            format!("{before}```mermaid\n{drawn}```\n{after}"),
        )
        .unwrap();
    } else {
        assert_eq!(there, drawn, "REKNIT_BLESS=1 cargo test --test docs architecture");
    }
}
