//! Which header fields of an answer go out again with a replay.

use crate::error::{Error, Result};

/// Fields that belong to what was answered, whoever asks, and when.
pub const KEPT_FIELDS: [&str; 13] = [
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-location",
    "content-range",
    "content-type",
    "etag",
    "last-modified",
    "link",
    "location",
    "preference-applied",
    "vary",
];

/// Fields that belong to one exchange or to one client, and are never kept: cookies, what concerns a connection, challenges,
/// dates, rate limits, ids of requests.
pub const NEVER_KEPT_FIELDS: [&str; 28] = [
    "age",
    "authentication-info",
    "authorization",
    "connection",
    "content-length",
    "cookie",
    "date",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-authorization",
    "proxy-connection",
    "ratelimit",
    "ratelimit-limit",
    "ratelimit-policy",
    "ratelimit-remaining",
    "ratelimit-reset",
    "request-id",
    "set-cookie",
    "set-cookie2",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "www-authenticate",
    "x-correlation-id",
    "x-request-id",
    "x-amzn-requestid",
];

/// What begins so is never kept either.
const NEVER_KEPT_BEGINNINGS: [&str; 2] = ["x-ratelimit", "x-rate-limit"];

/// Which fields are kept: [`KEPT_FIELDS`], and those that are named.
#[derive(Clone, Debug, Default)]
pub struct FieldRules {
    also: Vec<String>,
}

impl FieldRules {
    /// Keeps a field of the service's own as well.
    ///
    /// ```
    /// use semel::http::FieldRules;
    ///
    /// let fields = FieldRules::default().also("X-Order-Id")?;
    /// assert!(fields.keeps("x-order-id") && fields.keeps("Location") && !fields.keeps("Set-Cookie"));
    /// assert!(FieldRules::default().also("Set-Cookie").is_err());
    /// # Ok::<(), semel::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidInput` for what is no name of a field, and for one of [`NEVER_KEPT_FIELDS`].
    pub fn also(mut self, name: &str) -> Result<Self> {
        let name = field_name(name, "x-order-id")?;
        if never(&name) {
            return Err(Error::invalid(format!(
                "the header field {name} belongs to one exchange or one client, and is never kept for another"
            )));
        }
        self.also.push(name);
        Ok(self)
    }

    /// Whether a field is kept.
    pub fn keeps(&self, name: &str) -> bool {
        let name = name.to_ascii_lowercase();
        !never(&name) && (KEPT_FIELDS.contains(&&*name) || self.also.contains(&name))
    }
}

/// The name of a header field in lower case; `example` is one for whoever has given none.
pub(super) fn field_name(name: &str, example: &str) -> Result<String> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    match !name.is_empty() && name.bytes().all(is_token) {
        true => Ok(name.to_ascii_lowercase()),
        false => Err(Error::invalid(format!(
            "{name:?} is no name of a header field; name one like {example}"
        ))),
    }
}

fn never(name: &str) -> bool {
    NEVER_KEPT_FIELDS.contains(&name)
        || NEVER_KEPT_BEGINNINGS
            .iter()
            .any(|beginning| name.starts_with(beginning))
}
