//! Each variant consists of defects that exist.

use super::{DEFECTS, VARIANTS};

#[test]
fn variants_consist_of_existing_defects() {
    let all = VARIANTS.iter().flat_map(|variant| variant.defects);
    for name in all {
        assert!(DEFECTS.iter().any(|row| row.name == *name), "{name}");
    }
}
