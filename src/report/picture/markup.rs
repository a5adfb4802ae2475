//! Text as a page may hold it, and the few elements that a drawing is made of.

use std::fmt::Write;

/// Text as it may stand in a page, also in the value of an attribute. What a page cannot hold is replaced by a mark.
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

/// A place in the drawing, in pixels: across, and down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PixelPoint {
    /// Across.
    pub x: i32,
    /// Down.
    pub y: i32,
}

/// A place in the drawing.
pub fn spot(x: i32, y: i32) -> PixelPoint {
    PixelPoint { x, y }
}

/// On which side of its spot a text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lean {
    /// It begins there.
    Begins,
    /// Its middle is there.
    Centred,
    /// It ends there.
    Ends,
}

impl Lean {
    fn class(self) -> &'static str {
        match self {
            Lean::Begins => "",
            Lean::Centred => " mid",
            Lean::Ends => " end",
        }
    }
}

/// A drawing as it grows.
#[derive(Debug, Default)]
pub struct Drawing(String);

impl Drawing {
    /// Something that is marked up already.
    pub fn raw(&mut self, markup: &str) {
        self.0 += markup;
    }

    /// Parts that belong together, with the text that hovering shows.
    pub fn group(&mut self, class: &str, title: &str, parts: impl FnOnce(&mut Self)) {
        self.push(format_args!("<g class=\"{class}\">"));
        if !title.is_empty() {
            self.push(format_args!("<title>{}</title>", escaped(title)));
        }
        parts(self);
        self.0 += "</g>\n";
    }

    /// A text.
    pub fn text(&mut self, at: PixelPoint, lean: Lean, class: &str, text: &str) {
        let (PixelPoint { x, y }, lean) = (at, lean.class());
        let class = format!("{class}{lean}");
        let class = class.trim();
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        self.push(format_args!("<text x=\"{x}\" y=\"{y}\"{class}>{}</text>", escaped(text)));
    }

    /// A rectangle between two corners; at least a pixel high.
    pub fn rect(&mut self, from: PixelPoint, to: PixelPoint, class: &str) {
        let (width, height) = ((to.x - from.x).max(1), (to.y - from.y).max(1));
        let (x, y) = (from.x, from.y);
        self.push(format_args!(
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" class=\"{class}\"/>"
        ));
    }

    /// A line through these spots.
    pub fn path(&mut self, spots: &[PixelPoint], class: &str) {
        self.push(format_args!("<path d=\"{}\" class=\"{class}\"/>", way(spots)));
    }

    /// A surface with these corners.
    pub fn surface(&mut self, corners: &[PixelPoint], class: &str) {
        self.push(format_args!("<path d=\"{}Z\" class=\"{class}\"/>", way(corners)));
    }

    /// A disc.
    pub fn disc(&mut self, at: PixelPoint, radius: i32, class: &str) {
        let PixelPoint { x, y } = at;
        self.push(format_args!("<circle cx=\"{x}\" cy=\"{y}\" r=\"{radius}\" class=\"{class}\"/>"));
    }

    /// A cross.
    pub fn cross(&mut self, at: PixelPoint, arm: i32, class: &str) {
        let PixelPoint { x, y } = at;
        let (left, right, top, bottom) = (x - arm, x + arm, y - arm, y + arm);
        self.push(format_args!("<path d=\"M{left} {top}L{right} {bottom}M{left} {bottom}L{right} {top}\" class=\"{class}\"/>"));
    }

    /// Everything drawn so far.
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
    fn what_a_page_would_read_as_markup_is_escaped() {
        assert_eq!(escaped("a < b & \"c\" > 'd'"), "a &lt; b &amp; &quot;c&quot; &gt; &#39;d&#39;");
        assert_eq!(escaped("one\ttwo\u{7}"), "one two\u{fffd}");
    }

    #[test]
    fn a_group_carries_its_title() {
        let mut drawing = Drawing::default();
        drawing.group("note", "5 < 6", |parts| parts.text(spot(1, 2), Lean::Ends, "", "x"));
        let drawn = "<g class=\"note\"><title>5 &lt; 6</title><text x=\"1\" y=\"2\" class=\"end\">x</text></g>\n";
        assert_eq!(drawing.markup(), drawn);
    }
}
