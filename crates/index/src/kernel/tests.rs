//! Every level against plain arithmetic, and against each other to the bit.

use std::cell::RefCell;

use proptest::prelude::*;

use super::*;

fn rows_of(values: &[f32], dim: usize, element: Element) -> Vec<u8> {
    assert!(values.len().is_multiple_of(dim));
    values
        .iter()
        .flat_map(|&value| match element {
            Element::F32 => value.to_le_bytes().to_vec(),
            Element::F16 => half::f16::from_f32(value).to_le_bytes().to_vec(),
            Element::Bf16 => half::bf16::from_f32(value).to_le_bytes().to_vec(),
        })
        .collect()
}

fn stored(value: f32, element: Element) -> f64 {
    match element {
        Element::F32 => f64::from(value),
        Element::F16 => half::f16::from_f32(value).to_f64(),
        Element::Bf16 => half::bf16::from_f32(value).to_f64(),
    }
}

proptest! {
    #[test]
    fn distances_are_those_of_plain_arithmetic_however_many_rows_are_asked_for(
        dim in 1usize..100,
        count in 1usize..12,
        seed in any::<u64>(),
    ) {
        let mut draw = {
            let mut state = seed | 1;
            move || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 40) as f32 / (1 << 23) as f32 - 1.0
            }
        };
        let values: Vec<f32> = (0..dim * count).map(|_| draw()).collect();
        let query: Vec<f32> = (0..dim).map(|_| draw()).collect();
        for element in [Element::F32, Element::F16, Element::Bf16] {
            let bytes = rows_of(&values, dim, element);
            let rows = Rows::new(&bytes, dim * element.bytes());
            let ids: Vec<u32> = (0..count as u32).rev().collect();
            let (mut l2, mut ip) = (vec![0.0; count], vec![0.0; count]);
            squared_l2(element, &query, rows, &ids[..], &mut l2);
            dot(element, &query, rows, &ids[..], &mut ip);
            for (at, &id) in ids.iter().enumerate() {
                let row = &values[id as usize * dim..][..dim];
                let exact: f64 = query.iter().zip(row)
                    .map(|(&q, &r)| (f64::from(q) - stored(r, element)).powi(2)).sum();
                prop_assert!((f64::from(l2[at]) - exact).abs() <= 1e-5 * (1.0 + exact));
                let exact: f64 = query.iter().zip(row)
                    .map(|(&q, &r)| f64::from(q) * stored(r, element)).sum();
                prop_assert!((f64::from(ip[at]) - exact).abs() <= 1e-5 * dim as f64);
                // One row alone, and in a span.
                let mut one = [0.0];
                squared_l2(element, &query, rows, &[id][..], &mut one);
                prop_assert_eq!(one[0].to_bits(), l2[at].to_bits());
                let span = Span { start: id as usize, end: id as usize + 1 };
                dot(element, &query, rows, span, &mut one);
                prop_assert_eq!(one[0].to_bits(), ip[at].to_bits());
            }
        }
    }
}

/// Rows that were offered, with their distances.
#[derive(Default)]
struct Offered {
    rows: Vec<(usize, f32)>,
    bound: f32,
}

impl Sink for Offered {
    fn offer(&mut self, first: usize, which: u16, distances: &[f32; 16]) -> f32 {
        let lanes = (0..16).filter(|lane| which >> lane & 1 == 1);
        self.rows
            .extend(lanes.map(|lane| (first + lane, distances[lane])));
        self.bound
    }
}

/// `rows` of `cells` bytes-wide components in blocks, and slack of noise.
fn blocks_of(rows: &[Vec<u8>], cell: usize) -> Vec<u8> {
    let mut codes = Vec::new();
    for block in rows.chunks(BLOCK) {
        for component in 0..block[0].len() / cell {
            for row in block {
                codes.extend_from_slice(&row[component * cell..][..cell]);
            }
        }
    }
    codes.extend([0xff; SLACK]);
    codes
}

