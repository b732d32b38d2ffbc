//! What somebody who knows says of an operation in doubt, as JSON.

use std::collections::BTreeMap;

use http::{HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::Value as Json;

use crate::error::Result;
use crate::http::{FieldRules, Kept};
use crate::key::Scope;
use crate::request::Identity;
use crate::store::{Resolution, Resolved, Store};
use crate::value::{Failure, Value};

/// The attempt whose doubt is ended, named as in the list, and what came of it: one of the last four.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Told {
    operation: String,
    id: String,
    scope: Option<String>,
    fence: u64,
    value: Option<Answer>,
    error: Option<Declined>,
    #[serde(default)]
    executed: bool,
    #[serde(default)]
    rerun: bool,
}

/// The answer that repeats get.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    status: u16,
    #[serde(default)]
    fields: BTreeMap<String, String>,
    body: Option<String>,
    /// The body as JSON, which says its type by itself.
    json: Option<Json>,
}

/// The error that repeats get.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Declined {
    code: String,
    message: String,
}

/// Which doubt is ended, and how.
#[derive(Debug)]
pub(super) struct Asked {
    identity: Identity<'static>,
    fence: u64,
    to: Resolution,
}

impl Asked {
    /// `operations` are those whose results are answers of HTTP.
    pub(super) fn parse(body: &[u8], operations: &[String]) -> Result<Self, String> {
        let told: Told = serde_json::from_slice(body).map_err(|error| {
            format!("{error}; write operation, id, scope and fence as they are listed, and one of value, error, executed: true and rerun: true")
        })?;
        let identity = Identity::new(told.operation.clone(), told.id);
        Ok(Self {
            identity: match told.scope {
                Some(scope) => identity.scope(Scope::from(scope)),
                None => identity,
            },
            fence: told.fence,
            to: match (told.value, told.error, told.executed, told.rerun) {
                (Some(answer), None, false, false) => {
                    if !operations.contains(&told.operation) {
                        return Err(format!(
                            "{:?} is no operation of this proxy, so its result is no answer of HTTP; use semel resolve",
                            told.operation
                        ));
                    }
                    Resolution::Value(answer.value()?)
                }
                (None, Some(error), false, false) => {
                    Resolution::Failure(Failure::new(error.code, error.message))
                }
                (None, None, true, false) => Resolution::Executed,
                (None, None, false, true) => Resolution::Rerun,
                _ => {
                    return Err(
                        "say one thing: value, error, executed: true or rerun: true".to_owned()
                    );
                }
            },
        })
    }

    pub(super) fn resolve(self, store: &Store) -> Result<Resolved> {
        store.resolve_attempt(&self.identity, self.fence, self.to)
    }
}

impl Answer {
    fn value(self) -> Result<Value, String> {
        if !(200..600).contains(&self.status) {
            return Err(format!("{} is no status of an answer", self.status));
        }
        let (body, of_json) = match (self.body, self.json) {
            (Some(_), Some(_)) => {
                return Err("the answer has a body and json; write one".to_owned());
            }
            (Some(body), None) => (body, false),
            (None, Some(json)) => (json.to_string(), true),
            (None, None) => (String::new(), false),
        };
        let mut fields: Vec<(String, String)> = self.fields.into_iter().collect();
        let is_type = |(name, _): &(String, String)| name.eq_ignore_ascii_case("content-type");
        if of_json && !fields.iter().any(is_type) {
            fields.push(("content-type".to_owned(), "application/json".to_owned()));
        }
        let mut rules = FieldRules::default();
        for (name, value) in &fields {
            let sendable =
                name.parse::<HeaderName>().is_ok() && HeaderValue::from_str(value).is_ok();
            if !sendable {
                return Err(format!("{name}: {value} is no header field"));
            }
            rules = rules
                .also(name)
                .map_err(|error| error.message().to_owned())?;
        }
        let pairs = fields
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_bytes()));
        let kept = Kept::new(self.status, pairs, body.as_bytes(), &rules);
        kept.to_value().map_err(|error| error.message().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(rest: &str) -> Result<Asked, String> {
        let body = format!(r#"{{"operation":"http","id":"k","scope":"ann","fence":7,{rest}}}"#);
        Asked::parse(body.as_bytes(), &["http".to_owned()])
    }

    #[test]
    fn an_answer_is_kept_as_if_the_service_had_given_it() {
        let told = r#""value":{"status":201,"fields":{"Location":"/orders/1","X-Order":"1"},"json":{"id":1}}"#;
        let Resolution::Value(value) = asked(told).expect("a resolution").to else {
            panic!("a value");
        };
        let kept = Kept::from_value(&value).expect("an answer");
        assert_eq!((kept.status(), kept.body()), (201, &br#"{"id":1}"#[..]));
        let fields: Vec<_> = kept.fields().collect();
        let expect: [(&str, &[u8]); 3] = [
            ("location", b"/orders/1"),
            ("x-order", b"1"),
            ("content-type", b"application/json"),
        ];
        assert_eq!(fields, expect);
    }

    #[test]
    fn what_says_nothing_or_too_much_is_refused() {
        let cases = [
            (r#""rerun":false"#, "one thing"),
            (r#""rerun":true,"executed":true"#, "one thing"),
            (
                r#""value":{"status":201},"error":{"code":"a","message":"b"}"#,
                "one thing",
            ),
            (r#""value":{"status":199}"#, "no status"),
            (r#""value":{"status":200,"body":"","json":1}"#, "write one"),
            (
                r#""value":{"status":200,"fields":{"Set-Cookie":"a"}}"#,
                "never kept",
            ),
            (
                r#""value":{"status":200,"fields":{"a b":"a"}}"#,
                "no header field",
            ),
            (r#""valeu":{"status":200}"#, "unknown field"),
        ];
        for (rest, words) in cases {
            let told = asked(rest).expect_err(rest);
            assert!(told.contains(words), "{rest}: {told}");
        }
        let body = br#"{"operation":"run","id":"k","fence":7,"value":{"status":200}}"#;
        let told = Asked::parse(body, &["http".to_owned()]).expect_err("not of this proxy");
        assert!(told.contains("semel resolve"), "{told}");
        let told = Asked::parse(br#"{"operation":"http","id":"k","rerun":true}"#, &[]);
        assert!(told.expect_err("no fence").contains("fence"));
    }
}
