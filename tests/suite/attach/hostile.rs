//! What comes over the socket need not be from semel: it costs the owner little, and others nothing.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use semel::{Claim, Request, Stopwatch, Store};
use semel_tests::victim::goods::Dice;

use super::Place;

fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("is there");
    let pages = text
        .split(' ')
        .nth(1)
        .and_then(|word| word.parse::<u64>().ok());
    pages.expect("a number") * 4096
}

/// A frame's head: the length of its body, the mark, the version and kind, and when it was sent.
fn head(body_bytes: u32, kind: u8) -> [u8; 16] {
    let mut head = [0; 16];
    head[..4].copy_from_slice(&body_bytes.to_le_bytes());
    head[4..6].copy_from_slice(b"sM");
    head[6] = 1 << 4 | kind;
    head
}

/// The connection is ended by the other side, soon.
fn is_ended(mut stream: UnixStream) {
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .expect("a time-out");
    let ended = stream.read_to_end(&mut Vec::new());
    assert!(
        !matches!(&ended, Err(e) if e.kind() == std::io::ErrorKind::WouldBlock),
        "{ended:?}"
    );
}

#[test]
fn noise_ends_its_own_connection_and_disturbs_nobody() {
    let place = Place::new();
    let store = Store::open(&place.name).expect("opens");
    let socket = place.dir.path().join("store/socket");
    let call = || UnixStream::connect(&socket).expect("connects");
    let before = resident_bytes();
    let mut dice = Dice::of("noise");
    let mut kept = Vec::new();
    for round in 0..120u32 {
        let mut stream = call();
        let noise: Vec<u8> = (0..dice.below(2_000))
            .map(|_| dice.below(256) as u8)
            .collect();
        let sent = match round % 6 {
            0 => stream.write_all(&noise),
            // Claims to be as long as may be, and sends little of it.
            1 => stream
                .write_all(&head(16 << 20, 1))
                .and_then(|()| stream.write_all(&noise)),
            // Longer than may be.
            2 => stream.write_all(&head(u32::MAX, 1)),
            // A frame of noise, of the right length.
            3 => stream
                .write_all(&head(noise.len() as u32, 1))
                .and_then(|()| stream.write_all(&noise)),
            // Nothing at all.
            4 => Ok(()),
            // Half a head.
            _ => stream.write_all(&head(8, 1)[..7]),
        };
        // The other side may have hung up already.
        drop(sent);
        kept.push((round % 6, stream));
    }
    let working = Stopwatch::start();
    let guest = Store::open(&place.name).expect("attaches beside them");
    for n in 0..100 {
        let claim = guest
            .claim(&Request::new("guest", format!("{n}")))
            .expect("claims");
        assert!(matches!(claim, Claim::Execute(_)));
    }
    assert!(
        working.elapsed() < Duration::from_secs(15),
        "{:?}",
        working.elapsed()
    );
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes");
    for (_, stream) in kept.into_iter().filter(|(kind, _)| matches!(kind, 2 | 3)) {
        is_ended(stream);
    }
    assert!(store.verify().expect("verifies").problems.is_empty());
}

#[test]
fn more_connections_than_there_may_be_keep_nobody_out_who_is_in() {
    let place = Place::new();
    let mut owner = place.guest(&[]);
    let store = Store::open(&place.name).expect("attaches");
    let socket = place.dir.path().join("store/socket");
    let crowd: Vec<UnixStream> = (0..400)
        .filter_map(|_| UnixStream::connect(&socket).ok())
        .collect();
    let claim = store.claim(&Request::new("guest", "K")).expect("claims");
    assert!(matches!(claim, Claim::Execute(_)));
    // Another process is another process, however many connections this one has.
    let mut other = place.guest(&[]);
    assert_eq!(other.does("claim K"), "busy");
    assert_eq!(owner.does("claim K"), "busy");
    drop(crowd);
}
