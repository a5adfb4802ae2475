//! Help for the unit tests of this crate.

use std::rc::Rc;

use reknit_seams::probe::{Attached, Hold, Prober, attach};

/// Switches one defect on.
struct OneDefect(&'static str);

impl Prober for OneDefect {
    fn point(&self, _: &'static str, _: &[(&'static str, u64)]) -> Option<Hold> {
        None
    }

    fn defect(&self, name: &'static str) -> bool {
        name == self.0
    }
}

/// Switches the defect on until the value is dropped.
pub(crate) fn defect_on(name: &'static str) -> Attached {
    attach(Rc::new(OneDefect(name)))
}

/// Runs this with the defect on.
pub(crate) fn with_defect<T>(name: &'static str, run: impl FnOnce() -> T) -> T {
    let _attached = defect_on(name);
    run()
}
