//! Sums over codes against plain arithmetic.

use proptest::prelude::*;

use super::super::{Rows, Span};
use super::planes::Planes;
use super::sums::sums;
use super::*;

proptest! {
    #[test]
    fn code_distances_are_exact(
        pairs in proptest::collection::vec((any::<u8>(), any::<u8>(), any::<i8>()), 1..300),
    ) {
        let dim = pairs.len();
        let codes: Vec<u8> = pairs.iter().map(|pair| pair.0).collect();
        for constants in [true, false] {
            let mut row = vec![7; row_bytes(dim, constants)];
            write_row(&codes, constants.then_some(0), &mut row);
            let rows = Rows::new(&row, row.len());
            let mut query = CodeQuery::default();
            // Five, so that the kernel for four at once runs too.
            let mut out = [0.0; 5];
            query.rows_with(constants).squared_l2(pairs.iter().map(|pair| pair.1));
            query.run(rows, &[0; 5][..], &mut out);
            let exact: i32 = pairs.iter()
                .map(|pair| (i32::from(pair.0) - i32::from(pair.1)).pow(2)).sum();
            prop_assert_eq!(out, [exact as f32; 5]);
            query.weighted(pairs.iter().map(|pair| pair.2));
            query.run(rows, &[0; 5][..], &mut out);
            let exact: i32 = pairs.iter().map(|pair| i32::from(pair.0) * i32::from(pair.2)).sum();
            prop_assert_eq!(out, [exact as f32; 5]);
        }
    }
}

#[test]
fn code_distances_of_the_longest_rows_do_not_wrap() {
    let mut query = CodeQuery::default();
    let mut out = [0.0];
    for farther in [None, Some(0), Some(i32::MAX)] {
        let constants = farther.is_some();
        let mut row = vec![0; row_bytes(MAX_DIM, constants)];
        write_row(&vec![255; MAX_DIM], farther, &mut row);
        query
            .rows_with(constants)
            .squared_l2(std::iter::repeat_n(0, MAX_DIM));
        query.run(Rows::new(&row, row.len()), &[0][..], &mut out);
        let exact = MAX_DIM as i64 * 255 * 255 + i64::from(farther.unwrap_or(0));
        assert_eq!(out[0], exact as f32);
    }
}

#[test]
fn code_distances_of_queries_outside_the_codes_are_exact() {
    for (dim, constants) in [1, 3, 64, 130]
        .into_iter()
        .flat_map(|dim| [(dim, true), (dim, false)])
    {
        let codes = |row: usize| (0..dim).map(move |i| (row * 31 + i * 97) as u8);
        let stride = row_bytes(dim, constants);
        let farther = |row: usize| if constants { row as i32 } else { 0 };
        let mut bytes = vec![0; 70 * stride];
        for (row, out) in bytes.chunks_exact_mut(stride).enumerate() {
            let codes: Vec<u8> = codes(row).collect();
            write_row(&codes, constants.then(|| farther(row)), out);
        }
        let mut query = CodeQuery::default();
        query.rows_with(constants);
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
                let exact = 0.25 * (squares.sum::<i128>() + i128::from(farther(row))) as f64;
                let off = (f64::from(found) - exact).abs();
                assert!(
                    off <= 1e-6 * exact,
                    "{dim}, {size}, row {row}: {found}, {exact}"
                );
            }
        }
    }
}

const WIDTHS: [Width; 3] = [Width::Four, Width::Two, Width::One];

/// Dimensions of 4-bit rows that have no room for a scale of their own.
fn without_own() -> impl Strategy<Value = usize> {
    prop_oneof![57..=64_usize, 121..=128_usize, 249..=256_usize]
}

/// Rows of `width`, with the code of each component.
fn rows_of(width: Width, rows: usize, dim: usize, code: impl Fn(usize, usize) -> u8) -> Vec<u8> {
    let mut bytes = vec![0xff; rows * width.row_bytes(dim)];
    for (row, out) in bytes.chunks_exact_mut(width.row_bytes(dim)).enumerate() {
        let codes: Vec<u8> = (0..width.kept(dim)).map(|i| code(row, i)).collect();
        write_planes(width, &codes, None, out);
    }
    bytes
}

/// The sums of the kernel in use, of rows of seven, as four at once and some one by one.
fn sums_of<const BITS: usize, const SQUARED: bool>(weights: &[i8], rows: &[u8]) -> Vec<i32> {
    let kind = Planes::<BITS, SQUARED> {
        bytes: rows.len() / 7,
    };
    let mut out = vec![0; 7];
    let rows = Rows::new(rows, rows.len() / 7);
    let all = Span { start: 0, end: 7 };
    sums(kind, weights, rows, all, &mut out, |sum, _| sum);
    out
}

