//! Where a store may be, and what is found there.

use std::os::unix::fs::PermissionsExt;

use semel::{Claim, Request, Store};

use super::Place;
use crate::crash::process::{Process, victim};

#[test]
fn a_path_may_be_longer_than_a_sockets_address() {
    let place = Place::new();
    let deep = format!(
        "{}/{}",
        place.name,
        "a long name that goes on and on and on/".repeat(6)
    );
    let mut owner = Process::start(&mut victim(&["guest", &deep]));
    assert_eq!(owner.line(), "open");
    let store = Store::open(&deep).expect("attaches");
    let claim = store.claim(&Request::new("guest", "K")).expect("claims");
    assert!(matches!(claim, Claim::Execute(_)));
    owner.send("lookup K");
    assert_eq!(owner.line(), "running");
}

#[test]
fn what_a_killed_owner_has_left_is_in_nobodys_way() {
    let place = Place::new();
    let mut first = place.guest(&[]);
    assert_eq!(first.does("claim K"), "execute");
    drop(first);
    let socket = place.dir.path().join("store/socket");
    assert!(socket.exists(), "a kill leaves it");
    let store = Store::open(&place.name).expect("opens");
    assert_eq!(place.owner(), Some(std::process::id()));
    let mode = std::fs::metadata(&socket)
        .expect("is there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut second = place.guest(&[]);
    assert_eq!(second.does("claim K"), "busy");
    // The files of dead processes are taken away, and those of the living are not.
    let sessions = || {
        std::fs::read_dir(place.dir.path().join("store/sessions"))
            .expect("is there")
            .count()
    };
    assert_eq!(sessions(), 2);
    store.close().expect("closes");
    assert!(!socket.exists() || place.owner() == Some(second.0.id()));
    assert_eq!(second.does("claim L"), "execute");
    assert_eq!(sessions(), 1);
    // What the first owner drops late is not the socket of the next.
    drop(store);
    let mut third = place.guest(&[]);
    assert_eq!(third.does("claim L"), "busy");
    assert_eq!(place.owner(), Some(second.0.id()));
}

#[test]
fn a_store_that_was_taken_away_is_not_made_anew() {
    let place = Place::new();
    let owner = place.guest(&[]);
    let store = Store::open(&place.name).expect("attaches");
    std::fs::remove_dir_all(&place.name).expect("taken away");
    drop(owner);
    let told = store
        .claim(&Request::new("guest", "K"))
        .expect_err("it is gone");
    assert_eq!(told.kind(), semel::ErrorKind::Unavailable, "{told}");
    assert!(!std::path::Path::new(&place.name).join("log").exists());
}

#[test]
fn an_opening_that_was_killed_before_it_could_listen_leaves_a_place_that_opens() {
    let place = Place::new();
    let left = std::path::Path::new(&place.name);
    std::fs::create_dir(left).expect("made");
    std::fs::write(left.join("owner"), "").expect("written");
    drop(std::os::unix::net::UnixListener::bind(left.join("socket.new")).expect("binds"));
    Store::open(&place.name).expect("opens");
}
