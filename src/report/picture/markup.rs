//! Escaped text, and the basic elements of a drawing.

use std::fmt::Write;

/// Escapes text for a page, also for attribute values. Characters that a page cannot contain become
/// U+FFFD.
pub fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\t' => safe.push(' '),
            '\n' => safe.push('\n'),
            c if c.is_control() => safe.push(char::REPLACEMENT_CHARACTER),
            c => safe.push(c),
        }
    }
    safe
}

/// A point in the drawing, in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PixelPoint {
    /// The distance from the left.
    pub x: i32,
    /// The distance from the top.
    pub y: i32,
}

/// Returns a point.
pub fn spot(x: i32, y: i32) -> PixelPoint {
    PixelPoint { x, y }
}

/// The alignment of a text relative to its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alignment {
    /// The text begins at the point.
    Begins,
    /// The text is centred at the point.
    Centred,
    /// The text ends at the point.
    Ends,
}

impl Alignment {
    fn class(self) -> &'static str {
        match self {
            Alignment::Begins => "",
            Alignment::Centred => " mid",
            Alignment::Ends => " end",
        }
    }
}

/// A drawing under construction.
#[derive(Debug, Default)]
pub struct Drawing(String);

impl Drawing {
    /// Adds existing markup.
    pub fn raw(&mut self, markup: &str) {
        self.0 += markup;
    }

    /// Adds a group of elements with a common hover text.
    pub fn group(&mut self, class: &str, title: &str, parts: impl FnOnce(&mut Self)) {
        self.push(format_args!("<g class=\"{class}\">"));
        if !title.is_empty() {
            self.push(format_args!("<title>{}</title>", escaped(title)));
        }
        parts(self);
        self.0 += "</g>\n";
    }

    /// Adds a text.
    pub fn text(&mut self, at: PixelPoint, alignment: Alignment, class: &str, text: &str) {
        let (PixelPoint { x, y }, alignment) = (at, alignment.class());
        let class = format!("{class}{alignment}");
        let class = class.trim();
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        self.push(format_args!("<text x=\"{x}\" y=\"{y}\"{class}>{}</text>", escaped(text)));
    }

    /// Adds a rectangle between two corners, at least one pixel high.
    pub fn rect(&mut self, from: PixelPoint, to: PixelPoint, class: &str) {
        let (width, height) = ((to.x - from.x).max(1), (to.y - from.y).max(1));
        let (x, y) = (from.x, from.y);
        self.push(format_args!(
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" class=\"{class}\"/>"
        ));
    }

    /// Adds a line through these points.
    pub fn path(&mut self, spots: &[PixelPoint], class: &str) {
        self.push(format_args!("<path d=\"{}\" class=\"{class}\"/>", way(spots)));
    }

    /// Adds a filled polygon with these corners.
    pub fn surface(&mut self, corners: &[PixelPoint], class: &str) {
        self.push(format_args!("<path d=\"{}Z\" class=\"{class}\"/>", way(corners)));
    }

    /// Adds a disc.
    pub fn disc(&mut self, at: PixelPoint, radius: i32, class: &str) {
        let PixelPoint { x, y } = at;
        self.push(format_args!("<circle cx=\"{x}\" cy=\"{y}\" r=\"{radius}\" class=\"{class}\"/>"));
    }

    /// Adds a cross.
    pub fn cross(&mut self, at: PixelPoint, arm: i32, class: &str) {
        let PixelPoint { x, y } = at;
        let (left, right, top, bottom) = (x - arm, x + arm, y - arm, y + arm);
        self.push(format_args!("<path d=\"M{left} {top}L{right} {bottom}M{left} {bottom}L{right} {top}\" class=\"{class}\"/>"));
    }

    /// Returns everything drawn so far.
    pub fn markup(self) -> String {
        self.0
    }

    fn push(&mut self, parts: std::fmt::Arguments<'_>) {
        self.0.write_fmt(parts).expect("a text takes all that is written to it");
    }
}

fn way(spots: &[PixelPoint]) -> String {
    let points: Vec<_> = spots.iter().map(|PixelPoint { x, y }| format!("{x} {y}")).collect();
    format!("M{}", points.join("L"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_characters_are_escaped() {
        assert_eq!(escaped("a < b & \"c\" > 'd'"), "a &lt; b &amp; &quot;c&quot; &gt; &#39;d&#39;");
        assert_eq!(escaped("one\ttwo\u{7}"), "one two\u{fffd}");
    }

    #[test]
    fn a_group_carries_its_title() {
        let mut drawing = Drawing::default();
        drawing.group("note", "5 < 6", |parts| parts.text(spot(1, 2), Alignment::Ends, "", "x"));
        let drawn = "<g class=\"note\"><title>5 &lt; 6</title><text x=\"1\" y=\"2\" class=\"end\">x</text></g>\n";
        assert_eq!(drawing.markup(), drawn);
    }
}
