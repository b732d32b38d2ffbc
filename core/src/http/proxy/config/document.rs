//! A TOML text whose faults are told with line and column: what is unknown, of another type, or of no use.

use std::cell::RefCell;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The most faults that are told at once.
const MAX_FAULTS: usize = 20;

/// A text, its name for messages, and what is wrong with it.
pub(super) struct Document<'t> {
    name: &'t str,
    text: &'t str,
    /// Where each fault stands, as an offset in bytes, and what it is.
    faults: RefCell<Vec<(usize, String)>>,
}

/// A table of a document. What it was not asked for is unknown.
pub(super) struct Section<'d, 't> {
    document: &'d Document<'t>,
    table: &'d DeTable<'t>,
    asked: RefCell<Vec<&'static str>>,
}

impl<'t> Document<'t> {
    pub(super) fn new(name: &'t str, text: &'t str) -> Self {
        Self {
            name,
            text,
            faults: RefCell::default(),
        }
    }

    /// Its top table, if it is TOML.
    pub(super) fn parse(&self) -> Option<Spanned<DeTable<'t>>> {
        match DeTable::parse(self.text) {
            Ok(table) => Some(table),
            Err(error) => {
                let at = error.span().map_or(0, |span| span.start);
                self.fault(at, error.message().to_owned());
                None
            }
        }
    }

    pub(super) fn section<'d>(&'d self, table: &'d DeTable<'t>) -> Section<'d, 't> {
        Section {
            document: self,
            table,
            asked: RefCell::default(),
        }
    }

    pub(super) fn fault(&self, at: usize, words: String) {
        self.faults.borrow_mut().push((at, words));
    }

    /// All faults in the order in which they stand, a line each; `None` when there is none.
    pub(super) fn faults(&self) -> Option<String> {
        let mut faults = self.faults.take();
        if faults.is_empty() {
            return None;
        }
        faults.sort();
        let more = faults.len().saturating_sub(MAX_FAULTS);
        let mut lines: Vec<String> = faults
            .iter()
            .take(MAX_FAULTS)
            .map(|(at, words)| format!("{}: {words}", self.position(*at)))
            .collect();
        if more > 0 {
            lines.push(format!("{}: and {more} more", self.name));
        }
        Some(lines.join("\n"))
    }

    /// FILE:LINE:COLUMN, both from 1; columns are characters.
    fn position(&self, at: usize) -> String {
        let before = self.text.get(..at).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before
            .rsplit('\n')
            .next()
            .unwrap_or_default()
            .chars()
            .count()
            + 1;
        format!("{}:{line}:{column}", self.name)
    }
}

