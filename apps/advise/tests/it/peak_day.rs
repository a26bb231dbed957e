//! One made-up peak day, minute by minute, under strategy A, under B, and with nobody unbound: MAO's comparison (its
//! figure 6) as far as a model can make it.
//!
//! Two nodes of 64 cpus, 20 instances of 4 services. Each service has a daily curve, each instance its share of it and
//! some noise. A bound instance loads its node, an unbound one both alike. The policy binds everything itself in the
//! first night; what is counted is the third day, when B knows two days of the past. Nothing is random.

use std::collections::BTreeMap;

use chiplet_advise::{Action, BalanceConfig, Instance, NodeLoad, Observed, Policy, Strategy};
use chiplet_policy::Time;

const CPUS: f64 = 64.0;
const DAY: u64 = 24 * 60;
/// What else runs on each node.
const BACKGROUND: f64 = 3.0;
/// On the third evening, from and to these hours, something happens that every second instance of each service is asked
/// for so many times as much as usual. Most of these lie on one node.
const EVENT: (f64, f64) = (19.0, 22.5);
const EVENT_LOAD: f64 = 1.3;
/// No node may be busier than this for a minute, under any strategy.
const BOUND: f64 = 0.95;

/// A service: how many instances, the quota of each, its least and most use of the quota, the hour of most use, the
/// predicted gain.
struct Service {
    name: &'static str,
    instances: u32,
    quota: f64,
    least: f64,
    most: f64,
    peak: f64,
    gain: f64,
}

const SERVICES: [Service; 4] = [
    Service {
        name: "search",
        instances: 6,
        quota: 6.0,
        least: 0.30,
        most: 1.10,
        peak: 20.5,
        gain: 0.09,
    },
    Service {
        name: "feed",
        instances: 6,
        quota: 6.0,
        least: 0.30,
        most: 1.05,
        peak: 13.0,
        gain: 0.12,
    },
    Service {
        name: "router",
        instances: 4,
        quota: 3.0,
        least: 0.50,
        most: 0.80,
        peak: 16.0,
        gain: 0.04,
    },
    Service {
        name: "feature",
        instances: 4,
        quota: 6.0,
        least: 0.25,
        most: 1.15,
        peak: 20.0,
        gain: 0.20,
    },
];

/// An instance that runs.
struct Running {
    service: &'static Service,
    name: String,
    number: u64,
    /// Whether the event asks for it.
    is_asked: bool,
    bound: Option<u32>,
}

