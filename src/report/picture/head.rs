//! The parts above and below the drawing: the violations, the legend, the story as text, and the
//! folded entries.

use crate::property::{self, Violation};
use crate::report::line::Tone;
use crate::report::sentence;
use crate::report::{phrases, rendering, story};

use super::Picture;
use super::axis::PictureRow;
use super::entries::PictureEntry;
use super::markup::escaped;
use super::sheet::{Placed, Sheet};

/// The maximum number of sentences per property at the head of the page.
const SENTENCES: usize = 3;

/// The maximum number of listed lines per fold, and in total.
const LISTED: (usize, usize) = (250, 1_500);

/// Returns the title of the page.
pub fn title(picture: &Picture<'_>) -> String {
    let subject = &picture.plan.subject;
    match picture.broken.first() {
        Some(broken) => format!("{subject}: {} breaks", broken.property),
        None => format!("{subject}: all held"),
    }
}

/// Renders the violations and the description of the run.
pub fn head(picture: &Picture<'_>) -> String {
    let Picture { plan, history, broken, replay } = *picture;
    let mut names: Vec<_> = broken.iter().map(|broken| broken.property).collect();
    names.dedup();
    let verdict = match broken {
        [] => "<b class=\"held\">all held</b>".to_owned(),
        _ => format!("<b class=\"fail\">FAIL</b> {}", escaped(&names.join(", "))),
    };
    let mut head =
        format!("<header>\n<h1>{verdict} <small>{}</small></h1>\n", escaped(&plan.subject));
    if !broken.is_empty() {
        head += "<ul class=\"sentences\">\n";
        names.iter().for_each(|name| head += &sentences(name, broken));
        head += "</ul>\n";
    }
    let about = escaped(&story::about(plan));
    let (end, packets) = (history.end, phrases::count(history.packets, "segment"));
    head += &format!(
        "<p class=\"about\">{about}; {end} of virtual time, {packets}, digest {}</p>\n",
        history.digest
    );
    head += &format!("<p class=\"about\">again: <code>{}</code></p>\n", escaped(replay));
    head + "<p class=\"about\">Hover over an entry to see its details. The strip at the left edge shows the whole run: click it to jump.</p>\n</header>\n"
}

/// Renders the rule of the property and its violations, with links to their places in the drawing.
fn sentences(name: &str, broken: &[Violation]) -> String {
    let expected = ("expect", "what the scenario file expects of this run");
    let doc = property::list(&[])
        .chain([expected])
        .find(|(known, _)| *known == name)
        .map_or("", |(_, doc)| doc);
    let of_name = broken.iter().enumerate().filter(|(_, broken)| broken.property == name);
    let count = of_name.clone().count();
    let links = of_name.take(SENTENCES).map(|(n, broken)| {
        format!("<a href=\"#broken-{n}\">{}</a><br>", escaped(&sentence(broken)))
    });
    let links: String = links.collect();
    let more = if count > SENTENCES {
        format!("<small>and {} more of {name}</small><br>", count - SENTENCES)
    } else {
        String::new()
    };
    format!("<li>{links}{more}<small><b>{}</b> {}</small></li>\n", escaped(name), escaped(doc))
}

/// Renders the short story as text.
pub fn story(picture: &Picture<'_>) -> String {
    let lines = rendering::short(picture.plan, picture.history, picture.broken);
    let rows = lines.iter().map(|line| {
        let class = if line.tone == Tone::Broken { " class=\"fail\"" } else { "" };
        let (at, place, text) = (line.at, escaped(&line.place), escaped(&line.text));
        let after = line
            .after
            .as_deref()
            .map_or(String::new(), |after| format!(" <small>{}</small>", escaped(after)));
        format!("<tr{class}><td>{at}</td><td>{place}</td><td>{text}{after}</td></tr>\n")
    });
    let rows: String = rows.collect();
    format!(
        "<details class=\"story\"><summary>The same as a story, in short</summary><table>\n{rows}</table></details>\n"
    )
}

/// Renders the folded entries, moment by moment.
pub fn folded(entries: &[PictureEntry], sheet: &Sheet) -> String {
    let folds: Vec<&Placed> =
        sheet.rows.iter().filter(|row| matches!(row.row, PictureRow::Folded(_))).collect();
    if folds.is_empty() {
        return String::new();
    }
    let mut listed = 0;
    let mut markup = String::from("<section class=\"folds\"><h2>What was folded</h2>\n");
    for fold in folds {
        let (from, to) = fold.span;
        let among: Vec<_> =
            entries.iter().filter(|entry| from <= entry.at && entry.at <= to).collect();
        let most = LISTED.0.min(LISTED.1 - listed);
        let shown = among.len().min(most);
        listed += shown;
        markup +=
            &format!("<details><summary>{from} to {to}</summary><pre id=\"fold-{}\">", from.0);
        among[..shown].iter().for_each(|entry| markup += &format!("{}\n", escaped(&entry.title)));
        if among.len() > shown {
            markup += &format!("and {} more: run the replay\n", among.len() - shown);
        }
        markup +=
            &format!("</pre><p><a href=\"#t{}\">back to the drawing</a></p></details>\n", from.0);
    }
    markup + "</section>\n"
}
