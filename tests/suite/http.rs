//! The rules of HTTP against their vectors, and against a store.

mod carrying;

use std::time::Duration;

use semel::http::{
    Ending, FieldRules, Guard, Head, Judged, Kept, KeyFault, KeySource, Problem, ProblemKind,
    QueryRule, StatusPolicy, Verdict, parse_key, sameness,
};
use semel::{Claim, Error, ErrorKind, GLOBAL, Scope, Store};
use serde::Deserialize;
use serde_json::Value as Json;

#[derive(Deserialize)]
struct Vectors {
    keys: Vec<KeyCase>,
    same: Vec<Pair>,
    different: Vec<Pair>,
    statuses: Vec<Statuses>,
    fields: Fields,
    problems: Vec<ProblemCase>,
    bodies: Vec<BodyCase>,
}

#[derive(Deserialize)]
struct KeyCase {
    name: String,
    values: Vec<String>,
    key: Option<String>,
    fault: Option<String>,
}

#[derive(Deserialize)]
struct Pair {
    name: String,
    #[serde(default)]
    rule: Json,
    #[serde(default)]
    fields: Vec<String>,
    a: Asked,
    b: Asked,
}

#[derive(Deserialize)]
struct Asked {
    #[serde(default = "post")]
    method: String,
    #[serde(default = "root")]
    path: String,
    #[serde(default)]
    query: String,
    r#type: Option<String>,
    #[serde(default)]
    body: String,
}

#[derive(Deserialize)]
struct Statuses {
    policy: String,
    keep: Vec<u16>,
    release: Vec<u16>,
    doubt: Vec<u16>,
}

#[derive(Deserialize)]
struct Fields {
    kept: Vec<String>,
    dropped: Vec<String>,
    refused: Vec<String>,
}

#[derive(Deserialize)]
struct ProblemCase {
    kind: String,
    status: u16,
}

#[derive(Deserialize)]
struct BodyCase {
    name: String,
    path: String,
    body: String,
    key: Option<String>,
    problem: Option<String>,
}

fn post() -> String {
    "POST".to_owned()
}

fn root() -> String {
    "/".to_owned()
}

fn vectors() -> Vectors {
    serde_json::from_str(include_str!("../vectors/http.json")).expect("vectors")
}

/// One byte a character.
fn latin1(text: &str) -> Vec<u8> {
    text.chars()
        .map(|c| u8::try_from(u32::from(c)).expect("one byte"))
        .collect()
}

impl Asked {
    fn head(&self) -> Head<'_> {
        Head {
            method: &self.method,
            path: &self.path,
            query: &self.query,
            content_type: self.r#type.as_deref(),
        }
    }
}

fn rule(rule: &Json) -> QueryRule {
    match rule {
        Json::Null => QueryRule::All,
        Json::String(_) => QueryRule::Ignore,
        names => QueryRule::Only(serde_json::from_value(names.clone()).expect("names")),
    }
}

#[test]
fn keys_are_read_or_refused() {
    for case in vectors().keys {
        let values: Vec<Vec<u8>> = case.values.iter().map(|value| latin1(value)).collect();
        let read = parse_key(values.iter().map(Vec::as_slice));
        let fault = read.as_ref().err().map(|fault| match fault {
            KeyFault::Missing => "missing",
            KeyFault::Repeated => "repeated",
            KeyFault::Blank => "blank",
            KeyFault::TooLong(_) => "too long",
            KeyFault::Malformed(_) => "malformed",
            other => panic!("{}: {other:?}", case.name),
        });
        assert_eq!(fault, case.fault.as_deref(), "{}", case.name);
        assert_eq!(read.ok(), case.key, "{}", case.name);
    }
}

#[test]
fn a_key_that_was_read_is_one_for_the_store() {
    let store = Store::open("memory:").expect("opens");
    for key in vectors().keys.into_iter().filter_map(|case| case.key) {
        let claimed = store.claim(&semel::Request::new("http", key.as_str()));
        assert!(claimed.is_ok(), "{key}: {:?}", claimed.err());
    }
}

