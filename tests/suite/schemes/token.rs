//! Tokens: good once, for their purpose and scope, in their time.

use std::collections::HashSet;

use semel::{Claim, Error, ErrorKind, Redeem, Refusal, Request, TokenClaim};

use super::{Place, SECOND, TICK, kind, on_each, threads};

const REFUSED: [(&str, Refusal); 5] = [
    ("unknown", Refusal::Unknown),
    ("used", Refusal::Used),
    ("expired", Refusal::Expired),
    ("other_purpose", Refusal::OtherPurpose),
    ("other_scope", Refusal::OtherScope),
];

#[test]
fn a_token_is_good_once_and_every_refusal_has_its_reason() {
    on_each(|place| {
        let store = place.open();
        let (ann, all) = (store.tokens().scope("ann"), store.tokens());
        let token = ann.issue("checkout", SECOND).expect("issues");
        let refused = |redeem, reason| assert_eq!(redeem, Redeem::Refused(reason));
        refused(
            ann.redeem("no-such-token", "checkout").expect("answers"),
            Refusal::Unknown,
        );
        refused(
            ann.redeem("", "checkout").expect("answers"),
            Refusal::Unknown,
        );
        refused(
            ann.redeem(&"x".repeat(9000), "checkout").expect("answers"),
            Refusal::Unknown,
        );
        refused(
            ann.redeem(&token, "refund").expect("answers"),
            Refusal::OtherPurpose,
        );
        refused(
            all.redeem(&token, "checkout").expect("answers"),
            Refusal::OtherScope,
        );
        let ben = store.tokens().scope("ben");
        refused(
            ben.redeem(&token, "checkout").expect("answers"),
            Refusal::OtherScope,
        );
        // What was refused has spent nothing.
        assert_eq!(
            ann.redeem(&token, "checkout").expect("redeems"),
            Redeem::Redeemed
        );
        refused(
            ann.redeem(&token, "checkout").expect("answers"),
            Refusal::Used,
        );
        for (name, refusal) in REFUSED {
            assert_eq!(refusal.name(), name);
        }
    });
}

#[test]
fn a_token_expires_without_a_sweep_at_its_time() {
    on_each(|place| {
        let store = place.builder().sweep_by_hand().open().expect("opens");
        let tokens = store.tokens();
        let (early, late) = (
            tokens.issue("checkout", SECOND).expect("issues"),
            tokens.issue("checkout", SECOND).expect("issues"),
        );
        place.clock.advance(SECOND - TICK);
        assert_eq!(
            tokens.redeem(&early, "checkout").expect("redeems"),
            Redeem::Redeemed
        );
        place.clock.advance(TICK);
        let answer = tokens.redeem(&late, "checkout").expect("answers");
        assert_eq!(answer, Redeem::Refused(Refusal::Expired));
        // Who spent it hears so also after its time; and long after, nothing is known of it.
        let answer = tokens.redeem(&early, "checkout").expect("answers");
        assert_eq!(answer, Redeem::Refused(Refusal::Used));
        place.clock.advance(SECOND);
        let answer = tokens.redeem(&late, "checkout").expect("answers");
        assert_eq!(answer, Redeem::Refused(Refusal::Unknown));
    });
}

#[test]
fn a_token_is_128_random_bits_that_a_url_takes_as_they_are() {
    let store = Place::memory().open();
    let tokens: HashSet<String> = (0..2000)
        .map(|_| store.tokens().issue("checkout", SECOND).expect("issues"))
        .collect();
    assert_eq!(tokens.len(), 2000);
    let letters: HashSet<char> = tokens.iter().flat_map(|token| token.chars()).collect();
    assert_eq!(
        letters.len(),
        64,
        "all of the alphabet is used: {letters:?}"
    );
    for token in tokens {
        assert_eq!(token.len(), 22);
        assert!(
            token
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
        );
    }
    // The store has a hash alone: the token is not in a row, a key or a listing.
    assert_eq!(store.list().count(), 0);
}

#[test]
fn sixty_four_who_redeem_at_once_have_one_winner() {
    on_each(|place| {
        let store = place.open();
        for _ in 0..8 {
            let token = store.tokens().issue("checkout", SECOND).expect("issues");
            let answers = threads(64, |_| {
                store.tokens().redeem(&token, "checkout").expect("answers")
            });
            let won = answers
                .iter()
                .filter(|answer| **answer == Redeem::Redeemed)
                .count();
            let used = answers
                .iter()
                .filter(|answer| **answer == Redeem::Refused(Refusal::Used))
                .count();
            assert_eq!((won, used), (1, 63));
        }
    });
}

fn name(claim: &TokenClaim) -> &'static str {
    match claim {
        TokenClaim::Claim(claim) => claim.name(),
        TokenClaim::Refused(refusal) => refusal.name(),
    }
}

