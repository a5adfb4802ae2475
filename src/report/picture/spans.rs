//! Everything with a duration: faults, held tasks, and hosts that are down.

use std::collections::BTreeMap;

use crate::history::{Event, EventKind, History, Nature, Scope, Time};
use crate::schedule::Host;

use super::axis::Axis;
use super::lanes::{HostLanes, Lane};
use super::markup::{Drawing, spot};

/// A fault interval.
#[derive(Clone, Debug)]
pub struct PictureSpan {
    /// The text of the fault.
    pub text: String,
    /// The effect of the fault.
    pub nature: Nature,
    /// The affected area.
    pub scope: Scope,
    /// The start of the fault.
    pub from: Time,
    /// The end of the fault; the end of the run if the fault never ended.
    pub to: Time,
    /// Whether the fault ended before the end of the run.
    pub over: bool,
}

/// Returns all faults of a run.
pub fn faults(history: &History) -> Vec<PictureSpan> {
    let mut spans: BTreeMap<usize, PictureSpan> = BTreeMap::new();
    for event in &history.events {
        match &event.what {
            EventKind::FaultBegan { fault, what, scope, nature, .. } => {
                let (text, scope) = (what.sentence(), Scope::clone(scope));
                let span = PictureSpan {
                    text,
                    nature: *nature,
                    scope,
                    from: event.at,
                    to: history.end,
                    over: false,
                };
                spans.insert(*fault, span);
            }
            EventKind::FaultEnded { fault } => {
                if let Some(span) = spans.get_mut(fault) {
                    (span.to, span.over) = (event.at, true);
                }
            }
            _ => {}
        }
    }
    spans.into_values().collect()
}

/// Returns the class of a fault.
pub fn class(nature: Nature) -> &'static str {
    match nature {
        Nature::Kills => "fault kills",
        Nature::Slows => "fault slows",
        Nature::Harmless => "fault harmless",
    }
}

/// Returns the patterns that shade faults.
pub fn hatches() -> String {
    let natures = [("hatch", "harmless"), ("hatch-kills", "kills"), ("hatch-slows", "slows")];
    let patterns = natures.map(|(name, class)| {
        format!(
            "<pattern id=\"{name}\" class=\"{class}\" width=\"9\" height=\"9\" patternUnits=\"userSpaceOnUse\" \
             patternTransform=\"rotate(45)\"><rect width=\"9\" height=\"9\" class=\"tint\"/>\
             <rect width=\"3\" height=\"9\" class=\"stripe\"/></pattern>"
        )
    });
    format!(
        "<svg width=\"0\" height=\"0\" aria-hidden=\"true\"><defs>{}</defs></svg>\n",
        patterns.concat()
    )
}

/// Draws all faults.
pub fn draw(
    drawing: &mut Drawing,
    history: &History,
    lanes: &HostLanes,
    axis: &Axis,
    spans: &[PictureSpan],
) {
    for span in spans {
        let until = if span.over {
            format!("until {}", span.to)
        } else {
            "until the end of the run".into()
        };
        let title = format!("{}: in force from {} {until}", span.text, span.from);
        let top = axis.y(span.from);
        let bottom = axis.y(span.to).max(top + 16);
        drawing.group(class(span.nature), &title, |parts| {
            for (left, right) in sides(history, lanes, &span.scope) {
                parts.rect(spot(left, top), spot(right, bottom), "area");
                parts.path(&[spot(left, top), spot(right, top)], "edge");
                parts.path(&[spot(left, bottom), spot(right, bottom)], "edge");
            }
        });
    }
}

/// Returns the left and right edges of each part of a scope.
fn sides(history: &History, lanes: &HostLanes, scope: &Scope) -> Vec<(i32, i32)> {
    let conns = scope.conns.iter().filter_map(|conn| lanes.ends(history, *conn));
    let links = scope.links.iter().filter_map(|(a, b)| lanes.lane(a).zip(lanes.lane(b)));
    let mut between: Vec<(Lane, Lane)> =
        conns.chain(links).map(|(a, b)| (a.min(b), a.max(b))).collect();
    between.sort_unstable();
    between.dedup();
    let hosts = scope
        .hosts
        .iter()
        .filter_map(|host| lanes.lane(host))
        .map(|lane| (lanes.x(lane) - 16, lanes.x(lane) + 16));
    between.into_iter().map(|(a, b)| (lanes.x(a), lanes.x(b))).chain(hosts).collect()
}