/// All rows' distances, from the kernel without a bound; and that a bound leaves those within it.
fn all_distances(
    count: usize,
    share: f32,
    scan: impl Fn(f32, &mut Offered),
) -> Result<Vec<f32>, TestCaseError> {
    let mut all = Offered {
        rows: Vec::new(),
        bound: f32::INFINITY,
    };
    scan(f32::INFINITY, &mut all);
    prop_assert!(all.rows.iter().map(|row| row.0).eq(0..count));
    let distances: Vec<f32> = all.rows.iter().map(|row| row.1).collect();
    let mut sorted = distances.clone();
    sorted.sort_by(f32::total_cmp);
    let bound = sorted[(share * (count - 1) as f32) as usize];
    let mut some = Offered {
        rows: Vec::new(),
        bound,
    };
    scan(bound, &mut some);
    all.rows.retain(|row| row.1 <= bound);
    prop_assert_eq!(some.rows, all.rows);
    Ok(distances)
}

proptest! {
    #[test]
    fn blocks_give_the_distances_of_plain_arithmetic_and_a_bound_leaves_those_within_it(
        dim in 1usize..70,
        count in 1usize..200,
        share in 0f32..1.0,
        seed in any::<u64>(),
    ) {
        let mut draw = draws(seed);
        let query: Vec<f32> = (0..dim).map(|_| draw()).collect();
        let scales: Vec<f32> = (0..dim).map(|_| draw().abs() / 100.0).collect();
        for cell in [Cell::F32, Cell::F16, Cell::Bf16, Cell::U8] {
            let values: Vec<f32> = (0..dim * count).map(|_| match cell {
                Cell::U8 => (draw() * 127.0 + 128.0).floor(),
                _ => half::bf16::from_f32(draw() / 4.0).to_f32(),
            }).collect();
            let bytes = |value: f32| match cell {
                Cell::F32 => value.to_ne_bytes().to_vec(),
                Cell::F16 => half::f16::from_f32(value).to_ne_bytes().to_vec(),
                Cell::Bf16 => half::bf16::from_f32(value).to_ne_bytes().to_vec(),
                Cell::U8 => vec![value as u8],
            };
            let rows: Vec<Vec<u8>> = values.chunks(dim)
                .map(|row| row.iter().flat_map(|&value| bytes(value)).collect())
                .collect();
            let codes = blocks_of(&rows, cell.bytes());
            let list = List { codes: &codes, rows: count };
            for form in [Form::SquaredL2, Form::ScaledL2(&scales), Form::Product { start: 0.5 }] {
                let found = all_distances(count, share, |bound, sink| {
                    scan(cell, form, &query, list, bound, sink);
                })?;
                for (row, found) in values.chunks(dim).zip(found) {
                    let (mut exact, mut size) = (0.0, 1.0);
                    for ((&q, &s), &x) in query.iter().zip(&scales).zip(row) {
                        let (q, s, x) = (f64::from(q), f64::from(s), f64::from(x));
                        let term = match form {
                            Form::SquaredL2 => (q - x).powi(2),
                            Form::ScaledL2(_) => (q - s * x).powi(2),
                            Form::Product { .. } => -q * x,
                        };
                        exact += term;
                        size += term.abs();
                    }
                    if let Form::Product { start } = form {
                        exact += f64::from(start);
                    }
                    // (An f16 cannot hold the smallest values of a bf16.)
                    prop_assert!((f64::from(found) - exact).abs() <= 1e-5 * size, "{cell:?} {form:?} {found} {exact}");
                }
            }
        }
    }

    #[test]
    fn codes_give_the_sums_of_their_entries_and_a_bound_leaves_those_within_it(
        m in prop_oneof![1usize..40, 60usize..70, Just(300)],
        part in 1usize..4,
        count in 1usize..200,
        share in 0f32..1.0,
        shift in prop_oneof![Just(0.0f32), -100f32..100.0],
        seed in any::<u64>(),
    ) {
        let mut draw = draws(seed);
        let query: Vec<f32> = (0..m * part).map(|_| draw() + shift).collect();
        for bits in [Bits::Four, Bits::Eight] {
            let entries = bits.entries();
            let values: Vec<f32> = (0..m * part * entries).map(|_| draw()).collect();
            let codes: Vec<Vec<usize>> = (0..count)
                .map(|_| (0..m).map(|_| (draw().abs() * entries as f32) as usize % entries).collect())
                .collect();
            let rows: Vec<Vec<u8>> = codes.iter().map(|codes| match bits {
                Bits::Four => codes.chunks(2)
                    .map(|pair| (pair[0] | pair.get(1).unwrap_or(&0) << 4) as u8).collect(),
                Bits::Eight => codes.iter().map(|&code| code as u8).collect(),
            }).collect();
            prop_assert_eq!(rows[0].len(), bits.row_bytes(m));
            let blocks = blocks_of(&rows, 1);
            let list = List { codes: &blocks, rows: count };
            for entry in [Entry::SquaredL2, Entry::Product] {
                let codebook = Codebook { bits, m, values: &values };
                // The same tables serve lists that start elsewhere, in any order.
                let tables = RefCell::new(Tables::default());
                tables.borrow_mut().fill(entry, &query, codebook);
                for start in [3.0, 0.0, -2.0, 7.5] {
                    all_distances(count, share, |bound, sink| {
                        scan_codes(bits, &mut tables.borrow_mut(), start, list, bound, sink);
                    })?;
                }
                let found = all_distances(count, share, |bound, sink| {
                    scan_codes(bits, &mut tables.borrow_mut(), 0.25, list, bound, sink);
                })?;
                for (codes, found) in codes.iter().zip(found) {
                    let (mut exact, mut size) = (0.25, 1.0);
                    for (table, &code) in codes.iter().enumerate() {
                        for component in 0..part {
                            let q = f64::from(query[table * part + component]);
                            let y = f64::from(values[(table * part + component) * entries + code]);
                            let term = match entry {
                                Entry::SquaredL2 => (q - y).powi(2),
                                Entry::Product => -q * y,
                            };
                            exact += term;
                            size += term.abs();
                        }
                    }
                    prop_assert!((f64::from(found) - exact).abs() <= 1e-5 * size, "{found} {exact}");
                }
            }
        }
    }
}

