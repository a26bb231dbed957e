use std::cell::RefCell;
use std::hash::{Hash, Hasher};

use chiplet::index::Metric;
use qdrant_client::qdrant::ListValue;

use super::*;

thread_local! {
    static COMPARED: Cell<u64> = const { Cell::new(0) };
}

/// A number that counts how often it is compared.
struct Counted(i64);

impl Hash for Counted {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl PartialEq for Counted {
    fn eq(&self, other: &Self) -> bool {
        COMPARED.set(COMPARED.get() + 1);
        self.0 == other.0
    }
}

impl Eq for Counted {}

/// A hash that is only a product is the same in all bits that a table looks at for numbers that anybody can work out.
#[test]
fn numbers_that_are_made_to_collide_do_not() {
    const NUMBERS: u64 = 4_000;
    // The inverse of the multiplier of `rustc_hash`, by Newton's method.
    let k = 0xf135_7aea_2e62_a9c5_u64;
    let inverse = (0..6).fold(k, |x, _| {
        x.wrapping_mul(2_u64.wrapping_sub(k.wrapping_mul(x)))
    });
    let numbers = (0..NUMBERS).map(|r| Counted(r.wrapping_mul(inverse) as i64));
    let listed: Listed<Counted> = numbers.collect();
    assert_eq!(listed.len() as u64, NUMBERS);
    assert!(COMPARED.get() < 10 * NUMBERS, "{} times", COMPARED.get());
}

fn points(rows: u64) -> View {
    let list = (0..100).map(Value::from).collect::<Vec<_>>();
    let list = Value {
        kind: Some(Kind::ListValue(ListValue { values: list })),
    };
    let payload = payload::keep([("a".to_owned(), list)].into());
    let mut edit = View::new(1, Metric::L2).edit();
    for id in 0..rows {
        edit.push(PointId::Number(id), &[0.0], Arc::clone(&payload), id);
    }
    edit.finish()
}

fn rows(view: &View, condition: &Condition, patience: &Patience<'_>) -> Option<Rows> {
    let place = Scope {
        view,
        declared: &Declared::default(),
        budget: &Arc::new(Budget::new(1 << 20)),
    };
    let find = |id| match id {
        PointId::Number(id) if (id as usize) < view.live => Some(id as Row),
        _ => None,
    };
    condition.rows(&place, &find, patience)
}

fn none_of(numbers: impl IntoIterator<Item = i64>) -> Condition {
    Condition::Field(Check {
        path: Path::parse("a").unwrap(),
        test: Test::Integers(numbers.into_iter().collect()),
    })
}

#[test]
fn nothing_goes_on_once_nobody_waits() {
    let view = points(50);
    // A hundred elements for each of a thousand conditions: one row takes 100,000 steps.
    let dear = Condition::Any((0..1_000).map(|_| none_of([-1])).collect());
    let looks = Cell::new(0);
    let wanted = || {
        looks.set(looks.get() + 1);
        looks.get() <= 3
    };
    let patience = Patience::new(&wanted);
    assert!(rows(&view, &dear, &patience).is_none());
    let stopped = patience.steps.get();
    assert!(stopped < 10 * AT_ONCE, "{stopped} steps of 5 million");
    assert_eq!(looks.get(), 4, "it was asked no more");
    let all = Patience::new(&|| true);
    assert_eq!(rows(&view, &none_of([7]), &all).unwrap().len(), 50);
}

#[test]
fn many_ids_say_the_same_as_few() {
    let view = points(100);
    let asked = RefCell::new(Vec::new());
    let patience = Patience::new(&|| true);
    for more in [0, MOST_LOOKED_UP as u64] {
        let ids = [3, 99].into_iter().chain(1_000..1_000 + more);
        let has = Condition::HasId(ids.map(PointId::Number).collect());
        asked.borrow_mut().push(has.looked_up().len());
        let found = rows(&view, &has, &patience).unwrap();
        assert_eq!(found.iter().collect::<Vec<_>>(), [3, 99]);
        let others = Condition::All(vec![Condition::Not(Box::new(has)), none_of([1])]);
        assert_eq!(rows(&view, &others, &patience).unwrap().len(), 98);
    }
    assert_eq!(*asked.borrow(), [2, 0]);
}

/// What was not looked at is not what a `must_not` lets through: a deletion would take it.
#[test]
fn a_filter_that_was_given_up_selects_nothing() {
    let view = points(50);
    let many = || (0..2_500).map(|_| none_of([-1]));
    for wanted_looks in 0..3 {
        let looks = Cell::new(0);
        let wanted = || {
            looks.set(looks.get() + 1);
            looks.get() <= wanted_looks
        };
        let others = Condition::Not(Box::new(Condition::All(many().collect())));
        let found = rows(&view, &others, &Patience::new(&wanted));
        assert!(found.is_none(), "{wanted_looks}");
    }
}

#[test]
fn a_payload_index_is_made_only_while_somebody_waits() {
    let (view, path) = (points(50), Path::parse("a").unwrap());
    let budget = Arc::new(Budget::new(1 << 30));
    let index = |wanted| {
        let wanted = || wanted;
        let patience = Patience::new(&wanted);
        let kind = qdrant_client::qdrant::FieldType::Integer as i32;
        FieldIndex::of(view.block(0), &path, kind, &budget, &patience).is_some()
    };
    assert!(!index(false));
    assert_eq!(budget.used(), 0);
    assert!(index(true));
}

#[test]
fn integers_are_compared_with_bounds_as_they_are() {
    let two53 = (1_i64 << 53) as f64;
    let (none, all) = (Range::default(), i128::MIN..=i128::MAX);
    let large = 1_i128 << 53;
    for (range, right) in [
        (none, all.clone()),
        (
            Range {
                gt: Some(two53),
                ..none
            },
            large + 1..=i128::MAX,
        ),
        (
            Range {
                gte: Some(two53),
                ..none
            },
            large..=i128::MAX,
        ),
        (
            Range {
                lt: Some(-two53),
                ..none
            },
            i128::MIN..=-large - 1,
        ),
        (
            Range {
                lte: Some(2.5),
                gt: Some(-0.5),
                ..none
            },
            0..=2,
        ),
        (
            Range {
                lt: Some(2.5),
                gte: Some(-0.5),
                ..none
            },
            0..=2,
        ),
        (
            Range {
                lt: Some(2.0),
                lte: Some(7.0),
                gt: Some(0.0),
                gte: Some(-9.0),
            },
            1..=1,
        ),
        (
            Range {
                gte: Some(f64::NEG_INFINITY),
                lte: Some(f64::INFINITY),
                ..none
            },
            all,
        ),
    ] {
        assert_eq!(range.integers(), right, "{range:?}");
    }
    for nothing in [
        Range {
            gt: Some(f64::INFINITY),
            ..none
        },
        Range {
            lt: Some(f64::NEG_INFINITY),
            ..none
        },
        Range {
            lt: Some(f64::NAN),
            ..none
        },
        Range {
            gt: Some(1.2),
            lt: Some(1.8),
            ..none
        },
    ] {
        let integers = nothing.integers();
        let inside = |number: i64| integers.contains(&number.into());
        assert!(
            ![i64::MIN, 0, 1, i64::MAX].into_iter().any(inside),
            "{nothing:?}"
        );
    }
}