#[test]
fn a_retry_after_a_lost_answer_gets_the_first_result() {
    on_each(|place| {
        let store = place.open();
        let tokens = store.tokens();
        let token = tokens.issue("checkout", SECOND).expect("issues");
        let order = Request::new("order.create", "ORDER_1")
            .payload(&1)
            .expect("payload");
        let claim =
            |request: &Request<'_>| tokens.claim(&token, "checkout", request).expect("answers");
        let TokenClaim::Claim(Claim::Execute(ticket)) = claim(&order) else {
            panic!("the first runs")
        };
        assert_eq!(name(&claim(&order)), "busy");
        ticket.complete("done").expect("completes");
        // Also long after the token's own time, for as long as the claim is kept.
        for wait in [0, 1, 2, 3600] {
            place.clock.advance(SECOND * wait);
            match claim(&order) {
                TokenClaim::Claim(Claim::Replay(replay)) => {
                    assert_eq!(replay.decode::<String>().expect("decodes"), "done")
                }
                other => panic!("{other:?}"),
            }
        }
        let other_payload = Request::new("order.create", "ORDER_1")
            .payload(&2)
            .expect("payload");
        assert_eq!(name(&claim(&other_payload)), "mismatch");
        assert_eq!(
            name(&claim(&Request::new("order.create", "ORDER_2"))),
            "used"
        );
        assert_eq!(
            tokens.redeem(&token, "checkout").expect("answers"),
            Redeem::Refused(Refusal::Used)
        );
        assert!(
            store
                .lookup(&(&Request::new("order.create", "ORDER_2")).into())
                .expect("looks")
                .is_none()
        );
    });
}

#[test]
fn a_claim_that_cannot_be_made_leaves_the_token_good() {
    let store = Place::memory().open();
    let token = store.tokens().issue("checkout", SECOND).expect("issues");
    let bad = Request::new("order.create", "ORDER_1").lease(std::time::Duration::ZERO);
    assert_eq!(
        kind(store.tokens().claim(&token, "checkout", &bad)),
        ErrorKind::InvalidInput
    );
    assert_eq!(
        store.tokens().redeem(&token, "checkout").expect("redeems"),
        Redeem::Redeemed
    );
    let expired = store.tokens().issue("checkout", TICK).expect("issues");
    let store2 = Place::memory();
    store2.clock.advance(SECOND);
    assert_eq!(
        kind(store.tokens().issue("checkout", std::time::Duration::ZERO)),
        ErrorKind::InvalidInput
    );
    assert_eq!(
        kind(store.tokens().issue(" ", SECOND)),
        ErrorKind::InvalidInput
    );
    assert_eq!(
        kind(store.tokens().redeem(&expired, "")),
        ErrorKind::InvalidInput
    );
    assert_eq!(
        kind(store.tokens().scope("").issue("checkout", SECOND)),
        ErrorKind::InvalidInput
    );
}

#[test]
fn one_token_spent_on_two_operations_at_once_runs_one() {
    on_each(|place| {
        let store = place.open();
        let token = store.tokens().issue("checkout", SECOND).expect("issues");
        let answers = threads(16, |at| {
            let request = Request::new("order.create", format!("ORDER_{}", at % 2));
            let claim = store
                .tokens()
                .claim(&token, "checkout", &request)
                .expect("answers");
            let name = name(&claim);
            std::mem::forget(claim); // it runs on
            name
        });
        let count = |name| answers.iter().filter(|answer| **answer == name).count();
        assert_eq!((count("execute"), count("busy"), count("used")), (1, 7, 8));
    });
}

#[test]
fn a_transaction_that_fails_spends_nothing_and_a_store_that_reopens_has_all() {
    let place = Place::directory();
    let store = place.open();
    let tokens = store.tokens();
    let token = tokens.issue("checkout", SECOND * 60).expect("issues");
    let global = semel::GLOBAL;
    let failed = store.transaction(|tx| {
        assert_eq!(
            tx.tokens(&global).redeem(&token, "checkout")?,
            Redeem::Redeemed
        );
        Err::<(), _>(Error::new(ErrorKind::Unsupported, "no"))
    });
    assert_eq!(kind(failed), ErrorKind::Unsupported);
    drop(store);
    let store = place.open();
    assert_eq!(
        store.tokens().redeem(&token, "checkout").expect("redeems"),
        Redeem::Redeemed
    );
    drop(store);
    let answer = place
        .open()
        .tokens()
        .redeem(&token, "checkout")
        .expect("answers");
    assert_eq!(answer, Redeem::Refused(Refusal::Used));
}

#[test]
fn a_token_is_good_for_its_claim_for_as_long_as_that_is_kept_also_when_it_ran_again_later() {
    let hours = |hours: u64| SECOND * 3600 * hours as u32;
    on_each(|place| {
        let store = place.open();
        let tokens = store.tokens();
        let token = tokens.issue("checkout", SECOND).expect("issues");
        let order = Request::new("order.create", "ORDER_1").retain(hours(1));
        let claim = || tokens.claim(&token, "checkout", &order).expect("answers");
        let execute = || match claim() {
            TokenClaim::Claim(Claim::Execute(ticket)) => ticket,
            other => panic!("to be executed, but {other:?}"),
        };
        // Let go and tried again, hours apart: the last attempt ends two days after the first began.
        for pause in [20, 20, 20] {
            execute().release().expect("releases");
            place.clock.advance(hours(pause));
        }
        execute().complete("done").expect("completes");
        place.clock.advance(hours(1) - TICK);
        assert_eq!(name(&claim()), "replay");
        store.sweep().expect("sweeps");
        assert_eq!(name(&claim()), "replay");
    });
}
