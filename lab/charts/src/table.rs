//! One table for a page and for a terminal.

use maud::{Markup, html};

/// Rows of figures, each named by its first cell.
#[derive(Clone, Debug)]
pub struct Grid {
    /// What it shows.
    pub caption: String,
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Grid {
    /// Without rows. The first column is of names.
    pub fn new<C: Into<String>>(
        caption: impl Into<String>,
        columns: impl IntoIterator<Item = C>,
    ) -> Self {
        Self {
            caption: caption.into(),
            columns: columns.into_iter().map(Into::into).collect(),
            rows: Vec::new(),
        }
    }

    /// With these rows, too.
    #[must_use]
    pub fn rows<R: IntoIterator<Item = String>>(
        mut self,
        rows: impl IntoIterator<Item = R>,
    ) -> Self {
        let rows = rows.into_iter().map(|row| row.into_iter().collect());
        self.rows.extend(rows);
        self
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// In a box of its own that scrolls sideways when it is too wide.
    pub fn html(&self) -> Markup {
        let caption = &self.caption;
        html! {
            // Outside the box, so that the title stays where it is when the table scrolls.
            h3 { (caption) }
            div.scroll role="region" tabindex="0" aria-label=(caption) {
                table aria-label=(caption) {
                    thead { tr { @for column in &self.columns { th scope="col" { (column) } } } }
                    tbody {
                        @for row in &self.rows {
                            tr { @for (at, cell) in row.iter().enumerate() { (self.cell(at, cell)) } }
                        }
                    }
                }
            }
        }
    }

    /// Words in place of a figure are set back.
    fn cell(&self, column: usize, cell: &str) -> Markup {
        html! {
            @if column == 0 { th scope="row" { (cell) } }
            @else if is_figure(cell) || !self.has_figures(column) { td { (cell) } }
            @else { td.words { (cell) } }
        }
    }

    fn has_figures(&self, column: usize) -> bool {
        let mut cells = self.rows.iter().filter_map(|row| row.get(column));
        cells.any(|cell| is_figure(cell))
    }

    /// With a line for each row; names to the left, figures to the right.
    pub fn text(&self) -> String {
        let mut out = format!("{}\n", self.caption);
        let all = || std::iter::once(&self.columns).chain(&self.rows);
        let length =
            |row: &Vec<String>, at: usize| row.get(at).map_or(0, |cell| cell.chars().count());
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|at| all().map(|row| length(row, at)).max().unwrap_or(0))
            .collect();
        for row in all() {
            let mut line = String::new();
            for (at, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                line += if at > 0 { "  " } else { "" };
                line += &match at > 0 && self.has_figures(at) {
                    true => format!("{cell:>width$}"),
                    false => format!("{cell:width$}"),
                };
            }
            out += line.trim_end();
            out.push('\n');
        }
        out.replace('\u{a0}', " ")
    }
}

/// Whether a cell is a number, with or without a sign and a unit.
fn is_figure(cell: &str) -> bool {
    let number = cell.trim_start_matches(['-', '+', '<', ' ']);
    number.starts_with(|first: char| first.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid() -> Grid {
        let row = |cells: [&str; 3]| cells.map(str::to_owned);
        let rows = [row(["a", "1,234", "<b>"]), row(["longer", "not told", "c"])];
        Grid::new("Both", ["name", "p50,\u{a0}us", "where"]).rows(rows)
    }

    #[test]
    fn figures_stand_to_the_right_and_names_to_the_left() {
        let text = grid().text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "Both");
        assert_eq!(lines[1], "name     p50, us  where");
        assert_eq!(lines[2], "a          1,234  <b>");
        assert_eq!(lines[3], "longer  not told  c");
    }

    #[test]
    fn on_a_page_words_for_figures_are_set_back_and_text_is_text() {
        let page = grid().html().into_string();
        assert!(page.contains("<td class=\"words\">not told</td>"), "{page}");
        assert!(page.contains("<td>&lt;b&gt;</td>") && page.contains("<td>c</td>"));
    }
}
