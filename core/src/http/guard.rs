//! Which requests are guarded, and what the store is asked for them.

use std::time::Duration;

use super::fields::{FieldRules, field_name};
use super::kept::MAX_KEPT_BODY_BYTES;
use super::key::{IDEMPOTENCY_KEY, KeyFault, of_length, parse_key};
use super::problem::{Problem, ProblemKind};
use super::sameness::{QueryRule, sameness};
use super::status::StatusPolicy;
use crate::error::{Error, Result};
use crate::json::{Path, key};
use crate::key::{MAX_NAME_BYTES, Scope, check_name};
use crate::record::Policy;
use crate::request::{Lease, Request, Retain};

/// The longest body that is compared, in bytes, unless another length is given (1 MiB).
const MAX_COMPARED_BODY_BYTES: usize = 1 << 20;
/// The name of the operation, unless another one is given.
const OPERATION: &str = "http";
/// Fields that many gateways make anew for every attempt.
const MADE_PER_ATTEMPT: [&str; 5] = [
    "request-id",
    "traceparent",
    "x-amzn-trace-id",
    "x-correlation-id",
    "x-request-id",
];

/// Where the key of a request stands.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum KeySource {
    /// In a header field.
    Field(String),
    /// In the body, which is JSON.
    Body(JsonPath),
}

/// A path into a JSON body.
#[derive(Clone, Debug)]
pub struct JsonPath(Path);

impl KeySource {
    /// A header field, by its name.
    ///
    /// # Errors
    /// `InvalidInput` for what is no name of a field.
    pub fn field(name: &str) -> Result<Self> {
        field_name(name, IDEMPOTENCY_KEY).map(Self::Field)
    }

    /// A part of the JSON body, by its path: `.order_no`, `.order.id`.
    ///
    /// # Errors
    /// `InvalidInput` for what is no path.
    pub fn body(path: &str) -> Result<Self> {
        match Path::parse(path) {
            Ok(path) if path.is_whole() => Err(Error::invalid(
                "the key cannot be the whole body; name a part of it, like .order_no",
            )),
            Ok(path) => Ok(Self::Body(JsonPath(path))),
            Err(fault) => Err(Error::invalid(format!(
                "{path:?} is no path into a body: {fault}"
            ))),
        }
    }

    /// From its text in configuration: `header:X-Order-No` or `json:.order_no`.
    ///
    /// # Errors
    /// `InvalidInput` for any other text.
    pub fn parse(text: &str) -> Result<Self> {
        match text.split_once(':') {
            Some(("header", name)) => Self::field(name),
            Some(("json", path)) => Self::body(path),
            _ => Err(Error::invalid(format!(
                "{text:?} is no place of a key; write header:NAME or json:PATH"
            ))),
        }
    }
}

/// The head of a request.
#[derive(Clone, Copy, Debug)]
pub struct Head<'r> {
    /// The method, as it came.
    pub method: &'r str,
    /// The path, as it came, without the query.
    pub path: &'r str,
    /// The query without its question mark; empty when there is none.
    pub query: &'r str,
    /// The value of `Content-Type`.
    pub content_type: Option<&'r str>,
}

/// What becomes of a request, by its head.
#[derive(Clone, Debug, PartialEq)]
pub enum Judged {
    /// It is not guarded: it passes through.
    Passes,
    /// It is guarded, under this key, or under one that stands in its body.
    Guarded(Option<String>),
    /// It is answered with this.
    Refused(Problem),
}

/// The rules of a route.
///
/// ```
/// use semel::http::{Guard, Head, Judged};
/// use semel::{GLOBAL, Scope};
///
/// let guard = Guard::new();
/// let head = Head { method: "POST", path: "/pay", query: "", content_type: Some("application/json") };
/// let Judged::Guarded(key) = guard.judge(&head, [&b"\"K-1\""[..]]) else { panic!("guarded") };
/// let request = guard.request(&head, key, Some(Scope::Of("ann".into())), br#"{"amount": 3}"#).unwrap();
/// # let store = semel::Store::open("memory:")?;
/// assert_eq!(store.claim(&request)?.name(), "execute");
/// # Ok::<(), semel::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Guard {
    methods: Vec<String>,
    source: KeySource,
    required: bool,
    query: QueryRule,
    policy: StatusPolicy,
    fields: FieldRules,
    max_body_bytes: usize,
    max_kept_bytes: usize,
    /// Whether keys have to be tokens, and of which purpose.
    purpose: Option<String>,
    /// The request to the store but for its id, its scope and its payload.
    terms: Request<'static>,
}

impl Default for Guard {
    fn default() -> Self {
        Self::new()
    }
}

