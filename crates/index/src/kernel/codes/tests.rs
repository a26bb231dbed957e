//! Sums over codes against plain arithmetic.

use proptest::prelude::*;

use super::super::{Rows, Span};
use super::*;

proptest! {
    #[test]
    fn code_distances_are_exact(
        pairs in proptest::collection::vec((any::<u8>(), any::<u8>(), any::<i8>()), 1..300),
    ) {
        let dim = pairs.len();
        let codes: Vec<u8> = pairs.iter().map(|pair| pair.0).collect();
        let mut row = vec![7; row_bytes(dim)];
        write_row(&codes, 0, &mut row);
        let rows = Rows::new(&row, row_bytes(dim));
        let mut query = CodeQuery::default();
        let mut out = [0.0];
        query.squared_l2(pairs.iter().map(|pair| pair.1));
        query.run(rows, &[0][..], &mut out);
        let exact: i32 = pairs.iter()
            .map(|pair| (i32::from(pair.0) - i32::from(pair.1)).pow(2)).sum();
        prop_assert_eq!(out[0], exact as f32);
        query.weighted(pairs.iter().map(|pair| pair.2));
        query.run(rows, &[0][..], &mut out);
        let exact: i32 = pairs.iter().map(|pair| i32::from(pair.0) * i32::from(pair.2)).sum();
        prop_assert_eq!(out[0], exact as f32);
    }
}

#[test]
fn code_distances_of_the_longest_rows_do_not_wrap() {
    let mut row = vec![0; row_bytes(MAX_DIM)];
    let mut query = CodeQuery::default();
    let mut out = [0.0];
    for farther in [0, i32::MAX] {
        write_row(&vec![255; MAX_DIM], farther, &mut row);
        query.squared_l2(std::iter::repeat_n(0, MAX_DIM));
        query.run(Rows::new(&row, row_bytes(MAX_DIM)), &[0][..], &mut out);
        let exact = MAX_DIM as i64 * 255 * 255 + i64::from(farther);
        assert_eq!(out[0], exact as f32);
    }
}

#[test]
fn code_distances_of_queries_outside_the_codes_are_exact() {
    for dim in [1, 3, 64, 130] {
        let codes = |row: usize| (0..dim).map(move |i| (row * 31 + i * 97) as u8);
        let stride = row_bytes(dim);
        let mut bytes = vec![0; 70 * stride];
        for (row, out) in bytes.chunks_exact_mut(stride).enumerate() {
            write_row(&codes(row).collect::<Vec<_>>(), row as i32, out);
        }
        let mut query = CodeQuery::default();
        // From one digit to three, and beyond them.
        for size in [100, 300, -30_000, 8_000_000, 1 << 40] {
            let component = move |i: usize| size - i as i64 * 5;
            let values = (0..dim).map(move |i| component(i) as f64);
            query.squared_l2_outside(values, 0.25);
            let mut out = vec![0.0; 70];
            query.run(
                Rows::new(&bytes, stride),
                Span { start: 0, end: 70 },
                &mut out,
            );
            for (row, &found) in out.iter().enumerate() {
                let apart = codes(row).enumerate();
                let squares =
                    apart.map(|(i, code)| i128::from(component(i) - i64::from(code)).pow(2));
                let exact = 0.25 * (squares.sum::<i128>() + row as i128) as f64;
                let off = (f64::from(found) - exact).abs();
                assert!(
                    off <= 1e-6 * exact,
                    "{dim}, {size}, row {row}: {found}, {exact}"
                );
            }
        }
    }
}

/// Dimensions of rows that have no room for a scale of their own.
fn without_own() -> impl Strategy<Value = usize> {
    prop_oneof![57..=64_usize, 121..=128_usize, 249..=256_usize]
}

/// Rows of nibbles, with the code of each component.
fn nibbles_of(rows: usize, dim: usize, code: impl Fn(usize, usize) -> u8) -> Vec<u8> {
    let mut bytes = vec![0xff; rows * nibble_bytes(dim)];
    for (row, out) in bytes.chunks_exact_mut(nibble_bytes(dim)).enumerate() {
        let codes: Vec<u8> = (0..dim).map(|i| code(row, i)).collect();
        write_nibbles(&codes, None, out);
    }
    bytes
}

