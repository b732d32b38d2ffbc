//! Paths into a JSON text, as in `.order.id`, `."odd name"` and `.items[0]`: parsed once, found without building a tree.

use super::scan::Scan;

/// A path from the whole text to one of its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    text: String,
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Member(String),
    Item(usize),
}

/// The most steps of a path.
const MAX_STEPS: usize = 128;

impl Path {
    /// Reads a path. `.` alone is the whole text.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let advice = |fault: &str| {
            format!("{fault}; write a path like .id, .order.id, .\"odd name\" or .items[0]")
        };
        if !text.starts_with('.') {
            return Err(advice("a path begins with a dot"));
        }
        let (mut rest, mut steps) = (if text == "." { "" } else { text }, Vec::new());
        while !rest.is_empty() {
            let (step, tail) = step(rest).map_err(|fault| advice(&fault))?;
            (rest, steps) = (tail, {
                steps.push(step);
                steps
            });
            if steps.len() > MAX_STEPS {
                return Err(advice("the path is too long"));
            }
        }
        Ok(Self {
            text: text.to_owned(),
            steps,
        })
    }

    /// Whether it is the whole text.
    pub(crate) fn is_whole(&self) -> bool {
        self.steps.is_empty()
    }

    /// The text of the part that the path leads to, within a text that is known to be JSON; `None` when it is not there.
    ///
    /// # Errors
    /// A name on the way that its object has twice: nobody can say which one is meant.
    pub(crate) fn find<'j>(&self, json: &'j str) -> Result<Option<&'j str>, String> {
        let mut scan = Scan::new(json);
        let mut part = scan.value();
        for step in &self.steps {
            let mut inner = Scan::new(part);
            let found = match step {
                Step::Member(name) => inner.member(name)?,
                Step::Item(index) => inner.item(*index),
            };
            match found {
                Some(found) => part = found,
                None => return Ok(None),
            }
        }
        Ok(Some(part))
    }
}

impl Path {
    /// The part that the path leads to.
    ///
    /// # Errors
    /// Also when it is not there.
    pub(crate) fn part<'j>(&self, json: &'j str) -> Result<&'j str, String> {
        match self.find(json) {
            Ok(Some(part)) => Ok(part),
            Ok(None) => Err(format!("there is no {self}")),
            Err(fault) => Err(format!("{self}: {fault}")),
        }
    }
}

impl std::fmt::Display for Path {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

/// The step at the head of a path, and the rest.
fn step(text: &str) -> Result<(Step, &str), String> {
    let after_dot = text.strip_prefix('.').unwrap_or(text);
    if let Some(inside) = after_dot.strip_prefix('[') {
        let (index, rest) = inside.split_once(']').ok_or("`[` has no `]`")?;
        let index = index.parse().map_err(|_| {
            format!("`[{index}]` is no place in an array, which are counted from 0")
        })?;
        return Ok((Step::Item(index), rest));
    }
    if after_dot.len() == text.len() {
        return Err(format!("`{text}` follows without a dot"));
    }
    if after_dot.starts_with('"') {
        let mut names = serde_json::Deserializer::from_str(after_dot).into_iter::<String>();
        return match names.next() {
            Some(Ok(name)) => Ok((Step::Member(name), &after_dot[names.byte_offset()..])),
            _ => Err(format!("`{after_dot}` does not begin with a quoted name")),
        };
    }
    let end = after_dot
        .find(['.', '[', ']', '"'])
        .unwrap_or(after_dot.len());
    match after_dot.split_at(end) {
        ("", _) => Err("a name is missing".to_owned()),
        (name, rest) => Ok((Step::Member(name.to_owned()), rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_leads_to_its_part() {
        let line = r#" { "id" : 7, "a":{"b":[1 , {"c":"x,]}\"y"},null]}, "odd name":true,"\u0069d2":2, "t":1.50e3 } "#;
        let cases = [
            (".id", Some("7")),
            (".a.b[0]", Some("1")),
            (".a.b.[0]", Some("1")),
            (".a.b[1].c", Some(r#""x,]}\"y""#)),
            (".a.b[2]", Some("null")),
            (".a.b[3]", None),
            (r#"."odd name""#, Some("true")),
            (r#"."id2""#, Some("2")),
            (".id2", Some("2")),
            (".t", Some("1.50e3")),
            (".id.x", None),
            (".id[0]", None),
            (".a[0]", None),
            (".none", None),
            (".", Some(line.trim())),
        ];
        for (path, part) in cases {
            assert_eq!(
                Path::parse(path).expect(path).find(line),
                Ok(part),
                "{path}"
            );
        }
        assert_eq!(
            Path::parse("[1]")
                .map(|_| ())
                .expect_err("no dot")
                .split(';')
                .next(),
            Some("a path begins with a dot")
        );
        assert_eq!(
            Path::parse(".[1]").expect("path").find("[1, 2 ]"),
            Ok(Some("2"))
        );
        assert_eq!(Path::parse(".[1]").expect("path").find("[ ]"), Ok(None));
        assert_eq!(
            Path::parse(".").expect("path").find(r#" "whole" "#),
            Ok(Some(r#""whole""#))
        );
    }

    #[test]
    fn a_name_given_twice_is_refused_on_the_way_only() {
        let line = r#"{"id":1,"b":{"x":1,"x":2},"\u0069d":2}"#;
        assert!(
            Path::parse(".id")
                .expect("path")
                .find(line)
                .is_err_and(|e| e.contains("given twice"))
        );
        assert!(Path::parse(".b.x").expect("path").find(line).is_err());
        assert_eq!(
            Path::parse(".b").expect("path").find(line),
            Ok(Some(r#"{"x":1,"x":2}"#))
        );
    }

    #[test]
    fn what_is_no_path_is_refused_with_advice() {
        for path in [
            "", "id", "..", ".a.", ".a..b", ".a[", ".a[-1]", ".a[x]", r#".a"b""#, r#"."a"#, ".a]",
            ".[0]x",
        ] {
            assert!(
                Path::parse(path).is_err_and(|e| e.contains("write a path like")),
                "{path}"
            );
        }
    }
}
