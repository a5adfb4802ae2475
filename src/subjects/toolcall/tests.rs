//! The tables and the product know the same names.

use super::*;
use crate::subjects::tests::{kebab, named, product, sorted};

#[test]
fn the_tables_and_the_product_know_the_same_names() {
    let product = product("toolcall");
    let marks = |before| named(&product, before, '"');
    assert_eq!(marks("milestone!(\""), sorted(MILESTONES.iter().map(|row| row.name)));
    assert_eq!(marks("point!(\""), sorted(POINTS.iter().map(|row| row.name)));
    assert_eq!(named(&product, "defect!(", ')'), sorted(DEFECTS.iter().map(|row| row.rust)));
    assert!(DEFECTS.iter().all(|row| kebab(row.rust) == row.name));
}

#[test]
fn variants_are_made_of_defects_that_there_are() {
    let all = VARIANTS.iter().flat_map(|(_, defects, _)| *defects);
    for name in all {
        assert!(DEFECTS.iter().any(|row| row.name == *name), "{name}");
    }
}
