//! Ten thousand JSON texts from a number, the same in every language: `vectors/README.md` has the recipe.

/// The seed of the texts: "semel" in ASCII.
pub const SEED: u64 = 0x73_65_6d_65_6c;

/// The text with this index, from 0 up. It depends on nothing else.
pub fn text(index: u64) -> Vec<u8> {
    let mut generator = Generator {
        state: SEED.wrapping_add(index),
        out: Vec::new(),
    };
    if index.is_multiple_of(2) {
        generator.object(0);
    } else {
        generator.value(0);
    }
    generator.out
}

struct Generator {
    state: u64,
    out: Vec<u8>,
}

impl Generator {
    /// The next number of splitmix64.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u32) -> u32 {
        (self.next() % u64::from(limit)) as u32
    }

    fn push(&mut self, text: &[u8]) {
        self.out.extend_from_slice(text);
    }

    fn pick(&mut self, choices: &[u8]) {
        let chosen = choices[self.below(choices.len() as u32) as usize];
        self.out.push(chosen);
    }

    fn value(&mut self, depth: u32) {
        self.space();
        match self.below(if depth < 4 { 8 } else { 6 }) {
            0 => {
                let words: [&[u8]; 3] = [b"null", b"true", b"false"];
                let word = words[self.below(3) as usize];
                self.push(word);
            }
            1 | 2 => self.number(),
            3..=5 => self.string(b""),
            6 => self.array(depth),
            _ => self.object(depth),
        }
        self.space();
    }

    fn space(&mut self) {
        if let Some(byte) = b" \n\t\r".get(self.below(8) as usize) {
            self.out.push(*byte);
        }
    }

    fn array(&mut self, depth: u32) {
        self.push(b"[");
        let count = self.below(5);
        for at in 0..count {
            if at > 0 {
                self.push(b",");
            }
            self.value(depth + 1);
        }
        if count == 0 {
            self.space();
        }
        self.push(b"]");
    }

    fn object(&mut self, depth: u32) {
        self.push(b"{");
        let count = self.below(8);
        for at in 0..count {
            if at > 0 {
                self.push(b",");
            }
            self.space();
            self.string(at.to_string().as_bytes());
            self.space();
            self.push(b":");
            self.value(depth + 1);
        }
        if count == 0 {
            self.space();
        }
        self.push(b"}");
    }

    fn number(&mut self) {
        if self.below(2) == 1 {
            self.push(b"-");
        }
        match self.below(4) {
            0 => self.push(b"0"),
            size => {
                let more = self.below(8 * size);
                self.pick(b"123456789");
                self.digits(more);
            }
        }
        if self.below(2) == 1 {
            self.push(b".");
            let count = 1 + self.below(20);
            self.digits(count);
        }
        if self.below(3) == 0 {
            self.pick(b"eE");
            match self.below(3) {
                0 => {}
                1 => self.push(b"+"),
                _ => self.push(b"-"),
            }
            let count = 1 + self.below(3);
            self.digits(count);
        }
    }

    fn digits(&mut self, count: u32) {
        for _ in 0..count {
            self.pick(b"0123456789000000");
        }
    }

    fn string(&mut self, last: &[u8]) {
        self.push(b"\"");
        for _ in 0..self.below(12) {
            self.character();
        }
        self.push(last);
        self.push(b"\"");
    }

    fn character(&mut self) {
        match self.below(8) {
            0..=3 => {
                let byte = 0x20 + self.below(95) as u8;
                if matches!(byte, b'"' | b'\\') {
                    self.push(b"\\");
                }
                self.out.push(byte);
            }
            4 => {
                self.push(b"\\");
                self.pick(b"\"\\/bfnrt");
            }
            5 => {
                let unit = self.below(0x800);
                self.unit(unit);
            }
            6 => {
                let point = 0x80 + self.below(0xf780);
                self.raw(if point < 0xd800 { point } else { point + 0x800 });
            }
            _ => {
                let above = self.below(0x10_0000);
                if self.below(2) == 0 {
                    self.raw(0x1_0000 + above);
                } else {
                    self.unit(0xd800 + (above >> 10));
                    self.unit(0xdc00 + (above & 0x3ff));
                }
            }
        }
    }

    fn unit(&mut self, unit: u32) {
        let escape = if self.below(2) == 1 {
            format!("\\u{unit:04X}")
        } else {
            format!("\\u{unit:04x}")
        };
        self.push(escape.as_bytes());
    }

    fn raw(&mut self, point: u32) {
        let character = char::from_u32(point).expect("the ranges leave out the surrogates");
        self.push(character.encode_utf8(&mut [0; 4]).as_bytes());
    }
}
