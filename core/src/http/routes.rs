//! Which rules hold for which request: patterns of method and path, of which the first that matches decides.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use super::guard::Guard;
use crate::error::{Error, Result};

/// The most routes that one list has.
pub const MAX_ROUTES: usize = 1000;

/// Rules by method and path.
///
/// A pattern is a path, with a method before it or for all methods without one: `POST /pay/*`, `/orders/{id}/refund`,
/// `/health`. A part in braces stands for any one part of a path that is not empty. `*` stands at the end alone, for all that
/// begins so: `/pay/*` matches `/pay/`, `/pay/1` and `/pay/1/2`, but not `/pay`; `/*` matches every path. Everything else is
/// compared as it is, with its case and a slash at its end.
///
/// The first pattern that matches decides; what matches none has the rules that hold for all the rest. A path that is not
/// spelled plainly (`//`, `/./`, `/../`, `%61` for `a`) is matched as if it were, and never goes unguarded by that:
/// a service behind might read it either way.
///
/// ```
/// use std::sync::Arc;
/// use semel::http::{Guard, Routes};
///
/// let routes = Routes::new()
///     .guarded("POST /pay/*", Guard::new().operation("pay")?)?
///     .unguarded("/search")?;
/// let rest = Arc::new(Guard::new());
/// assert_eq!(routes.guard_of("POST", "/pay/cards", &rest).unwrap().operation_name(), "pay");
/// assert_eq!(routes.guard_of("POST", "/orders", &rest).unwrap().operation_name(), "http");
/// assert!(routes.guard_of("POST", "/search", &rest).is_none());
/// assert!(routes.guard_of("POST", "/pay/../search", &rest).is_some());
/// # Ok::<(), semel::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Routes {
    routes: Vec<(Pattern, Rule)>,
}

#[derive(Clone, Debug)]
enum Rule {
    Guarded(Arc<Guard>),
    Unguarded,
}

impl Routes {
    /// No routes: the rules that hold for all the rest hold for everything.
    pub fn new() -> Self {
        Self::default()
    }

    /// Guards what matches the pattern by rules of its own.
    ///
    /// # Errors
    /// `InvalidInput` for what is no pattern; for one that an earlier pattern leaves nothing to match; and for one whose
    /// method is none of those that the rules guard.
    pub fn guarded(self, pattern: &str, guard: Guard) -> Result<Self> {
        let pattern = Pattern::parse(pattern)?;
        if let Some(method) = &pattern.method
            && !guard.guards(method)
        {
            return Err(Error::invalid(format!(
                "the rules of the route {pattern} do not guard {method}; name it with Guard::methods"
            )));
        }
        self.with(pattern, Rule::Guarded(Arc::new(guard)))
    }

    /// Lets what matches the pattern pass through.
    ///
    /// # Errors
    /// `InvalidInput` for what is no pattern, and for one that an earlier pattern leaves nothing to match.
    pub fn unguarded(self, pattern: &str) -> Result<Self> {
        self.with(Pattern::parse(pattern)?, Rule::Unguarded)
    }

    fn with(mut self, pattern: Pattern, rule: Rule) -> Result<Self> {
        if let Some((earlier, _)) = self.routes.iter().find(|(one, _)| one.covers(&pattern)) {
            return Err(Error::invalid(format!(
                "the route {pattern} would never be used, since {earlier} comes before it; put it first"
            )));
        }
        if self.routes.len() == MAX_ROUTES {
            return Err(Error::invalid(format!(
                "there are more than {MAX_ROUTES} routes; use patterns with {{id}} or *"
            )));
        }
        self.routes.push((pattern, rule));
        Ok(self)
    }

    /// The rules for a request, by its method and its path as it came, without the query; `None` when it passes through.
    pub fn guard_of<'r>(
        &'r self,
        method: &str,
        path: &str,
        rest: &'r Arc<Guard>,
    ) -> Option<&'r Arc<Guard>> {
        if self.routes.is_empty() {
            return Some(rest);
        }
        let (parts, plain) = parts(path);
        let found = parts.and_then(|parts| {
            let mut routes = self.routes.iter();
            routes.find(|(pattern, _)| pattern.matches(method, &parts))
        });
        match found {
            Some((_, Rule::Guarded(guard))) => Some(guard),
            Some((_, Rule::Unguarded)) if plain => None,
            _ => Some(rest),
        }
    }

    /// The rules of all guarded routes.
    pub fn guards(&self) -> impl Iterator<Item = &Arc<Guard>> {
        self.routes.iter().filter_map(|(_, rule)| match rule {
            Rule::Guarded(guard) => Some(guard),
            Rule::Unguarded => None,
        })
    }
}

/// A pattern of method and path.
#[derive(Clone, Debug)]
struct Pattern {
    method: Option<String>,
    parts: Vec<Part>,
    end: End,
    text: String,
}

#[derive(Clone, Debug, PartialEq)]
enum Part {
    Literal(String),
    Any,
}

/// Whether a path ends with the parts, or goes on.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Here,
    Open,
}

