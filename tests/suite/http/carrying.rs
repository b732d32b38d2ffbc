//! The rules for whatever carries requests: routes, lengths of bodies, streams, other origins, tokens.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use semel::http::{
    Answered, Guard, Problem, ProblemKind, Routes, StatusPolicy, TokenRoute, cors_lacks, is_stream,
};
use semel::{Claim, ErrorKind, Refusal, Request, Store};
use serde::Deserialize;
use serde_json::Value as Json;

#[derive(Deserialize)]
struct Vectors {
    lengths: Vec<LengthCase>,
    streams: Vec<StreamCase>,
    cors: Vec<CorsCase>,
    routes: RouteCases,
}

#[derive(Deserialize)]
struct LengthCase {
    name: String,
    values: Vec<String>,
    limit: usize,
    #[serde(default)]
    came: usize,
    problem: Option<String>,
}

#[derive(Deserialize)]
struct StreamCase {
    r#type: Option<String>,
    buffering: Option<String>,
    stream: bool,
}

#[derive(Deserialize)]
struct CorsCase {
    given: Vec<String>,
    names: Vec<String>,
    lacks: Option<String>,
}

#[derive(Deserialize)]
struct RouteCases {
    lists: Vec<RouteList>,
    refused: Vec<RefusedList>,
}

#[derive(Deserialize)]
struct RouteList {
    patterns: Vec<String>,
    requests: Vec<Routed>,
}

#[derive(Deserialize)]
struct Routed {
    method: String,
    path: String,
    guarded: Option<i64>,
}

#[derive(Deserialize)]
struct RefusedList {
    name: String,
    patterns: Vec<String>,
}

fn vectors() -> Vectors {
    serde_json::from_str(include_str!("../../vectors/http.json")).expect("vectors")
}

/// Each guarded pattern has an operation of its own: its number in the list.
fn routes(patterns: &[String]) -> semel::Result<Routes> {
    let mut routes = Routes::new();
    for (number, pattern) in patterns.iter().enumerate() {
        routes = match pattern.strip_prefix('!') {
            Some(pattern) => routes.unguarded(pattern)?,
            None => routes.guarded(pattern, Guard::new().operation(number.to_string())?)?,
        };
    }
    Ok(routes)
}

#[test]
fn the_first_route_that_matches_decides() {
    let rest = Arc::new(Guard::new().operation("-1").expect("a name"));
    for list in vectors().routes.lists {
        let routes = routes(&list.patterns).expect("patterns");
        for asked in list.requests {
            let guard = routes.guard_of(&asked.method, &asked.path, &rest);
            let found = guard.map(|guard| guard.operation_name().to_owned());
            let expected = asked.guarded.map(|number| number.to_string());
            assert_eq!(found, expected, "{} {}", asked.method, asked.path);
        }
    }
}

#[test]
fn routes_that_say_nothing_or_are_never_used_are_refused() {
    for case in vectors().routes.refused {
        let refused = routes(&case.patterns).expect_err(&case.name);
        assert_eq!(refused.kind(), ErrorKind::InvalidInput, "{}", case.name);
    }
    let put = Guard::new().methods(["PUT"]);
    assert!(Routes::new().guarded("PUT /pay", put).is_ok());
}

proptest! {
    /// However a path is spelled, it passes unguarded only when it is, byte for byte, one that was let through.
    #[test]
    fn no_spelling_of_a_path_slips_through(
        parts in proptest::collection::vec("(\\.|\\.\\.|%2[eEfF]|%[67][0-9a-f]|[a-c%+]|pay|health)?", 0..6),
    ) {
        let path = format!("/{}", parts.join("/"));
        let rest = Arc::new(Guard::new());
        let routes = Routes::new().unguarded("/health").expect("a pattern").unguarded("/a/{b}").expect("a pattern");
        let plain = match path.split('/').collect::<Vec<_>>()[..] {
            ["", "health"] => true,
            ["", "a", part] => {
                let spelled_otherwise = part.starts_with('%') && part.len() == 3 && !part[1..].eq_ignore_ascii_case("2f") && part != "%7f" || part == "%2f";
                !part.is_empty() && !matches!(part, "." | "..") && !spelled_otherwise
            }
            _ => false,
        };
        prop_assert_eq!(routes.guard_of("POST", &path, &rest).is_none(), plain, "{}", path);
    }
}

