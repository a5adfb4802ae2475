//! Implements points and defects for a world, and records panics.

use std::panic::{set_hook, take_hook};
use std::sync::{Arc, Once};

use crate::history::EventKind;
use crate::probe::{Hold, Prober};
use crate::schedule::MilestoneValue;

use crate::world::local;
use crate::world::thread::{self, Noted, UNUSED};

/// The prober of the world of this thread.
pub(in crate::world) struct WorldProber;

impl Prober for WorldProber {
    fn point(&self, name: &'static str, fields: &[(&'static str, u64)]) -> Option<Hold> {
        let host = thread::current();
        let fields: Arc<[_]> =
            fields.iter().map(|(name, value)| (*name, MilestoneValue::Number(*value))).collect();
        let step = local::try_with(|world| world.holds(host, name, &fields)).flatten();
        thread::note(Noted::Point { name, fields, hold: step });
        step.map(|step| local::with(|world| world.hold(step, host, name)))
    }

    fn defect(&self, rust: &'static str) -> bool {
        local::try_with(|world| {
            let on = |name: &str| world.plan.defects.iter().any(|on| on == name);
            !world.plan.defects.is_empty()
                && world
                    .subject
                    .defects()
                    .iter()
                    .any(|defect| defect.rust == rust && on(defect.name))
        })
        .unwrap_or(false)
    }
}

/// Installs a hook that records panics of tasks in a world in the world's history. Other panics are
/// reported as before.
pub(in crate::world) fn install_panic_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |info| {
            let is_unowned = thread::current() == UNUSED;
            if thread::is_recording() {
                let message = info.payload_as_str().unwrap_or("no message");
                let file =
                    |path: &str| path.rsplit(['/', '\\']).next().unwrap_or_default().to_owned();
                let at = info
                    .location()
                    .map_or(String::new(), |at| format!(" ({}:{})", file(at.file()), at.line()));
                thread::note(Noted::Entry(EventKind::Panicked {
                    message: format!("{message}{at}"),
                }));
            }
            // The panic may come from the world itself, whose history is then never read. So it is
            // reported as before.
            if is_unowned || !thread::is_recording() {
                before(info);
            }
        }));
    });
}