impl Pattern {
    fn parse(text: &str) -> Result<Self> {
        let refused = |why: &str| {
            Error::invalid(format!(
                "{text:?} is no route: {why}; write one like POST /pay/* or /orders/{{id}}"
            ))
        };
        let (method, path) = match text.split_once(' ') {
            Some((method, path)) => (Some(method), path),
            None => (None, text),
        };
        if method.is_some_and(|name| {
            name.is_empty()
                || !name
                    .bytes()
                    .all(|byte| byte.is_ascii_uppercase() || byte == b'-')
        }) {
            return Err(refused("its method is not in capital letters"));
        }
        let Some(rest) = path.strip_prefix('/') else {
            return Err(refused("its path does not begin with a slash"));
        };
        let mut end = End::Here;
        let mut parts = Vec::new();
        let mut texts = rest.split('/').peekable();
        while let Some(part) = texts.next() {
            let is_last = texts.peek().is_none();
            match part {
                "*" if is_last => end = End::Open,
                "" if !is_last => return Err(refused("it has two slashes in a row")),
                part => parts.push(Part::parse(part).map_err(refused)?),
            }
        }
        Ok(Self {
            method: method.map(str::to_owned),
            parts,
            end,
            text: text.to_owned(),
        })
    }

    fn matches(&self, method: &str, parts: &[Cow<'_, str>]) -> bool {
        let of_length = match self.end {
            End::Here => parts.len() == self.parts.len(),
            End::Open => parts.len() > self.parts.len(),
        };
        of_length
            && self.method.as_deref().is_none_or(|own| own == method)
            && self.parts.iter().zip(parts).all(|(own, part)| match own {
                Part::Literal(text) => text == part,
                Part::Any => !part.is_empty(),
            })
    }

    /// Whether it matches all that another one matches.
    fn covers(&self, other: &Self) -> bool {
        let of_length = match (self.end, other.end) {
            (End::Here, End::Here) => self.parts.len() == other.parts.len(),
            (End::Here, End::Open) => false,
            (End::Open, End::Here) => other.parts.len() > self.parts.len(),
            (End::Open, End::Open) => other.parts.len() >= self.parts.len(),
        };
        let mut parts = self.parts.iter().zip(&other.parts);
        of_length
            && (self.method.is_none() || self.method == other.method)
            && parts.all(|(own, part)| match own {
                Part::Literal(_) => own == part,
                Part::Any => *part != Part::Literal(String::new()),
            })
    }
}

impl Part {
    fn parse(text: &str) -> Result<Self, &'static str> {
        if let Some(name) = text
            .strip_prefix('{')
            .and_then(|rest| rest.strip_suffix('}'))
        {
            let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
            return match !name.is_empty() && name.bytes().all(is_name) {
                true => Ok(Self::Any),
                false => Err("what stands in braces is no name"),
            };
        }
        if text.contains(['{', '}', '*']) {
            return Err("braces stand around a whole part of a path, and * at its end alone");
        }
        if text
            .bytes()
            .any(|byte| !byte.is_ascii_graphic() || b"?#\\\"<>^`|".contains(&byte))
        {
            return Err("its path has a character that no path has; spell it as %XX");
        }
        match spelled(text) {
            plain if plain == text && !matches!(text, "." | "..") => {
                Ok(Self::Literal(text.to_owned()))
            }
            _ => Err("its path is not spelled plainly"),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The parts of a path, spelled plainly, and whether it was spelled so; no parts for what is no path.
fn parts(path: &str) -> (Option<Vec<Cow<'_, str>>>, bool) {
    let Some(rest) = path.strip_prefix('/') else {
        return (None, false);
    };
    let mut plain = true;
    let mut parts: Vec<Cow<'_, str>> = Vec::new();
    let mut texts = rest.split('/').peekable();
    while let Some(text) = texts.next() {
        let is_last = texts.peek().is_none();
        let part = spelled(text);
        let counts = match &*part {
            "." => false,
            ".." => {
                parts.pop();
                false
            }
            "" => is_last,
            _ => true,
        };
        plain &= counts && part == text;
        match counts {
            true => parts.push(part),
            // What a dot stands for is a folder.
            false if is_last => parts.push(Cow::Borrowed("")),
            false => {}
        }
    }
    (Some(parts), plain)
}

/// A part of a path with no more escapes than it needs, in capital letters (RFC 3986, section 6.2.2).
fn spelled(part: &str) -> Cow<'_, str> {
    if !part.contains('%') {
        return Cow::Borrowed(part);
    }
    let mut plain = String::with_capacity(part.len());
    let mut rest = part;
    while let Some(at) = rest.find('%') {
        plain.push_str(&rest[..at]);
        let escape = rest.get(at..at + 3);
        let digits = escape
            .map(|text| &text[1..])
            .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let (Some(escape), Some(byte)) = (escape, byte) else {
            plain.push('%');
            rest = &rest[at + 1..];
            continue;
        };
        match byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            true => plain.push(char::from(byte)),
            false => plain.push_str(&escape.to_ascii_uppercase()),
        }
        rest = &rest[at + 3..];
    }
    plain.push_str(rest);
    Cow::Owned(plain)
}
