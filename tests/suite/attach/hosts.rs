//! Programs of all sorts: with threads that end while they hold something, and signals that a library must survive.

use std::cell::RefCell;
use std::future::Future;
use std::task::{Context, Waker};
use std::time::Duration;

use semel::{Claim, OnTwin, Request, Store, Ticket};

use super::{Place, signal};
use crate::cli_process::until;

#[test]
fn a_ticket_that_a_thread_takes_along_is_in_doubt() {
    thread_local! {
        static HELD: RefCell<Vec<(Ticket, Store)>> = const { RefCell::new(Vec::new()) };
    }
    let place = Place::new();
    let mut owner = place.guest(&[]);
    let name = place.name.clone();
    let ended = std::thread::spawn(move || {
        // Made before anything of the store is, and so let go of after it.
        HELD.with(|held| held.borrow_mut().reserve(1));
        let store = Store::open(&name).expect("attaches");
        let claim = store.claim(&Request::new("guest", "K")).expect("claims");
        let Claim::Execute(ticket) = claim else {
            panic!("first")
        };
        HELD.with(|held| held.borrow_mut().push((ticket, store)));
    });
    ended.join().expect("ends");
    assert_eq!(owner.does("claim K"), "in_doubt");
}

#[test]
fn a_program_that_dies_of_broken_pipes_does_not_die_with_the_owner() {
    let place = Place::new();
    let owner = place.guest(&[]);
    let mut guest = place.guest(&["sigpipe"]);
    assert_eq!(guest.does("claim K"), "execute");
    drop(owner);
    assert_eq!(guest.does("complete K"), "ended");
    assert_eq!(place.owner(), Some(guest.0.id()));
}

#[test]
fn a_claim_that_is_dropped_while_its_commit_is_on_its_way_is_taken_back() {
    let place = Place::new();
    let owner = Store::open(&place.name).expect("opens");
    let guest = Store::open(&place.name).expect("attaches");
    for round in 0..40 {
        let request = Request::new("pay", format!("{round}"))
            .payload(&round)
            .expect("a payload")
            .twin_window(Duration::from_secs(60))
            .on_twin(OnTwin::Refuse);
        let mut claim = Box::pin(guest.claim_async(&request));
        let mut polls = Context::from_waker(Waker::noop());
        // It is asked for what is there; when that has come, the commit sets out.
        assert!(claim.as_mut().poll(&mut polls).is_pending());
        std::thread::sleep(Duration::from_millis(5));
        let _ = claim.as_mut().poll(&mut polls);
        drop(claim);
    }
    until("all claims to be taken back", || {
        owner
            .list()
            .filter_map(Result::ok)
            .all(|info| info.state != "running")
    });
}

#[test]
fn a_child_of_a_process_that_never_held_the_store_may_come_to_hold_it() {
    use crate::crash::process::{Process, victim};
    let place = Place::new();
    let owner = place.guest(&[]);
    let told = place.dir.path().join("told");
    let text = told.to_str().expect("text");
    let mut parent = Process::start(&mut victim(&["orphans", &place.name, text]));
    assert_eq!(parent.line(), "working");
    drop(owner);
    signal(parent.id(), libc::SIGKILL);
    until("the children to be served", || {
        std::fs::read_to_string(&told).is_ok_and(|text| text.lines().count() == 4)
    });
    // Its command line tells a child from a `semel hold` that was started for it.
    let names = || {
        let owner = place.owner()?;
        std::fs::read_to_string(format!("/proc/{owner}/comm")).ok()
    };
    let found = names();
    assert_ne!(found.as_deref(), Some("semel\n"));
}
