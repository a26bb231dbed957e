//! Reads freed memory, which AddressSanitizer has to report: a check of the check.

fn main() {
    let gone = {
        let words = vec![1_u64; std::env::args().count()];
        words.as_ptr()
    };
    let found = unsafe { std::ptr::read_volatile(gone) };
    std::process::exit((found & 1) as i32);
}
