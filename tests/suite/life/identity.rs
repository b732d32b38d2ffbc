//! Which operation is meant, and whether it is the same request: scopes, keys, fingerprints on every answer.

use semel::{GLOBAL, Policy, Request, Store};
use serde_json::json;

use super::fixture::{answer, answered, directory, execute, frozen, memory, seconds};

#[test]
fn scope_operation_and_id_each_make_another_operation() {
    let store = memory();
    let requests = [
        Request::new("a", "b:c"),
        Request::new("a:b", "c"),
        Request::new("a", "b:c").scope("t"),
        Request::new("a", "b:c").scope("GLOBAL"),
        Request::new("t", "c").scope("a:b"),
        Request::new("t", "b:c").scope("a"),
        Request::new("A", "b:c"),
        Request::new("a", "b:c "),
        // NFC and NFD of one letter are two texts.
        Request::new("a", "\u{e9}"),
        Request::new("a", "e\u{301}"),
    ];
    for request in &requests {
        execute(&store, request)
            .complete(&format!("{request:?}"))
            .expect("completes");
    }
    for request in &requests {
        assert_eq!(answer(&store, request), "replay");
    }
    assert_eq!(
        answer(&store, &Request::new("a", "b:c").scope(GLOBAL)),
        "replay",
        "no scope is GLOBAL"
    );
    assert_eq!(store.len(), requests.len() as u64);
}

#[test]
fn the_same_answer_is_not_told_to_another_tenant() {
    let store = memory();
    let of = |tenant| Request::new("order.create", "1").scope(tenant);
    execute(&store, &of("ann"))
        .complete("ann's")
        .expect("completes");
    assert_eq!(answer(&store, &of("bob")), "execute");
}

#[test]
fn another_payload_is_a_mismatch_in_every_live_state_and_names_what_differs() {
    let (store, clock) = frozen();
    let with = |id: &'static str, amount: u32| {
        Request::new("pay", id)
            .payload(&json!({"amount": amount, "to": "Ann"}))
            .expect("a payload")
            .retain(seconds(60))
            .remember(seconds(60))
    };
    let states = [
        "running", "done", "failed", "released", "doubtful", "lapsed",
    ];
    let mut tickets = Vec::new();
    for id in states {
        let ticket = execute(&store, &with(id, 1));
        match id {
            "done" => ticket.complete("x").expect("completes"),
            "failed" => ticket.fail(semel::Failure::new("no", "")).expect("fails"),
            "released" => ticket.release().expect("releases"),
            "doubtful" => drop(ticket),
            _ => tickets.push(ticket),
        }
    }
    let check = |id: &'static str| {
        let mismatch = answered!(Mismatch, store.claim(&with(id, 2)).expect("claims"));
        assert_eq!(mismatch.fields, ["amount"], "{id}");
        assert!(mismatch.to_string().contains("amount"));
    };
    states.into_iter().for_each(check);
    clock.advance(seconds(59));
    ["done", "failed", "released", "doubtful"]
        .into_iter()
        .for_each(check);
    clock.advance(seconds(60));
    assert_eq!(answer(&store, &with("done", 1)), "gone");
    check("done");
}

#[test]
fn a_claim_or_a_record_without_payload_compares_nothing() {
    let store = memory();
    let bare = |id| Request::new("pay", id);
    let with = |id, n: u32| bare(id).payload(&n).expect("a payload");
    execute(&store, &with("a", 1))
        .complete("x")
        .expect("completes");
    assert_eq!(answer(&store, &bare("a")), "replay");
    assert_eq!(answer(&store, &with("a", 2)), "mismatch");
    execute(&store, &bare("b")).release().expect("releases");
    execute(&store, &with("b", 1))
        .complete("x")
        .expect("completes");
    assert_eq!(
        answer(&store, &with("b", 2)),
        "replay",
        "the record stays as it was made"
    );
}

#[test]
fn what_is_equal_by_value_is_the_same_request() {
    let store = memory();
    let json = |text: &str| {
        Request::new("pay", "1")
            .payload_json(text.as_bytes())
            .expect("JSON")
    };
    execute(&store, &json(r#"{"a":1,"b":[{"x":1,"y":-0}]}"#))
        .complete("x")
        .expect("completes");
    for same in [
        r#"{"b":[{"y":0,"x":1.0}],"a":1e0}"#,
        "{\"b\": [ {\"x\":10e-1,\"y\":0.0} ],\n\"a\":1.00}",
    ] {
        assert_eq!(answer(&store, &json(same)), "replay", "{same}");
    }
    for other in [
        r#"{"a":1,"b":[{"x":1,"y":"0"}]}"#,
        r#"{"a":"1","b":[{"x":1,"y":0}]}"#,
        r#"{"a":true,"b":[{"x":1,"y":0}]}"#,
        r#"{"a":1,"b":[{"x":1,"y":0},null]}"#,
        r#"{"a":1,"b":[{"x":1,"y":0}],"c":null}"#,
        r#"{"a":1.0000000000000000000000001,"b":[{"x":1,"y":0}]}"#,
        r#"{"a":1,"b":[{"x":1,"y":0}],"__proto__":1}"#,
    ] {
        assert_eq!(answer(&store, &json(other)), "mismatch", "{other}");
    }
    let big = |n: u64| Request::new("pay", "2").payload(&n).expect("a payload");
    execute(&store, &big(9_007_199_254_740_993))
        .complete("x")
        .expect("completes");
    assert_eq!(answer(&store, &big(9_007_199_254_740_992)), "mismatch");
}

#[test]
fn every_byte_of_the_payload_counts() {
    let store = memory();
    let body = vec![0x5a; 3 << 20];
    let with = |bytes: &[u8]| Request::new("put", "1").payload_bytes(bytes);
    execute(&store, &with(&body))
        .complete("x")
        .expect("completes");
    for flipped in [0, 1 << 20, (1 << 20) + 1, body.len() - 1] {
        let mut other = body.clone();
        other[flipped] ^= 1;
        assert_eq!(answer(&store, &with(&other)), "mismatch", "byte {flipped}");
    }
    assert_eq!(answer(&store, &with(&body[..body.len() - 1])), "mismatch");
    assert_eq!(answer(&store, &with(&body)), "replay");
}

#[test]
fn the_fingerprint_outlives_the_process_with_its_secret() {
    let (_dir, path) = directory();
    let with = |n: u32| {
        Request::new("pay", "1")
            .payload(&json!({"n": n}))
            .expect("a payload")
            .in_doubt(Policy::Rerun)
    };
    let store = Store::open(&path).expect("opens");
    execute(&store, &with(1)).complete("x").expect("completes");
    drop(store);
    let store = Store::open(&path).expect("reopens");
    assert_eq!(answer(&store, &with(2)), "mismatch");
    assert_eq!(answer(&store, &with(1)), "replay");
    let info = store
        .lookup(&(&with(1)).into())
        .expect("looks up")
        .expect("a record");
    assert_eq!(info.fields, ["n"], "names, never values");
}
