//! As many callers as there may be, and more: nobody keeps another out, and nobody himself.

use std::time::Duration;

use semel::{Claim, ErrorKind, Request, Stopwatch, Store};

use super::Place;

/// More threads than one process may have connections.
const WAITERS: usize = 300;
/// As many processes, each with as many calls at a time, as the owner has connections for.
const PROCESSES: usize = 16;
const CALLS: usize = 64;
/// What is neither refused nor put off ends well before this.
const SOON: Duration = Duration::from_secs(5);

#[test]
fn who_waits_does_not_keep_out_whom_he_waits_for() {
    let place = Place::new();
    let owner = place.guest(&[]);
    let store = Store::open(&place.name).expect("attaches");
    let request = Request::new("guest", "K").wait(Duration::from_secs(30));
    let Claim::Execute(ticket) = store.claim(&request).expect("claims") else {
        panic!("first")
    };
    std::thread::scope(|scope| {
        let waiters: Vec<_> = (0..WAITERS)
            .map(|_| scope.spawn(|| store.claim(&request).map(|claim| claim.name())))
            .collect();
        std::thread::sleep(Duration::from_millis(700));
        let ending = Stopwatch::start();
        ticket.renew().expect("renews");
        ticket.complete("done").expect("completes");
        assert!(ending.elapsed() < SOON, "{:?}", ending.elapsed());
        for waiter in waiters {
            assert_eq!(waiter.join().expect("ends").expect("is told"), "replay");
        }
    });
    drop(owner);
}

#[test]
fn connections_that_nobody_uses_any_more_are_in_nobodys_way() {
    let place = Place::new();
    let mut owner = place.guest(&[]);
    assert_eq!(owner.does("claim K"), "execute");
    let mut crowd: Vec<_> = (0..PROCESSES).map(|_| place.guest(&[])).collect();
    for guest in &mut crowd {
        guest.0.send(&format!("burst {CALLS} K"));
    }
    for guest in &mut crowd {
        assert_eq!(guest.0.line(), "burst");
    }
    let coming = Stopwatch::start();
    let mut last = place.guest(&[]);
    assert_eq!(last.does("claim L"), "execute");
    assert!(coming.elapsed() < SOON, "{:?}", coming.elapsed());
    // Who was hung up at meanwhile finds the owner again.
    for guest in &mut crowd {
        assert_eq!(guest.does("claim K"), "busy");
    }
}

#[test]
fn what_a_transaction_has_read_may_be_longer_than_a_message() {
    let place = Place::new();
    let owner = Store::open(&place.name).expect("opens");
    let guest = Store::open(&place.name).expect("attaches");
    let long = "x".repeat((1 << 20) - 100);
    for n in 0..20 {
        owner
            .table("long")
            .put(&format!("{n}"), &long)
            .expect("is put");
    }
    for store in [&owner, &guest] {
        let read = store.transaction(|tx| {
            let mut bytes = 0;
            for n in 0..20 {
                let row = tx.table("long").get::<String>(&format!("{n}"))?;
                bytes += row.map_or(0, |row| row.value.len());
            }
            Ok::<_, semel::Error>(bytes)
        });
        assert_eq!(read.expect("reads"), 20 * long.len());
    }
}

#[test]
fn a_transaction_is_bounded_alike_at_both_ends() {
    let place = Place::new();
    let owner = Store::open(&place.name).expect("opens");
    let guest = Store::open(&place.name).expect("attaches");
    let long = "x".repeat((1 << 20) - 100);
    let told = [&owner, &guest].map(|store| {
        let written = store.transaction(|tx| {
            for n in 0..20 {
                tx.table("long").put(&format!("{n}"), &long)?;
            }
            Ok::<_, semel::Error>(())
        });
        written.expect_err("too long").kind()
    });
    assert_eq!(told, [ErrorKind::InvalidInput; 2]);
}
