//! Messages as arrows, from the time they were sent to the time they were delivered.

use crate::history::History;

use super::axis::Axis;
use super::lanes::{HostLanes, Lane, at_side};
use super::markup::{Drawing, PixelPoint, spot};
use super::messages::{Arrival, Journey};
use super::ribbons::colour;

/// The distance from a lane to the start of an arrow.
const OFF: i32 = 2;
/// The distance between messages that wait next to each other, and the number of positions for
/// them.
const WAITING: (i32, i32) = (7, 9);

/// The distance from the middle of an arrow's text line to its start. The label is above the arrow.
const BELOW: i32 = 6;
/// A longer arrow runs vertically for most of its way.
const FAR: i32 = 150;
/// The drawn length of the wait of a message that is never delivered.
const GIVEN_UP: i32 = 20;

/// The input of an arrow.
pub struct Arrow<'a> {
    /// The message.
    pub journey: &'a Journey,
    /// The y position of its start.
    pub y: i32,
    /// Whether the arrow represents several messages.
    pub many: bool,
    /// The number of messages drawn before it.
    pub nth: usize,
    /// The hover text.
    pub title: &'a str,
}

/// Draws one message.
pub fn draw(
    drawing: &mut Drawing,
    history: &History,
    lanes: &HostLanes,
    axis: &Axis,
    arrow: &Arrow<'_>,
) {
    let Arrow { journey, y, many, nth, title } = *arrow;
    let Some(ends) = lanes.ends(history, journey.conn) else { return };
    let (from, to) = (at_side(ends, journey.from), at_side(ends, journey.from.other()));
    let (start, end) = (edge(lanes, from, to), edge(lanes, to, from));
    let y = y + BELOW;
    let beside = (nth as i32 % WAITING.1 - WAITING.1 / 2) * WAITING.0;
    let middle = (start + end) / 2 + beside;
    let mut way = vec![spot(start, y)];
    let far = journey.arrival.at().map(|at| axis.y(at)).filter(|end| end - y > FAR);
    if let (None, Some(end)) = (journey.held, far) {
        // A diagonal line over half the page would cross many other elements.
        way.extend([spot(middle, y + 6), spot(middle, end - 12)]);
    }
    if let Some(held) = journey.held {
        let waits = y + 6;
        let on = axis.y(held).max(waits + 6);
        // For a lost message, the full wait is not informative.
        let on = if journey.arrival == Arrival::Lost { on.min(waits + GIVEN_UP) } else { on };
        way.extend([spot(middle, waits), spot(middle, on)]);
    }
    let last = way[way.len() - 1];
    let stops = match journey.arrival.at() {
        Some(at) => spot(end, axis.y(at).max(last.y)),
        None if journey.held.is_some() => last,
        None => spot(middle, y + 8),
    };
    way.push(stops);
    let many = if many { "many " } else { "" };
    let class = format!("message {many}{} {}", colour(history, journey.conn), fate(journey));
    drawing.group(&class, title, |parts| {
        parts.path(&way, "hover");
        parts.path(&way, "way");
        match journey.arrival {
            Arrival::Lost => parts.cross(stops, 5, "cross"),
            _ => head(parts, way[way.len() - 2], stops),
        }
    });
}

/// Draws one arrow for several messages with the same fate.
pub fn draw_many(
    drawing: &mut Drawing,
    history: &History,
    lanes: &HostLanes,
    journey: &Journey,
    y: i32,
) {
    let Some(ends) = lanes.ends(history, journey.conn) else { return };
    let (from, to) = (at_side(ends, journey.from), at_side(ends, journey.from.other()));
    let lost = journey.arrival == Arrival::Lost;
    let (start, end) = (edge(lanes, from, to), edge(lanes, to, from));
    let (start, end) =
        (spot(start, y + BELOW), spot(if lost { (start + end) / 2 } else { end }, y + BELOW));
    let class = format!("message many {} {}", colour(history, journey.conn), fate(journey));
    drawing.group(&class, "", |parts| {
        parts.path(&[start, end], "way");
        if lost { parts.cross(end, 5, "cross") } else { head(parts, start, end) }
    });
}

/// Returns the fate of a message, as the classes that style it.
pub fn fate(journey: &Journey) -> &'static str {
    match (journey.arrival, journey.held) {
        (Arrival::InTime(_), None) => "delivered",
        (Arrival::InTime(_), Some(_)) => "waited",
        (Arrival::Late(_), _) => "late",
        (Arrival::Lost, None) => "lost",
        (Arrival::Lost, Some(_)) => "waited lost",
    }
}

fn edge(lanes: &HostLanes, lane: Lane, other: Lane) -> i32 {
    if lane < other { lanes.x(lane) + OFF } else { lanes.x(lane) - OFF }
}

/// Draws the head of an arrow from one point to another.
fn head(drawing: &mut Drawing, from: PixelPoint, to: PixelPoint) {
    let (dx, dy) = (f64::from(to.x - from.x), f64::from(to.y - from.y));
    let length = dx.hypot(dy).max(1.0);
    let (ux, uy) = (dx / length, dy / length);
    let corner = |along: f64, across: f64| {
        spot(
            (f64::from(to.x) - ux * along - uy * across).round() as i32,
            (f64::from(to.y) - uy * along + ux * across).round() as i32,
        )
    };
    drawing.surface(&[to, corner(9.0, 4.0), corner(9.0, -4.0)], "head");
}
