//! Ledger: each posting once, exact sums, never below the floor.

use semel::{ErrorKind, Post};

use super::{Place, SECOND, TICK, kind, on_each, threads};

#[test]
fn every_answer_of_the_contract() {
    on_each(|place| {
        let store = place.open();
        let wallet = store.ledger("wallet");
        let cases = [
            ("anna", "topup-1", 100, Some(0), Post::Posted(100)),
            ("anna", "order-1", -30, Some(0), Post::Posted(70)),
            ("anna", "order-1", -30, Some(0), Post::AlreadyPosted(70)),
            ("anna", "order-1", -31, Some(0), Post::Mismatch(-30)),
            ("anna", "order-2", -71, Some(0), Post::Insufficient(70)),
            ("anna", "order-2", -71, None, Post::Posted(-1)),
            ("anna", "topup-1", 100, Some(0), Post::AlreadyPosted(100)), // the balance of its first time
            ("anna", "topup-2", 1, Some(1000), Post::Posted(0)), // a floor stops what takes away
            ("anna", "order-3", -1, Some(-5), Post::Posted(-1)),
            ("ben", "order-1", -30, Some(0), Post::Insufficient(0)), // another account
            ("ben", "zero", 0, Some(0), Post::Posted(0)),
            ("ben", "zero", 0, Some(0), Post::AlreadyPosted(0)),
        ];
        for (account, biz_no, delta, floor, answer) in cases {
            let told = wallet.post(account, biz_no, delta, floor).expect("answers");
            assert_eq!(told, answer, "{account} {biz_no} {delta}");
        }
        assert_eq!(
            (
                wallet.balance("anna").expect("reads"),
                wallet.balance("carl").expect("reads")
            ),
            (-1, 0)
        );
        assert_eq!(store.ledger("points").balance("anna").expect("reads"), 0);
    });
}

#[test]
fn a_thousand_posts_from_eight_threads_have_an_exact_sum() {
    on_each(|place| {
        let store = place.open();
        let wallet = store.ledger("wallet");
        // Every posting is asked for by two threads.
        let posted: usize = threads(8, |thread| {
            let own = (0..250).filter(|at| {
                let number = (thread / 2) * 250 + at;
                let delta = i64::try_from(number % 7).expect("small") - 3;
                matches!(
                    wallet
                        .post("hot", &format!("b-{number}"), delta, None)
                        .expect("posts"),
                    Post::Posted(_)
                )
            });
            own.count()
        })
        .iter()
        .sum();
        let sum: i64 = (0..1000).map(|number| number % 7 - 3).sum();
        assert_eq!((posted, wallet.balance("hot").expect("reads")), (1000, sum));
    });
}

#[test]
fn what_many_take_at_once_is_never_oversold() {
    on_each(|place| {
        let store = place.open();
        let stock = store.ledger("stock");
        stock.post("cup", "delivery", 100, Some(0)).expect("posts");
        let sold: usize = threads(8, |thread| {
            let own = (0..25).filter(|at| {
                let post = stock
                    .post("cup", &format!("order-{thread}-{at}"), -1, Some(0))
                    .expect("answers");
                match post {
                    Post::Posted(left) => assert!(left >= 0),
                    Post::Insufficient(left) => assert_eq!(left, 0),
                    other => panic!("{other:?}"),
                }
                post.name() == "posted"
            });
            own.count()
        })
        .iter()
        .sum();
        assert_eq!((sold, stock.balance("cup").expect("reads")), (100, 0));
    });
}

#[test]
fn a_balance_beyond_64_bits_is_refused_and_changes_nothing() {
    on_each(|place| {
        let store = place.open();
        let wallet = store.ledger("wallet");
        wallet.post("rich", "b-1", i64::MAX, None).expect("posts");
        wallet.post("poor", "b-1", i64::MIN, None).expect("posts");
        assert_eq!(
            kind(wallet.post("rich", "b-2", 1, None)),
            ErrorKind::InvalidInput
        );
        assert_eq!(
            kind(wallet.post("poor", "b-2", -1, None)),
            ErrorKind::InvalidInput
        );
        assert_eq!(wallet.balance("rich").expect("reads"), i64::MAX);
        assert_eq!(wallet.balance("poor").expect("reads"), i64::MIN);
        // The refused number is free.
        assert_eq!(
            wallet.post("rich", "b-2", -1, None).expect("posts"),
            Post::Posted(i64::MAX - 1)
        );
        assert_eq!(
            wallet.post("rich", "b-1", i64::MAX, None).expect("answers"),
            Post::AlreadyPosted(i64::MAX)
        );
    });
}

#[test]
fn entries_are_kept_for_as_long_as_was_said_and_balances_for_ever() {
    let place = Place::directory();
    let post = |delta| {
        let store = place.open();
        store
            .ledger("wallet")
            .retain(SECOND)
            .post("anna", "b-1", delta, None)
            .expect("posts")
    };
    assert_eq!(post(5), Post::Posted(5));
    place.clock.advance(SECOND - TICK);
    assert_eq!(post(5), Post::AlreadyPosted(5));
    assert_eq!(post(6), Post::Mismatch(5));
    place.clock.advance(TICK);
    assert_eq!(post(5), Post::Posted(10));
}

#[test]
fn a_transfer_between_accounts_is_whole() {
    on_each(|place| {
        let store = place.open();
        for account in ["a", "b", "c"] {
            store
                .ledger("wallet")
                .post(account, "start", 100, None)
                .expect("posts");
        }
        threads(6, |thread| {
            for at in 0..20 {
                let (from, to) = [
                    ("a", "b"),
                    ("b", "c"),
                    ("c", "a"),
                    ("b", "a"),
                    ("c", "b"),
                    ("a", "c"),
                ][thread];
                let number = format!("t-{thread}-{at}");
                store
                    .transaction(|tx| {
                        if let Post::Posted(_) =
                            tx.ledger("wallet").post(from, &number, -7, Some(0))?
                        {
                            tx.ledger("wallet").post(to, &number, 7, None)?;
                        }
                        Ok::<_, semel::Error>(())
                    })
                    .expect("transfers");
                let sum = store.transaction(|tx| {
                    let mut sum = 0;
                    for account in ["a", "b", "c"] {
                        sum += tx.ledger("wallet").balance(account)?;
                    }
                    Ok::<_, semel::Error>(sum)
                });
                assert_eq!(sum.expect("reads"), 300);
            }
        });
    });
}
