//! The transaction: all or nothing, of one moment, bounded, and fair to whoever lost a race.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use semel::{
    Claim, Durability, Error, ErrorKind, Insert, MAX_CONFLICTS, Post, Request, Result, Store, Value,
};

use super::{Place, SECOND, kind, on_each, stored, threads};

fn get(tx: &mut semel::Tx<'_>, id: &str) -> Result<u64> {
    Ok(tx.table("t").get::<u64>(id)?.map_or(0, |row| row.value))
}

fn read(store: &Store, id: &str) -> u64 {
    store.transaction(|tx| get(tx, id)).expect("reads")
}

#[test]
fn a_transaction_sees_its_own_writes_and_nobody_else_does_before_the_commit() {
    on_each(|place| {
        let store = place.open();
        let seen = store.transaction(|tx| {
            tx.table("t").put("a", &1u64)?;
            assert_eq!((get(tx, "a")?, read(&store, "a")), (1, 0));
            tx.table("t").delete("a")?;
            assert_eq!(get(tx, "a")?, 0);
            tx.table("t").put("a", &2u64)?;
            get(tx, "a")
        });
        assert_eq!((seen.expect("commits"), read(&store, "a")), (2, 2));
    });
}

#[test]
fn everything_in_a_transaction_takes_effect_or_nothing_does() {
    on_each(|place| {
        let store = place.open();
        let pay = |fail: bool| {
            let Claim::Execute(ticket) = store.claim(&Request::new("pay", "p-1")).expect("claims")
            else {
                panic!("runs")
            };
            let done = store.transaction(|tx| {
                tx.unique("payments").insert("p-1", &1)?;
                tx.ledger("shop").post("revenue", "p-1", 100, None)?;
                tx.emit("paid", "p-1", &1)?;
                tx.mark("billing", "p-1")?;
                tx.table("t").put("a", &1u64)?;
                tx.complete(&ticket, "paid")?;
                match fail {
                    true => Err(Error::new(ErrorKind::Unsupported, "no")),
                    false => Ok(()),
                }
            });
            if done.is_err() {
                ticket.release().expect("releases");
            }
            done
        };
        assert_eq!(kind(pay(true)), ErrorKind::Unsupported);
        assert_eq!(stored(&store), 1, "the released claim alone");
        pay(false).expect("commits");
        assert_eq!(
            store
                .claim(&Request::new("pay", "p-1"))
                .expect("answers")
                .name(),
            "replay"
        );
        assert_eq!(
            store.unique("payments").insert("p-1", &1).expect("answers"),
            Insert::Exists(1)
        );
        assert_eq!(
            store
                .ledger("shop")
                .post("revenue", "p-1", 100, None)
                .expect("answers"),
            Post::AlreadyPosted(100)
        );
        assert_eq!(
            (
                store.outbox("paid").len().expect("counts"),
                read(&store, "a")
            ),
            (1, 1)
        );
        assert!(
            !store
                .transaction(|tx| tx.mark("billing", "p-1"))
                .expect("answers")
        );
    });
}

#[test]
fn a_ticket_that_was_lost_or_is_of_another_store_ends_no_transaction() {
    let (place, other) = (Place::memory(), Place::memory().open());
    let store = place.open();
    let request = Request::new("pay", "p-1")
        .in_doubt(semel::Policy::Rerun)
        .renew(semel::Renew::Off);
    let claim = |store: &Store| match store.claim(&request).expect("claims") {
        Claim::Execute(ticket) => ticket,
        other => panic!("{other:?}"),
    };
    let foreign = claim(&other);
    let old = claim(&store);
    place.clock.advance(Duration::from_secs(31));
    let new = claim(&store);
    let complete = |ticket: &semel::Ticket| {
        store.transaction(|tx| {
            tx.table("t").put("a", &1u64)?;
            tx.complete(ticket, &())
        })
    };
    assert_eq!(kind(complete(&old)), ErrorKind::Lost);
    assert_eq!(kind(complete(&foreign)), ErrorKind::InvalidInput);
    assert_eq!(read(&store, "a"), 0);
    complete(&new).expect("commits");
    assert_eq!(kind(complete(&new)), ErrorKind::Lost, "a ticket ends once");
    let twice = claim_again(&store);
    let both = store.transaction(|tx| {
        tx.complete(&twice, &1)?;
        tx.fail(&twice, semel::Failure::new("no", "no"))
    });
    assert_eq!(kind(both), ErrorKind::Lost);
}

