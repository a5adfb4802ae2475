//! Variants are made of defects that there are.

use super::{DEFECTS, VARIANTS};

#[test]
fn variants_are_made_of_defects_that_there_are() {
    let all = VARIANTS.iter().flat_map(|variant| variant.defects);
    for name in all {
        assert!(DEFECTS.iter().any(|row| row.name == *name), "{name}");
    }
}
