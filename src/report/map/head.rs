//! The part above the map: the schedule, the results, and a legend.

use crate::hunt::SweepProgress;
use crate::hunt::sweep::{FaultOutcome, PositionKind};
use crate::report::phrases;
use crate::report::picture::markup::escaped;

use super::swept::{Map, letter};

/// The meaning of each outcome, for readers new to sweeps.
const MEANINGS: [(FaultOutcome, &str, &str); 4] = [
    (FaultOutcome::Broken, "broken", "a property was violated: a bug"),
    (
        FaultOutcome::Failed,
        "failed, justified",
        "something failed explicitly, and the fault justifies it",
    ),
    (
        FaultOutcome::Recovered,
        "recovered",
        "the fault had an effect, and all results are the same as without it",
    ),
    (FaultOutcome::Untouched, "untouched", "the user saw no difference"),
];

/// The maximum number of failing runs to list at the top.
const LISTED: usize = 5;

/// Renders the head of the page.
pub fn head(map: &Map<'_>) -> String {
    let Map { swept, title, again, .. } = map;
    let verdict = match (swept.broke, swept.trials.is_empty()) {
        (0, true) => "<b>nothing was swept</b>".to_owned(),
        (0, false) => "<b class=\"held\">no violation</b>".to_owned(),
        (broke, _) => format!("<b class=\"fail\">{} failed</b>", phrases::count(broke, "run")),
    };
    let subject = escaped(&swept.plan.subject);
    let mut head =
        format!("<header>\n<h1>{verdict} <small>{subject}: {}</small></h1>\n", escaped(title));
    head += &what_it_is(swept);
    head += &counts(swept);
    head += &broken(swept);
    if swept.done < swept.trials.len() {
        head += &format!(
            "<p class=\"about\">It was stopped after {} of {} runs.</p>\n",
            swept.done,
            swept.trials.len()
        );
    }
    let defects = if swept.plan.defects.is_empty() {
        String::new()
    } else {
        format!(", with defect {}", swept.plan.defects.join(", "))
    };
    let (seed, digest) = (swept.plan.seed, swept.tally.digest);
    let defects = escaped(&defects);
    head += &format!(
        "<p class=\"about\">seed {seed}{defects}, digest {digest}; again: <code>{}</code></p>\n",
        escaped(again)
    );
    head + "</header>\n"
}

fn what_it_is(swept: &SweepProgress) -> String {
    if swept.trials.is_empty() {
        let why = match swept.broke {
            0 => "There is no position where a fault can have an effect.",
            _ => "The schedule violates a property without an added fault.",
        };
        return format!("<p>{why}</p>\n");
    }
    let kinds = PositionKind::NAMES.iter().filter_map(|(kind, name)| {
        let n = swept.positions.iter().filter(|position| position.kind() == *kind).count() as u64;
        (n > 0).then(|| phrases::count(n, name))
    });
    let kinds = kinds.collect::<Vec<_>>().join(", ");
    format!(
        "<p class=\"lead\">The schedule ran once without a fault. <b>Each row is a moment of that run</b>, time downwards: {kinds}. \
         Then it ran again, {} times, each time with one fault at one of these moments. <b>Each coloured cell is such a run</b>, and its \
         colour shows the outcome. Click a row to see details.</p>\n",
        swept.trials.len()
    )
}

/// Renders the number of runs per outcome: a bar, and a legend that explains its colours.
fn counts(swept: &SweepProgress) -> String {
    let count =
        |outcome| swept.trials.iter().filter(|trial| trial.outcome == Some(outcome)).count();
    if swept.done == 0 {
        return String::new();
    }
    let parts =
        MEANINGS.iter().filter(|(outcome, ..)| count(*outcome) > 0).map(|(outcome, name, _)| {
            format!(
                "<i class=\"{}\" style=\"flex-grow:{}\" title=\"{name}\"></i>",
                letter(Some(*outcome)),
                count(*outcome)
            )
        });
    let legend = MEANINGS.iter().map(|(outcome, name, means)| {
        let (class, n) = (letter(Some(*outcome)), count(*outcome));
        format!(
            "<li><i class=\"{class}\"></i><span><b>{n}</b>{name}</span><small>{means}</small></li>"
        )
    });
    let (parts, legend) = (parts.collect::<String>(), legend.collect::<String>());
    format!("<div class=\"bar\">{parts}</div>\n<ul class=\"counts\">{legend}</ul>\n")
}

/// Renders links to the failures.
fn broken(swept: &SweepProgress) -> String {
    let broken: Vec<_> = swept.trials.iter().filter(|trial| !trial.broken.is_empty()).collect();
    if broken.is_empty() {
        return String::new();
    }
    let links = broken.iter().take(LISTED).map(|trial| {
        let (properties, name) =
            (trial.broken.join(", "), crate::report::position::trial(swept, trial));
        format!(
            "<li><a href=\"#s{}\">{}</a> {}</li>\n",
            trial.position,
            escaped(&properties),
            escaped(&name)
        )
    });
    let links: String = links.collect();
    let more = broken.len().saturating_sub(LISTED);
    let more =
        if more > 0 { format!("<li>and {more} more, red below</li>\n") } else { String::new() };
    format!("<ul class=\"sentences\">\n{links}{more}</ul>\n")
}
