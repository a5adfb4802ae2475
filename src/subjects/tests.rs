//! Checks that the tables of each subject and its product code contain the same names.

use std::path::Path;

use super::*;

/// Code that several protocols share: it counts as product code of each of these protocols.
const SHARED: &[(&str, &str)] = &[
    ("exec", "crates/jsonrpc/src/http.rs"),
    ("exec", "crates/jsonrpc/src/link.rs"),
    ("toolcall", "crates/jsonrpc/src/link.rs"),
    ("toolcall", "crates/resume/src/presence.rs"),
    ("turn", "crates/jsonrpc/src/lines.rs"),
];

/// All product code of a protocol, without its tests.
pub(super) fn product(protocol: &str) -> String {
    fn read(path: &Path, all: &mut String) {
        if path.is_dir() {
            let mut entries: Vec<_> =
                std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
            entries.sort();
            entries
                .iter()
                .filter(|path| !path.ends_with("tests") && !path.ends_with("tests.rs"))
                .for_each(|path| read(path, all));
        } else {
            all.push_str(&std::fs::read_to_string(path).unwrap());
        }
    }
    let mut all = String::new();
    let shared = SHARED
        .iter()
        .filter(|(whose, _)| *whose == protocol)
        .map(|(_, shared)| (*shared).to_owned());
    for code in shared.chain([format!("protocols/{protocol}/src")]) {
        read(&Path::new(env!("CARGO_MANIFEST_DIR")).join(code), &mut all);
    }
    all
}

pub(super) fn named(product: &str, before: &str, end: char) -> Vec<String> {
    let names = product
        .split(before)
        .skip(1)
        .filter_map(|rest| rest.trim_start().trim_start_matches('"').split(end).next())
        .map(|name| name.trim().to_owned());
    let mut names: Vec<String> = names.filter(|name| !name.is_empty()).collect();
    names.sort();
    names.dedup();
    names
}

pub(super) fn sorted(names: impl Iterator<Item = &'static str>) -> Vec<&'static str> {
    let mut names: Vec<_> = names.collect();
    names.sort_unstable();
    names
}

/// Every milestone, point and defect of the product code is in its table, and every row of a table
/// is in the product code.
#[test]
fn the_tables_and_the_product_have_the_same_names() {
    for subject in built_in() {
        let product = product(subject.name());
        let marks = |before| named(&product, before, '"');
        assert_eq!(marks("milestone!("), sorted(subject.milestones().iter().map(|row| row.name)));
        assert_eq!(marks("point!("), sorted(subject.points().iter().map(|row| row.name)));
        assert_eq!(
            named(&product, "defect!(", ')'),
            sorted(subject.defects().iter().map(|row| row.rust))
        );
    }
}

#[test]
fn names_in_files_are_the_rust_names_in_kebab_case() {
    for defect in built_in().iter().flat_map(|subject| subject.defects()) {
        assert_eq!(kebab(defect.rust), defect.name);
    }
}

pub(super) fn kebab(rust: &str) -> String {
    rust.chars().fold(String::new(), |name, c| match c.is_ascii_uppercase() {
        true if name.is_empty() => c.to_ascii_lowercase().to_string(),
        true => format!("{name}-{}", c.to_ascii_lowercase()),
        false => format!("{name}{c}"),
    })
}

#[test]
fn a_point_of_a_defect_names_an_existing_defect() {
    for subject in built_in() {
        let known = |name: &str| subject.defects().iter().any(|row| row.name == name);
        assert!(subject.points().iter().filter_map(|row| row.defect).all(known));
    }
}

#[test]
fn variants_consist_of_existing_defects() {
    for subject in built_in() {
        let known = |name: &&str| subject.defects().iter().any(|row| row.name == *name);
        assert!(subject.variants().iter().flat_map(|variant| variant.defects).all(known));
    }
}

/// A profile sets known limits to values of their kind, not below their minimum.
#[test]
fn every_profile_of_limits_fits_the_table() {
    for subject in built_in() {
        for profile in subject.limit_profiles() {
            for (name, value) in profile.values {
                let limit = subject.limits().iter().find(|limit| limit.name == *name).unwrap();
                assert!(value.same_kind(&limit.default) && *value >= limit.least, "{name}");
            }
        }
    }
}
