//! Gain over locality, as a picture.

use anyhow::{Result, anyhow};
use plotters::prelude::*;

use crate::runs::{COUNTS, Results, SHARES, SWEPT, System, topics};

const SIZE: (u32, u32) = (960, 340);
const COLOURS: [RGBColor; 4] = [
    RGBColor(136, 34, 85),
    RGBColor(204, 102, 119),
    RGBColor(51, 117, 187),
    RGBColor(17, 119, 51),
];

/// Draws it as SVG.
///
/// # Errors
/// If a run is missing.
pub fn draw(results: &Results) -> Result<String> {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        panels(results, &area)?;
    }
    Ok(text)
}

fn panels<B: DrawingBackend>(
    results: &Results,
    area: &DrawingArea<B, plotters::coord::Shift>,
) -> Result<()> {
    let failed = |error: DrawingAreaErrorKind<B::ErrorType>| anyhow!("drawing: {error}");
    area.fill(&WHITE).map_err(failed)?;
    let mut most: f64 = 1.0;
    let mut lines = Vec::new();
    for (kind, four_bits, _) in SWEPT {
        let mut of_panel = Vec::new();
        for count in COUNTS {
            let mut line = vec![(0.0, results.gain(kind, four_bits, None, System::Ours)?)];
            for share in SHARES {
                let topics = Some(topics(share, count));
                line.push((
                    share * 100.0,
                    results.gain(kind, four_bits, topics, System::Ours)?,
                ));
            }
            most = line.iter().fold(most, |most, point| most.max(point.1));
            of_panel.push(line);
        }
        lines.push(of_panel);
    }
    for ((panel, of_panel), (_, _, name)) in area.split_evenly((1, 3)).iter().zip(lines).zip(SWEPT)
    {
        let mut chart = ChartBuilder::on(panel)
            .caption(format!("{name}: ours to V1"), ("sans-serif", 15))
            .margin(10)
            .margin_right(24)
            .x_label_area_size(36)
            .y_label_area_size(34)
            .build_cartesian_2d(0.0..100.0, 0.8..(most * 1.05))
            .map_err(failed)?;
        chart
            .configure_mesh()
            .x_desc("% of queries near a centre")
            .x_labels(5)
            .x_label_formatter(&|share| format!("{share:.0}"))
            .y_labels(8)
            .light_line_style(WHITE)
            .draw()
            .map_err(failed)?;
        for ((line, count), colour) in of_panel.into_iter().zip(COUNTS).zip(COLOURS) {
            let drawn = LineSeries::new(line.clone(), colour.stroke_width(2));
            let label = match count {
                1 => "1 centre a table".to_owned(),
                _ => format!("{count} centres"),
            };
            chart
                .draw_series(drawn)
                .map_err(failed)?
                .label(label)
                .legend(move |(x, y)| {
                    PathElement::new([(x, y), (x + 14, y)], colour.stroke_width(2))
                });
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .label_font(("sans-serif", 12))
            .draw()
            .map_err(failed)?;
    }
    area.present().map_err(failed)
}
