//! The tables, as Markdown.

use std::fmt::Write as _;

use crate::judge::{Change, changes};
use crate::kept::{Kept, Row, Run};
use crate::list::{List, Rule};
use crate::suite::cells;
use crate::variant::Variant;

/// All rules, what can be done to them, and all scenarios.
pub(crate) fn rules(list: &List) -> String {
    let mut text = String::from("| rule | where | variants | constants | since | says |\n");
    text += "| --- | --- | --- | --- | --- | --- |\n";
    for (number, rule) in list.rules.iter().enumerate() {
        let Rule {
            name,
            says,
            since,
            consts,
            place,
            ..
        } = rule;
        let variants = Variant::of(number, rule);
        let variants: Vec<String> = variants.into_iter().map(|variant| variant.name).collect();
        let (variants, consts) = (variants.join(", "), consts.join(", "));
        let place = place.name();
        let _ = writeln!(
            text,
            "| {name} | {place} | {variants} | {consts} | {since} | {says} |"
        );
    }
    text += "\nCells:\n\n";
    for cell in cells() {
        let _ = writeln!(text, "* {}", cell.name);
    }
    text
}

fn most(changes: &[&Change]) -> String {
    let most = changes.first().map(|change| {
        let factor = change.worse.max(1.0 / change.worse);
        format!("{factor:.2} ({}: {})", change.cell, change.figure)
    });
    format!("{} | {}", changes.len(), most.unwrap_or_default())
}

/// What a variant changes, as a row.
fn effect(shipped: &[Row], variant: &Variant, rows: &[Row]) -> String {
    let same = rows.iter().all(|row| {
        let mut before = shipped.iter();
        before.any(|other| {
            (&other.cell, other.seed, &other.figures) == (&row.cell, row.seed, &row.figures)
        })
    });
    if same {
        return format!("| {} | 0 | no figure differs | 0 | |", variant.name);
    }
    let changes = changes(shipped, rows);
    let harms: Vec<&Change> = changes.iter().filter(|change| change.is_harm()).collect();
    let gains: Vec<&Change> = changes
        .iter()
        .rev()
        .filter(|change| change.is_gain())
        .collect();
    format!("| {} | {} | {} |", variant.name, most(&harms), most(&gains))
}

/// What each of these variants changes, of those that were run.
pub(crate) fn effects(kept: &Kept, variants: &[Variant]) -> anyhow::Result<String> {
    let shipped = kept.shipped()?;
    let mut text = String::from("| without, or scaled | worse | most, by | better | most, by |\n");
    text += "| --- | --: | --- | --: | --- |\n";
    for variant in variants {
        let _ = match kept.read(variant)? {
            None => continue,
            Some(Run::Failed(why)) => writeln!(text, "| {} | fails | {why} | | |", variant.name),
            Some(Run::Rows(rows)) => writeln!(text, "{}", effect(&shipped, variant, &rows)),
        };
    }
    text += &turns(&shipped);
    Ok(text)
}

/// Where load alternates, beside the same with tables that stay where they are.
fn turns(shipped: &[Row]) -> String {
    let mut text =
        String::from("\n| seed 1 | answers/s | p99 us | p999 us |\n| --- | --: | --: | --: |\n");
    for row in shipped
        .iter()
        .filter(|row| row.seed == 1 && row.cell.starts_with("turns"))
    {
        let values: Vec<String> = row
            .figures
            .iter()
            .map(|figure| format!("{:.0}", figure.value))
            .collect();
        let _ = writeln!(text, "| {} | {} |", row.cell, values.join(" | "));
    }
    text
}

/// All that a variant changes.
pub(crate) fn detail(kept: &Kept, variant: &Variant) -> anyhow::Result<String> {
    let name = &variant.name;
    let rows = match kept.read(variant)? {
        None => anyhow::bail!("{name} has not been run: chiplet-rules run --together {name:?}"),
        Some(Run::Failed(why)) => return Ok(format!("\n{name}: {why}\n")),
        Some(Run::Rows(rows)) => rows,
    };
    let mut text = format!("\n{name}:\n\n| cell | figure | times as bad |\n| --- | --- | --: |\n");
    for change in changes(&kept.shipped()?, &rows) {
        let _ = writeln!(
            text,
            "| {} | {} | {:.2} |",
            change.cell, change.figure, change.worse
        );
    }
    Ok(text)
}