proptest! {
    #[test]
    fn nibble_distances_are_exact(
        parts in without_own().prop_flat_map(|dim| proptest::collection::vec((0u8..16, 0u8..16, -128i16..128, any::<i8>()), dim)),
    ) {
        let dim = parts.len();
        // Seven rows: four at once, and some one by one.
        let code = |row: usize, i: usize| if row.is_multiple_of(2) { parts[i].0 } else { parts[i].1 };
        let bytes = nibbles_of(7, dim, code);
        let rows = Rows::new(&bytes, nibble_bytes(dim));
        let mut query = NibbleQuery::default();
        let mut out = [0.0; 7];
        query.squared_l2(parts.iter().map(|part| f64::from(part.2) / 4.0));
        query.run(rows, Span { start: 0, end: 7 }, &mut out);
        for (row, &found) in out.iter().enumerate() {
            let quarters = parts.iter().enumerate()
                .map(|(i, part)| i32::from(part.2) - 4 * i32::from(code(row, i)));
            prop_assert_eq!(found, quarters.map(|x| x * x).sum::<i32>() as f32 / 16.0);
        }
        // With a component of 127 and few others as large, a weight stands for one.
        query.products(parts.iter().map(|part| f64::from(part.3)));
        query.run(rows, &[6, 5, 4, 3, 2, 1, 0][..], &mut out);
        for (row, &found) in out.iter().rev().enumerate() {
            let products = parts.iter().enumerate()
                .map(|(i, part)| i32::from(part.3) * i32::from(code(row, i)));
            let exact = products.sum::<i32>() as f32;
            let largest = parts.iter().map(|part| i32::from(part.3).abs()).max().unwrap();
            prop_assert!((found - exact).abs() <= dim as f32 * 15.0 * largest as f32 / 250.0);
        }
    }

    #[test]
    fn nibbles_with_their_own_scale_stand_for_multiples_of_it(
        pairs in proptest::collection::vec((0u8..16, -9f32..9.0), 1..300),
        scale in 0.01f32..100.0,
        stands_out in prop_oneof![Just(0.0), Just(1e4_f32)],
    ) {
        let dim = pairs.len();
        prop_assume!(nibbles_have_own(dim));
        let codes: Vec<u8> = pairs.iter().map(|pair| pair.0).collect();
        let mut query: Vec<f64> = pairs.iter().map(|pair| f64::from(pair.1)).collect();
        query[dim / 2] += f64::from(stands_out);
        let row: Vec<f64> = codes.iter()
            .map(|&code| f64::from(scale) * (f64::from(code) - f64::from(MIDDLE))).collect();
        let squares: f64 = row.iter().map(|x| x * x).sum();
        let product = squares / f64::from(scale);
        let written = |own| {
            let mut bytes = vec![0; 5 * nibble_bytes(dim)];
            for out in bytes.chunks_exact_mut(nibble_bytes(dim)) {
                write_nibbles(&codes, Some(own), out);
            }
            bytes
        };
        let exact: f64 = query.iter().zip(&row).map(|(q, x)| q * x).sum();
        let length: f64 = row.iter().map(|x| x.abs()).sum();
        // The query's weights are off by half of one.
        let unit = query.iter().fold(0.0_f64, |most, q| most.max(q.abs())) / 127.0;
        let allowed = length * unit * 0.51 + 1e-4 * exact.abs() + 1e-4;
        let mut nibbles = NibbleQuery::default();
        let mut out = [0.0; 5];
        let bytes = written(Own::for_products(product, squares));
        let rows = Rows::new(&bytes, nibble_bytes(dim));
        nibbles.products(query.iter().copied());
        nibbles.run(rows, Span { start: 0, end: 5 }, &mut out);
        for found in out {
            prop_assert!((f64::from(found) - exact).abs() <= allowed, "{found} {exact}");
        }
        let bytes = written(Own::for_distances(product, squares));
        let rows = Rows::new(&bytes, nibble_bytes(dim));
        nibbles.squared_l2(query.iter().copied());
        nibbles.run(rows, Span { start: 0, end: 5 }, &mut out);
        let of_query: f64 = query.iter().map(|q| q * q).sum();
        // A scale has 6 bits, which change what is beyond the row itself; a length has 12.
        let rounding = 2.0 * (exact - squares).abs() / 64.0 + squares / 4096.0 + 1e-4 * of_query;
        let exact = of_query + squares - 2.0 * exact;
        for found in out {
            let off = (f64::from(found) - exact).abs();
            prop_assert!(off <= 2.05 * allowed + rounding, "{found} {exact}");
        }
        // From the row itself it is none.
        nibbles.squared_l2(row.iter().copied());
        nibbles.run(rows, Span { start: 0, end: 5 }, &mut out);
        let unit = row.iter().fold(0.0_f64, |most, x| most.max(x.abs())) / 127.0;
        for found in out {
            let off = 2.05 * length * unit * 0.51 + squares / 1000.0;
            prop_assert!(f64::from(found) <= off, "{found} {squares}");
        }
    }
}

#[test]
fn nibble_distances_of_the_longest_rows_do_not_wrap() {
    for (code, quarters) in [(15, -128.0), (0, 127.0), (15, 127.0), (0, -128.0)] {
        let bytes = nibbles_of(1, MAX_DIM, |_, _| code);
        let mut query = NibbleQuery::default();
        query.squared_l2(std::iter::repeat_n(quarters / 4.0, MAX_DIM));
        let mut out = [0.0];
        query.run(Rows::new(&bytes, MAX_DIM / 2), &[0][..], &mut out);
        let apart: f64 = quarters / 4.0 - f64::from(code);
        assert_eq!(out[0], (MAX_DIM as f64 * apart * apart) as f32);
    }
}

#[test]
fn nibble_distances_of_queries_far_outside_the_codes_are_exact() {
    for dim in [57, 64, 122, 256] {
        assert!(!nibbles_have_own(dim));
        let code = |row: usize, i: usize| ((row * 5 + i * 7) % 16) as u8;
        let bytes = nibbles_of(70, dim, code);
        let mut query = NibbleQuery::default();
        // From two digits to three, and beyond them.
        for size in [40, -300, 30_000, 2_000_000, 1 << 40] {
            let component = move |i: usize| size - i as i64 * 5;
            query.squared_l2((0..dim).map(move |i| component(i) as f64));
            let mut out = vec![0.0; 70];
            let rows = Rows::new(&bytes, nibble_bytes(dim));
            query.run(rows, Span { start: 0, end: 70 }, &mut out);
            for (row, &found) in out.iter().enumerate() {
                let apart = (0..dim).map(|i| component(i) - i64::from(code(row, i)));
                let exact = apart.map(|x| i128::from(x).pow(2)).sum::<i128>() as f64;
                let off = (f64::from(found) - exact).abs();
                assert!(
                    off <= 1e-6 * exact,
                    "{dim}, {size}, row {row}: {found}, {exact}"
                );
            }
        }
    }
}