/// From 0 to 1, the same for the same arguments.
fn noise(instance: u64, minute: u64) -> f64 {
    let mut x =
        instance.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ minute.wrapping_mul(0xD1B5_4A32_D192_ED03);
    for shift in [30, 27, 31] {
        x = (x ^ (x >> shift)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    }
    (x >> 11) as f64 / (1_u64 << 53) as f64
}

impl Running {
    /// Processors that it keeps busy in a minute.
    fn busy(&self, minute: u64) -> f64 {
        let service = self.service;
        let hour = (minute % DAY) as f64 / 60.0;
        // A wave narrower than a cosine, and bursts of some minutes.
        let wave =
            (0.5 + 0.5 * ((hour - service.peak) / 24.0 * std::f64::consts::TAU).cos()).powf(2.5);
        let share = 0.85 + 0.3 * noise(self.number, 0);
        let day = 0.97 + 0.06 * noise(self.number, 1_000_000 + minute / DAY);
        let slow = 0.92 + 0.16 * noise(self.number, 2_000_000 + minute / 20);
        let fast = 0.97 + 0.06 * noise(self.number, minute);
        let is_event = minute >= 2 * DAY && (EVENT.0..EVENT.1).contains(&hour);
        let event = if is_event && self.is_asked {
            EVENT_LOAD
        } else {
            1.0
        };
        service.quota
            * (service.least + (service.most - service.least) * wave)
            * share
            * day
            * slow
            * fast
            * event
    }
}

/// What came of a day.
#[derive(Debug, Default)]
struct Outcome {
    unbinds: u64,
    binds: u64,
    unbound_minutes: u64,
    minutes: u64,
    peak: f64,
    apart: f64,
}

impl Outcome {
    /// MAO's unbind ratio: times unbound over run time, here in instance-days.
    fn ratio(&self) -> f64 {
        self.unbinds as f64 / (self.minutes as f64 / DAY as f64)
    }

    fn time_unbound(&self) -> f64 {
        self.unbound_minutes as f64 / self.minutes as f64
    }
}

fn observe(running: &[Running], minute: u64) -> Observed {
    let mut nodes: Vec<NodeLoad> = (0..2)
        .map(|node| NodeLoad {
            node,
            cpus: CPUS,
            busy: BACKGROUND,
            quota_left: CPUS,
            memory: 256 << 30,
            memory_left: 128 << 30,
            bandwidth: None,
        })
        .collect();
    let mut instances = Vec::new();
    for it in running {
        let busy = it.busy(minute);
        match it.bound {
            Some(node) => {
                nodes[node as usize].busy += busy;
                nodes[node as usize].quota_left -= it.service.quota;
            }
            None => nodes.iter_mut().for_each(|node| node.busy += busy / 2.0),
        }
        instances.push(Instance {
            group: it.name.parse().unwrap(),
            service: it.service.name.to_owned(),
            bound: it.bound,
            busy,
            quota: it.service.quota,
            quota_used: Some(busy / it.service.quota),
            memory: 0,
            bandwidth: None,
            gains: BTreeMap::from([(0, it.service.gain), (1, it.service.gain)]),
        });
    }
    Observed { nodes, instances }
}

/// Three days, of which the third is told. `None` unbinds nobody.
fn day(strategy: Option<Strategy>) -> Outcome {
    let config = BalanceConfig::new().strategy(strategy.unwrap_or(Strategy::B));
    let mut policy = Policy::new(config);
    let each = SERVICES
        .iter()
        .flat_map(|service| (0..service.instances).map(move |n| (service, n)));
    let mut running: Vec<Running> = (1..)
        .zip(each)
        .map(|(number, (service, n))| Running {
            service,
            name: format!("/{}-{n}", service.name),
            number,
            is_asked: n % 2 == 0,
            bound: None,
        })
        .collect();
    let mut outcome = Outcome::default();
    for minute in 0..3 * DAY {
        let observed = observe(&running, minute);
        let counts = minute >= 2 * DAY;
        if counts {
            let levels: Vec<f64> = observed.nodes.iter().map(|node| node.busy / CPUS).collect();
            outcome.peak = outcome.peak.max(levels[0]).max(levels[1]);
            outcome.apart = outcome.apart.max((levels[0] - levels[1]).abs());
            outcome.minutes += running.len() as u64;
            outcome.unbound_minutes +=
                running.iter().filter(|it| it.bound.is_none()).count() as u64;
        }
        let mut set = |group: &str, to: Option<u32>| {
            running
                .iter_mut()
                .find(|it| it.name == group)
                .unwrap()
                .bound = to;
        };
        match policy.round(Time::from_secs(60 * minute), &observed) {
            Some(Action::Unbind { group, .. }) if strategy.is_some() => {
                outcome.unbinds += u64::from(counts);
                set(&group.to_string(), None);
            }
            Some(Action::Bind { to, .. }) => {
                outcome.binds += u64::from(counts);
                to.iter()
                    .for_each(|(group, node)| set(&group.to_string(), Some(*node)));
            }
            _ => {}
        }
    }
    outcome
}

#[test]
fn b_unbinds_less_than_a_and_keeps_nodes_within_the_bound() {
    let (none, a, b) = (day(None), day(Some(Strategy::A)), day(Some(Strategy::B)));
    println!(
        "strategy | unbinds | per instance and day | time unbound | binds | peak of a node | most apart"
    );
    for (name, outcome) in [("none", &none), ("A", &a), ("B", &b)] {
        println!(
            "{name:8} | {:7} | {:20.2} | {:10.1} % | {:5} | {:12.1} % | {:8.1} %",
            outcome.unbinds,
            outcome.ratio(),
            100.0 * outcome.time_unbound(),
            outcome.binds,
            100.0 * outcome.peak,
            100.0 * outcome.apart
        );
    }
    assert!(b.unbinds > 0, "the day asks B for something");
    assert!(b.ratio() < a.ratio());
    assert!(b.time_unbound() < a.time_unbound());
    assert!(a.peak < BOUND && b.peak < BOUND);
    assert!(b.peak < none.peak, "unbinding brings the peak down");
}