#[test]
fn requests_are_the_same_by_value_and_name_what_differs() {
    let vectors = vectors();
    let pairs = vectors.same.iter().chain(&vectors.different);
    for pair in pairs {
        let store = Store::open("memory:").expect("opens");
        let guard = Guard::new()
            .query(rule(&pair.rule))
            .methods(["POST", "PATCH"]);
        let claim = |asked: &Asked| {
            let key = Some("k".to_owned());
            let body = latin1(&asked.body);
            let request = guard.request(&asked.head(), key, Some(GLOBAL), &body);
            store.claim(&request.expect("a request")).expect("claims")
        };
        let Claim::Execute(ticket) = claim(&pair.a) else {
            panic!("{}: the first", pair.name)
        };
        ticket.complete(&1).expect("completes");
        match claim(&pair.b) {
            Claim::Replay(_) => assert!(pair.fields.is_empty(), "{}", pair.name),
            Claim::Mismatch(other) => assert_eq!(other.fields, pair.fields, "{}", pair.name),
            other => panic!("{}: {}", pair.name, other.name()),
        }
    }
}

#[test]
fn every_byte_of_a_body_counts() {
    let body: Vec<u8> = (0..=255).collect();
    let of = |body: &[u8]| sameness("POST", "/", "", None, body, &QueryRule::All).expect("short");
    let whole = of(&body);
    for at in 0..body.len() {
        let mut other = body.clone();
        other[at] ^= 1;
        assert_ne!(of(&other), whole, "byte {at}");
    }
    assert_ne!(of(&body[..255]), whole);
}

#[test]
fn statuses_keep_release_or_leave_a_doubt() {
    for case in vectors().statuses {
        let policy: StatusPolicy = case.policy.parse().expect("a policy");
        for (statuses, verdict) in [
            (case.keep, Verdict::Keep),
            (case.release, Verdict::Release),
            (case.doubt, Verdict::Doubt),
        ] {
            for status in statuses {
                let judged = policy.judge(Ending::Status(status));
                assert_eq!(judged, verdict, "{policy} {status}");
            }
        }
        assert_eq!(policy.judge(Ending::Broken), Verdict::Doubt);
        assert_eq!(policy.judge(Ending::NotSent), Verdict::Release);
    }
    assert_eq!(StatusPolicy::default().name(), "careful");
    let refused = "lenient".parse::<StatusPolicy>().expect_err("no policy");
    assert!(refused.message().contains("careful"), "{refused}");
}

#[test]
fn what_belongs_to_one_exchange_or_one_client_never_goes_out_again() {
    let fields = vectors().fields;
    let rules = FieldRules::default();
    for name in &fields.kept {
        assert!(rules.keeps(name), "{name}");
    }
    for name in &fields.dropped {
        assert!(!rules.keeps(name), "{name}");
    }
    for name in &fields.refused {
        let refused = FieldRules::default().also(name).expect_err("refused");
        assert_eq!(refused.kind(), ErrorKind::InvalidInput, "{name}");
    }
    let own = FieldRules::default().also("X-Order-Id").expect("a name");
    assert!(own.keeps("x-order-id") && own.keeps("X-ORDER-ID"));
}

#[test]
fn a_kept_answer_comes_back_as_it_was() {
    let fields = [
        ("Content-Type", &b"application/json"[..]),
        ("Set-Cookie", b"who=ann"),
        ("Link", b"</a>; rel=a"),
        ("link", b"</b, c>; rel=\xe4"),
        ("Content-Length", b"7"),
    ];
    let body = [0, 255, b'{', b'\r', b'\n'];
    let kept = Kept::new(201, fields, &body, &FieldRules::default());
    let back = Kept::from_value(&kept.to_value().expect("encodes")).expect("decodes");
    assert_eq!((back.status(), back.body()), (201, &body[..]));
    assert_eq!(
        back.fields().collect::<Vec<_>>(),
        [
            ("content-type", &b"application/json"[..]),
            ("link", b"</a>; rel=a"),
            ("link", b"</b, c>; rel=\xe4"),
        ]
    );
    let other = semel::Value::of("something else").expect("encodes");
    assert!(Kept::from_value(&other).is_err());
}

