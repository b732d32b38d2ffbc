//! What a configuration says of a route, and the guard that comes of it.

use std::time::Duration;

use toml::de::DeValue;

use super::document::{Section, number, text, texts, truth};
use crate::duration;
use crate::error::{Error, Result};
use crate::http::{FieldRules, Guard, KeySource, QueryRule, StatusPolicy};
use crate::record::Policy;
use crate::request::{Lease, Retain};

/// The longest body of a request that can be compared, in bytes (64 MiB): it is held in memory.
const MAX_BODY_BYTES: usize = 64 << 20;
/// The longest body of an answer that can be kept, in bytes (4 MiB, the most that a store keeps, less what status and fields may take).
const MAX_ANSWER_BYTES: usize = (4 << 20) - super::ANSWER_HEAD_BYTES;

/// The options of a route; what is `None` is as it is at the top, and there as it is by default.
#[derive(Clone, Debug, Default)]
pub(super) struct RouteOptions {
    pub(super) guarded: Option<bool>,
    pub(super) key: Option<KeySource>,
    operation: Option<String>,
    methods: Option<Vec<String>>,
    required: Option<bool>,
    policy: Option<StatusPolicy>,
    query: Option<QueryRule>,
    keep: Option<FieldRules>,
    lease: Option<Lease>,
    retain: Option<Retain>,
    remember: Option<Duration>,
    wait: Option<Duration>,
    in_doubt: Option<Policy>,
    max_body: Option<usize>,
    max_answer: Option<usize>,
    tokens: Option<bool>,
}

impl RouteOptions {
    /// Those that a table has.
    pub(super) fn read(table: &Section<'_, '_>) -> Self {
        Self {
            guarded: table.value("guarded", "false", truth),
            key: table.value("key", "\"header:Idempotency-Key\"", |value| {
                KeySource::parse(&text(value)?).map_err(words)
            }),
            operation: table.value("operation", "\"order.create\"", |value| {
                let name = text(value)?;
                Guard::new().operation(name.clone()).map_err(words)?;
                Ok(name)
            }),
            methods: table.value("methods", "[\"POST\", \"PATCH\"]", methods),
            required: table.value("required", "false", truth),
            policy: table.value("policy", "\"careful\"", |value| {
                text(value)?.parse().map_err(words)
            }),
            query: table.value("query", "\"ignore\"", query),
            keep: table.value("keep", "[\"X-Order-Id\"]", keep),
            lease: table.value("lease", "\"30s\"", |value| duration::lease(&text(value)?)),
            retain: table.value("retain", "\"24h\"", |value| duration::retain(&text(value)?)),
            remember: table.value("remember", "\"7d\"", |value| duration::parse(&text(value)?)),
            wait: table.value("wait", "\"2s\"", |value| duration::parse(&text(value)?)),
            in_doubt: table.value("in_doubt", "\"hold\"", in_doubt),
            max_body: table.value("max_body", "1048576", |value| {
                number(value, 0, MAX_BODY_BYTES)
            }),
            max_answer: table.value("max_answer", "983040", |value| {
                number(value, 0, MAX_ANSWER_BYTES)
            }),
            tokens: table.value("tokens", "true", truth),
        }
    }

    /// These, and where they say nothing, those.
    pub(super) fn or(self, other: &Self) -> Self {
        let other = other.clone();
        Self {
            guarded: self.guarded.or(other.guarded),
            key: self.key.or(other.key),
            operation: self.operation.or(other.operation),
            methods: self.methods.or(other.methods),
            required: self.required.or(other.required),
            policy: self.policy.or(other.policy),
            query: self.query.or(other.query),
            keep: self.keep.or(other.keep),
            lease: self.lease.or(other.lease),
            retain: self.retain.or(other.retain),
            remember: self.remember.or(other.remember),
            wait: self.wait.or(other.wait),
            in_doubt: self.in_doubt.or(other.in_doubt),
            max_body: self.max_body.or(other.max_body),
            max_answer: self.max_answer.or(other.max_answer),
            tokens: self.tokens.or(other.tokens),
        }
    }

    /// The guard; `None` where nothing is guarded. `purpose` is that of the tokens that are issued.
    pub(super) fn guard(&self, purpose: Option<&str>) -> Result<Option<Guard>> {
        if self.guarded == Some(false) {
            return Ok(None);
        }
        let this = self.clone();
        let mut guard = Guard::new();
        if let Some(key) = this.key {
            guard = guard.key(key);
        }
        if let Some(name) = this.operation {
            guard = guard.operation(name)?;
        }
        if let Some(methods) = this.methods {
            guard = guard.methods(methods);
        }
        if this.required == Some(false) {
            guard = guard.optional();
        }
        guard = guard
            .policy(this.policy.unwrap_or_default())
            .query(this.query.unwrap_or_default())
            .fields(this.keep.unwrap_or_default());
        if let Some(lease) = this.lease {
            guard = guard.lease(lease);
        }
        if let Some(retain) = this.retain {
            guard = guard.retain(retain);
        }
        if let Some(remember) = this.remember {
            guard = guard.remember(remember);
        }
        if let Some(wait) = this.wait {
            guard = guard.wait(wait);
        }
        if let Some(policy) = this.in_doubt {
            guard = guard.in_doubt(policy);
        }
        if let Some(bytes) = this.max_body {
            guard = guard.max_body_bytes(bytes);
        }
        if let Some(bytes) = this.max_answer {
            guard = guard.max_kept_bytes(bytes);
        }
        guard = match (this.tokens, purpose) {
            (Some(true), Some(purpose)) => guard.tokens(purpose)?,
            (Some(true), None) => {
                return Err(Error::invalid(
                    "keys have to be tokens, and there is no place that issues them; add a table [token]",
                ));
            }
            _ => guard,
        };
        guard.check(Policy::Hold)?;
        Ok(Some(guard))
    }
}

fn words(error: crate::Error) -> String {
    error.message().to_owned()
}

fn methods(value: &DeValue<'_>) -> Result<Vec<String>, String> {
    let methods = texts(value)?;
    let upper = |name: &String| !name.is_empty() && name.bytes().all(|b| b.is_ascii_uppercase());
    match methods.iter().find(|name| !upper(name)) {
        Some(name) => Err(format!("{name:?} is no method; they are in capitals")),
        None if methods.is_empty() => Err("it is empty; write guarded = false instead".to_owned()),
        None => Ok(methods),
    }
}

fn query(value: &DeValue<'_>) -> Result<QueryRule, String> {
    match value {
        DeValue::Array(_) => texts(value).map(QueryRule::Only),
        _ => match text(value)?.as_str() {
            "all" => Ok(QueryRule::All),
            "ignore" => Ok(QueryRule::Ignore),
            other => Err(format!(
                "{other:?} is no rule; write \"all\", \"ignore\", or a list of the parameters that count"
            )),
        },
    }
}

fn keep(value: &DeValue<'_>) -> Result<FieldRules, String> {
    let names = texts(value)?;
    names
        .iter()
        .try_fold(FieldRules::default(), |rules, name| rules.also(name))
        .map_err(words)
}

fn in_doubt(value: &DeValue<'_>) -> Result<Policy, String> {
    match text(value)?.as_str() {
        "hold" => Ok(Policy::Hold),
        "rerun" => Ok(Policy::Rerun),
        "ask" => Err(
            "nobody can be asked here; write \"hold\", and let somebody resolve what is in doubt"
                .to_owned(),
        ),
        other => Err(format!(
            "{other:?} is no policy; write \"hold\" or \"rerun\""
        )),
    }
}
