//! Charts, and the page around them: one self-contained HTML file that someone who did not measure can read.
//!
//! A chart is a function of its [`Layout`]; [`figure`] draws it once for a wide window and once for a phone, and
//! the style sheet shows the one that fits, so text is never scaled down. A chart that has nothing to show is
//! `Err(why)`, and the page says why in its place.
//!
//! In SVG every element is closed (`rect {}`, never `rect;`), because maud writes `;` elements without an end.

pub mod bars;
pub mod lanes;
pub mod lines;
pub mod number;
mod scale;
pub mod table;

use maud::{DOCTYPE, Markup, PreEscaped, Render, html};
pub use scale::Scale;

const STYLE: &str = include_str!("style.css");
/// The style of charts, for a picture in a file of its own.
pub const CHART_STYLE: &str = include_str!("chart.css");

/// A chart, or the sentence that stands in its place.
pub type Chart = Result<Markup, String>;

/// The longest name that is drawn in full.
const NAME_CHARS: usize = 24;
/// Width that a character of a label takes at most on average, in user units at 13 px.
const CHAR_WIDTH: f64 = 7.3;

/// A page of this style.
pub fn page(title: &str, main: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(CHART_STYLE)) (PreEscaped(STYLE)) }
            }
            body { main { (main) } }
        }
    };
    // Names may hold control characters, which no HTML or SVG may.
    page.into_string().replace(
        |char: char| char.is_control() && char != '\n' && char != '\t',
        "\u{fffd}",
    )
}

/// Figures in large type, each with what it is and a detail below it.
pub fn tiles<'a>(tiles: impl IntoIterator<Item = (&'a str, &'a str, &'a str)>) -> Markup {
    html! {
        dl.tiles {
            @for (figure, what, detail) in tiles {
                div {
                    dt { (what) }
                    dd.figure { (figure) }
                    @if !detail.is_empty() { dd.detail { (detail) } }
                }
            }
        }
    }
}

/// A part of a page: a chart with its caption, or why there is none.
pub fn section(title: &str, caption: &str, chart: Chart) -> Markup {
    html! {
        section.drawn {
            h2 { (title) }
            @match chart {
                Ok(chart) => { p.caption { (caption) } (chart) }
                Err(why) => p.left-out { (why) },
            }
        }
    }
}

/// For which window a chart is drawn.
#[derive(Clone, Copy, PartialEq)]
pub enum Layout {
    /// For a page of 880 pixels or more.
    Wide,
    /// For a phone.
    Narrow,
}

impl Layout {
    /// Width in user units; one is one CSS pixel at the width the page was designed for.
    pub fn width(self) -> f64 {
        match self {
            Layout::Wide => 880.0,
            Layout::Narrow => 350.0,
        }
    }

    /// Whether it is the phone's.
    pub fn narrow(self) -> bool {
        self == Layout::Narrow
    }
}

/// A coordinate or length as written into SVG: one decimal, and never anything but a number.
pub struct Px(pub f64);

impl Render for Px {
    fn render_to(&self, buffer: &mut String) {
        let value = if self.0.is_finite() {
            self.0.clamp(-1e5, 1e5)
        } else {
            0.0
        };
        let tenths = (value * 10.0).round() / 10.0;
        // Adding zero turns -0 into 0.
        buffer.push_str(&(tenths + 0.0).to_string());
    }
}

/// The wide and the narrow drawing of one chart. `draw` gives its height and contents.
pub fn figure(label: &str, description: &str, draw: impl Fn(Layout) -> (f64, Markup)) -> Markup {
    html! {
        @for (layout, class) in [(Layout::Wide, "chart wide"), (Layout::Narrow, "chart narrow")] {
            @let (height, drawing) = draw(layout);
            svg class=(class) role="img" aria-label=(label)
                viewBox={ "0 0 " (Px(layout.width())) " " (Px(height)) } {
                desc { (description) }
                (drawing)
            }
        }
    }
}

/// How a strategy looks in every chart: colour, mark and dash by its place in the run.
///
/// Six hues that colour-blind readers can tell apart, six marks, two dashes: twelve looks, of which no two share
/// both colour and mark.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Look(pub usize);

impl Look {
    /// Different colours.
    pub const HUES: usize = 6;

    /// Classes that set the colour and the dash.
    pub fn class(self) -> String {
        let dash = if (self.0 / Self::HUES) % 2 == 1 {
            " dashed"
        } else {
            ""
        };
        format!("s{}{dash}", self.0 % Self::HUES)
    }

