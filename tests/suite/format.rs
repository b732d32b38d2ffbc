//! A store read by docs/format.md alone, by code that shares nothing with semel's own.

mod bytes;

use std::fs;
use std::path::Path;
use std::time::Duration;

use semel::{Claim, Clock, Policy, Request, Store};

use self::bytes::Bytes;

/// 2027-01-15, in microseconds.
const NOW_US: u64 = 1_800_000_000_000_000;
const MINUTE_US: u64 = 60_000_000;
const LONGEST_PIECE: usize = 3879;

struct Entry {
    kind: u8,
    group: Option<(u64, bool)>,
    hash: [u64; 2],
    pos: u64,
    stamp: u64,
    due_us: u64,
    forgotten_us: u64,
    length: usize,
    payload: Vec<u8>,
}

/// The blocks of a log, each with its number.
fn blocks(store: &Path) -> Vec<(u64, Vec<u8>)> {
    let config = sled::Config::new().path(store.join("log"));
    // The lock of the one who had it open before may outlive him for a moment.
    let opened = (0..100).find_map(|_| {
        let opened = config.open();
        if opened.is_err() {
            std::thread::sleep(Duration::from_millis(20));
        }
        opened.ok()
    });
    let log = opened.expect("sled opens");
    log.iter()
        .map(|pair| {
            let (key, value) = pair.expect("readable");
            (
                u64::from_be_bytes(key[..].try_into().expect("8 bytes")),
                value.to_vec(),
            )
        })
        .collect()
}

fn entries(store: &Path, epoch: u64) -> Vec<Entry> {
    let (mut entries, mut previous): (Vec<Entry>, Option<(u64, u32)>) = (Vec::new(), None);
    for (number, block) in blocks(store) {
        assert!(block.len() <= 4000);
        let mut head = Bytes::of(&block);
        assert_eq!(head.take(2), b"SM");
        assert_eq!((head.u8(), head.u8()), (1, 0));
        assert_eq!((head.u64(), head.u64()), (number, epoch));
        let (first_pos, swept_until_us, stamp_floor) = (head.u64(), head.u64(), head.u64());
        assert!(first_pos > 0 && swept_until_us <= NOW_US && stamp_floor > NOW_US);
        assert_eq!(head.u64(), NOW_US, "the store's time");
        let (chained, check) = (head.u32(), head.u32());
        assert_eq!(check, bytes::crc32c(&[&block[..56], &block[60..]]));
        assert_eq!(previous.unwrap_or((0, 0)), (number - 1, chained));
        previous = Some((number, check));
        while !head.is_empty() {
            let flags = head.u8();
            let hash = [head.u64(), head.u64()];
            let (pos, stamp) = (head.u64(), head.u64());
            let (due_us, forgotten_us) = (head.u64(), head.u64());
            let length = head.u32() as usize;
            let group = (flags & 0x10 != 0).then(|| (head.u64(), flags & 0x20 != 0));
            let here = if length > LONGEST_PIECE {
                head.rest()
            } else {
                length
            };
            let piece = head.take(here).to_vec();
            if flags & 0x0f == 5 {
                let first = entries.last_mut().expect("a first piece");
                assert_eq!((first.hash, first.length), (hash, length));
                first.payload.extend(piece);
                first.group = group;
                continue;
            }
            assert!((1..=4).contains(&(flags & 0x0f)) && stamp <= stamp_floor);
            entries.push(Entry {
                kind: flags & 0x0f,
                group,
                hash,
                pos,
                stamp,
                due_us,
                forgotten_us,
                length,
                payload: piece,
            });
        }
    }
    entries
}

