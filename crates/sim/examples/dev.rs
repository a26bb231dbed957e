//! dev
use chiplet_policy::Strategy;
use chiplet_sim::*;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let w = Recipe::built_in(&a[1]).unwrap().workload(1);
    let t = std::time::Instant::now();
    let p = Prepared::new(w, Sampling::default(), |m| eprintln!("{m}"));
    eprintln!("prepared {:?}", t.elapsed());
    let m = Machine::preset(&a[2]).unwrap();
    for d in a[3].split(',').map(|d| d.parse::<usize>().unwrap()) {
        let m = m.with_domains(d).unwrap();
        for s in a[4].split(',') {
            let s: Strategy = s.parse().unwrap();
            let t = std::time::Instant::now();
            let mut sc = Scenario::new(&m, &p, s);
            sc.warmup = a[5].parse().unwrap();
            sc.measured = a[6].parse().unwrap();
            if let Some(r) = a.get(7) {
                sc.load = Load::Open {
                    rate: r.parse().unwrap(),
                };
            }
            let o = sc.run(&mut |_| ());
            println!(
                "{d:2} {:16} qps {:8.0} p50 {:8.0} p999 {:8.0} miss {:.3} stall {:.3} util {:.3} cross {:.3} link {:.2} sock {:.2} MB/q {:.2} shed {} remaps {} [{:?}]",
                s.name,
                o.qps,
                o.latency_us.p50,
                o.latency_us.p999,
                o.l3_miss_ratio,
                o.stall_share,
                o.utilisation,
                o.crossing_share,
                o.links.iter().cloned().fold(0.0, f64::max),
                o.sockets[0],
                o.memory_bytes_per_query / 1e6,
                o.shed,
                o.remaps.len(),
                t.elapsed()
            );
        }
    }
}
