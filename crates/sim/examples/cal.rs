//! dev
fn main() {
    for _ in 0..3 {
        println!("{:?}", chiplet_sim::Compute::measure());
    }
}