#[test]
#[should_panic(expected = "a list without slack")]
fn a_list_that_is_shorter_than_it_says_is_refused() {
    let codes = [0; 4 * 16 + SLACK - 1];
    let list = List {
        codes: &codes,
        rows: 1,
    };
    scan(
        Cell::F32,
        Form::SquaredL2,
        &[0.0; 16],
        list,
        1.0,
        &mut Offered::default(),
    );
}

#[test]
#[should_panic(expected = "a list without slack")]
fn a_list_of_codes_that_is_shorter_than_it_says_is_refused() {
    let mut tables = Tables::default();
    let codebook = Codebook {
        bits: Bits::Four,
        m: 4,
        values: &[0.0; 64],
    };
    tables.fill(Entry::SquaredL2, &[0.0; 4], codebook);
    let list = List {
        codes: &[0; 5 + SLACK],
        rows: 3,
    };
    scan_codes(
        Bits::Four,
        &mut tables,
        0.0,
        list,
        1.0,
        &mut Offered::default(),
    );
}

/// Numbers in -1..1.
fn draws(seed: u64) -> impl FnMut() -> f32 {
    let mut state = seed | 1;
    move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    }
}

#[test]
#[should_panic(expected = "no such row")]
fn a_row_that_is_not_there_is_refused() {
    let bytes = [0; 64];
    let mut out = [0.0];
    squared_l2(
        Element::F32,
        &[0.0; 16],
        Rows::new(&bytes, 64),
        &[1][..],
        &mut out,
    );
}