impl<'d, 't> Section<'d, 't> {
    /// An option, read by `read`; `example` is a value that would do.
    pub(super) fn value<T>(
        &self,
        name: &'static str,
        example: &str,
        read: impl FnOnce(&DeValue<'t>) -> Result<T, String>,
    ) -> Option<T> {
        let value = self.find(name)?;
        match read(value.get_ref()) {
            Ok(read) => Some(read),
            Err(fault) => {
                let words = format!("{name}: {fault}; for instance {name} = {example}");
                self.document.fault(value.span().start, words);
                None
            }
        }
    }

    /// Whether an option is given, of whatever kind.
    pub(super) fn has(&self, name: &str) -> bool {
        self.table.contains_key(name)
    }

    /// A table below this one, and where it stands.
    pub(super) fn below(&self, name: &'static str) -> Option<(usize, Section<'d, 't>)> {
        let value = self.find(name)?;
        match value.get_ref() {
            DeValue::Table(table) => Some((value.span().start, self.document.section(table))),
            other => {
                let words = format!("{name}: it is {}; write a table, [{name}]", kind(other));
                self.document.fault(value.span().start, words);
                None
            }
        }
    }

    /// The tables of an array, each with its place.
    pub(super) fn each(&self, name: &'static str) -> Vec<(usize, Section<'d, 't>)> {
        let Some(value) = self.find(name) else {
            return Vec::new();
        };
        let items = match value.get_ref() {
            DeValue::Array(items) => items.iter().collect(),
            _ => vec![value],
        };
        let tables = items.into_iter().filter_map(|item| match item.get_ref() {
            DeValue::Table(table) if value.get_ref().is_array() => {
                Some((item.span().start, self.document.section(table)))
            }
            other => {
                let words = format!("{name}: it is {}; write [[{name}]]", kind(other));
                self.document.fault(item.span().start, words);
                None
            }
        });
        tables.collect()
    }

    /// Tells what this table was not asked for.
    pub(super) fn finish(self) {
        let asked = self.asked.take();
        for name in self.table.keys() {
            let given: &str = name.get_ref();
            if !asked.contains(&given) {
                let words = match nearest(given, &asked) {
                    Some(meant) => format!("{given} is unknown here; did you mean {meant}?"),
                    None => format!("{given} is unknown here; there are {}", asked.join(", ")),
                };
                self.document.fault(name.span().start, words);
            }
        }
    }

    fn find(&self, name: &'static str) -> Option<&'d Spanned<DeValue<'t>>> {
        self.asked.borrow_mut().push(name);
        self.table.get(name)
    }
}

/// What a value is, for a message.
fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

fn other_than(value: &DeValue<'_>, wanted: &str) -> String {
    format!("it is {}, and {wanted} is wanted", kind(value))
}

/// A text.
pub(super) fn text(value: &DeValue<'_>) -> Result<String, String> {
    match value {
        DeValue::String(text) => Ok(text.to_string()),
        other => Err(other_than(other, "a text")),
    }
}

/// Texts.
pub(super) fn texts(value: &DeValue<'_>) -> Result<Vec<String>, String> {
    match value {
        DeValue::Array(items) => items.iter().map(|item| text(item.get_ref())).collect(),
        other => Err(other_than(other, "a list of texts")),
    }
}

/// True or false.
pub(super) fn truth(value: &DeValue<'_>) -> Result<bool, String> {
    match value {
        DeValue::Boolean(truth) => Ok(*truth),
        other => Err(other_than(other, "true or false, without quotes,")),
    }
}

/// A whole number from `least` to `most`.
pub(super) fn number(value: &DeValue<'_>, least: usize, most: usize) -> Result<usize, String> {
    let DeValue::Integer(integer) = value else {
        return Err(other_than(value, "a whole number"));
    };
    let number = usize::from_str_radix(integer.as_str(), integer.radix()).ok();
    number
        .filter(|number| (least..=most).contains(number))
        .ok_or_else(|| format!("it is {integer}, and from {least} to {most} are allowed"))
}

/// The name that was probably meant: one that differs in at most two letters.
fn nearest<'n>(given: &str, names: &[&'n str]) -> Option<&'n str> {
    let distances = names.iter().map(|name| (distance(given, name), *name));
    let (distance, name) = distances.min()?;
    (distance <= 2 && distance < name.len()).then_some(name)
}

/// How many letters have to be added, removed or changed.
fn distance(one: &str, two: &str) -> usize {
    let two: Vec<char> = two.chars().collect();
    let mut row: Vec<usize> = (0..=two.len()).collect();
    for (at, letter) in one.chars().enumerate() {
        let mut before = row[0];
        row[0] = at + 1;
        for (place, other) in two.iter().enumerate() {
            let changed = before + usize::from(letter != *other);
            before = row[place + 1];
            row[place + 1] = changed.min(before + 1).min(row[place] + 1);
        }
    }
    row[two.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_stand_where_they_are_and_unknown_names_have_a_neighbour() {
        let text = "a = 1\nlisten = 3\n[timeouts]\nconect = \"5s\"\n\u{e9}t\u{e9} = 1\n";
        let document = Document::new("f.toml", text);
        // A letter outside ASCII needs quotes.
        assert!(document.parse().is_none());
        let told = document.faults().unwrap_or_default();
        assert!(told.starts_with("f.toml:5:1: "), "{told}");

        let text = text.replace('\u{e9}', "e");
        let document = Document::new("f.toml", &text);
        let table = document.parse().expect("TOML");
        let top = document.section(table.get_ref());
        assert_eq!(top.value("listen", "\"x\"", super::text), None);
        assert_eq!(top.value("a", "1", |v| number(v, 0, 1)), Some(1));
        let (_, timeouts) = top.below("timeouts").expect("a table");
        assert_eq!(timeouts.value("connect", "\"5s\"", super::text), None);
        timeouts.finish();
        top.finish();
        let told = document.faults().unwrap_or_default();
        let lines: Vec<&str> = told.lines().collect();
        assert_eq!(
            lines,
            [
                "f.toml:2:10: listen: it is a number, and a text is wanted; for instance listen = \"x\"",
                "f.toml:4:1: conect is unknown here; did you mean connect?",
                "f.toml:5:1: ete is unknown here; there are connect",
            ]
        );
    }

    #[test]
    fn distances_are_counted() {
        for (one, two, expect) in [("", "ab", 2), ("kitten", "sitting", 3), ("same", "same", 0)] {
            assert_eq!(distance(one, two), expect, "{one} {two}");
        }
    }
}
