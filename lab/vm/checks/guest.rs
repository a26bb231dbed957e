//! The checks, run as the first process of an emulated machine whose shape is given as arguments.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use chiplet::index::{FlatConfig, FlatTable, HnswConfig, HnswTable, MemoryPolicy, Metric};
use chiplet::topology::LevelChoice;
use chiplet::{DomainId, Executor, Pin, StealConfig, Table, TableId, Topology};
use chiplet_topology::Source;
use chiplet_vm::init::{self, mount_at};

use crate::copying;
use crate::memory;
use crate::serving::{Service, wait_until};

type Cpus = BTreeSet<u32>;

/// What is checked, and how.
type Check = (&'static str, fn(&Shape));

struct Shape {
    domains: u32,
    cores: u32,
    nodes: u32,
}

impl Shape {
    /// As passed by the host on the kernel's command line.
    fn from_arguments() -> Self {
        let numbers: Vec<u32> = std::env::args()
            .skip(1)
            .filter_map(|text| text.parse().ok())
            .collect();
        let [domains, cores, nodes] = numbers[..] else {
            panic!("three numbers say what the machine is to look like, not {numbers:?}");
        };
        Self {
            domains,
            cores,
            nodes,
        }
    }

    /// Whether each package has nodes of its own, as on every real machine. Memory is placed by package: where packages
    /// share a node, nothing is.
    fn has_nodes_by_package(&self) -> bool {
        let has = self.domains == self.nodes;
        if !has {
            println!("vm: left out: packages share nodes here");
        }
        has
    }

    fn workers(&self) -> usize {
        (self.domains * self.cores) as usize
    }

    fn all(&self) -> Cpus {
        (0..self.domains * self.cores).collect()
    }

    fn domain(&self, domain: u32) -> Cpus {
        (domain * self.cores..(domain + 1) * self.cores).collect()
    }
}

/// What is checked before `/sys` is there, and after.
const WITHOUT_SYS: [Check; 1] = [(
    "without /sys the machine goes by its number of cpus",
    without_sys,
)];
const WITH_SYS: [Check; 14] = [
    ("both readers see what the kernel shows", detection),
    ("each worker is tied to exactly its domain", |shape| {
        masks(shape, Pin::Domain)
    }),
    ("each worker is tied to exactly its core", |shape| {
        masks(shape, Pin::Core)
    }),
    ("queries run on their home's cpus only", at_home),
    ("a table's home is near its memory", near_memory),
    (
        "a table's memory is on the nodes that were asked for",
        on_its_nodes,
    ),
    ("a table's memory follows its home", |shape| {
        if shape.has_nodes_by_package() {
            copying::memory_follows_its_home();
        }
    }),
    ("a full node gets no copy of a table", |shape| {
        if shape.has_nodes_by_package() {
            copying::a_full_node_gets_no_copy();
        }
    }),
    ("a copy ends with its executor", |shape| {
        if shape.has_nodes_by_package() {
            copying::a_copy_ends_with_its_executor();
        }
    }),
    (
        "each node tells its memory, and pages move between nodes",
        |shape| memory::moves(shape.nodes),
    ),
    (
        "a cpu goes offline while serving and comes back",
        one_cpu_offline,
    ),
    (
        "a whole domain goes offline while serving and comes back",
        domain_offline,
    ),
    (
        "a cpuset is narrowed while serving and widened again",
        narrowed_cpuset,
    ),
    (
        "a cpuset is narrowed and widened before anybody looks",
        reset_masks,
    ),
];
pub const CHECKS: usize = WITHOUT_SYS.len() + WITH_SYS.len();

pub fn main() {
    let shape = Shape::from_arguments();
    mount_at("proc", "/proc");
    let mut failed = run(&WITHOUT_SYS, &shape);
    mount_at("sysfs", "/sys");
    mount_at("cgroup2", "/sys/fs/cgroup");
    failed += run(&WITH_SYS, &shape);
    init::end(failed);
}

/// Runs checks, and says how many have failed.
fn run(checks: &[Check], shape: &Shape) -> usize {
    let failed = checks.iter().filter(|(what, check)| {
        println!("vm: {what}");
        let failed = catch_unwind(AssertUnwindSafe(|| check(shape))).is_err();
        if failed {
            println!("vm: FAILED: {what}");
        }
        failed
    });
    failed.count()
}

/// Reads what the kernel writes of sets of cpus, such as `0-7,12`. Not the library's reader, which is under test.
fn parse(list: &str) -> Cpus {
    let ranges = list.trim().split(',').filter(|range| !range.is_empty());
    let cpus = ranges.flat_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        first.parse::<u32>().unwrap()..=last.parse::<u32>().unwrap()
    });
    cpus.collect()
}