fn claim_again(store: &Store) -> semel::Ticket {
    match store.claim(&Request::new("pay", "p-2")).expect("claims") {
        Claim::Execute(ticket) => ticket,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_a_transaction_returns_is_of_one_moment_also_when_it_only_reads_or_fails() {
    on_each(|place| {
        let store = place.open();
        let stop = AtomicBool::new(false);
        let looks = AtomicUsize::new(0);
        threads(4, |thread| {
            if thread < 2 {
                for round in 0..150u64 {
                    store
                        .transaction(|tx| {
                            tx.table("t").put("a", &round)?;
                            tx.table("t").put("b", &round)
                        })
                        .expect("writes");
                }
                stop.store(true, Ordering::SeqCst);
                return;
            }
            while !stop.load(Ordering::SeqCst) || looks.load(Ordering::SeqCst) < 20 {
                looks.fetch_add(1, Ordering::SeqCst);
                if thread == 2 {
                    let both =
                        store.transaction(|tx| Ok::<_, Error>((get(tx, "b")?, get(tx, "a")?)));
                    let (b, a) = both.expect("reads");
                    assert_eq!(a, b);
                } else {
                    // An error that would rest on a mixture of moments is not raised.
                    let checked = store.transaction(|tx| match get(tx, "a")? == get(tx, "b")? {
                        true => Ok(()),
                        false => Err(Error::new(ErrorKind::Corrupt, "they differ")),
                    });
                    checked.expect("they never differ");
                }
            }
        });
    });
}

#[test]
fn eight_threads_over_ten_rows_all_get_through_whatever_their_order() {
    on_each(|place| {
        let store = place.open();
        let rounds = 40;
        threads(8, |thread| {
            for round in 0..rounds {
                let (a, b) = ((thread * 3 + round) % 10, (thread * 7 + round * 3 + 1) % 10);
                let moved = store.transaction(|tx| {
                    for id in [a, b] {
                        let id = format!("r{id}");
                        let now = get(tx, &id)?;
                        tx.table("t").put(&id, &(now + 1))?;
                    }
                    Ok::<_, Error>(())
                });
                moved.expect("bounded retries are enough");
            }
        });
        let sum: u64 = (0..10).map(|at| read(&store, &format!("r{at}"))).sum();
        assert_eq!(sum, 8 * 2 * 40);
    });
}

#[test]
fn rows_that_are_written_in_either_order_do_not_stall() {
    on_each(|place| {
        let store = place.open();
        threads(2, |thread| {
            for round in 0..100u64 {
                let ids = if thread == 0 { ["a", "b"] } else { ["b", "a"] };
                store
                    .transaction(|tx| {
                        ids.iter()
                            .try_for_each(|id| tx.table("t").put(id, &round).map(drop))
                    })
                    .expect("commits");
            }
        });
    });
}

#[test]
fn a_slow_transaction_is_let_through_by_fast_ones() {
    let store = Place::memory().open_live();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !stop.load(Ordering::SeqCst) {
                    store
                        .table("t")
                        .modify::<u64>("hot", |n| n.unwrap_or(0) + 1)
                        .expect("modifies");
                }
            });
        }
        for _ in 0..5 {
            let tries = AtomicUsize::new(0);
            let slow = store.transaction(|tx| {
                tries.fetch_add(1, Ordering::SeqCst);
                let now = get(tx, "hot")?;
                std::thread::sleep(Duration::from_millis(5));
                tx.table("t").put("hot", &now)
            });
            slow.expect("gets through");
            assert!(tries.into_inner() < MAX_CONFLICTS as usize / 4);
        }
        stop.store(true, Ordering::SeqCst);
    });
}

#[test]
fn conflicts_without_end_are_given_up_with_the_name_of_the_contended_key() {
    on_each(|place| {
        let store = place.open();
        let tries = AtomicUsize::new(0);
        let error = store.transaction(|tx| {
            let seen = get(tx, "hot")?;
            // Somebody else is always first.
            std::thread::scope(|scope| {
                let rival = store.table("t").timeout(Duration::from_millis(1));
                scope.spawn(move || rival.put("hot", &(seen + 1)).expect("puts"));
            });
            tries.fetch_add(1, Ordering::SeqCst);
            tx.table("t").put("hot", &0u64)
        });
        let error = error.expect_err("given up");
        assert_eq!(error.kind(), ErrorKind::TransactionConflict);
        assert!(
            error.message().contains("row \"hot\" of table \"t\""),
            "{error}"
        );
        assert_eq!(tries.into_inner(), MAX_CONFLICTS as usize);
    });
}

