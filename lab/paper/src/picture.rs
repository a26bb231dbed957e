//! Gain over locality, and over size and skew, as pictures.

use std::ops::Range;

use anyhow::{Result, anyhow};
use plotters::prelude::*;

use crate::runs::{ASKED, COUNTS, Case, Results, SHARES, SIZED, SIZES, SWEPT, System, topics};

const HEIGHT: u32 = 340;
const PANEL: u32 = 320;
const COLOURS: [RGBColor; 5] = [
    RGBColor(136, 34, 85),
    RGBColor(204, 102, 119),
    RGBColor(51, 117, 187),
    RGBColor(17, 119, 51),
    RGBColor(153, 153, 51),
];

/// Lines of points, each with its name.
struct Panel {
    name: &'static str,
    lines: Vec<(String, Vec<(f64, f64)>)>,
}

/// What is from left to right.
struct Across {
    name: &'static str,
    range: Range<f64>,
    labels: usize,
    text: fn(&f64) -> String,
}

/// Draws gain over the part of queries near a centre, as SVG.
///
/// # Errors
/// If a run is missing.
pub fn locality(results: &Results) -> Result<String> {
    let mut panels = Vec::new();
    for (kind, four_bits, name) in SWEPT {
        let gain = |topics| {
            let case = Case::full(kind, four_bits, topics, 12, System::Ours);
            anyhow::Ok(results.gain(case, System::Ours)?.median)
        };
        let mut lines = Vec::new();
        for count in COUNTS {
            let mut line = vec![(0.0, gain(None)?)];
            for share in SHARES {
                line.push((share * 100.0, gain(Some(topics(share, count)))?));
            }
            let name = match count {
                1 => "1 centre a table".to_owned(),
                _ => format!("{count} centres"),
            };
            lines.push((name, line));
        }
        panels.push(Panel { name, lines });
    }
    let across = Across {
        name: "% of queries near a centre",
        range: 0.0..100.0,
        labels: 5,
        text: |share| format!("{share:.0}"),
    };
    draw(&panels, &across)
}

/// Draws gain over the rows of the tables, as SVG.
///
/// # Errors
/// If a run is missing.
pub fn sizes(results: &Results) -> Result<String> {
    let mut panels = Vec::new();
    for (kind, name) in SIZED {
        let mut lines = Vec::new();
        for (topics, query_skew, asked) in ASKED {
            let mut line = Vec::new();
            for rows in SIZES {
                let case = Case::sized(kind, rows, topics, query_skew);
                line.push((rows.log10(), results.gain(case, System::Ours)?.median));
            }
            lines.push((asked.to_owned(), line));
        }
        panels.push(Panel { name, lines });
    }
    let across = Across {
        name: "rows, times the paper's",
        range: SIZES[0].log10()..0.0,
        labels: 3,
        text: |rows| format!("{:.2}", 10_f64.powf(*rows)),
    };
    draw(&panels, &across)
}

fn draw(panels: &[Panel], across: &Across) -> Result<String> {
    let mut text = String::new();
    {
        let size = (PANEL * panels.len() as u32, HEIGHT);
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        draw_on(panels, across, &area)?;
    }
    Ok(text)
}

fn draw_on<B: DrawingBackend>(
    panels: &[Panel],
    across: &Across,
    area: &DrawingArea<B, plotters::coord::Shift>,
) -> Result<()> {
    let failed = |error: DrawingAreaErrorKind<B::ErrorType>| anyhow!("drawing: {error}");
    area.fill(&WHITE).map_err(failed)?;
    let lines = panels.iter().flat_map(|panel| &panel.lines);
    let points = lines.flat_map(|(_, line)| line);
    let most = points.fold(1.0, |most: f64, point| most.max(point.1));
    let places = area.split_evenly((1, panels.len()));
    for (place, panel) in places.iter().zip(panels) {
        let mut chart = ChartBuilder::on(place)
            .caption(format!("{}: ours to V1", panel.name), ("sans-serif", 15))
            .margin(10)
            .margin_right(24)
            .x_label_area_size(36)
            .y_label_area_size(34)
            .build_cartesian_2d(across.range.clone(), 0.8..(most * 1.05))
            .map_err(failed)?;
        chart
            .configure_mesh()
            .x_desc(across.name)
            .x_labels(across.labels)
            .x_label_formatter(&across.text)
            .y_labels(8)
            .light_line_style(WHITE)
            .draw()
            .map_err(failed)?;
        for ((name, line), colour) in panel.lines.iter().zip(COLOURS) {
            let drawn = LineSeries::new(line.clone(), colour.stroke_width(2));
            chart
                .draw_series(drawn)
                .map_err(failed)?
                .label(name)
                .legend(move |(x, y)| {
                    PathElement::new([(x, y), (x + 14, y)], colour.stroke_width(2))
                });
        }
        // Where no line is.
        let falls = |line: &[(f64, f64)]| match line {
            [(_, first), .., (_, last)] => first > last,
            _ => false,
        };
        let legend = match panel.lines.iter().all(|(_, line)| falls(line)) {
            true => SeriesLabelPosition::UpperRight,
            false => SeriesLabelPosition::UpperLeft,
        };
        chart
            .configure_series_labels()
            .position(legend)
            .label_font(("sans-serif", 12))
            .draw()
            .map_err(failed)?;
    }
    area.present().map_err(failed)
}
