//! The divergence of two runs: the first entry that differs, with its neighbours.

use crate::history::History;
use crate::schedule::Plan;

use super::line::{StoryLine, Tone, paint, set};
use super::rendering::entry;

/// A run to compare.
#[derive(Clone, Copy, Debug)]
pub struct ComparedRun<'a> {
    /// The display name.
    pub name: &'a str,
    /// The plan.
    pub plan: &'a Plan,
    /// The history; a detailed history shows more.
    pub history: &'a History,
}

/// Whether two runs are the same, down to the packets.
pub fn are_same(a: &History, b: &History) -> bool {
    a.digest == b.digest && a.parts_from(b).is_none()
}

/// The number of entries to show before the first difference, and from it on.
const NEIGHBOURS: usize = 5;

/// Renders the divergence of two runs for a page of this width.
pub fn render(a: ComparedRun<'_>, b: ComparedRun<'_>, width: usize) -> String {
    let Some(at) = a.history.parts_from(b.history) else {
        let (entries, digests) = (a.history.events.len(), (a.history.digest, b.history.digest));
        return if digests.0 == digests.1 {
            format!("the same: {entries} entries, digest {}\n", digests.0)
        } else {
            format!("the same {entries} entries, but digests {} and {}\n", digests.0, digests.1)
        };
    };
    let mut rendered = format!(
        "the runs diverge at entry {} of {} and {}\n\n",
        at + 1,
        a.history.events.len(),
        b.history.events.len()
    );
    rendered += &set(&lines(a, at.saturating_sub(NEIGHBOURS), at), width);
    for side in [a, b] {
        rendered += &format!("\n{}\n", paint(Tone::Schedule.style(), side.name));
        let lines = lines(side, at, at + NEIGHBOURS);
        rendered += if lines.is_empty() { "  is over\n" } else { "" };
        rendered += &set(&lines, width);
    }
    rendered
}

fn lines(side: ComparedRun<'_>, from: usize, to: usize) -> Vec<StoryLine> {
    let events = side.history.events.iter().take(to).skip(from);
    events.map(|event| entry(side.plan, side.history, event)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::story::tests::{a_gap, plain};
    use super::*;
    use crate::history::{Event, EventKind, Time};

    #[test]
    fn equal_runs_have_no_divergence() {
        let (plan, history, _) = a_gap();
        assert_eq!(history.parts_from(&history.clone()), None);
        let side = ComparedRun { name: "a", plan: &plan, history: &history };
        assert!(render(side, side, 100).starts_with("the same: "));
        assert!(are_same(&history, &history));
    }

    #[test]
    fn runs_with_equal_entries_and_different_packets_differ() {
        let (plan, history, _) = a_gap();
        let mut other = history.clone();
        other.digest.number(1);
        let rendered = render(
            ComparedRun { name: "a", plan: &plan, history: &history },
            ComparedRun { name: "b", plan: &plan, history: &other },
            100,
        );
        assert!(rendered.starts_with("the same 116 entries, but digests "), "{rendered}");
        assert!(!are_same(&history, &other));
    }

    #[test]
    fn the_first_entry_that_differs_is_shown_with_its_neighbours() {
        let (plan, history, _) = a_gap();
        let mut other = history.clone();
        let Event { at, host, .. } = history.events[3].clone();
        other.events[3] =
            Event { at: at + std::time::Duration::from_millis(1), host, what: EventKind::Started };
        other.events.truncate(5);
        let rendered = render(
            ComparedRun { name: "first run", plan: &plan, history: &history },
            ComparedRun { name: "second run", plan: &plan, history: &other },
            100,
        );
        assert_eq!(other.events[3].at, Time(1051));
        insta::assert_snapshot!(plain(&rendered), @r#"
        the runs diverge at entry 4 of 116 and 5

             0.000 s  client  counter.client.connected (generation 1) on client#1
             1.000 s  client  watch stream s1
             1.000 s  client  watch stream s1 (call 1)

        first run
             1.050 s  server  s1: produced "1"
             1.051 s  client  s1: delivered "1" (generation 1)
             1.100 s  server  s1: produced "2"
             1.100 s  client  s1: delivered "2" (generation 1)
             1.150 s  server  s1: produced "3"

        second run
             1.051 s  server  started
             1.051 s  client  s1: delivered "1" (generation 1)
        "#);
    }

    #[test]
    fn a_shorter_run_diverges_at_its_end() {
        let (_, history, _) = a_gap();
        let mut other = history.clone();
        other.events.truncate(2);
        assert_eq!(history.parts_from(&other), Some(2));
        assert_eq!(other.parts_from(&history), Some(2));
    }
}
