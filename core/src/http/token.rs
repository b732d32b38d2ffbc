//! The place where clients get tokens to send as keys.

use std::time::Duration;

use serde_json::json;

use crate::error::{Error, Result};
use crate::key::{MAX_NAME_BYTES, check_name};

/// A path at which a POST is answered with a token.
///
/// A client that has no number of its own for what it is about to do asks here first, and sends the token as its
/// `Idempotency-Key`, the same one with each retry. It is unique with or without [`Guard::tokens`](super::Guard::tokens);
/// with it, a key that nobody was given is refused, and a token is good for one operation of its scope.
///
/// ```
/// use std::time::Duration;
/// use semel::http::TokenRoute;
///
/// let route = TokenRoute::new("/token", "checkout", Duration::from_secs(300))?;
/// assert!(route.takes("POST", "/token") && !route.takes("GET", "/token"));
/// assert_eq!(route.body("8e03978e"), r#"{"token":"8e03978e","expires_in":300}"#);
/// # Ok::<(), semel::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct TokenRoute {
    path: String,
    purpose: String,
    ttl: Duration,
}

impl TokenRoute {
    /// The status of the answer.
    pub const STATUS: u16 = 201;
    /// The fields of the answer: a token is for who asked, and once.
    pub const FIELDS: [(&'static str, &'static str); 2] = [
        ("content-type", "application/json"),
        ("cache-control", "no-store"),
    ];

    /// Tokens of a purpose, good for `ttl`, at a path that is compared as it is.
    ///
    /// # Errors
    /// `InvalidInput` for a path without a slash at its beginning, a purpose that cannot be a name, and a ttl below a second.
    pub fn new(path: &str, purpose: &str, ttl: Duration) -> Result<Self> {
        let is_path = path.starts_with('/')
            && path
                .bytes()
                .all(|byte| byte.is_ascii_graphic() && !b"?#".contains(&byte));
        if !is_path {
            return Err(Error::invalid(format!(
                "{path:?} is no path of a token route; write one like /token"
            )));
        }
        check_name("purpose", purpose, MAX_NAME_BYTES)?;
        if ttl < Duration::from_secs(1) {
            return Err(Error::invalid(
                "ttl is below a second; give the time that the user may take",
            ));
        }
        Ok(Self {
            path: path.to_owned(),
            purpose: purpose.to_owned(),
            ttl,
        })
    }

    /// Whether a request is answered with a token, by its method and path.
    pub fn takes(&self, method: &str, path: &str) -> bool {
        method == "POST" && path == self.path
    }

    /// Its path.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// What its tokens are for.
    pub fn purpose(&self) -> &str {
        &self.purpose
    }

    /// How long a token is good before it is used.
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    /// The body of the answer: `token`, and `expires_in` in whole seconds.
    pub fn body(&self, token: &str) -> String {
        format!(
            "{{\"token\":{},\"expires_in\":{}}}",
            json!(token),
            self.ttl.as_secs()
        )
    }
}