#[test]
fn a_body_is_as_long_as_it_says_and_not_too_long() {
    for case in vectors().lengths {
        let guard = Guard::new().max_body_bytes(case.limit);
        let values = case.values.iter().map(String::as_bytes);
        let came = guard
            .incoming(values)
            .and_then(|incoming| incoming.whole(case.came));
        let kind = came.err().map(|problem| problem.kind().name());
        assert_eq!(kind, case.problem.as_deref(), "{}", case.name);
    }
}

#[test]
fn streams_are_told_by_their_type_or_by_their_service() {
    for case in vectors().streams {
        let told = is_stream(case.r#type.as_deref(), case.buffering.as_deref());
        assert_eq!(told, case.stream, "{:?} {:?}", case.r#type, case.buffering);
    }
}

#[test]
fn lists_of_other_origins_get_what_they_lack_and_no_more() {
    for case in vectors().cors {
        let given = case.given.iter().map(String::as_str);
        let names = case.names.iter().map(String::as_str);
        assert_eq!(cors_lacks(given, names), case.lacks, "{:?}", case.given);
    }
}

#[test]
fn a_token_route_has_a_path_a_purpose_and_a_time() {
    let day = Duration::from_secs(86_400);
    for (path, purpose, ttl) in [
        ("token", "checkout", day),
        ("/to ken", "checkout", day),
        ("/token?", "checkout", day),
        ("/token", " ", day),
        ("/token", "checkout", Duration::from_millis(999)),
    ] {
        let refused = TokenRoute::new(path, purpose, ttl).expect_err("refused");
        assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    }
    let route = TokenRoute::new("/token", "checkout", day).expect("a route");
    assert!(route.takes("POST", "/token"));
    assert!(!route.takes("POST", "/token/") && !route.takes("OPTIONS", "/token"));
    assert_eq!(route.body("t"), r#"{"token":"t","expires_in":86400}"#);
}

#[test]
fn a_token_of_somebody_else_is_told_like_one_that_was_never_issued() {
    let reasons = [
        (Refusal::Unknown, "unknown"),
        (Refusal::Used, "used"),
        (Refusal::Expired, "expired"),
        (Refusal::OtherPurpose, "other_purpose"),
        (Refusal::OtherScope, "unknown"),
    ];
    let mut bodies = BTreeMap::new();
    for (refusal, reason) in reasons {
        let problem = Problem::of_refusal(refusal);
        assert_eq!(problem.kind(), ProblemKind::TokenRefused);
        let body: Json = serde_json::from_str(&problem.body()).expect("JSON");
        assert_eq!(body["reason"], reason);
        bodies.insert(format!("{refusal:?}"), body);
    }
    assert_eq!(bodies["Unknown"], bodies["OtherScope"]);
}

#[test]
fn rules_that_cannot_be_kept_are_refused_before_any_request() {
    let check = |guard: Guard| {
        guard
            .check(semel::Policy::Hold)
            .map_err(|error| error.kind())
    };
    assert_eq!(check(Guard::new().policy(StatusPolicy::StripeV1)), Ok(()));
    let zero = Guard::new().retain(Duration::ZERO);
    assert_eq!(check(zero), Err(ErrorKind::InvalidInput));
    let nothing = Guard::new().methods(Vec::<String>::new());
    assert_eq!(check(nothing), Err(ErrorKind::InvalidInput));
    let unending = Guard::new()
        .lease(semel::Lease::Never)
        .in_doubt(semel::Policy::Rerun);
    assert_eq!(check(unending), Err(ErrorKind::InvalidInput));
    assert!(Guard::new().tokens(" ").is_err());
}

#[test]
fn a_result_that_is_no_answer_says_that_it_was_executed_and_no_more() {
    let store = Store::open("memory:").expect("opens");
    let request = Request::new("http", "k");
    let Claim::Execute(ticket) = store.claim(&request).expect("claims") else {
        panic!("the first")
    };
    ticket.complete("by hand").expect("completes");
    let Answered::Refused(problem) = Answered::of(store.claim(&request).expect("claims")) else {
        panic!("no answer to replay")
    };
    assert_eq!(
        (problem.status(), problem.body().contains("by hand")),
        (410, false)
    );
}