#[test]
fn the_key_may_stand_in_the_body() {
    for case in vectors().bodies {
        let guard = Guard::new().key(KeySource::body(&case.path).expect("a path"));
        let head = Head {
            method: "POST",
            path: "/",
            query: "",
            content_type: Some("application/json"),
        };
        assert_eq!(guard.key_field(), None);
        assert_eq!(guard.judge(&head, []), Judged::Guarded(None));
        match guard.request(&head, None, Some(GLOBAL), case.body.as_bytes()) {
            Ok(request) => {
                let store = Store::open("memory:").expect("opens");
                let _ticket = store.claim(&request).expect("claims");
                let key = case.key.as_deref().expect(&case.name);
                let known = store.lookup(&semel::Identity::new("http", key));
                assert!(known.expect("looks").is_some(), "{}", case.name);
            }
            Err(problem) => {
                let problem = problem.expect("a key is required");
                let kind = problem.kind().name();
                assert_eq!(
                    Some(kind),
                    case.problem.as_deref(),
                    "{}: {problem}",
                    case.name
                );
            }
        }
        let optional = guard.optional();
        let passes = optional.request(&head, None, Some(GLOBAL), case.body.as_bytes());
        assert_eq!(
            matches!(passes, Err(None)),
            case.problem.as_deref() == Some("key-missing"),
            "{}",
            case.name
        );
    }
    for text in [
        "header:",
        "header:a b",
        "json:",
        "json:x",
        "json:.",
        "cookie:a",
        "x",
    ] {
        let refused = KeySource::parse(text).expect_err(text);
        assert_eq!(refused.kind(), ErrorKind::InvalidInput, "{text}");
    }
}

#[test]
fn a_request_is_guarded_by_method_and_key() {
    let head = |method| Head {
        method,
        path: "/",
        query: "",
        content_type: None,
    };
    let guard = Guard::new();
    assert_eq!(guard.key_field(), Some("idempotency-key"));
    for method in ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "post"] {
        assert_eq!(guard.judge(&head(method), [&b"k"[..]]), Judged::Passes);
    }
    for method in ["POST", "PATCH"] {
        let judged = guard.judge(&head(method), [&b"\"k\""[..]]);
        assert_eq!(judged, Judged::Guarded(Some("k".to_owned())));
        let Judged::Refused(problem) = guard.judge(&head(method), []) else {
            panic!("a key is required")
        };
        assert_eq!(problem.kind(), ProblemKind::KeyMissing);
    }
    let optional = Guard::new().optional();
    assert_eq!(optional.judge(&head("POST"), []), Judged::Passes);
    let Judged::Refused(problem) = optional.judge(&head("POST"), [&b""[..]]) else {
        panic!("a key that cannot be read is refused all the same")
    };
    assert_eq!(problem.kind(), ProblemKind::KeyMalformed);
}

#[test]
fn whose_a_request_is_has_to_be_known_and_a_body_has_an_end() {
    let guard = Guard::new().max_body_bytes(3);
    let head = Head {
        method: "POST",
        path: "/",
        query: "",
        content_type: None,
    };
    let refused = |scope, body: &[u8]| {
        let refused = guard.request(&head, Some("k".to_owned()), scope, body);
        refused.expect_err("refused").expect("a problem").kind()
    };
    assert_eq!(refused(None, b"abc"), ProblemKind::RequestMalformed);
    assert_eq!(refused(Some(GLOBAL), b"abcd"), ProblemKind::BodyTooLarge);
    // One tenant's key says nothing to another.
    let store = Store::open("memory:").expect("opens");
    for tenant in ["ann", "bob"] {
        let scope = Some(Scope::Of(tenant.into()));
        let request = guard.request(&head, Some("k".to_owned()), scope, b"abc");
        let claim = store.claim(&request.expect("a request")).expect("claims");
        assert_eq!(claim.name(), "execute", "{tenant}");
    }
}

#[test]
fn problems_have_stable_types_and_tell_what_to_do() {
    let known = vectors().problems;
    assert_eq!(known.len(), ProblemKind::ALL.len());
    for (case, kind) in known.iter().zip(ProblemKind::ALL) {
        assert_eq!(
            (case.kind.as_str(), case.status),
            (kind.name(), kind.status())
        );
        let problem = Problem::new(kind, "why");
        let body: Json = serde_json::from_str(&problem.body()).expect("JSON");
        assert_eq!(body["type"], format!("urn:semel:problem:{}", case.kind));
        assert_eq!(
            (&body["status"], &body["detail"]),
            (&Json::from(case.status), &Json::from("why"))
        );
        assert!(
            body["title"]
                .as_str()
                .is_some_and(|title| !title.is_empty())
        );
    }
}