#[test]
fn a_transaction_within_a_transaction_waits_for_nobody_who_waits_for_it() {
    let store = Place::memory().open_live();
    threads(4, |thread| {
        for round in 0..50 {
            let nested = store.transaction(|tx| {
                let own = format!("k{}", (thread + round) % 2);
                let now = get(tx, &own)?;
                tx.table("t").put(&own, &(now + 1))?;
                // A mistake, and no deadlock: another transaction, of a row that the others want.
                store
                    .table("t")
                    .modify::<u64>(&format!("n{}", round % 2), |n| n.unwrap_or(0) + 1)?;
                Ok::<_, Error>(())
            });
            match nested {
                Ok(()) => {}
                Err(error) => assert_eq!(error.kind(), ErrorKind::TransactionConflict),
            }
        }
    });
}

#[test]
fn what_a_transaction_may_hold_is_bounded() {
    let store = Place::memory().open();
    let many = store.transaction(|tx| {
        (0..10_001).try_for_each(|at| tx.table("t").put(&at.to_string(), &at).map(drop))
    });
    assert_eq!(kind(many), ErrorKind::InvalidInput);
    assert_eq!(stored(&store), 0);
    store
        .transaction(|tx| {
            (0..10_000).try_for_each(|at| tx.table("t").put(&at.to_string(), &at).map(drop))
        })
        .expect("commits");
    assert_eq!(stored(&store), 10_000);
    let place = Place::directory();
    let store = place.open();
    let large = vec![7u8; 1 << 19];
    let too_much = store.transaction(|tx| {
        (0..9).try_for_each(|at| tx.table("t").put(&at.to_string(), &large).map(drop))
    });
    assert_eq!(kind(too_much), ErrorKind::InvalidInput);
    assert_eq!(stored(&store), 0);
}

#[test]
fn a_relaxed_transaction_is_there_at_once_and_on_disk_when_the_store_is_closed() {
    let place = Place::directory();
    {
        let store = place.open();
        let relaxed = store.transact().durability(Durability::Relaxed);
        relaxed
            .run(|tx| tx.table("t").put("a", &1u64))
            .expect("commits");
        assert_eq!(read(&store, "a"), 1);
        store.close().expect("closes");
        assert_eq!(
            kind(store.transaction(|tx| get(tx, "a"))),
            ErrorKind::Closed
        );
    }
    assert_eq!(read(&place.open(), "a"), 1);
}

#[test]
fn the_bound_of_results_is_one_of_values_and_not_of_what_a_scheme_notes_beside_them() {
    let store = Place::memory().builder().max_result_bytes(4).open();
    let store = store.expect("opens");
    let (short, long) = (Value::bytes(*b"four"), Value::bytes(*b"fives"));
    let put = |value: &Value| store.transaction(|tx| tx.table("t").put_value("a", value.clone()));
    put(&short).expect("as long as is allowed");
    assert_eq!(kind(put(&long)), ErrorKind::InvalidInput);
    let insert =
        |value: &Value| store.transaction(|tx| tx.unique("u").insert_value("a", value.clone()));
    insert(&short).expect("as long as is allowed");
    assert_eq!(kind(insert(&long)), ErrorKind::InvalidInput);
    let emit = |bytes: &[u8]| store.transaction(|tx| tx.emit_bytes("topic", "a", bytes));
    emit(b"four").expect("as long as is allowed");
    assert_eq!(kind(emit(b"fives")), ErrorKind::InvalidInput);
    // An update keeps its events beside the value, a machine its history, a token its purpose.
    let table = store.table("t");
    let mut row = table.put("b", &1).and_then(|_| table.get::<u8>("b"));
    for event in 0..20 {
        let known = row.expect("reads").expect("a row");
        let event = format!("{event}-{}", "e".repeat(200));
        let updated = table.update(&known, &2, Some(&event)).expect("updates");
        assert_eq!(updated.name(), "updated");
        row = table.get("b");
    }
    let states: &[(&str, &[&str])] = &[("to", &["fro"]), ("fro", &["to"])];
    let machine = store.machine("m", states, "to").expect("a machine");
    machine.create("a").expect("creates");
    for round in 0..80 {
        let (from, to) = if round % 2 == 0 {
            ("to", "fro")
        } else {
            ("fro", "to")
        };
        let event = format!("{round}-{}", "e".repeat(250));
        assert_eq!(
            machine.fire("a", from, to, &event).expect("fires"),
            semel::Fire::Applied
        );
    }
    let token = store.tokens().issue("a purpose", SECOND).expect("issues");
    let redeemed = store.tokens().redeem(&token, "a purpose");
    assert_eq!(redeemed.expect("answers"), semel::Redeem::Redeemed);
}
