//! Which layers a row is on, and the numbering of nodes that follows from it.

/// Layers there may be, the ground layer included: enough for 2^31 nodes at M = 4, and beyond that for any at larger M.
const MAX_LAYERS: usize = 16;

/// The nodes of a graph.
pub(super) struct Plan {
    /// The row of each node, those of the highest layer first, each layer's own in order.
    pub(super) rows: Vec<u32>,
    /// Nodes of each layer, the ground layer first.
    pub(super) layers: Vec<usize>,
}

/// Draws the layers of rows of these numbers, in ascending order: layer `l` holds a share of about `m^-l` (arXiv
/// 1603.09320, section 4.1).
pub(super) fn plan(numbers: &[u32], m: usize) -> Plan {
    let scale = 1.0 / (m as f64).ln();
    let level = |row: u32| {
        // In (0, 1]: the logarithm is finite.
        let uniform = ((mixed(u64::from(row)) >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        ((-uniform.ln() * scale) as usize).min(MAX_LAYERS - 1)
    };
    let levels: Vec<usize> = numbers.iter().copied().map(level).collect();
    let top = levels.iter().copied().max().unwrap_or(0);
    let layers = (0..=top)
        .map(|layer| levels.iter().filter(|&&level| level >= layer).count())
        .collect();
    // One layer after the other, as sorting many rows would take long.
    let mut rows = Vec::with_capacity(numbers.len());
    for layer in (0..=top).rev() {
        let on = numbers.iter().zip(&levels);
        let on = on.filter(|&(_, &level)| level == layer);
        rows.extend(on.map(|(&row, _)| row));
    }
    Plan { rows, layers }
}

/// Spreads numbers over all 64 bits: the finaliser of SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom
/// number generators", 2014).
fn mixed(number: u64) -> u64 {
    let x = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}
