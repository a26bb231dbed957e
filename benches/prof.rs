mod pools;
use pools::Pool;
use std::hint::black_box;
fn turn(turns: u64) -> u64 { (0..turns).fold(1, |v, n| black_box(v * 31 + n)) }
fn main() {
    let which = std::env::args().nth(1).unwrap();
    let p: Box<dyn Pool> = if which == "rayon" { Box::new(pools::Rayon::new()) } else { Box::new(pools::Chiplet::new(1)) };
    let t = std::time::Instant::now();
    let mut n = 0u64;
    while t.elapsed().as_secs() < 4 { black_box(p.run_batch(turn, 600)); n += pools::BATCH as u64; }
    println!("{} ns", t.elapsed().as_nanos() as f64 / n as f64);
}
