//! Requests of all kinds, made at random: nothing panics, and nothing runs that has no key where one is required.

use std::convert::Infallible;

use bytes::Bytes;
use http::{HeaderValue, Request, Response};
use http_body_util::Full;
use proptest::prelude::*;
use semel::http::{Guard, KeySource, Routes, parse_key};
use tower::{Layer, service_fn};

use super::fixture::{Runs, Seen, ask, by_user, store};

/// What a client may send.
#[derive(Clone, Debug)]
struct Noise {
    method: &'static str,
    path: String,
    keys: Vec<Vec<u8>>,
    user: Option<Vec<u8>>,
    content_type: Option<&'static str>,
    content_length: Option<String>,
    body: Vec<u8>,
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        "[ -~]{0,12}".prop_map(String::into_bytes),
        r#"["]?[a-c\\", ;=]{0,8}["]?(;[a-c=]{0,4})?"#.prop_map(String::into_bytes),
        proptest::collection::vec(
            any::<u8>().prop_filter("a byte of a field", |byte| *byte >= 32 && *byte != 127),
            0..300
        ),
    ]
}

fn noise() -> impl Strategy<Value = Noise> {
    let path = "(/(pay|free|body|%66ree|\\.\\.|\\.|x{0,2}|%2[fF]|%)){1,4}(\\?[a-b=&%]{0,6})?";
    let body = prop_oneof![
        r#"\{"no":("?[a-b]{0,3}"?|null|[0-9]{1,3})\}"#.prop_map(String::into_bytes),
        proptest::collection::vec(any::<u8>(), 0..40),
    ];
    (
        prop_oneof![4 => Just("POST"), 1 => Just("PATCH"), 1 => Just("GET"), 1 => Just("post"), 1 => Just("PUT")],
        path,
        proptest::collection::vec(key(), 0..3),
        proptest::option::weighted(0.9, proptest::collection::vec(32..127u8, 0..140)),
        proptest::option::of(prop_oneof![Just("application/json"), Just("text/plain"), Just("a/b+json; x")]),
        proptest::option::weighted(0.2, "[0-9+ ,]{0,3}"),
        body,
    )
        .prop_map(|(method, path, keys, user, content_type, content_length, body)| Noise {
            method,
            path,
            keys,
            user,
            content_type,
            content_length,
            body,
        })
}

impl Noise {
    fn request(&self) -> Option<Request<Full<Bytes>>> {
        let mut request = Request::builder().method(self.method).uri(&self.path);
        for value in &self.keys {
            request = request.header("idempotency-key", HeaderValue::from_bytes(value).ok()?);
        }
        if let Some(user) = &self.user {
            request = request.header("x-user", HeaderValue::from_bytes(user).ok()?);
        }
        if let Some(content_type) = self.content_type {
            request = request.header("content-type", content_type);
        }
        if let Some(length) = &self.content_length {
            request = request.header("content-length", length.trim());
        }
        request.body(Full::from(self.body.clone())).ok()
    }

    /// Whether it may run at all, seen from the outside.
    fn may_run(&self) -> bool {
        let path = self.path.split('?').next().unwrap_or_default();
        let is_guarded = matches!(self.method, "POST" | "PATCH") && path != "/free";
        let has_key = parse_key(self.keys.iter().map(Vec::as_slice)).is_ok();
        !is_guarded || has_key || path.ends_with("/body")
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_sent_nothing_runs_without_a_key_where_one_is_required(sent in noise()) {
        let (store, runs) = (store(), Runs::default());
        let counted = runs.clone();
        let inner = service_fn(move |_: Seen| {
            counted.next();
            async { Ok::<_, Infallible>(Response::new(Full::<Bytes>::from("done"))) }
        });
        let by_body = Guard::new().key(KeySource::body(".no").expect("a path"));
        let routes = Routes::new().unguarded("/free").and_then(|routes| routes.guarded("/body", by_body));
        let guard = Guard::new().max_body_bytes(30);
        let layer = by_user(&store).guard(guard).routes(routes.expect("routes")).build().expect("rules");
        let service = layer.layer(inner);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        // What cannot be a request is refused by the server.
        let (Some(first), Some(again)) = (sent.request(), sent.request()) else { return Ok(()) };
        let (first, again) = runtime.block_on(async {
            (ask(&service, first).await, ask(&service, again).await)
        });
        match first.status {
            200 => prop_assert!(sent.may_run() && first.text() == "done"),
            400 | 413 => {
                first.problem();
                prop_assert_eq!((runs.count(), store.len()), (0, 0));
                prop_assert_eq!(&again, &first);
            }
            other => prop_assert!(false, "{}", other),
        }
        let passes = first.status == 200 && store.is_empty();
        prop_assert_eq!(runs.count(), if passes { 2 } else { u32::from(first.status == 200) });
        prop_assert_eq!(again.replayed(), first.status == 200 && !passes);
    }
}
