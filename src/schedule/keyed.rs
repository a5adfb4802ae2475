//! Keyed randomness: each draw is a function of the seed and of a key for its purpose, instead of
//! the next number of a stream. So the removal of one step of a schedule, or of one packet, does
//! not change the other draws.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

/// Returns the generator for one key: `keyed(seed, "latency", &[conn, direction, n])`.
pub fn keyed(seed: u64, what: &str, which: &[u64]) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(mixed(seed, what, which))
}

/// Returns the mixed key itself. Use it if one number per packet is enough and a generator would
/// cost too much.
pub fn mixed(seed: u64, what: &str, which: &[u64]) -> u64 {
    let mut key = crate::digest::Digest::default();
    key.number(seed);
    key.bytes(what.as_bytes());
    which.iter().for_each(|n| key.number(*n));
    key.value()
}

/// Returns one number below `bound`; 0 if `bound` is 0.
pub fn below(seed: u64, what: &str, which: &[u64], bound: u64) -> u64 {
    ((u128::from(mixed(seed, what, which)) * u128::from(bound)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draw_depends_on_each_part_of_its_key_and_on_nothing_else() {
        let draw = |seed, what, which: &[u64]| below(seed, what, which, u64::MAX);
        assert_eq!(draw(1, "latency", &[2, 3]), draw(1, "latency", &[2, 3]));
        for other in
            [draw(2, "latency", &[2, 3]), draw(1, "order", &[2, 3]), draw(1, "latency", &[3, 2])]
        {
            assert_ne!(draw(1, "latency", &[2, 3]), other);
        }
        assert!((0..100).all(|n| below(1, "x", &[n], 20) < 20));
    }
}
