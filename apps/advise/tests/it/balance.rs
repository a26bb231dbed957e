//! Rounds of the policy: whom it unbinds, whom it binds, and that it does not go back and forth.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use chiplet_advise::{Action, BalanceConfig, Instance, NodeLoad, Observed, Past, Policy, Strategy};
use chiplet_policy::Time;
use proptest::prelude::*;
use proptest::strategy::Strategy as Generator;

fn minute(minute: u64) -> Time {
    Time::from_secs(60 * minute)
}

fn node(node: u32, level: f64) -> NodeLoad {
    NodeLoad {
        node,
        cpus: 100.0,
        busy: 100.0 * level,
        quota_left: 50.0,
        memory: 1_000,
        memory_left: 500,
        bandwidth: None,
    }
}

fn instance(name: &str, bound: Option<u32>, busy: f64, quota_used: f64) -> Instance {
    Instance {
        group: format!("/{name}").parse().unwrap(),
        service: name.split('-').next().unwrap().to_owned(),
        bound,
        busy,
        quota: busy,
        quota_used: Some(quota_used),
        memory: 0,
        bandwidth: None,
        gains: BTreeMap::from([(0, 0.1), (1, 0.1)]),
    }
}

fn observed(levels: [f64; 2], instances: &[Instance]) -> Observed {
    Observed {
        nodes: vec![node(0, levels[0]), node(1, levels[1])],
        instances: instances.to_vec(),
    }
}

fn unbound(action: Option<Action>) -> Option<String> {
    match action? {
        Action::Unbind { group, .. } => Some(group.to_string()),
        other => panic!("{other:?}"),
    }
}

fn a() -> Policy {
    Policy::new(BalanceConfig::new().strategy(Strategy::A))
}

/// B that has seen both nodes at this level for a day, and for an hour of it 10 points higher.
fn b(level: f64) -> Policy {
    let mut policy = Policy::new(BalanceConfig::new());
    for at in 0..1_440 {
        let level = if at < 60 { level + 0.1 } else { level };
        policy.round(minute(at), &observed([level, level], &[]));
    }
    policy
}

const DAY: u64 = 1_440;

#[test]
fn a_unbinds_the_least_of_those_over_their_quota_on_a_busy_node() {
    let all = [
        instance("big-1", Some(0), 20.0, 1.2),
        instance("big-2", Some(0), 10.0, 1.1),
        instance("small-1", Some(0), 2.0, 0.9),
        instance("other-1", Some(1), 1.0, 1.5),
    ];
    let next = |levels| unbound(a().round(minute(1), &observed(levels, &all)));
    assert_eq!(next([0.81, 0.2]).as_deref(), Some("/big-2"));
    assert_eq!(next([0.80, 0.2]), None);
    // Both are busy: the busier one first.
    assert_eq!(next([0.85, 0.9]).as_deref(), Some("/other-1"));
    assert_eq!(next([0.9, 0.9]).as_deref(), Some("/big-2"));
}

#[test]
fn b_wants_a_node_that_is_busier_than_the_other_and_than_ever() {
    let all = [instance("a-1", Some(0), 5.0, 1.2)];
    let next =
        |levels, policy: &mut Policy| unbound(policy.round(minute(DAY), &observed(levels, &all)));
    // Its 95th percentile is 0.51 or so; a twentieth of the day was at 0.6.
    assert_eq!(next([0.66, 0.50], &mut b(0.5)).as_deref(), Some("/a-1"));
    assert_eq!(next([0.66, 0.52], &mut b(0.5)), None, "14 points apart");
    assert_eq!(next([0.66, 0.50], &mut b(0.7)), None, "it is so every day");
    assert_eq!(next([0.95, 0.94], &mut b(0.5)), None, "both are busy");
    let mut young = Policy::new(BalanceConfig::new());
    assert_eq!(next([0.99, 0.1], &mut young), None, "it knows no past");
    let past = b(0.5).past().clone();
    let mut again = Policy::with_past(BalanceConfig::new(), past);
    assert_eq!(next([0.66, 0.50], &mut again).as_deref(), Some("/a-1"));
}