#[test]
fn each_answer_of_a_claim_is_a_replay_or_a_problem() {
    let clock = semel::Clock::manual(Duration::from_secs(1_800_000_000));
    let store = Store::builder("memory:")
        .clock(clock.clone())
        .open()
        .expect("opens");
    let guard = Guard::new()
        .retain(Duration::from_secs(60))
        .remember(Duration::from_secs(60));
    let head = Head {
        method: "POST",
        path: "/pay",
        query: "",
        content_type: Some("application/json"),
    };
    let claim = |key: &str, body: &str| {
        let request = guard.request(&head, Some(key.to_owned()), Some(GLOBAL), body.as_bytes());
        store.claim(&request.expect("a request")).expect("claims")
    };
    let problem = |key: &str, body: &str| Problem::of_claim(&claim(key, body)).expect("a problem");
    let Claim::Execute(ticket) = claim("k", r#"{"amount":1}"#) else {
        panic!("the first")
    };
    let busy = problem("k", r#"{"amount":1}"#);
    assert_eq!(busy.kind(), ProblemKind::InFlight);
    assert!(busy.retry_after().is_some_and(|seconds| seconds >= 1));
    let reused = problem("k", r#"{"amount":2}"#);
    assert_eq!((reused.status(), reused.retry_after()), (422, None));
    let body: Json = serde_json::from_str(&reused.body()).expect("JSON");
    assert_eq!(body["fields"], serde_json::json!(["body.amount"]));
    let kept = Kept::new(
        201,
        [("Location", &b"/pay/1"[..])],
        b"ok",
        guard.field_rules(),
    );
    ticket
        .complete_value(kept.to_value().expect("encodes"))
        .expect("completes");
    let Claim::Replay(replay) = claim("k", r#"{"amount":1.0}"#) else {
        panic!("a replay")
    };
    assert_eq!(Kept::from_value(&replay.value).expect("an answer"), kept);
    assert!(Problem::of_claim(&Claim::Replay(replay)).is_none());
    clock.advance(Duration::from_secs(61));
    assert_eq!(problem("k", r#"{"amount":1}"#).status(), 410);

    let Claim::Execute(ticket) = claim("doubtful", "1") else {
        panic!("the first")
    };
    drop(ticket);
    let doubt = problem("doubtful", "1");
    assert_eq!(
        (doubt.kind(), doubt.retry_after()),
        (ProblemKind::InDoubt, None)
    );
    assert!(
        !doubt.body().contains("semel resolve"),
        "the operator's command is not told to clients"
    );

    let Claim::Execute(ticket) = claim("failed", "1") else {
        panic!("the first")
    };
    ticket
        .fail(semel::Failure::new("declined", "no money"))
        .expect("fails");
    let failed: Json = serde_json::from_str(&problem("failed", "1").body()).expect("JSON");
    assert_eq!(
        (&failed["code"], &failed["detail"]),
        (&Json::from("declined"), &Json::from("no money"))
    );
}

#[test]
fn an_error_of_the_store_tells_clients_nothing_of_the_store() {
    let store = Store::open("memory:").expect("opens");
    store.close().expect("closes");
    let error: Error = store
        .claim(&semel::Request::new("http", "k"))
        .expect_err("closed");
    let problem = Problem::of_error(&error);
    assert_eq!((problem.status(), problem.retry_after()), (503, Some(1)));
    assert!(!problem.body().contains("closed"), "{}", problem.body());
}

#[test]
fn a_key_that_is_made_per_attempt_is_warned_of() {
    let of = |name| {
        Guard::new()
            .key(KeySource::field(name).expect("a name"))
            .warnings()
    };
    assert!(of("X-Request-Id")[0].contains("anew for every attempt"));
    assert!(of("X-Order-No").is_empty() && Guard::new().warnings().is_empty());
}
