//! Finds the parts of a JSON text by their places, without a tree and without a copy.

/// A place in a text that is known to be JSON: what is found needs no further check.
pub(super) struct Scan<'j> {
    json: &'j str,
    at: usize,
}

impl<'j> Scan<'j> {
    /// The beginning of a text.
    pub(super) fn new(json: &'j str) -> Self {
        Self { json, at: 0 }
    }

    fn byte(&self) -> u8 {
        self.json.as_bytes().get(self.at).copied().unwrap_or(0)
    }

    fn skip_space(&mut self) {
        while matches!(self.byte(), b' ' | b'\t' | b'\r' | b'\n') {
            self.at += 1;
        }
    }

    /// Passes over the value here and gives its text.
    pub(super) fn value(&mut self) -> &'j str {
        self.skip_space();
        let start = self.at;
        match self.byte() {
            b'"' => self.skip_string(),
            b'{' | b'[' => self.skip_nested(),
            _ => {
                self.skip_until(|b| matches!(b, b',' | b']' | b'}' | b' ' | b'\t' | b'\r' | b'\n'))
            }
        }
        &self.json[start..self.at]
    }

    fn skip_until(&mut self, end: impl Fn(u8) -> bool) {
        let rest = &self.json.as_bytes()[self.at..];
        self.at += rest.iter().position(|b| end(*b)).unwrap_or(rest.len());
    }

    fn skip_string(&mut self) {
        self.at += 1;
        loop {
            self.skip_until(|b| matches!(b, b'"' | b'\\'));
            match self.byte() {
                b'\\' => self.at += 2,
                b'"' => return self.at += 1,
                _ => return,
            }
            self.at = self.at.min(self.json.len());
        }
    }

    fn skip_nested(&mut self) {
        let mut depth = 0usize;
        while self.at < self.json.len() {
            match self.byte() {
                b'"' => {
                    self.skip_string();
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return;
            }
            self.skip_until(|b| matches!(b, b'"' | b'{' | b'[' | b'}' | b']'));
        }
    }

    /// Steps to the next element of the array or object; false at its end.
    fn next(&mut self) -> bool {
        self.skip_space();
        if matches!(self.byte(), b'{' | b'[' | b',') {
            self.at += 1;
            self.skip_space();
        }
        self.at < self.json.len() && !matches!(self.byte(), b'}' | b']')
    }

    /// The member of this name of the object here.
    pub(super) fn member(&mut self, wanted: &str) -> Result<Option<&'j str>, String> {
        if self.byte() != b'{' {
            return Ok(None);
        }
        let mut found = None;
        while self.next() {
            let name = self.value();
            self.skip_space();
            self.at += 1;
            let value = self.value();
            if is_name(name, wanted) && found.replace(value).is_some() {
                return Err(format!("the name {wanted:?} is given twice"));
            }
        }
        Ok(found)
    }

    /// The element at this place of the array here.
    pub(super) fn item(&mut self, index: usize) -> Option<&'j str> {
        if self.byte() != b'[' {
            return None;
        }
        let mut place = 0;
        while self.next() {
            let value = self.value();
            if place == index {
                return Some(value);
            }
            place += 1;
        }
        None
    }
}

/// Whether a quoted name is this one; an escaped spelling is the same name.
fn is_name(quoted: &str, wanted: &str) -> bool {
    if quoted.contains('\\') {
        return serde_json::from_str::<String>(quoted).is_ok_and(|name| name == wanted);
    }
    quoted.get(1..quoted.len() - 1) == Some(wanted)
}
