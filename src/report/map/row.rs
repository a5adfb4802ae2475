//! A row of the map, and its details: every fault tried at the position, and the outcome.

use crate::history::Time;
use crate::hunt::sweep::{FaultOutcome, Position, SweepFault, SweepTrial};
use crate::report::phrases;
use crate::report::picture::markup::escaped;

use super::lane::SweepLanes;
use super::swept::{Map, letter};

/// A pause of at least this length, in milliseconds, gets a row that shows its length.
const IDLE: u64 = 200;

/// Renders all rows.
pub fn rows(map: &Map<'_>, columns: &[&SweepFault], lanes: &SweepLanes) -> String {
    let (mut markup, mut before) = (String::new(), None::<Time>);
    for (number, position) in map.swept.positions.iter().enumerate() {
        let pause = before
            .map(|before| position.at.since(before))
            .filter(|pause| pause.as_millis() as u64 >= IDLE);
        if let Some(pause) = pause {
            markup += &format!(
                "<p class=\"idle\">{} in which nothing happens</p>\n",
                phrases::span(pause)
            );
        }
        let timed = before != Some(position.at);
        markup += &row(map, number, (columns, lanes), timed);
        before = Some(position.at);
    }
    markup
}

fn row(
    map: &Map<'_>,
    number: usize,
    (columns, lanes): (&[&SweepFault], &SweepLanes),
    timed: bool,
) -> String {
    let position = &map.swept.positions[number];
    let time = if timed { position.at.to_string() } else { String::new() };
    let trials = || position.trials.iter().map(|trial| &map.swept.trials[*trial]);
    let cells =
        columns.iter().map(|fault| match trials().find(|trial| trial.fault.name == fault.name) {
            None => "<i></i>".to_owned(),
            Some(trial) => format!("<i class=\"{}\"></i>", letter(trial.outcome)),
        });
    let cells: String = cells.collect();
    let broken = trials().any(|trial| trial.outcome == Some(FaultOutcome::Broken));
    let class =
        format!("row is-{}{}", position.kind().name(), if broken { " is-broken" } else { "" });
    let (svg, name) = (lanes.row(map.swept, position), escaped(&crate::report::position(position)));
    format!(
        "<details class=\"{class}\" id=\"p{number}\"><summary class=\"line\"><span class=\"time\">{time}</span>{svg}<span>{name}</span>\
         <span class=\"cells\">{cells}</span></summary>\n<div id=\"s{number}\">{}</div></details>\n",
        tried(map, number, position)
    )
}

/// Renders the trials at a position.
fn tried(map: &Map<'_>, number: usize, position: &Position) -> String {
    if position.trials.is_empty() {
        return "<p>No fault to try here: the connection is not open.</p>".into();
    }
    position.trials.iter().map(|trial| one(map, number, *trial)).collect()
}

fn one(map: &Map<'_>, here: usize, number: usize) -> String {
    let trial = &map.swept.trials[number];
    let (class, fault, came) =
        (letter(trial.outcome), escaped(trial.fault.name), escaped(&came(trial)));
    let mut rendered = format!("<p><i class=\"{class}\"></i><b>{fault}</b>: {came}");
    if trial.position != here {
        let other = trial.position;
        return rendered
            + &format!(
                " <small>(the same run as <a href=\"#s{other}\">one above</a>: the same moment and place)</small></p>\n"
            );
    }
    rendered += &format!(
        " <small>{}</small><br><code>{} --trial {}</code></p>\n",
        escaped(trial.fault.does),
        escaped(map.again),
        number + 1
    );
    let Some(story) = map.stories.get(&number) else { return rendered };
    let open = if trial.outcome == Some(FaultOutcome::Broken) { " open" } else { "" };
    rendered
        + &format!(
            "<details{open}><summary>story</summary><pre>{}</pre></details>\n",
            escaped(story)
        )
}

/// Renders the outcome of a trial.
fn came(trial: &SweepTrial) -> String {
    let came = match trial.outcome {
        None => "was not run".to_owned(),
        Some(FaultOutcome::Untouched) => "no user saw a difference".to_owned(),
        Some(FaultOutcome::Recovered) => "recovered".to_owned(),
        Some(FaultOutcome::Failed) => "something failed, and the fault justifies it".to_owned(),
        Some(FaultOutcome::Broken) if trial.broken.is_empty() => "the run got stuck".to_owned(),
        Some(FaultOutcome::Broken) => format!("{} violated", trial.broken.join(", ")),
    };
    trial
        .idle
        .as_ref()
        .map_or(came.clone(), |why| format!("{came}; the fault had no effect: {why}"))
}