/// The same code by code.
fn plain_sums(bits: usize, squared: bool, weights: &[i8], rows: &[u8]) -> Vec<i32> {
    let bytes = rows.len() / 7;
    let sum = |row: &[u8]| {
        let each = weights.iter().enumerate().map(|(at, &weight)| {
            let (plane, byte) = (at / bytes, row[at % bytes]);
            let code = i32::from(byte >> (plane * bits)) & ((1 << bits) - 1);
            match squared {
                true => 2 * code * code - code * i32::from(weight),
                false => code * i32::from(weight),
            }
        });
        each.sum()
    };
    rows.chunks_exact(bytes).map(sum).collect()
}

/// Compares the kernels with plain sums; `byte` and `weight` by their number.
fn assert_sums(bytes: usize, byte: impl Fn(usize) -> u8, weight: impl Fn(usize) -> i8) {
    let rows: Vec<u8> = (0..7 * bytes).map(byte).collect();
    let weights: Vec<i8> = (0..8 * bytes).map(weight).collect();
    let [one, two, four] = [8, 4, 2].map(|planes| &weights[..planes * bytes]);
    let found = [
        (1, false, one, sums_of::<1, false>(one, &rows)),
        (2, false, two, sums_of::<2, false>(two, &rows)),
        (4, false, four, sums_of::<4, false>(four, &rows)),
        (4, true, four, sums_of::<4, true>(four, &rows)),
    ];
    for (bits, squared, weights, found) in found {
        let plain = plain_sums(bits, squared, weights, &rows);
        assert_eq!(
            found, plain,
            "{bits} bits, {bytes} bytes, squared: {squared}"
        );
    }
}

