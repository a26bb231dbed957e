//! Rows of one bar each.

use maud::{Markup, html};

use crate::number::ABSENT;
use crate::{Layout, Px, label_width, short};

/// Rows of one bar each: the name beside the bar, or above it where there is no room beside.
pub struct Rows {
    /// For which window.
    pub layout: Layout,
    /// Left and right end of the bars.
    pub plot: [f64; 2],
    height: f64,
    count: usize,
}

impl Rows {
    /// `side` is kept at the right for figures in the wide layout; `tall` is a row's height without its name.
    pub fn new(layout: Layout, names: &[&str], side: f64, tall: f64) -> Self {
        let width = layout.width();
        let names: Vec<String> = names.iter().map(|name| short(name)).collect();
        let (plot, height) = match layout {
            Layout::Wide => (
                [label_width(names.iter().map(String::as_str)), width - side],
                tall + 12.0,
            ),
            Layout::Narrow => ([0.0, width - 4.0], tall + 26.0),
        };
        Self {
            layout,
            plot,
            height,
            count: names.len(),
        }
    }

    /// Where the last row ends.
    pub fn bottom(&self) -> f64 {
        self.count as f64 * self.height + 4.0
    }

    /// Top of a row's bar.
    pub fn bar(&self, index: usize) -> f64 {
        index as f64 * self.height + if self.layout.narrow() { 24.0 } else { 6.0 }
    }

    /// The row's name.
    pub fn name(&self, index: usize, name: &str) -> Markup {
        let up = if self.layout.narrow() { -6.0 } else { 11.0 };
        html! {
            text.name x="0" y=(Px(self.bar(index) + up)) { (short(name)) title { (name) } }
        }
    }

    /// A figure of the row that ends at `x`.
    pub fn value(&self, index: usize, x: f64, figure: &str) -> Markup {
        let up = if self.layout.narrow() { -6.0 } else { 11.0 };
        html! {
            @if figure != ABSENT {
                text.value x=(Px(x)) y=(Px(self.bar(index) + up)) text-anchor="end" { (figure) }
            }
        }
    }
}