impl Guard {
    /// POST and PATCH are guarded, by the field `Idempotency-Key`, which is required.
    pub fn new() -> Self {
        Self {
            methods: vec!["POST".to_owned(), "PATCH".to_owned()],
            source: KeySource::Field(IDEMPOTENCY_KEY.to_owned()),
            required: true,
            query: QueryRule::All,
            policy: StatusPolicy::Careful,
            fields: FieldRules::default(),
            max_body_bytes: MAX_COMPARED_BODY_BYTES,
            max_kept_bytes: MAX_KEPT_BODY_BYTES,
            purpose: None,
            terms: Request::new(OPERATION, ""),
        }
    }

    /// The name of the operation, `http` by default: it names the counters, and keys of one operation never meet those of another.
    ///
    /// # Errors
    /// `InvalidInput` for a name that is blank, longer than 128 bytes, or has a control character.
    pub fn operation(mut self, name: impl Into<String>) -> Result<Self> {
        let name = name.into();
        check_name("operation", &name, MAX_NAME_BYTES)?;
        self.terms.operation = name.into();
        Ok(self)
    }

    /// The methods that are guarded.
    pub fn methods(mut self, methods: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.methods = methods.into_iter().map(Into::into).collect();
        self
    }

    /// Where the key stands.
    pub fn key(mut self, source: KeySource) -> Self {
        self.source = source;
        self
    }

    /// Takes as keys tokens alone that were issued for a purpose ([`Store::tokens`](crate::Store::tokens)) in the scope of the
    /// request. A token is spent on one operation: the same request again gets the first answer, any other is refused.
    ///
    /// # Errors
    /// `InvalidInput` for a purpose that is blank, longer than 128 bytes, or has a control character.
    pub fn tokens(mut self, purpose: impl Into<String>) -> Result<Self> {
        let purpose = purpose.into();
        check_name("purpose", &purpose, MAX_NAME_BYTES)?;
        self.purpose = Some(purpose);
        Ok(self)
    }

    /// Lets requests without a key pass through unguarded. A key that is there and cannot be read is refused all the same.
    pub fn optional(mut self) -> Self {
        self.required = false;
        self
    }

    /// Which parameters of the query belong to the operation; all by default.
    pub fn query(mut self, rule: QueryRule) -> Self {
        self.query = rule;
        self
    }

    /// Which answers are kept.
    pub fn policy(mut self, policy: StatusPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Which fields of an answer are kept.
    pub fn fields(mut self, fields: FieldRules) -> Self {
        self.fields = fields;
        self
    }

    /// The longest body of a request, in bytes: 1 MiB by default. A longer one is refused with 413, since it could not be compared.
    pub fn max_body_bytes(mut self, bytes: usize) -> Self {
        self.max_body_bytes = bytes;
        self
    }

    /// The longest body of an answer that is kept, in bytes; a longer one passes through, and repeats get 410.
    pub fn max_kept_bytes(mut self, bytes: usize) -> Self {
        self.max_kept_bytes = bytes;
        self
    }

    /// As [`Request::lease`].
    pub fn lease(mut self, lease: impl Into<Lease>) -> Self {
        self.terms = self.terms.lease(lease);
        self
    }

    /// As [`Request::retain`].
    pub fn retain(mut self, retain: impl Into<Retain>) -> Self {
        self.terms = self.terms.retain(retain);
        self
    }

    /// As [`Request::remember`].
    pub fn remember(mut self, remember: Duration) -> Self {
        self.terms = self.terms.remember(remember);
        self
    }

    /// As [`Request::wait`]: how long a repeat waits for a request that is under way before it gets 409.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.terms = self.terms.wait(wait);
        self
    }

    /// As [`Request::in_doubt`].
    pub fn in_doubt(mut self, policy: Policy) -> Self {
        self.terms = self.terms.in_doubt(policy);
        self
    }

    /// Whether the rules can be kept: a retain of zero cannot, say. `in_doubt` is what the store does by default.
    ///
    /// # Errors
    /// `InvalidInput`, as a claim would give it.
    pub fn check(&self, in_doubt: Policy) -> Result<()> {
        if self.methods.is_empty() {
            return Err(Error::invalid(
                "the rules guard no method; name some, or let the route pass unguarded",
            ));
        }
        self.terms.terms(in_doubt).map(drop)
    }

