//! Damages text, bytes and JSON at random, for tests that feed them to a parser.
//!
//! The same seed damages in the same way. `PROPTEST_RNG_SEED` and `PROPTEST_CASES` are used as in property
//! tests.

use serde_json::{Map, Value, json};

/// The seed and the number of cases without those variables.
const DEFAULTS: (u64, u64) = (20_261_115, 48);

/// Strings that parsers, paths and terminals treat in a special way.
const WORDS: &[&str] = &[
    "",
    " ",
    "null",
    "-1",
    "1e999",
    "18446744073709551616",
    "../../etc/passwd",
    "\u{0}",
    "\u{feff}",
    "\u{202e}abc",
    "é\u{301}😀",
    "a\r\nb: c",
    "${environment}",
    "{{ x }}",
    "<script>",
    "refs/heads/",
    "0000000000000000000000000000000000000000",
    "https://user:pw@other.example/",
    "2026-02-30T25:61:61Z",
];

/// Runs a test for each case with its own source of damage; prints the seed of a case that panics.
pub fn for_each_case(test: impl Fn(&mut Damage)) {
    let (seed, cases) = seed_and_cases();
    for case in 0..cases {
        let seed = seed.wrapping_mul(1_000_003).wrapping_add(case);
        let shown = ShownOnPanic(seed);
        test(&mut Damage::new(seed));
        drop(shown);
    }
}

/// The seeds of all cases, for tests that are not functions of one case.
pub fn seeds() -> impl Iterator<Item = u64> {
    let (seed, cases) = seed_and_cases();
    (0..cases).map(move |case| seed.wrapping_mul(1_000_003).wrapping_add(case))
}

fn seed_and_cases() -> (u64, u64) {
    let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
    let seed = number("PROPTEST_RNG_SEED").unwrap_or(DEFAULTS.0);
    (seed, number("PROPTEST_CASES").unwrap_or(DEFAULTS.1))
}

/// Says which case failed.
pub struct ShownOnPanic(pub u64);

impl Drop for ShownOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failed with the case seed {}", self.0);
        }
    }
}

/// A source of random numbers and damage.
pub struct Damage(u64);

impl Damage {
    /// The same seed draws the same numbers.
    pub fn new(seed: u64) -> Self {
        Self(seed ^ 0x9e37_79b9_7f4a_7c15)
    }

    /// A number below a limit.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let drawn = usize::try_from(self.0 >> 33).unwrap_or(0);
        drawn % limit.max(1)
    }

    /// Whether something happens that happens once in so many times.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// One of several.
    pub fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }

    /// An odd string.
    pub fn word(&mut self) -> String {
        match self.below(8) {
            0 => "x".repeat(self.below(5000)),
            _ => self.pick(WORDS).to_owned(),
        }
    }

    /// JSON as bytes: damaged as a value, and sometimes as bytes, too.
    pub fn json(&mut self, value: &Value) -> Vec<u8> {
        let mut value = value.clone();
        for _ in 0..self.below(4) {
            self.damage_value(&mut value, 0);
        }
        let bytes = value.to_string().into_bytes();
        match self.once_in(5) {
            true => self.bytes(&bytes),
            false => bytes,
        }
    }

    /// Text as bytes, with bytes flipped, cut, doubled or inserted.
    pub fn bytes(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len() + 1);
            let end = at + self.below(bytes.len() - at + 1).min(64);
            match self.below(5) {
                0 => bytes.truncate(at),
                1 => drop(bytes.drain(at..end)),
                2 => {
                    let part = bytes[at..end].to_vec();
                    bytes.splice(at..at, part);
                }
                3 => {
                    let word = self.word();
                    bytes.splice(at..at, word.into_bytes());
                }
                _ => {
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte ^= 1 << self.below(8);
                    }
                }
            }
        }
        bytes
    }

    /// Damages one place of a value.
    fn damage_value(&mut self, value: &mut Value, depth: usize) {
        let stops = depth > 0 && self.once_in(4);
        match value {
            Value::Object(fields) if !fields.is_empty() && !stops => {
                self.damage_field(fields, depth);
            }
            Value::Array(items) if !items.is_empty() && !stops => {
                let at = self.below(items.len());
                match self.below(6) {
                    0 => drop(items.remove(at)),
                    1 => {
                        let item = items[at].clone();
                        let count = self.below(200);
                        items.extend(std::iter::repeat_n(item, count));
                    }
                    _ => self.damage_value(&mut items[at], depth + 1),
                }
            }
            _ => *value = self.odd_value(),
        }
    }

    fn damage_field(&mut self, fields: &mut Map<String, Value>, depth: usize) {
        let names: Vec<String> = fields.keys().cloned().collect();
        let name = names[self.below(names.len())].clone();
        match self.below(8) {
            0 => drop(fields.remove(&name)),
            1 => {
                let (word, odd) = (self.word(), self.odd_value());
                fields.insert(word, odd);
            }
            2 => {
                // The value of another field.
                let other = names[self.below(names.len())].clone();
                let value = fields[&other].clone();
                fields.insert(name, value);
            }
            _ => {
                if let Some(value) = fields.get_mut(&name) {
                    self.damage_value(value, depth + 1);
                }
            }
        }
    }

    /// A value that is not expected.
    pub fn odd_value(&mut self) -> Value {
        match self.below(10) {
            0 => Value::Null,
            1 => json!(true),
            2 => json!(-1),
            3 => json!(u64::MAX),
            4 => json!(1.5e300),
            5 => json!([]),
            6 => json!({}),
            7 => {
                let nested = json!([self.word()]);
                (0..self.below(100)).fold(nested, |inner, _| json!([inner]))
            }
            _ => json!(self.word()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_damages_in_the_same_way_and_another_differently() {
        let value = json!({"a": [1, 2, {"b": "text"}], "c": {"d": null}});
        let damaged = |seed| Damage::new(seed).json(&value);
        let all: std::collections::BTreeSet<_> = (0..50).map(damaged).collect();
        assert!(all.len() > 25, "{}", all.len());
        for seed in 0..50 {
            assert_eq!(damaged(seed), damaged(seed));
        }
    }
}