#[test]
fn an_instance_within_its_quota_is_left_and_one_without_is_not() {
    let within = instance("a-1", Some(0), 5.0, 1.0);
    let all = [within.clone()];
    assert_eq!(a().round(minute(1), &observed([0.99, 0.1], &all)), None);
    assert_eq!(
        b(0.5).round(minute(DAY), &observed([0.99, 0.1], &all)),
        None
    );
    let mut free = instance("free-1", Some(0), 9.0, 9.0);
    free.quota_used = None;
    let all = [free, within];
    let next = unbound(a().round(minute(1), &observed([0.99, 0.1], &all)));
    assert_eq!(next.as_deref(), Some("/free-1"));
}

#[test]
fn what_was_done_before_a_restart_rests_as_well() {
    let all = [instance("a-1", Some(0), 5.0, 1.2)];
    let hot = observed([0.99, 0.1], &all);
    let mut policy = a();
    policy.remember("/a-1".parse().unwrap(), minute(100));
    assert_eq!(policy.round(minute(100), &hot), None, "one action a minute");
    assert_eq!(policy.round(minute(110), &hot), None, "15 minutes of rest");
    let next = unbound(policy.round(minute(116), &hot));
    assert_eq!(next.as_deref(), Some("/a-1"));
}

#[test]
fn b_goes_on_one_a_minute_until_ten_points_are_left() {
    let mut policy = b(0.5);
    let all: Vec<Instance> = (0..9)
        .map(|n| instance(&format!("a-{n}"), Some(0), 5.0, 1.2))
        .collect();
    let mut next = |seconds, levels| {
        let now = minute(DAY) + Duration::from_secs(seconds);
        unbound(policy.round(now, &observed(levels, &all)))
    };
    assert_eq!(next(0, [0.70, 0.50]).as_deref(), Some("/a-0"));
    assert_eq!(next(59, [0.70, 0.50]), None);
    assert_eq!(next(60, [0.68, 0.55]).as_deref(), Some("/a-1"));
    assert_eq!(next(120, [0.67, 0.58]), None);
    // It was balanced, so it takes 15 points again.
    assert_eq!(next(180, [0.68, 0.55]), None);
    assert_eq!(next(240, [0.71, 0.55]).as_deref(), Some("/a-2"));
}

#[test]
fn the_service_that_gains_most_is_bound_as_a_whole() {
    let mut all = vec![
        instance("feed-1", None, 4.0, 0.5),
        instance("search-1", None, 4.0, 0.5),
        instance("search-2", None, 4.0, 0.5),
        instance("search-3", Some(0), 4.0, 0.5),
    ];
    for instance in &mut all[1..] {
        instance.gains = BTreeMap::from([(0, 0.2), (1, 0.2)]);
    }
    let bind = |observed: &Observed| match a().round(minute(1), observed)? {
        Action::Bind { service, to, gain } => Some((service, to, gain)),
        other => panic!("{other:?}"),
    };
    let mut observed = observed([0.2, 0.3], &all);
    observed.nodes[0].quota_left = 49.0;
    let (service, to, gain) = bind(&observed).unwrap();
    // First where most is left, then where most is left then.
    let to: Vec<(String, u32)> = to
        .iter()
        .map(|(group, node)| (group.to_string(), *node))
        .collect();
    assert_eq!(
        to,
        [("/search-1".to_owned(), 1), ("/search-2".to_owned(), 0)]
    );
    assert_eq!(service, "search");
    assert!((gain - 0.2).abs() < 1e-12);
    // One of them finds no room: none is bound, and the next service is.
    for node in &mut observed.nodes {
        node.quota_left = 5.0;
    }
    observed.instances[2].quota = 6.0;
    assert_eq!(bind(&observed).unwrap().0, "feed");
    // Nothing is predicted, or too little.
    for instance in &mut observed.instances {
        instance.gains = BTreeMap::from([(0, 0.02)]);
    }
    observed.instances[0].gains.clear();
    assert_eq!(bind(&observed), None);
}