    /// What somebody should know who has set this up, in words; empty when all is well.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if let KeySource::Field(name) = &self.source
            && MADE_PER_ATTEMPT.contains(&name.as_str())
        {
            warnings.push(format!(
                "the key is taken from {name}, which many gateways and clients make anew for every attempt: then no repeat is recognised. Use it only where it is known to stay the same over retries"
            ));
        }
        warnings
    }

    /// What becomes of a request, by its head and the values of the field that its key stands in
    /// ([`key_field`](Self::key_field)).
    pub fn judge<'v>(&self, head: &Head<'_>, values: impl IntoIterator<Item = &'v [u8]>) -> Judged {
        if !self.guards(head.method) {
            return Judged::Passes;
        }
        if let KeySource::Body(_) = &self.source {
            return Judged::Guarded(None);
        }
        match parse_key(values) {
            Ok(key) => Judged::Guarded(Some(key)),
            Err(KeyFault::Missing) if !self.required => Judged::Passes,
            Err(fault) => Judged::Refused(Problem::of_key(&fault)),
        }
    }

    /// The header field that the key stands in, in lower case; `None` when it stands in the body.
    pub fn key_field(&self) -> Option<&str> {
        match &self.source {
            KeySource::Field(name) => Some(name),
            KeySource::Body(_) => None,
        }
    }

    /// The request to the store. `key` is what [`judge`](Self::judge) gave, `scope` whose the key is: the principal as it was
    /// verified, or [`Scope::Global`] by name.
    ///
    /// # Errors
    /// The problem that the request is answered with; and where no key is required and the body has none, `None`: it passes
    /// through.
    pub fn request(
        &self,
        head: &Head<'_>,
        key: Option<String>,
        scope: Option<Scope<'static>>,
        body: &[u8],
    ) -> Result<Request<'static>, Option<Box<Problem>>> {
        let refused = |kind, words: String| Some(Box::new(Problem::new(kind, words)));
        if body.len() > self.max_body_bytes {
            return Err(Some(Box::new(Problem::too_large(self.max_body_bytes))));
        }
        // Nobody's key would be everybody's.
        let Some(scope) = scope else {
            return Err(Some(Box::new(Problem::without_scope())));
        };
        let key = match key {
            Some(key) => key,
            None => self.key_in(body)?,
        };
        let payload = sameness(
            head.method,
            head.path,
            head.query,
            head.content_type,
            body,
            &self.query,
        );
        let payload =
            payload.map_err(|e| refused(ProblemKind::RequestMalformed, e.message().to_owned()))?;
        let mut request = self.terms.clone();
        request.id = key.into();
        Ok(request.scope(scope).payload_canonical(payload))
    }

    fn key_in(&self, body: &[u8]) -> Result<String, Option<Box<Problem>>> {
        let KeySource::Body(JsonPath(path)) = &self.source else {
            return Err(Some(Box::new(Problem::of_key(&KeyFault::Missing))));
        };
        let missing = |words: String| match self.required {
            true => Some(Box::new(Problem::new(ProblemKind::KeyMissing, words))),
            false => None,
        };
        let text = std::str::from_utf8(body).ok();
        let Some(text) =
            text.filter(|text| serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok())
        else {
            return Err(missing(format!(
                "the key stands at {path} of the body, which has to be JSON"
            )));
        };
        match path.find(text) {
            Ok(None) => return Err(missing(format!("the body has no {path}"))),
            Ok(Some("null")) => return Err(missing(format!("{path} of the body is null"))),
            _ => {}
        }
        let malformed =
            |words: String| Some(Box::new(Problem::new(ProblemKind::KeyMalformed, words)));
        let key = key(path, text).map_err(malformed)?;
        let key = of_length(key).map_err(|fault| malformed(fault.to_string()))?;
        match key.chars().any(char::is_control) {
            true => Err(malformed("the key has a control character".to_owned())),
            false => Ok(key),
        }
    }

    /// The name of the operation.
    pub fn operation_name(&self) -> &str {
        &self.terms.operation
    }

    /// Whether requests of a method are guarded.
    pub fn guards(&self, method: &str) -> bool {
        self.methods.iter().any(|guarded| guarded == method)
    }

    /// The purpose of the tokens that keys have to be, if they have to be ones.
    pub fn purpose(&self) -> Option<&str> {
        self.purpose.as_deref()
    }

    /// Which answers are kept.
    pub fn status_policy(&self) -> StatusPolicy {
        self.policy
    }

    /// Which fields of an answer are kept.
    pub fn field_rules(&self) -> &FieldRules {
        &self.fields
    }

    /// The longest body of a request that is compared, in bytes.
    pub fn body_limit_bytes(&self) -> usize {
        self.max_body_bytes
    }

    /// The longest body of an answer that is kept, in bytes.
    pub fn kept_limit_bytes(&self) -> usize {
        self.max_kept_bytes
    }
}
