//! When two requests under one key are the same: method, path, query and body.

use serde_json::Value as Json;

use crate::canonical::{Canonical, MAX_BYTES};
use crate::error::Result;

/// Which parameters of the query belong to the operation.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum QueryRule {
    /// All of them.
    #[default]
    All,
    /// None: the query is about how to answer, not about what to do.
    Ignore,
    /// Those with these names.
    Only(Vec<String>),
}

/// The payload that stands for a request: what must be equal in a repeat.
///
/// The method and the path as they are; the parameters of the query by name, in the order of their names, those of one name
/// in their own order, spelled as they came; the body by its exact value when it says that it is JSON and is, otherwise byte
/// by byte. When the body is an object, each of its members counts by itself, so that a
/// [`Mismatch`](crate::Mismatch) names what differs, as `body.amount`.
///
/// ```
/// use semel::http::{QueryRule, sameness};
///
/// let json = Some("application/json; charset=utf-8");
/// let first = sameness("POST", "/pay", "b=1&a=2", json, br#"{"amount": 10}"#, &QueryRule::All)?;
/// let again = sameness("POST", "/pay", "a=2&b=1", json, br#"{"amount":1e1}"#, &QueryRule::All)?;
/// assert_eq!(first, again);
/// # Ok::<(), semel::Error>(())
/// ```
///
/// # Errors
/// `InvalidInput` when method, path and query are too long to be told apart.
pub fn sameness(
    method: &str,
    path: &str,
    query: &str,
    content_type: Option<&str>,
    body: &[u8],
    rule: &QueryRule,
) -> Result<Canonical> {
    let mut text = format!(
        "{{\"method\":{},\"path\":{},\"query\":{}",
        Json::from(method),
        Json::from(path),
        parameters(query, rule)
    );
    // A longer one would not fit behind the rest.
    let json = (is_json(content_type) && body.len() < MAX_BYTES / 2)
        .then(|| Canonical::from_json(body).ok())
        .flatten();
    match json {
        Some(json) if json.as_bytes().first() == Some(&b'{') => {
            for (name, value) in json.fields() {
                member(
                    &mut text,
                    &format!("body.{name}"),
                    &String::from_utf8_lossy(value),
                );
            }
        }
        Some(json) => member(&mut text, "body", &String::from_utf8_lossy(json.as_bytes())),
        // No JSON body gives an object here.
        None => {
            let digest = blake3::hash(body).to_hex();
            let value = format!("{{\"bytes\":{},\"blake3\":\"{digest}\"}}", body.len());
            member(&mut text, "body", &value);
        }
    }
    text.push('}');
    Canonical::from_json(text.as_bytes())
}

fn member(text: &mut String, name: &str, value: &str) {
    text.push(',');
    text.push_str(&Json::from(name).to_string());
    text.push(':');
    text.push_str(value);
}

fn parameters(query: &str, rule: &QueryRule) -> Json {
    let name = |pair: &str| pair.split('=').next().unwrap_or_default().to_owned();
    let mut pairs: Vec<&str> = query
        .split('&')
        .filter(|pair| match rule {
            QueryRule::All => !pair.is_empty(),
            QueryRule::Ignore => false,
            QueryRule::Only(names) => names.contains(&name(pair)),
        })
        .collect();
    pairs.sort_by_key(|pair| name(pair));
    Json::from(pairs)
}

/// Whether a content type says that the body is JSON: `application/json`, or any type that ends with `+json`.
fn is_json(content_type: Option<&str>) -> bool {
    let essence = content_type.unwrap_or_default().split(';').next();
    let essence = essence.unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json" || essence.ends_with("+json")
}