#[test]
fn memory_and_bandwidth_count_as_quota_does() {
    let mut search = instance("search-1", None, 4.0, 0.5);
    (search.memory, search.bandwidth) = (100, Some(10.0));
    let node_of = |change: fn(&mut NodeLoad)| {
        let mut observed = observed([0.2, 0.2], &[search.clone()]);
        observed
            .nodes
            .iter_mut()
            .for_each(|node| node.bandwidth = Some((100.0, 60.0)));
        change(&mut observed.nodes[0]);
        match a().round(minute(1), &observed) {
            Some(Action::Bind { to, .. }) => to[0].1,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(node_of(|_| ()), 0);
    assert_eq!(node_of(|node| node.quota_left = 30.0), 1);
    assert_eq!(node_of(|node| node.memory_left = 300), 1);
    assert_eq!(node_of(|node| node.memory_left = 99), 1);
    assert_eq!(node_of(|node| node.bandwidth = Some((100.0, 30.0))), 1);
    assert_eq!(node_of(|node| node.bandwidth = Some((100.0, 9.0))), 1);
}

#[test]
fn no_binding_is_made_that_would_be_undone() {
    let all = [
        instance("a-1", None, 20.0, 1.2),
        instance("a-2", None, 20.0, 1.2),
    ];
    let is_bound =
        |policy: &mut Policy, levels| policy.round(minute(DAY), &observed(levels, &all)).is_some();
    assert!(is_bound(&mut a(), [0.6, 0.6]));
    assert!(
        !is_bound(&mut a(), [0.72, 0.72]),
        "A keeps 10 points below where it unbinds"
    );
    // One more on a node, and they would be apart and busier than ever.
    let one = [instance("a-1", None, 30.0, 1.2)];
    assert_eq!(
        b(0.5).round(minute(DAY), &observed([0.58, 0.58], &one)),
        None
    );
    assert!(
        b(0.6)
            .round(minute(DAY), &observed([0.45, 0.45], &one))
            .is_some(),
        "as on other days"
    );
}

#[test]
fn a_node_that_is_too_busy_without_us_keeps_nothing_from_the_other() {
    let mut search = instance("search-1", None, 6.0, 0.5);
    search.gains = BTreeMap::from([(0, 0.3), (1, 0.2)]);
    // What makes node 0 busy is none of the instances, so there is nothing to unbind from it.
    let busy = observed([0.95, 0.2], &[search.clone()]);
    for mut policy in [a(), b(0.2)] {
        let action = policy.round(minute(DAY), &busy);
        let Some(Action::Bind { to, .. }) = action else {
            panic!("{action:?}");
        };
        assert_eq!(to, [("/search-1".parse().unwrap(), 1)]);
    }
    // A node that the binding itself makes too busy does.
    (search.busy, search.quota) = (60.0, 60.0);
    let crowding = observed([0.4, 0.4], &[search]);
    assert_eq!(a().round(minute(DAY), &crowding), None);
}

#[test]
fn what_was_unbound_rests_before_it_is_bound_again() {
    let mut policy = a();
    let hot = observed([0.9, 0.5], &[instance("a-1", Some(0), 5.0, 1.2)]);
    assert_eq!(
        unbound(policy.round(minute(1), &hot)).as_deref(),
        Some("/a-1")
    );
    let calm = observed([0.3, 0.3], &[instance("a-1", None, 5.0, 0.8)]);
    for at in 2..16 {
        assert_eq!(policy.round(minute(at), &calm), None, "minute {at}");
    }
    assert!(matches!(
        policy.round(minute(16), &calm),
        Some(Action::Bind { .. })
    ));
    let hot = observed([0.9, 0.5], &[instance("a-1", Some(0), 5.0, 1.2)]);
    assert_eq!(policy.round(minute(17), &hot), None);
}

fn level() -> impl Generator<Value = f64> {
    prop_oneof![8 => 0.0..1.1_f64, 1 => any::<f64>()]
}

fn machine() -> impl Generator<Value = Observed> {
    let one = (
        0_u32..40,
        prop::option::of(0_u32..3),
        level(),
        level(),
        prop::option::of(level()),
    );
    let each = prop::collection::vec(one, 0..12);
    (prop::collection::vec(level(), 0..4), each).prop_map(|(levels, each)| {
        let instances = each.into_iter().map(|(number, bound, busy, used, gain)| {
            let mut instance = instance(
                &format!("s{}-{number}", number % 4),
                bound,
                busy * 30.0,
                used * 1.5,
            );
            instance.gains = (0..3)
                .filter_map(|node| Some((node, gain? / 5.0)))
                .collect();
            instance
        });
        let mut instances: Vec<Instance> = instances.collect();
        instances.sort_by(|one, other| one.group.cmp(&other.group));
        instances.dedup_by(|one, other| one.group == other.group);
        Observed {
            nodes: (0..)
                .zip(levels)
                .map(|(number, level)| node(number, level))
                .collect(),
            instances,
        }
    })
}

proptest! {
    /// Whatever is observed: actions are possible, a minute apart, and leave each instance alone for 15; equal policies
    /// decide alike.
    #[test]
    fn actions_are_possible_rare_and_repeatable(
        rounds in prop::collection::vec((1_u64..200, machine()), 1..60),
        is_a: bool,
    ) {
        let strategy = if is_a { Strategy::A } else { Strategy::B };
        let config = BalanceConfig::new().strategy(strategy).least_past(5);
        let (mut policy, mut twin) = (Policy::new(config), Policy::with_past(config, Past::default()));
        let mut now = Time::ZERO;
        let mut acted: Option<Time> = None;
        let mut touched: BTreeMap<String, Time> = BTreeMap::new();
        for (seconds, observed) in rounds {
            now += Duration::from_secs(seconds);
            touched.retain(|group, _| observed.instances.iter().any(|it| it.group.to_string() == *group));
            let action = policy.round(now, &observed);
            prop_assert_eq!(&action, &twin.round(now, &observed));
            let Some(action) = action else { continue };
            prop_assert!(acted.is_none_or(|acted| now.since(acted) >= Duration::from_secs(60)));
            acted = Some(now);
            let find = |group| observed.instances.iter().find(|it| it.group == group).unwrap();
            let groups = match action {
                Action::Unbind { group, node, .. } => {
                    let found = find(group.clone());
                    prop_assert!(found.bound == Some(node) && found.quota_used > Some(1.0));
                    vec![group]
                }
                Action::Bind { service, to, gain } => {
                    prop_assert!(gain >= 0.03);
                    let free = observed.instances.iter().filter(|it| it.service == service && it.bound.is_none());
                    prop_assert_eq!(free.count(), to.len(), "all of a service, or none");
                    for (group, node) in &to {
                        prop_assert!(find(group.clone()).gains[node] >= 0.03);
                        prop_assert!(observed.nodes.iter().any(|it| it.node == *node));
                    }
                    to.into_iter().map(|(group, _)| group).collect()
                }
                other => panic!("{other:?}"),
            };
            for group in groups {
                let last = touched.insert(group.to_string(), now);
                prop_assert!(last.is_none_or(|last| now.since(last) >= Duration::from_secs(900)));
            }
        }
    }
}

/// `cargo test --release -p chiplet-advise --test it balance:: -- --ignored --nocapture`
#[test]
#[ignore = "prints how long a round takes, and asserts nothing of it"]
fn how_long_a_round_takes() {
    let instances: Vec<Instance> = (0..200)
        .map(|n| {
            instance(
                &format!("s{}-{n}", n % 20),
                (n % 3 > 0).then_some(n % 2),
                0.4,
                1.1,
            )
        })
        .collect();
    let seen = observed([0.75, 0.55], &instances);
    let mut policy = b(0.5);
    let (rounds, begun) = (1_000, Instant::now());
    let mut actions = 0;
    for at in 0..rounds {
        actions += u64::from(policy.round(minute(DAY + at), &seen).is_some());
    }
    let each = begun.elapsed() / rounds as u32;
    println!("200 instances on 2 nodes: {each:?} a round, {actions} actions in {rounds} rounds");
    assert!(actions > 0);
}
