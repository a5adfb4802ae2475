//! A row's part of the drawing: the lanes of the hosts, the open connections, and the kind of the
//! position.

use std::collections::BTreeMap;

use crate::history::{ConnIndex, Connection, History, Time};
use crate::hunt::SweepProgress;
use crate::hunt::sweep::{Position, PositionSite};
use crate::report::picture::lanes::HostLanes;
use crate::report::picture::markup::{Alignment, Drawing, spot};
use crate::schedule::Host;

use super::swept::letter;

/// The height of a row, in pixels.
const HIGH: i32 = 24;
/// The distance from each edge to the outermost lane.
const EDGE: i32 = 46;
/// The number of colours for connections.
const COLOURS: usize = 6;

/// The lanes of a sweep.
pub struct SweepLanes {
    hosts: Vec<Host>,
    /// The connections: client, server, opening time, and the time of the last position on it.
    spans: BTreeMap<usize, (Host, Host, Time, Time)>,
}

impl SweepLanes {
    /// Creates lanes for the hosts that have positions, and for the hosts that they have
    /// connections to.
    pub fn of(swept: &SweepProgress) -> Self {
        let mut spans: BTreeMap<usize, (Host, Host, Time, Time)> = BTreeMap::new();
        for position in &swept.positions {
            let Some(site) = &position.conn else { continue };
            let span = (site.client.clone(), site.server.clone(), site.opened, position.at);
            spans.entry(site.index.0).or_insert(span).3 = position.at;
        }
        let conns = spans.iter().map(|(n, (client, server, opened, _))| {
            Connection::new(ConnIndex(*n).0.to_string(), client.clone(), server.clone(), *opened)
        });
        let history = History { conns: conns.collect(), ..History::default() };
        let mut hosts: Vec<_> =
            HostLanes::of(&swept.plan, &history).hosts().map(|(_, host)| host.clone()).collect();
        for position in &swept.positions {
            if !hosts.contains(&position.host) {
                hosts.push(position.host.clone());
            }
        }
        Self { hosts, spans }
    }

    /// Returns the width of the drawing.
    pub fn width(&self) -> i32 {
        2 * EDGE + self.gap() * (self.hosts.len() as i32 - 1).max(0)
    }

    fn gap(&self) -> i32 {
        if self.hosts.len() <= 3 { 110 } else { 84 }
    }

    fn x(&self, host: &Host) -> i32 {
        let lane = self.hosts.iter().position(|known| known == host).unwrap_or_default();
        EDGE + self.gap() * lane as i32
    }

    /// Renders the names of the hosts.
    pub fn heading(&self) -> String {
        let mut drawing = Drawing::default();
        self.hosts.iter().for_each(|host| {
            drawing.text(spot(self.x(host), 16), Alignment::Centred, "host", host.as_str())
        });
        self.svg(drawing)
    }

    /// Renders a position, with a mark in the colour of its worst outcome.
    pub fn row(&self, swept: &SweepProgress, position: &Position) -> String {
        let mut drawing = Drawing::default();
        for (n, (client, server, opened, last)) in &self.spans {
            if (*opened..=*last).contains(&position.at) {
                let (from, to) =
                    (self.x(client).min(self.x(server)), self.x(client).max(self.x(server)));
                drawing.rect(spot(from, 0), spot(to, HIGH), &format!("band {}", colour(*n)));
            }
        }
        self.hosts.iter().for_each(|host| {
            drawing.path(&[spot(self.x(host), 0), spot(self.x(host), HIGH)], "lane")
        });
        let (x, y) = (self.x(&position.host), HIGH / 2);
        let conn = position.conn.as_ref().map_or("g0".into(), |site| colour(site.index.0));
        match &position.spot {
            PositionSite::Packet { toward, .. } => {
                arrow(&mut drawing, (x, self.x(toward)), &format!("packet {conn}"))
            }
            PositionSite::Message { toward, .. } => {
                arrow(&mut drawing, (x, self.x(toward)), &format!("message {conn}"))
            }
            PositionSite::Milestone { .. } | PositionSite::Point { .. } => {}
        }
        let tried = !position.trials.is_empty();
        let class = if tried {
            format!("mark {}", letter(swept.worst(position)))
        } else {
            "mark none".into()
        };
        match &position.spot {
            PositionSite::Point { .. } => {
                drawing.surface(
                    &[spot(x, y - 7), spot(x + 7, y), spot(x, y + 7), spot(x - 7, y)],
                    &class,
                );
            }
            _ => drawing.disc(spot(x, y), if tried { 6 } else { 3 }, &class),
        }
        self.svg(drawing)
    }

    fn svg(&self, drawing: Drawing) -> String {
        format!("<svg width=\"{}\" height=\"{HIGH}\">{}</svg>", self.width(), drawing.markup())
    }
}

/// Renders the legend of the marks.
pub fn key() -> String {
    let sample = |text: &str, draw: &dyn Fn(&mut Drawing)| {
        let mut drawing = Drawing::default();
        draw(&mut drawing);
        format!("<span><svg width=\"34\" height=\"{HIGH}\">{}</svg>{text}</span>", drawing.markup())
    };
    let (y, at) = (HIGH / 2, spot(17, HIGH / 2));
    let samples = [
        sample("message", &|parts| arrow(parts, (0, 34), "message g1")),
        sample("packet", &|parts| arrow(parts, (0, 34), "packet g1")),
        sample("milestone of the code", &|parts| parts.disc(at, 6, "mark u")),
        sample("yield point between two of its steps", &|parts| {
            parts.surface(&[spot(17, y - 7), spot(24, y), spot(17, y + 7), spot(10, y)], "mark u");
        }),
        sample("a connection is open", &|parts| {
            parts.rect(spot(0, 2), spot(34, HIGH - 2), "band g1")
        }),
    ];
    format!(
        "<span class=\"key\">{}<b>A mark has the colour of the worst cell of its row.</b></span>",
        samples.concat()
    )
}

/// Returns the colour class of a connection.
fn colour(conn: usize) -> String {
    format!("g{}", conn % COLOURS + 1)
}

/// Draws an arrow from one lane to another.
fn arrow(drawing: &mut Drawing, (from, to): (i32, i32), class: &str) {
    let (y, back) = (HIGH / 2, if from < to { -1 } else { 1 });
    drawing.group(class, "", |parts| {
        parts.path(&[spot(from, y), spot(to + 8 * back, y)], "way");
        parts.surface(
            &[spot(to + 2 * back, y), spot(to + 10 * back, y - 4), spot(to + 10 * back, y + 4)],
            "head",
        );
    });
}