    /// The mark around a point; `open` is drawn as an outline.
    pub fn mark(self, x: f64, y: f64, open: bool, tip: &str) -> Markup {
        let class = if open { "mark open" } else { "mark" };
        let shape = (self.0 + self.0 / Self::HUES * 3) % Self::HUES;
        let corners: &[(f64, f64)] = match shape {
            0 => &[],
            1 => &[(-4.0, -4.0), (4.0, -4.0), (4.0, 4.0), (-4.0, 4.0)],
            2 => &[(0.0, -5.2), (5.0, 3.8), (-5.0, 3.8)],
            3 => &[(0.0, -5.6), (5.0, 0.0), (0.0, 5.6), (-5.0, 0.0)],
            4 => &[(0.0, 5.2), (5.0, -3.8), (-5.0, -3.8)],
            _ => &[
                (-1.7, -5.0),
                (1.7, -5.0),
                (1.7, -1.7),
                (5.0, -1.7),
                (5.0, 1.7),
                (1.7, 1.7),
                (1.7, 5.0),
                (-1.7, 5.0),
                (-1.7, 1.7),
                (-5.0, 1.7),
                (-5.0, -1.7),
                (-1.7, -1.7),
            ],
        };
        html! {
            @if corners.is_empty() {
                circle class=(class) cx=(Px(x)) cy=(Px(y)) r="4.2" { title { (tip) } }
            } @else {
                polygon class=(class) points=(points(corners.iter().map(|(dx, dy)| (x + dx, y + dy)))) {
                    title { (tip) }
                }
            }
        }
    }
}

/// The list of names with their colours and marks that stands above a chart.
pub fn legend<'a>(entries: impl IntoIterator<Item = (Look, &'a str)>) -> Markup {
    html! {
        ul.legend {
            @for (look, name) in entries {
                li {
                    svg.swatch aria-hidden="true" viewBox="0 0 30 14" {
                        g class=(look.class()) {
                            path.line d="M1 7H29" {}
                            (look.mark(15.0, 7.0, false, name))
                        }
                    }
                    (name)
                }
            }
        }
    }
}

/// Corners as the value of `points`.
pub fn points(corners: impl IntoIterator<Item = (f64, f64)>) -> String {
    let mut text = String::new();
    for (x, y) in corners {
        if !text.is_empty() {
            text.push(' ');
        }
        Px(x).render_to(&mut text);
        text.push(',');
        Px(y).render_to(&mut text);
    }
    text
}

/// A name that fits the space kept for names.
pub fn short(name: &str) -> String {
    match name.chars().count() > NAME_CHARS {
        true => name.chars().take(NAME_CHARS - 1).chain(['…']).collect(),
        false => name.to_owned(),
    }
}

/// Width to keep for the longest of these labels.
pub fn label_width<'a>(labels: impl IntoIterator<Item = &'a str>) -> f64 {
    let longest = labels
        .into_iter()
        .map(|label| label.chars().count())
        .max()
        .unwrap_or(0);
    longest as f64 * CHAR_WIDTH + 12.0
}

/// A horizontal axis below a drawing: ticks with text, and what the figures are, under their right end.
pub fn axis_below(scale: &Scale, top: f64, bottom: f64, title: &str) -> Markup {
    html! {
        @for tick in scale.ticks() {
            @let x = scale.at(*tick);
            line.grid x1=(Px(x)) x2=(Px(x)) y1=(Px(top)) y2=(Px(bottom)) {}
            // At the very left there is no room for the half of a centred text.
            @let anchor = if x < 4.0 { "start" } else { "middle" };
            text.tick x=(Px(x)) y=(Px(bottom + 16.0)) text-anchor=(anchor) { (scale.text(*tick)) }
        }
        text.axis x=(Px(scale.range[1])) y=(Px(bottom + 33.0)) text-anchor="end" { (title) }
    }
}

/// Height that [`axis_below`] takes.
pub const AXIS_HEIGHT: f64 = 40.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_are_always_numbers() {
        let written = [
            1.26,
            -1.26,
            -0.04,
            0.0,
            12.0,
            f64::NAN,
            f64::INFINITY,
            1e300,
        ]
        .map(|value| Px(value).render().0);
        assert_eq!(written, ["1.3", "-1.3", "0", "0", "12", "0", "0", "100000"]);
    }

    #[test]
    fn twelve_looks_differ_in_colour_or_mark() {
        let looks: std::collections::HashSet<String> = (0..12)
            .map(|index| Look(index).class() + &Look(index).mark(0.0, 0.0, false, "").0)
            .collect();
        assert_eq!(looks.len(), 12);
        let undashed: std::collections::HashSet<String> = (0..12)
            .map(|index| {
                Look(index).class().replace(" dashed", "")
                    + &Look(index).mark(0.0, 0.0, false, "").0
            })
            .collect();
        assert_eq!(undashed.len(), 12, "without the dash too");
    }
}
