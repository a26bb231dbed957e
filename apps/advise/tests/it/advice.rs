//! What a group is advised, and when nothing is.

use std::collections::BTreeMap;

use chiplet_advise::{
    Advice, AdviceConfig, Assessment, Because, Cache, Features, Figure, GroupMemory, Missing,
    Neighbour, Reading, RemoteBy, Resource, Room, Subject, assess,
};
use proptest::prelude::*;

const GIB: u64 = 1 << 30;

/// Runs on both of two nodes, half of its traffic remote; most of its memory is on node 1.
fn subject() -> Subject {
    Subject {
        features: Features {
            mbw: Reading::Value(10e9),
            msr: Reading::Value(0.5),
            npmr: Reading::Value(0.9),
            rmbr: Reading::Value(0.5),
            remote_by: Some(RemoteBy::Fills),
            not_counted: None,
        },
        lambda: Some(2.0),
        memory: Some(GroupMemory {
            anon: BTreeMap::from([(0, 2 * GIB), (1, 8 * GIB)]),
            ..Default::default()
        }),
        cpus: BTreeMap::from([(0, 16), (1, 16)]),
        busy: 6.0,
        cache: Some(8 << 20),
    }
}

fn room(node: u32) -> Room {
    Room {
        node,
        cpus: 16.0,
        cpus_left: 12.0,
        memory: 64 * GIB,
        memory_left: 32 * GIB,
        bandwidth_left: Some(50e9),
        cache: Some(Cache {
            bytes: 32 << 20,
            others: 0,
        }),
        neighbours: vec![
            Neighbour {
                name: "/quiet".to_owned(),
                cpus: Some(1.0),
                memory: Some(GIB),
                bandwidth: Some(1e9),
                cache: Some(0),
            },
            Neighbour {
                name: "/loud".to_owned(),
                cpus: Some(9.0),
                memory: Some(30 * GIB),
                bandwidth: Some(45e9),
                cache: Some(30 << 20),
            },
        ],
    }
}

fn judge(subject: &Subject, rooms: &[Room]) -> Assessment {
    assess(subject, rooms, &AdviceConfig::new())
}

