//! What a page of another origin has to be allowed: to send a key, and to see what became of the request.

/// Fields of answers that scripts of other origins may read: whether it is a replay, and when to ask again.
pub const CORS_EXPOSED: [&str; 2] = ["idempotent-replayed", "retry-after"];

/// Whether a request asks what another origin may send, by its method and whether it has `Origin` and
/// `Access-Control-Request-Method`.
///
/// ```
/// assert!(semel::http::is_preflight("OPTIONS", Some("https://shop.example"), Some("POST")));
/// assert!(!semel::http::is_preflight("OPTIONS", None, None));
/// ```
pub fn is_preflight(method: &str, origin: Option<&str>, asked_method: Option<&str>) -> bool {
    method == "OPTIONS" && origin.is_some() && asked_method.is_some()
}

/// The names of fields that a list lacks, to be given in one more field beside it: `given` are the values of
/// `Access-Control-Allow-Headers` or `Access-Control-Expose-Headers`, `names` what has to be in it. `None` when nothing is
/// missing. `*` is no name here: to a request with credentials it means nothing.
///
/// ```
/// use semel::http::{CORS_EXPOSED, cors_lacks};
///
/// assert_eq!(cors_lacks(["ETag, Retry-After"], CORS_EXPOSED).as_deref(), Some("idempotent-replayed"));
/// assert_eq!(cors_lacks([], ["idempotency-key"]).as_deref(), Some("idempotency-key"));
/// assert_eq!(cors_lacks(["X-A", "Idempotency-Key"], ["idempotency-key"]), None);
/// ```
pub fn cors_lacks<'v, 'n>(
    given: impl IntoIterator<Item = &'v str>,
    names: impl IntoIterator<Item = &'n str>,
) -> Option<String> {
    let given: Vec<&str> = given
        .into_iter()
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .collect();
    let mut missing: Vec<&str> = Vec::new();
    for name in names {
        if !given
            .iter()
            .chain(&missing)
            .any(|one| one.eq_ignore_ascii_case(name))
        {
            missing.push(name);
        }
    }
    (!missing.is_empty()).then(|| missing.join(", "))
}