fn read_cpus(path: impl AsRef<Path>) -> Cpus {
    let path = path.as_ref();
    parse(&fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}

fn write(path: &str, text: &str) {
    fs::write(path, text).unwrap_or_else(|error| panic!("{path} <- {text}: {error}"));
}

fn set_online(cpu: u32, online: bool) {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/online");
    write(&path, if online { "1" } else { "0" });
}

/// The masks of the executor's workers by (domain, worker), from `/proc` and the threads' names, which is how
/// somebody from outside would look.
fn masks_by_worker() -> BTreeMap<(u32, usize), Cpus> {
    let mut masks = BTreeMap::new();
    for task in fs::read_dir("/proc/self/task").unwrap().flatten() {
        let Ok(status) = fs::read_to_string(task.path().join("status")) else {
            continue;
        };
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_default().trim().to_owned()
        };
        let name = field("Name:");
        let mut parts = name.strip_prefix("chiplet-").unwrap_or_default().split('-');
        let numbers = (parts.next().map(str::parse), parts.next().map(str::parse));
        if let (Some(Ok(domain)), Some(Ok(worker))) = numbers {
            masks.insert((domain, worker), parse(&field("Cpus_allowed_list:")));
        }
    }
    masks
}

fn executor(pin: Pin) -> Executor {
    // What is checked is where queries run at home. On an emulated machine they wait so long that others would help.
    let at_home = StealConfig::new().cold_factor(None);
    let builder = Executor::builder().pin(pin).steal(at_home);
    builder.build().unwrap()
}

/// Every worker at work is tied to exactly the cpus of its domain that are allowed, every other to no cpu that is not.
fn assert_masks(service: &Service, shape: &Shape, allowed: &Cpus) {
    let masks = masks_by_worker();
    assert_eq!(masks.len(), shape.workers(), "no worker has ended");
    for worker in service.executor.workers() {
        let mask = &masks[&(worker.domain.0, worker.index)];
        if worker.at_work {
            let wanted: Cpus = shape
                .domain(worker.domain.0)
                .intersection(allowed)
                .copied()
                .collect();
            assert_eq!(
                *mask, wanted,
                "worker {} of domain {}",
                worker.index, worker.domain.0
            );
            assert_eq!(worker.granted.iter().copied().collect::<Cpus>(), wanted);
        } else {
            assert!(
                mask.is_subset(allowed),
                "worker {} may run on {mask:?}",
                worker.index
            );
        }
    }
}

fn without_sys(shape: &Shape) {
    let machine = Topology::detect(LevelChoice::Auto).unwrap();
    assert_eq!(*machine.source(), Source::CpuCount);
    assert_eq!(
        (machine.domains().len(), machine.cpu_count()),
        (1, shape.workers())
    );
    let executor = executor(Pin::Domain);
    let table = executor.add_closure_table("t", 1);
    assert_eq!(executor.spawn(table, || 7).wait(), Ok(7));
}

fn detection(shape: &Shape) {
    let by_hwloc = Topology::detect(LevelChoice::Auto).unwrap();
    let by_sysfs = Topology::from_sysfs("/", LevelChoice::Auto).unwrap();
    assert_eq!(*by_hwloc.source(), Source::Hwloc);
    assert_eq!(by_hwloc.domains(), by_sysfs.domains());
    assert_eq!(by_hwloc.domains().len() as u32, shape.domains);
    let mut nodes = Cpus::new();
    for domain in by_hwloc.domains() {
        let cpus: Cpus = domain.cpus().into_iter().collect();
        assert_eq!(cpus, shape.domain(domain.id.0));
        for &cpu in &cpus {
            let folder = format!("/sys/devices/system/cpu/cpu{cpu}");
            assert_eq!(
                cpus,
                read_cpus(format!("{folder}/cache/index3/shared_cpu_list"))
            );
            assert!(
                Path::new(&format!("{folder}/node{}", domain.node)).exists(),
                "the node of cpu {cpu}"
            );
        }
        nodes.insert(domain.node);
    }
    assert_eq!(nodes.len() as u32, shape.nodes);
    for a in by_hwloc.domains() {
        for b in by_hwloc.domains() {
            assert_eq!(by_hwloc.distance(a.id, b.id), by_sysfs.distance(a.id, b.id));
        }
    }
}

fn masks(shape: &Shape, pin: Pin) {
    let executor = executor(pin);
    let masks = masks_by_worker();
    assert_eq!(masks.len(), shape.workers());
    let mut cores = Cpus::new();
    for ((domain, worker), mask) in masks {
        match pin {
            Pin::Core => {
                assert_eq!(mask.len(), 1, "worker {worker}");
                assert!(mask.is_subset(&shape.domain(domain)));
                cores.extend(mask);
            }
            _ => assert_eq!(mask, shape.domain(domain), "worker {worker}"),
        }
    }
    if pin == Pin::Core {
        assert_eq!(cores, shape.all(), "no core has two workers");
    }
    drop(executor);
}