/// A state of a host: the host, the start, the end, and the name.
type Lasting = (Host, Time, Time, String);

/// Draws the lanes: dashed while a host is down, thick while one of its tasks is held.
pub fn draw_lanes(drawing: &mut Drawing, history: &History, lanes: &HostLanes, axis: &Axis) {
    for (lane, host) in lanes.hosts() {
        let x = lanes.x(lane);
        drawing.path(&[spot(x, 0), spot(x, axis.bottom())], "lane");
        for (_, from, to, title) in down(history).iter().filter(|(of, ..)| of == host) {
            drawing.group("down", title, |parts| {
                parts.rect(spot(x - 4, axis.y(*from)), spot(x + 4, axis.y(*to)), "area");
                parts.cross(spot(x, axis.y(*from)), 6, "way");
            });
        }
        for (_, from, to, title) in held(history).iter().filter(|(of, ..)| of == host) {
            let (top, bottom) = (axis.y(*from), axis.y(*to));
            drawing.group("held", title, |parts| {
                parts.rect(spot(x - 4, top), spot(x + 4, bottom.max(top + 6)), "area")
            });
        }
    }
}

/// Returns the times in which hosts were down.
fn down(history: &History) -> Vec<Lasting> {
    let begins = |event: &Event| matches!(event.what, EventKind::Died { .. }).then_some("");
    let ends = |event: &Event| matches!(event.what, EventKind::Started).then_some("");
    lasting(history, begins, ends)
        .into_iter()
        .map(|(host, from, to, _)| {
            let title = format!("{host} is down from {from} to {to}");
            (host, from, to, title)
        })
        .collect()
}

/// Returns the times in which tasks were held at points.
fn held(history: &History) -> Vec<Lasting> {
    let begins = |event: &Event| match event.what {
        EventKind::Point { name, held: true, .. } => Some(name),
        _ => None,
    };
    let ends = |event: &Event| match event.what {
        EventKind::Released { name } => Some(name),
        _ => None,
    };
    lasting(history, begins, ends)
        .into_iter()
        .map(|(host, from, to, name)| {
            let title = format!("a task of {host} is held at {name} from {from} to {to}");
            (host, from, to, title)
        })
        .collect()
}

/// Returns the times between a start event and its end event on the same host with the same name.
fn lasting(
    history: &History,
    begins: impl Fn(&Event) -> Option<&'static str>,
    ends: impl Fn(&Event) -> Option<&'static str>,
) -> Vec<(Host, Time, Time, &'static str)> {
    let (mut open, mut all): (BTreeMap<(Host, &str), Vec<Time>>, Vec<_>) = Default::default();
    for event in &history.events {
        let Some(host) = &event.host else { continue };
        if let Some(name) = begins(event) {
            open.entry((host.clone(), name)).or_default().push(event.at);
        } else if let Some(name) = ends(event)
            && let Some(from) = open
                .get_mut(&(host.clone(), name))
                .and_then(|since| (!since.is_empty()).then(|| since.remove(0)))
        {
            all.push((host.clone(), from, event.at, name));
        }
    }
    let open = open.into_iter().flat_map(|((host, name), since)| {
        since.into_iter().map(move |from| (host.clone(), from, name))
    });
    all.extend(open.map(|(host, from, name)| (host, from, history.end, name)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::story::tests::a_gap;

    #[test]
    fn a_fault_lasts_from_its_beginning_to_its_end() {
        let (_, history, _) = a_gap();
        let spans: Vec<_> =
            faults(&history).into_iter().map(|span| (span.from, span.to, span.over)).collect();
        assert_eq!(spans, [(Time(3000), Time(3400), true), (Time(3412), Time(4212), true)]);
    }

    #[test]
    fn a_host_is_down_until_it_restarts_or_until_the_end() {
        let event = |at, what| Event { at: Time(at), host: Some("server".into()), what };
        let events = vec![
            event(0, EventKind::Started),
            event(10, EventKind::Died { kernel: true }),
            event(20, EventKind::Started),
            event(30, EventKind::Died { kernel: true }),
        ];
        let history = History { events, end: Time(90), ..History::default() };
        let down: Vec<_> = down(&history).into_iter().map(|(_, from, to, _)| (from, to)).collect();
        assert_eq!(down, [(Time(10), Time(20)), (Time(30), Time(90))]);
    }
}
