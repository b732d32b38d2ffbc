//! Which answers go to the client as they come, and are never held back to be kept.

/// Media types of answers without a foreseeable end.
const STREAMS: [&str; 3] = [
    "application/grpc",
    "multipart/x-mixed-replace",
    "text/event-stream",
];

/// Whether an answer is a stream, by its `Content-Type` and its `X-Accel-Buffering`, with which a service says `no` to
/// whatever would hold its answer back. A stream is passed on as it comes; the operation is recorded as executed without an
/// answer, and repeats get 410.
///
/// ```
/// assert!(semel::http::is_stream(Some("text/event-stream; charset=utf-8"), None));
/// assert!(semel::http::is_stream(Some("application/json"), Some("no")));
/// assert!(!semel::http::is_stream(Some("application/json"), None));
/// ```
pub fn is_stream(content_type: Option<&str>, buffering: Option<&str>) -> bool {
    let essence = content_type.unwrap_or_default().split(';').next();
    let essence = essence.unwrap_or_default().trim().to_ascii_lowercase();
    let is_of = |stream: &str| {
        let rest = essence.strip_prefix(stream);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('+'))
    };
    buffering.is_some_and(|says| says.trim().eq_ignore_ascii_case("no"))
        || STREAMS.iter().any(|stream| is_of(stream))
}
