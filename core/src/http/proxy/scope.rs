//! Whose a request is: a header field that whoever stands in front has set after he verified it, or everybody by name.

use std::fmt;

use http::HeaderMap;

use crate::error::{Error, Result};
use crate::http::fields::field_name;
use crate::key::Scope;

/// Fields that carry what somebody proves himself with.
const CREDENTIALS: [&str; 7] = [
    "authorization",
    "cookie",
    "proxy-authorization",
    "x-access-token",
    "x-api-key",
    "x-auth-token",
    "x-csrf-token",
];

/// Whose the keys are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ScopeSource {
    /// Everybody's.
    Global,
    /// His whom this field names.
    Field(String),
}

impl ScopeSource {
    /// From its text: `global`, or `header:X-User`.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let name = match text.split_once(':') {
            None if text == "global" => return Ok(Self::Global),
            Some(("header", name)) => field_name(name, "x-user")?,
            _ => {
                return Err(Error::invalid(format!(
                    "{text:?} is no scope; write header:NAME, the field in which the gateway in front says whose the request is, or global"
                )));
            }
        };
        if CREDENTIALS.contains(&name.as_str()) {
            return Err(Error::invalid(format!(
                "{name} is a credential: refreshed, it would make another person of the same one, who would run what was done. Name a field in which the gateway in front says who it is, once it has verified that"
            )));
        }
        Ok(Self::Field(name))
    }

    /// Whose a request is; `None` when it does not say, or says it more than once.
    pub(super) fn of(&self, fields: &HeaderMap) -> Option<Scope<'static>> {
        let Self::Field(name) = self else {
            return Some(Scope::Global);
        };
        let mut values = fields.get_all(name).iter();
        let (value, None) = (values.next()?, values.next()) else {
            return None;
        };
        let text = std::str::from_utf8(value.as_bytes()).ok()?.trim();
        (!text.is_empty()).then(|| Scope::Of(text.to_owned().into()))
    }

    /// The field, if it is one.
    pub(super) fn field(&self) -> Option<&str> {
        match self {
            Self::Global => None,
            Self::Field(name) => Some(name),
        }
    }
}

impl fmt::Display for ScopeSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Global => f.write_str("global"),
            Self::Field(name) => write!(f, "header:{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_scope_is_one_field_that_is_there_once() {
        let scope = ScopeSource::parse("header:X-User").expect("a scope");
        let cases: [(&[&[u8]], Option<&str>); 6] = [
            (&[], None),
            (&[b"ann"], Some("ann")),
            (&[b" ann "], Some("ann")),
            (&[b""], None),
            (&[b"ann", b"bob"], None),
            (&[b"\xff"], None),
        ];
        for (values, expect) in cases {
            let mut fields = HeaderMap::new();
            for value in values {
                fields.append("x-user", HeaderValue::from_bytes(value).expect("a value"));
            }
            let found = scope.of(&fields);
            assert_eq!(found.as_ref().and_then(Scope::text), expect, "{values:?}");
        }
        let global = ScopeSource::parse("global").expect("a scope");
        assert_eq!(global.of(&HeaderMap::new()), Some(Scope::Global));
    }

    #[test]
    fn a_credential_and_what_is_no_scope_are_refused() {
        for (text, words) in [
            ("header:Authorization", "credential"),
            ("header:cookie", "credential"),
            ("header:", "no name"),
            ("GLOBAL", "no scope"),
            ("query:user", "no scope"),
        ] {
            let error = ScopeSource::parse(text).expect_err(text);
            assert!(error.message().contains(words), "{text}: {error}");
        }
    }
}