fn at_home(shape: &Shape) {
    let service = Service::new(executor(Pin::Domain));
    for _ in 0..30 {
        service.round();
    }
    let used = service.assert_at_home(&shape.all());
    assert!(
        used > shape.domains as usize,
        "several cpus of a domain take part: {used} seen"
    );
    let steals = service.executor.snapshot().steals;
    assert_eq!(
        (steals.remote, steals.rebalanced, steals.overflow),
        (0, 0, 0)
    );
    service.assert_complete();
}

/// The memory of each of these tables has been touched first by a worker of another domain. They are added in the order
/// of the domains turned around, which is not the order in which new tables are spread.
/// The node of a table's home.
fn home_node(executor: &Executor, table: TableId) -> u32 {
    let placement = executor.placement();
    let id = placement.homes(table).expect("it was added").main().domain;
    let domains = executor.topology().domains();
    let home = domains.iter().find(|domain| domain.id == id);
    home.expect("homes exist").node
}

/// The NUMA nodes that hold a table's memory.
fn nodes_of(table: &impl Table) -> Vec<u32> {
    let residence = table.residence().into_iter();
    residence.map(|(node, _)| node).collect()
}

fn near_memory(shape: &Shape) {
    if !shape.has_nodes_by_package() {
        return;
    }
    let executor = executor(Pin::Domain);
    let home = |table| home_node(&executor, table);
    let builders: Vec<TableId> = (0..shape.domains)
        .map(|_| executor.add_closure_table("builds", 1))
        .collect();
    let built: Vec<_> = builders
        .iter()
        .map(|&builder| {
            let rows = || FlatTable::build(vec![1.0; 64 * 1_024], 64, Metric::L2);
            let table = executor.spawn(builder, rows).wait().unwrap().unwrap();
            (table, home(builder))
        })
        .collect();
    let nodes: Cpus = built.iter().map(|(_, node)| *node).collect();
    assert_eq!(nodes.len() as u32, shape.nodes, "each domain has built one");
    for (table, node) in built.into_iter().rev() {
        assert_eq!(nodes_of(&table), [node], "who touches memory first has it");
        let table = executor.add_table("built", table);
        assert_eq!(home(table), node);
    }
}

fn on_its_nodes(shape: &Shape) {
    let executor = executor(Pin::Domain);
    // Wherever this thread runs, which touches all of it. Some huge pages, so that they can take turns.
    let rows = vec![1.0; 64 * 32_768];
    let on = |place: MemoryPolicy| FlatConfig::new(Metric::L2).memory(place);
    let build = |place: MemoryPolicy| FlatTable::build(&rows, 64, on(place)).unwrap();
    for node in 0..shape.nodes {
        assert_eq!(nodes_of(&build(MemoryPolicy::on([node]))), [node]);
        let values: Vec<f32> = (0..64 * 2_000)
            .map(|at| (at * 7919 % 1009) as f32)
            .collect();
        let config = HnswConfig::new(Metric::L2).memory(MemoryPolicy::on([node]));
        let graph = HnswTable::build(&values, 64, &config).unwrap();
        assert_eq!(nodes_of(&graph), [node]);
    }
    let all = build(MemoryPolicy::on(0..shape.nodes));
    let spread = all.residence();
    assert_eq!(spread.len() as u32, shape.nodes, "page by page in turn");
    let bytes = |&(_, bytes): &(u32, u64)| bytes;
    let (least, most) = (
        spread.iter().map(bytes).min(),
        spread.iter().map(bytes).max(),
    );
    assert!(2 * least.unwrap_or(0) > most.unwrap_or(0), "{spread:?}");
    if !shape.has_nodes_by_package() {
        return;
    }
    // New tables go where the others are not.
    let mut nodes = Cpus::new();
    for _ in 0..shape.domains {
        let wanted = executor.nodes_for_new();
        assert!(!wanted.is_empty(), "the machine has several sockets");
        let table = build(MemoryPolicy::on(wanted.clone()));
        let placed = executor.add_table("placed", table);
        let home = home_node(&executor, placed);
        assert!(wanted.contains(&home), "{wanted:?}, home on {home}");
        nodes.extend(wanted);
    }
    assert_eq!(nodes.len() as u32, shape.nodes, "all sockets have got one");
    for missing in [shape.nodes, 1_000] {
        let refused = FlatTable::build(&rows, 64, on(MemoryPolicy::on([missing])));
        assert!(refused.is_err(), "node {missing}");
    }
}