proptest! {
    #[test]
    fn sums_of_planes_are_exact(
        bytes in prop_oneof![Just(32_usize), (1..20_usize).prop_map(|lines| 64 * lines)],
        seed in any::<u64>(),
    ) {
        // Any bytes: what is behind the codes is summed too, with weights of 0 in a query.
        let number = |at: usize| (seed ^ at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        assert_sums(bytes, |at| number(at) as u8, |at| number(at + 1_000_000) as i8);
    }
}

#[test]
fn sums_of_planes_do_not_wrap() {
    for bytes in [32, 64, 128, 320, 512, 1_024, MAX_DIM / 2] {
        for byte in [0, 0xff] {
            for weight in [-128, 127] {
                assert_sums(bytes, |_| byte, |_| weight);
            }
        }
    }
}

#[test]
fn rows_of_few_bits_are_as_short_as_whole_lines_allow() {
    // One line less where that leaves out at most a 16th of the components.
    for (width, dim, kept, bytes) in [
        (Width::Four, 64, 64, 32),
        (Width::Four, 65, 65, 64),
        (Width::Four, 256, 256, 128),
        (Width::Two, 112, 112, 32),
        (Width::Two, 119, 112, 32),
        (Width::Two, 128, 128, 64),
        (Width::Two, 256, 240, 64),
        (Width::Two, 257, 257, 128),
        (Width::Two, 384, 384, 128),
        (Width::Two, 512, 496, 128),
        (Width::One, 1, 1, 32),
        (Width::One, 384, 384, 64),
        (Width::One, 512, 480, 64),
        (Width::One, 768, 768, 128),
        (Width::One, 1_536, 1_504, 192),
    ] {
        assert_eq!((width.kept(dim), width.row_bytes(dim)), (kept, bytes));
    }
    for width in WIDTHS {
        for dim in 1..2_000 {
            let (kept, bytes) = (width.kept(dim), width.row_bytes(dim));
            assert!(kept <= dim && kept >= dim - dim / 16);
            assert!(bytes == 32 || bytes % 64 == 0);
            assert!(kept.div_ceil(width.planes()) <= bytes);
            assert!(width == Width::Four || width.has_own(dim));
        }
    }
}

proptest! {
    #[test]
    fn nibble_distances_are_exact(
        parts in without_own().prop_flat_map(|dim| proptest::collection::vec((0u8..16, 0u8..16, -128i16..128, any::<i8>()), dim)),
    ) {
        let dim = parts.len();
        // Seven rows: four at once, and some one by one.
        let code = |row: usize, i: usize| if row.is_multiple_of(2) { parts[i].0 } else { parts[i].1 };
        let bytes = rows_of(Width::Four, 7, dim, code);
        let rows = Rows::new(&bytes, Width::Four.row_bytes(dim));
        let mut query = PlaneQuery::default();
        let mut out = [0.0; 7];
        query.squared_l2(Width::Four, parts.iter().map(|part| f64::from(part.2) / 4.0));
        query.run(rows, Span { start: 0, end: 7 }, &mut out);
        for (row, &found) in out.iter().enumerate() {
            let quarters = parts.iter().enumerate()
                .map(|(i, part)| i32::from(part.2) - 4 * i32::from(code(row, i)));
            prop_assert_eq!(found, quarters.map(|x| x * x).sum::<i32>() as f32 / 16.0);
        }
        // With a component of 127 and few others as large, a weight stands for one.
        query.products(Width::Four, parts.iter().map(|part| f64::from(part.3)));
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
    fn rows_with_their_own_scale_stand_for_multiples_of_it(
        width in prop_oneof![Just(Width::Four), Just(Width::Two), Just(Width::One)],
        pairs in proptest::collection::vec((any::<u8>(), -9f32..9.0), 1..300),
        scale in 0.01f32..100.0,
        stands_out in prop_oneof![Just(0.0), Just(1e4_f32)],
    ) {
        let dim = pairs.len();
        prop_assume!(width.has_own(dim) && width.kept(dim) == dim);
        let codes: Vec<u8> = pairs.iter().map(|pair| pair.0 & width.most()).collect();
        let mut query: Vec<f64> = pairs.iter().map(|pair| f64::from(pair.1)).collect();
        query[dim / 2] += f64::from(stands_out);
        let row: Vec<f64> = codes.iter()
            .map(|&code| f64::from(scale) * (f64::from(code) - f64::from(width.middle()))).collect();
        let squares: f64 = row.iter().map(|x| x * x).sum();
        let product = squares / f64::from(scale);
        let written = |own| {
            let mut bytes = vec![0; 5 * width.row_bytes(dim)];
            for out in bytes.chunks_exact_mut(width.row_bytes(dim)) {
                write_planes(width, &codes, Some(own), out);
            }
            bytes
        };
        let exact: f64 = query.iter().zip(&row).map(|(q, x)| q * x).sum();
        let length: f64 = row.iter().map(|x| x.abs()).sum();
        // The query's weights are off by half of one.
        let unit = query.iter().fold(0.0_f64, |most, q| most.max(q.abs())) / 127.0;
        let allowed = length * unit * 0.51 + 1e-4 * exact.abs() + 1e-4;
        let mut asked = PlaneQuery::default();
        let mut out = [0.0; 5];
        let bytes = written(Own::for_products(product, squares));
        let rows = Rows::new(&bytes, width.row_bytes(dim));
        asked.products(width, query.iter().copied());
        asked.run(rows, Span { start: 0, end: 5 }, &mut out);
        for found in out {
            prop_assert!((f64::from(found) - exact).abs() <= allowed, "{found} {exact}");
        }
        let bytes = written(Own::for_distances(product, squares));
        let rows = Rows::new(&bytes, width.row_bytes(dim));
        asked.squared_l2(width, query.iter().copied());
        asked.run(rows, Span { start: 0, end: 5 }, &mut out);
        let of_query: f64 = query.iter().map(|q| q * q).sum();
        // A scale has 6 bits, which change what is beyond the row itself; a length has 12.
        let rounding = 2.0 * (exact - squares).abs() / 64.0 + squares / 4096.0 + 1e-4 * of_query;
        let exact = of_query + squares - 2.0 * exact;
        for found in out {
            let off = (f64::from(found) - exact).abs();
            prop_assert!(off <= 2.05 * allowed + rounding, "{found} {exact}");
        }
        // From the row itself it is none.
        asked.squared_l2(width, row.iter().copied());
        asked.run(rows, Span { start: 0, end: 5 }, &mut out);
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
        let bytes = rows_of(Width::Four, 1, MAX_DIM, |_, _| code);
        let mut query = PlaneQuery::default();
        query.squared_l2(Width::Four, std::iter::repeat_n(quarters / 4.0, MAX_DIM));
        let mut out = [0.0];
        query.run(Rows::new(&bytes, MAX_DIM / 2), &[0][..], &mut out);
        let apart: f64 = quarters / 4.0 - f64::from(code);
        assert_eq!(out[0], (MAX_DIM as f64 * apart * apart) as f32);
    }
}

#[test]
fn nibble_distances_of_queries_far_outside_the_codes_are_exact() {
    for dim in [57, 64, 122, 256] {
        assert!(!Width::Four.has_own(dim));
        let code = |row: usize, i: usize| ((row * 5 + i * 7) % 16) as u8;
        let bytes = rows_of(Width::Four, 70, dim, code);
        let mut query = PlaneQuery::default();
        // From two digits to three, and beyond them.
        for size in [40, -300, 30_000, 2_000_000, 1 << 40] {
            let component = move |i: usize| size - i as i64 * 5;
            query.squared_l2(Width::Four, (0..dim).map(move |i| component(i) as f64));
            let mut out = vec![0.0; 70];
            let rows = Rows::new(&bytes, Width::Four.row_bytes(dim));
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