/// Writes a store with one of each: done, forgotten, running, and long.
fn written(path: &Path) {
    let clock = Clock::manual(Duration::from_micros(NOW_US));
    let store = Store::builder(path.to_str().expect("text"))
        .clock(clock)
        .open()
        .expect("opens");
    let done = Request::new("pay", "P-1")
        .scope("shop")
        .payload_json(br#"{"to":"Ann","amount":300}"#)
        .expect("a payload")
        .retain(Duration::from_secs(60))
        .remember(Duration::from_secs(120));
    let Claim::Execute(ticket) = store.claim(&done).expect("claims") else {
        panic!("done")
    };
    ticket.complete("yes").expect("completes");
    let Claim::Execute(ticket) = store.claim(&Request::new("pay", "P-2")).expect("claims") else {
        panic!("forgotten")
    };
    ticket.release().expect("releases");
    store
        .forget(&semel::Identity::new("pay", "P-2"))
        .expect("forgets");
    let long = Request::new("long", "L").in_doubt(Policy::Rerun);
    let Claim::Execute(ticket) = store.claim(&long).expect("claims") else {
        panic!("long")
    };
    ticket
        .complete_value(semel::Value::bytes(vec![7; 10_000]))
        .expect("completes");
    store.close().expect("closes");
}

#[test]
fn a_store_can_be_read_by_the_page_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("store");
    written(&path);
    let identity = fs::read_to_string(path.join("identity")).expect("an identity");
    let lines: Vec<&str> = identity.lines().collect();
    assert_eq!(lines[0], "semel store, format 1");
    let names: Vec<&str> = lines[1..]
        .iter()
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert_eq!(names, ["epoch", "hash", "fingerprint", "check"]);
    let epoch = u64::from_str_radix(&lines[1]["epoch ".len()..], 16).expect("a number");

    let entries = entries(&path, epoch);
    for (one, two) in entries.iter().zip(&entries[1..]) {
        assert!(one.pos < two.pos && one.stamp <= two.stamp);
    }
    let of = |id: &[u8]| -> Vec<&Entry> {
        entries
            .iter()
            .filter(|entry| bytes::key(&entry.payload).2 == id)
            .collect()
    };

    let done = *of(b"P-1").last().expect("an entry");
    assert_eq!(
        (done.kind, done.group, done.length),
        (2, None, done.payload.len())
    );
    assert_eq!(done.due_us, NOW_US + MINUTE_US);
    assert_eq!(done.forgotten_us, NOW_US + 3 * MINUTE_US);
    let (scope, operation, _, mut body) = bytes::key(&done.payload);
    assert_eq!((scope, operation), (&b"shop"[..], &b"pay"[..]));
    let version = body.number();
    assert_eq!(version, done.stamp);
    let fence = body.time(version);
    assert!((NOW_US..done.stamp).contains(&fence));
    assert_eq!(
        (body.number(), body.time(version), body.time(version)),
        (1, NOW_US, NOW_US)
    );
    assert_eq!(
        (body.number(), body.time(version), body.u8()),
        (4, NOW_US, 1),
        "Succeeded, a value"
    );
    assert_eq!(
        (body.number(), body.text()),
        (1, vec![0x63, b'y', b'e', b's']),
        "CBOR"
    );
    assert_eq!(
        (body.number(), body.number()),
        (0, 0),
        "hold, attempts without end"
    );
    let terms = (body.number(), body.number(), body.number());
    assert_eq!(terms, (30_000_000, MINUTE_US, 2 * MINUTE_US));
    assert_eq!((body.u8(), body.u8()), (1, 1), "a fingerprint of version 1");
    body.take(32);
    assert_eq!(body.number(), 2);
    for name in ["amount", "to"] {
        assert_eq!(body.text(), name.as_bytes());
        body.take(8);
    }
    assert_eq!(body.u8(), 0, "no earlier doubt");
    let _session_and_caller = (body.number(), body.number());
    assert_eq!(body.u8(), 0, "no label");
    let _nonces = (body.number(), body.number());
    assert_eq!(
        (body.number(), body.rest()),
        (0, 0),
        "no steps, and the end"
    );

    let forgotten = *of(b"P-2").last().expect("an entry");
    assert_eq!(
        (forgotten.kind, bytes::key(&forgotten.payload).3.rest()),
        (4, 0)
    );
    let open = of(b"P-2")[0];
    assert_eq!((open.kind, open.due_us), (1, NOW_US + MINUTE_US / 2));
    assert_eq!(of(b"P-2")[0].hash, forgotten.hash);

    let long = *of(b"L").last().expect("an entry");
    assert_eq!((long.kind, long.payload.len()), (2, long.length));
    assert!(long.length > 10_000);
    assert_eq!(
        long.group,
        Some((long.pos, true)),
        "the last piece ends the group"
    );
}

#[test]
fn the_watermark_is_where_the_page_says() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("store");
    written(&path);
    let file = fs::read(path.join("watermark")).expect("a watermark");
    let (last, block) = blocks(&path).pop().expect("a block");
    let mut newest = None;
    for slot in [0, 1] {
        let Some(mark) = file.get(slot * 4096..slot * 4096 + 56) else {
            continue;
        };
        let mut mark_bytes = Bytes::of(mark);
        let (serial, _epoch) = (mark_bytes.u64(), mark_bytes.u64());
        let (head, tail, _time) = (mark_bytes.u64(), mark_bytes.u64(), mark_bytes.u64());
        let _swept_until = mark_bytes.u64();
        let (of_block, check) = (mark_bytes.u32(), mark_bytes.u32());
        if check == bytes::crc32c(&[&mark[..52]]) {
            assert_eq!(serial % 2, slot as u64);
            newest = newest.max(Some((serial, head, tail, of_block)));
        }
    }
    let (_, head, tail, of_block) = newest.expect("a mark");
    assert_eq!((head, tail), (last, 0));
    assert_eq!(of_block.to_le_bytes(), block[56..60]);
}

#[test]
fn a_backup_is_the_identity_and_the_blocks() {
    let dir = tempfile::tempdir().expect("a directory");
    let (path, file) = (dir.path().join("store"), dir.path().join("backup"));
    written(&path);
    let store = Store::builder(path.to_str().expect("text"))
        .clock(Clock::manual(Duration::from_micros(NOW_US)))
        .open()
        .expect("opens");
    store.backup(&file).expect("backs up");
    drop(store);
    let bytes = fs::read(&file).expect("a backup");
    let mut rest = Bytes::of(&bytes);
    assert_eq!(rest.take(16), b"semel backup 1\r\n");
    let length = rest.u32() as usize;
    assert_eq!(
        rest.take(length),
        fs::read(path.join("identity")).expect("an identity")
    );
    let mut kept = Vec::new();
    loop {
        match rest.u32() {
            u32::MAX => break,
            length => kept.push(rest.take(length as usize).to_vec()),
        }
    }
    let log: Vec<Vec<u8>> = blocks(&path).into_iter().map(|(_, block)| block).collect();
    assert_eq!(kept, log);
    assert_eq!(rest.rest(), 32);
}