fn one_cpu_offline(shape: &Shape) {
    let service = Service::new(executor(Pin::Domain));
    let client = service.start();
    client.serve(3);
    let gone = shape.cores + 1;
    let mut allowed = shape.all();
    allowed.remove(&gone);
    set_online(gone, false);
    service.wait_for_workers(shape.workers() - 1);
    assert_masks(&service, shape, &allowed);
    client.serve(1);
    service.forget();
    client.serve(5);
    service.assert_at_home(&allowed);
    set_online(gone, true);
    service.wait_for_workers(shape.workers());
    assert_masks(&service, shape, &shape.all());
    client.serve(3);
    client.stop();
    service.assert_complete();
}

fn domain_offline(shape: &Shape) {
    let service = Service::new(executor(Pin::Core));
    let client = service.start();
    client.serve(3);
    let gone = shape.domain(1);
    let allowed: Cpus = shape.all().difference(&gone).copied().collect();
    for &cpu in &gone {
        set_online(cpu, false);
    }
    service.wait_for_workers(shape.workers() - gone.len());
    let placement = service.executor.placement();
    assert!(
        placement
            .iter()
            .all(|(_, homes)| homes.main().domain.0 != 1),
        "its tables have moved"
    );
    client.serve(1);
    service.forget();
    client.serve(5);
    service.assert_at_home(&allowed);
    for &cpu in &gone {
        set_online(cpu, true);
    }
    service.wait_for_workers(shape.workers());
    let masks = masks_by_worker();
    let ties: Cpus = masks
        .values()
        .filter(|mask| mask.len() == 1)
        .flatten()
        .copied()
        .collect();
    assert_eq!(ties, shape.all(), "every worker has its core back");
    // If no table has moved back by its traffic, new ones go where the fewest are.
    for n in 0..shape.domains {
        let name = format!("new {n}");
        service.executor.add_closure_table(name, 1 << 20);
    }
    let placement = service.executor.placement();
    let mut homes = placement.iter().map(|(_, homes)| homes);
    assert!(
        homes.any(|homes| homes.contains(DomainId(1))),
        "it is a home again"
    );
    client.serve(3);
    client.stop();
    service.assert_complete();
}

const GROUP: &str = "/sys/fs/cgroup/serving";

/// This process in a group of its own, as an orchestrator would have it.
fn enter_group() {
    if !Path::new(GROUP).exists() {
        write("/sys/fs/cgroup/cgroup.subtree_control", "+cpuset");
        fs::create_dir(GROUP).unwrap();
    }
    write(&format!("{GROUP}/cgroup.procs"), "1");
}

fn set_cpuset(cpus: &Cpus) {
    let list: Vec<String> = cpus.iter().map(u32::to_string).collect();
    write(&format!("{GROUP}/cpuset.cpus"), &list.join(","));
}

fn leave_group() {
    write("/sys/fs/cgroup/cgroup.procs", "1");
}

fn narrowed_cpuset(shape: &Shape) {
    enter_group();
    set_cpuset(&shape.all());
    let service = Service::new(executor(Pin::Domain));
    let client = service.start();
    client.serve(3);
    // All of domain 0 but two cpus, and one cpu of domain 1.
    let mut allowed = shape.domain(0);
    allowed.retain(|cpu| *cpu != 2 && *cpu != 5);
    allowed.insert(shape.cores + 3);
    set_cpuset(&allowed);
    for (worker, mask) in masks_by_worker() {
        assert!(
            mask.is_subset(&allowed),
            "the kernel itself lets {worker:?} run on {mask:?}"
        );
    }
    service.wait_for_workers(allowed.len());
    assert_masks(&service, shape, &allowed);
    client.serve(1);
    service.forget();
    client.serve(5);
    // Not all at home: a round is more than these few workers take, and whoever is idle helps.
    service.assert_within(&allowed);
    // Down to a single cpu, and back.
    set_cpuset(&Cpus::from([1]));
    service.wait_for_workers(1);
    assert_masks(&service, shape, &Cpus::from([1]));
    client.serve(2);
    set_cpuset(&shape.all());
    service.wait_for_workers(shape.workers());
    assert_masks(&service, shape, &shape.all());
    client.serve(3);
    client.stop();
    service.assert_complete();
    leave_group();
}

/// A change of the cpuset resets every mask in it, also if it is taken back at once.
fn reset_masks(shape: &Shape) {
    enter_group();
    set_cpuset(&shape.all());
    let service = Service::new(executor(Pin::Domain));
    let client = service.start();
    client.serve(1);
    set_cpuset(&shape.domain(0));
    set_cpuset(&shape.all());
    wait_until("every worker is tied again", || {
        let masks = masks_by_worker();
        masks
            .iter()
            .all(|((domain, _), mask)| *mask == shape.domain(*domain))
    });
    client.serve(2);
    client.stop();
    service.assert_complete();
    leave_group();
    drop(Arc::into_inner(service));
}