fn because(assessment: Assessment) -> Because {
    match assessment.advice {
        Advice::Nothing { because } => because,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_group_is_bound_where_most_of_its_memory_is() {
    let found = judge(&subject(), &[room(0), room(1)]);
    let Advice::Bind { node, gain, terms } = found.advice else {
        panic!("{found:?}");
    };
    // 0.5 * (0.5 - 0.2) * 1 / 1.5
    assert_eq!((node, found.short), (1, vec![]));
    assert!((gain - 0.1).abs() < 1e-9 && (terms.q - 0.2).abs() < 1e-9);
    let words = Advice::Bind { node, gain, terms }.to_string();
    assert!(
        words.starts_with("bind to node 1: saves about 10.0 % of its cycles"),
        "{words}"
    );
    assert!(words.contains("by counted fills"), "{words}");
}

#[test]
fn all_that_is_missing_is_said_and_nothing_guessed() {
    let mut subject = subject();
    subject.features.msr = Reading::Missing(Missing::VirtualMachine);
    subject.features.rmbr = Reading::Missing(Missing::LocalNotBelieved);
    (subject.lambda, subject.memory) = (None, None);
    let found = judge(&subject, &[room(0), room(1)]);
    let expected = vec![
        (Figure::Msr, Missing::VirtualMachine),
        (Figure::Rmbr, Missing::LocalNotBelieved),
        (Figure::Lambda, Missing::NoLatencies),
        (Figure::Pages, Missing::NoMemoryStat),
    ];
    let words = found.advice.to_string();
    assert!(
        words.contains("no share of stalled cycles (MSR): a virtual machine"),
        "{words}"
    );
    assert_eq!(found.advice, Advice::CannotPredict { missing: expected });
}

#[test]
fn what_needs_no_counter_is_known_without() {
    let mut subject = subject();
    subject.features.msr = Reading::Missing(Missing::VirtualMachine);
    let mut memory_only = room(2);
    memory_only.cpus = 0.0;
    assert_eq!(
        because(judge(&subject, &[room(0), memory_only])),
        Because::OneNode
    );
    subject.cpus = BTreeMap::from([(1, 16)]);
    subject.memory.as_mut().unwrap().anon = BTreeMap::from([(1, 8 * GIB)]);
    assert_eq!(
        because(judge(&subject, &[room(0), room(1)])),
        Because::Local { node: 1 }
    );
}

#[test]
fn little_gain_is_nothing_and_the_threshold_is_a_setting() {
    let mut subject = subject();
    subject.features.msr = Reading::Value(0.1);
    let found = because(judge(&subject, &[room(0), room(1)]));
    let Because::TooLittle {
        node,
        gain,
        threshold,
        ..
    } = found
    else {
        panic!("{found:?}");
    };
    assert_eq!((node, threshold), (1, 0.03));
    assert!((gain - 0.02).abs() < 1e-9);
    let eager = AdviceConfig::new().threshold(0.01);
    let found = assess(&subject, &[room(0), room(1)], &eager);
    assert!(matches!(found.advice, Advice::Bind { node: 1, .. }));
}

#[test]
fn memory_that_moves_too_is_local_everywhere_and_needs_room() {
    let config = AdviceConfig::new().move_memory(true);
    let found = assess(&subject(), &[room(0), room(1)], &config);
    assert!(matches!(found.advice, Advice::Bind { node: 0, terms, .. } if terms.q == 0.0));
    // Of node 0 there must come 8 GiB, and 3.2 stay free; of node 1 only 2.
    let mut rooms = [room(0), room(1)];
    (rooms[0].memory_left, rooms[1].memory_left) = (11 * GIB, 6 * GIB);
    let found = assess(&subject(), &rooms, &config);
    assert!(
        matches!(found.advice, Advice::Bind { node: 1, .. }),
        "{found:?}"
    );
    assert_eq!(found.short[0].of, Resource::Memory);
}

#[test]
fn who_takes_what_is_short_is_named() {
    type Shorten = fn(&mut Room);
    let shorten: [(Resource, Shorten); 4] = [
        (Resource::Cpus, |room| room.cpus_left = 5.0),
        (Resource::Memory, |room| room.memory_left = GIB),
        (Resource::Bandwidth, |room| room.bandwidth_left = Some(9e9)),
        (Resource::Cache, |room| {
            room.cache = Some(Cache {
                bytes: 32 << 20,
                others: 30 << 20,
            });
        }),
    ];
    for (of, shorten) in shorten {
        let mut rooms = [room(0), room(1)];
        shorten(&mut rooms[1]);
        let found = judge(&subject(), &rooms);
        let [short] = &found.short[..] else {
            panic!("{found:?}");
        };
        assert_eq!(
            (short.node, short.of, short.neighbour.as_deref()),
            (1, of, Some("/loud"))
        );
        // A cache that is short is a caution. On node 0 there would be more remote than now.
        match of {
            Resource::Cache => assert!(matches!(found.advice, Advice::Bind { node: 1, .. })),
            _ => assert!(matches!(because(found), Because::NoRoom { node: 1, .. })),
        }
    }
}

#[test]
fn what_is_not_known_of_a_node_is_not_short() {
    let mut rooms = [room(0), room(1)];
    (rooms[1].bandwidth_left, rooms[1].cache) = (None, None);
    assert!(matches!(
        judge(&subject(), &rooms).advice,
        Advice::Bind { node: 1, .. }
    ));
}

fn reading() -> impl Strategy<Value = Reading> {
    prop_oneof![
        (0.0..1.0_f64).prop_map(Reading::Value),
        any::<f64>().prop_map(Reading::Value),
        Just(Reading::Missing(Missing::NoResctrl)),
    ]
}

proptest! {
    /// Whatever comes in: a bind is to a node that is there and has room, gains at least the threshold, and needs all
    /// figures; equal questions have equal answers.
    #[test]
    fn advice_is_sound(
        (msr, rmbr) in (reading(), reading()),
        lambda in prop_oneof![Just(None), (0.5..4.0_f64).prop_map(Some), any::<f64>().prop_map(Some)],
        memory in prop::option::of(prop::collection::btree_map(0_u32..4, any::<u64>(), 0..4)),
        cpus in prop::collection::btree_map(0_u32..4, 0_usize..9, 0..4),
        left in prop::collection::vec((any::<f64>(), any::<u64>()), 0..4),
        threshold: f64,
    ) {
        let mut subject = subject();
        (subject.features.msr, subject.features.rmbr) = (msr, rmbr);
        (subject.lambda, subject.cpus) = (lambda, cpus);
        subject.memory = memory.map(|anon| GroupMemory { anon, ..Default::default() });
        let rooms: Vec<Room> = (0..).zip(left).map(|(node, (cpus_left, memory_left))| {
            Room { cpus_left, memory_left, ..room(node) }
        }).collect();
        let config = AdviceConfig::new().threshold(threshold);
        let found = assess(&subject, &rooms, &config);
        prop_assert_eq!(format!("{found:?}"), format!("{:?}", assess(&subject, &rooms, &config)));
        prop_assert!(!found.advice.to_string().is_empty());
        if let Advice::Bind { node, gain, terms } = found.advice {
            let room = rooms.iter().find(|room| room.node == node).unwrap();
            prop_assert!(room.cpus_left.is_nan() || subject.busy <= room.cpus_left);
            let least = if (0.0..=1.0).contains(&threshold) { threshold } else { 0.03 };
            prop_assert!(gain >= least && (terms.gain() - gain).abs() < 1e-12);
            prop_assert!(msr.value().is_some() && rmbr.value().is_some() && lambda.is_some());
        }
    }
}
