//! Every level against plain arithmetic, and against each other to the bit.

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
