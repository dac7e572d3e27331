//! Thousands of generated files: only the intended bytes change.

use git::edit::{markers, set_marked};

const MARKER: &str = "team:app:prod";
const VALUES: &[&str] = &[
    "2.0.0",
    "1.10",
    "true",
    "v3.1.0-rc.1",
    "it's",
    "a \"b\" c",
    "x: y",
    "0644",
    "main@sha1:00ff",
];

/// A small generator of numbers: the same seed draws the same file on every machine.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % sides
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.roll(from.len())]
    }
}

/// A file being drawn, before and after the edit.
struct Drawing {
    dice: Dice,
    before: String,
    after: String,
    newline: &'static str,
    value: &'static str,
    marked: usize,
}

impl Drawing {
    fn both(&mut self, text: &str) {
        self.before.push_str(text);
        self.after.push_str(text);
    }

    fn newline(&mut self) {
        let newline = self.newline;
        self.both(newline);
    }

    /// A scalar that must change, in any style.
    fn target(&mut self) {
        let old = self
            .dice
            .pick(&["1.0.0", "latest", "v1", "6.5.*", "ünïcode"]);
        let single = format!("'{}'", self.value.replace('\'', "''"));
        let double = format!("\"{}\"", self.value.replace('"', "\\\""));
        let is_plain = matches!(self.value, "2.0.0" | "v3.1.0-rc.1" | "main@sha1:00ff");
        let plain = if is_plain {
            self.value.to_owned()
        } else {
            double.clone()
        };
        let (before, after) = match self.dice.roll(5) {
            0 => (format!("'{old}'"), single),
            1 => (format!("\"{old}\""), double),
            2 => (
                format!("&anchor{} {old}", self.marked),
                format!("&anchor{} {plain}", self.marked),
            ),
            _ => (old.to_owned(), plain),
        };
        self.before.push_str(&before);
        self.after.push_str(&after);
        self.marked += 1;
    }

    fn marker(&mut self, marker: &str) {
        let space = self.dice.pick(&["", " "]);
        self.both(&format!("#{space}{{\"$promotion\":{space}\"{marker}\"}}"));
    }

    fn line(&mut self, indent: &str) {
        let number = self.before.len();
        self.both(indent);
        match self.dice.roll(9) {
            0 => {
                self.both(&format!("key{number}: "));
                self.target();
                self.both(" ");
                self.marker(MARKER);
            }
            1 => {
                self.marker(MARKER);
                self.newline();
                self.both(&format!("{indent}key{number}: "));
                self.target();
            }
            2 => {
                self.both(&format!("key{number}: {{a: 1,"));
                self.newline();
                self.both(&format!("{indent}  version: "));
                self.target();
                self.both(", ");
                self.marker(MARKER);
                self.newline();
                self.both(&format!("{indent}  b: [x, 'y', \"z\"]}}"));
            }
            3 => {
                self.both(&format!("key{number}:"));
                self.newline();
                self.both(&format!("{indent}- "));
                self.target();
                self.both("   ");
                self.marker(MARKER);
            }
            4 => {
                self.both(&format!("key{number}: other "));
                self.marker("team:app:staging");
            }
            5 => {
                self.both(&format!("key{number}: |"));
                self.newline();
                self.both(&format!(
                    "{indent}    version: 1.0.0 # {{\"$promotion\": \"{MARKER}\"}}"
                ));
            }
            6 => self.both(&format!(
                "key{number}: \"# {{\\\"$promotion\\\": \\\"{MARKER}\\\"}}\" # a comment"
            )),
            7 => self.both(&format!("key{number}: 'it''s'   # trailing   ")),
            _ => self.both(&format!("key{number}: plain text with é and \u{1f600}")),
        }
        self.newline();
    }

    fn document(&mut self) {
        for _ in 0..=self.dice.roll(4) {
            self.line("");
        }
        let number = self.before.len();
        self.both(&format!("nested{number}:"));
        self.newline();
        for _ in 0..=self.dice.roll(4) {
            self.line("  ");
        }
    }
}

fn draw(seed: u64) -> Drawing {
    let mut dice = Dice(seed);
    let newline = dice.pick(&["\n", "\r\n"]);
    let value = dice.pick(VALUES);
    let mut drawing = Drawing {
        dice,
        before: String::new(),
        after: String::new(),
        newline,
        value,
        marked: 0,
    };
    if drawing.dice.roll(4) == 0 {
        drawing.both("\u{feff}");
    }
    // At least one token, so that every file is read.
    drawing.both("# holds \"$promotion\"");
    drawing.newline();
    drawing.newline();
    for document in 0..=drawing.dice.roll(3) {
        if document > 0 {
            drawing.both("---");
            drawing.newline();
        }
        drawing.document();
    }
    if drawing.dice.roll(3) == 0 {
        let newline = drawing.newline;
        drawing.before = drawing
            .before
            .strip_suffix(newline)
            .expect("it ends so")
            .to_owned();
        drawing.after = drawing
            .after
            .strip_suffix(newline)
            .expect("it ends so")
            .to_owned();
    }
    drawing
}

#[test]
fn only_the_intended_bytes_of_4000_files_change() {
    let mut marked = 0;
    for seed in 0..4000 {
        let drawing = draw(seed);
        let edited = set_marked(drawing.before.as_bytes(), MARKER, drawing.value)
            .unwrap_or_else(|error| panic!("seed {seed}: {error}\n{}", drawing.before));
        let content = String::from_utf8(edited.content).expect("text");
        assert_eq!(content, drawing.after, "seed {seed}");
        assert_eq!(edited.marked, drawing.marked, "seed {seed}");
        marked += edited.marked;
    }
    assert!(
        marked > 8000,
        "the generator draws enough markers: {marked}"
    );
}

#[test]
fn editing_twice_changes_nothing_more() {
    for seed in 0..500 {
        let drawing = draw(seed);
        let once = set_marked(drawing.before.as_bytes(), MARKER, drawing.value).expect("editable");
        let twice = set_marked(&once.content, MARKER, drawing.value).expect("editable");
        assert_eq!(
            (twice.changed, twice.content),
            (0, once.content),
            "seed {seed}"
        );
    }
}

proptest::proptest! {
    #[test]
    fn no_input_makes_it_panic_or_change_other_bytes(text in "\\PC{0,200}", value in "[a-z0-9.:#' -]{1,12}") {
        let text = format!("{text}\nv: 1 # {{\"$promotion\": \"{MARKER}\"}}\n");
        let _ = markers(text.as_bytes());
        if let Ok(edited) = set_marked(text.as_bytes(), MARKER, &value) {
            let content = String::from_utf8(edited.content).expect("text stays text");
            if edited.changed == 0 {
                proptest::prop_assert_eq!(content, text);
            } else {
                proptest::prop_assert!(content.lines().count() == text.lines().count());
            }
        }
    }
}
