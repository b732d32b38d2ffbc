//! What is kept by its id: unique rows, tables, ledgers.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use semel::scheme::table::MAX_ROW_EVENTS;
use semel::{Error, ErrorKind, Insert, Post, Result, Retain, Row, Store, Update};

use super::Plain;

/// For how long what is not kept for ever is kept.
const SHORT: Duration = Duration::from_secs(5);
const NEVER_US: u64 = u64::MAX;

pub(super) fn retain(short: bool) -> Retain {
    match short {
        true => Retain::For(SHORT),
        false => Retain::Forever,
    }
}

pub(super) fn until_us(short: bool, now_us: u64) -> u64 {
    match short {
        true => now_us + SHORT.as_micros() as u64,
        false => NEVER_US,
    }
}

/// Runs a call in a transaction that is rolled back, or is not; what the call gave.
pub(super) fn within<T>(
    store: &Store,
    abort: bool,
    mut call: impl FnMut(&mut semel::Tx<'_>) -> Result<T>,
) -> Result<T> {
    let mut given = None;
    let ended = store.transaction(|tx| {
        given = Some(call(tx)?);
        match abort {
            true => Err(Error::new(ErrorKind::Unsupported, "rolled back")),
            false => Ok(()),
        }
    });
    match ended {
        Err(error) if error.kind() != ErrorKind::Unsupported => Err(error),
        _ => Ok(given.expect("an answer")),
    }
}

#[derive(Default)]
pub(super) struct Unique(BTreeMap<(bool, u8), (u8, u64)>);

#[derive(Clone, Debug)]
pub(super) enum OfUnique {
    Insert {
        short: bool,
        id: u8,
        value: u8,
        abort: bool,
    },
    Get {
        short: bool,
        id: u8,
    },
}

impl Plain for Unique {
    type Op = OfUnique;

    fn op() -> BoxedStrategy<OfUnique> {
        let at = (any::<bool>(), 0..2_u8);
        prop_oneof![
            4 => (at.clone(), 0..3_u8, prop::bool::weighted(0.2)).prop_map(|((short, id), value, abort)| OfUnique::Insert { short, id, value, abort }),
            1 => at.prop_map(|(short, id)| OfUnique::Get { short, id }),
        ]
        .boxed()
    }

    fn play(&mut self, store: &Store, now_us: u64, op: &OfUnique) {
        self.0.retain(|_, (_, until_us)| now_us < *until_us);
        let name = |short| if short { "short" } else { "kept" };
        match *op {
            OfUnique::Insert {
                short,
                id,
                value,
                abort,
            } => {
                let known = self.0.get(&(short, id)).map(|(known, _)| *known);
                let expected = match known {
                    None => Insert::Inserted,
                    Some(known) if known == value => Insert::Exists(known),
                    Some(known) => Insert::Conflict(known),
                };
                let given = within(store, abort, |tx| {
                    let index = tx.unique(name(short)).retain(retain(short));
                    index.insert(&id.to_string(), &value)
                });
                assert_eq!(given.expect("answers"), expected);
                if known.is_none() && !abort {
                    self.0.insert((short, id), (value, until_us(short, now_us)));
                }
            }
            OfUnique::Get { short, id } => {
                let known = self.0.get(&(short, id)).map(|(known, _)| *known);
                assert_eq!(
                    store
                        .unique(name(short))
                        .get(&id.to_string())
                        .expect("reads"),
                    known
                );
            }
        }
    }
}

#[derive(Clone)]
struct Held {
    value: u8,
    version: u64,
    events: Vec<u8>,
    until_us: u64,
}

#[derive(Default)]
pub(super) struct Table {
    rows: BTreeMap<(bool, u8), Held>,
    read: Vec<(bool, Row<u8>)>,
    last_version: u64,
}

#[derive(Clone, Debug)]
pub(super) enum OfTable {
    Put {
        short: bool,
        id: u8,
        value: u8,
        abort: bool,
    },
    Delete {
        short: bool,
        id: u8,
    },
    Modify {
        short: bool,
        id: u8,
    },
    Read {
        short: bool,
        id: u8,
    },
    Update {
        read: usize,
        value: u8,
        event: Option<u8>,
        abort: bool,
    },
}

impl Table {
    fn write(
        &mut self,
        short: bool,
        id: u8,
        value: u8,
        version: u64,
        event: Option<u8>,
        now_us: u64,
    ) {
        assert!(version > self.last_version, "versions rise");
        self.last_version = version;
        let before = self.rows.get(&(short, id)).map(|row| row.events.clone());
        let mut events = before.unwrap_or_default();
        events.extend(event);
        if events.len() > MAX_ROW_EVENTS {
            events.remove(0);
        }
        let until_us = until_us(short, now_us);
        self.rows.insert(
            (short, id),
            Held {
                value,
                version,
                events,
                until_us,
            },
        );
    }
}

impl Plain for Table {
    type Op = OfTable;

    fn op() -> BoxedStrategy<OfTable> {
        let at = (any::<bool>(), 0..2_u8);
        let abort = prop::bool::weighted(0.2);
        let event = prop::option::weighted(0.7, 0..20_u8);
        prop_oneof![
            2 => (at.clone(), any::<u8>(), abort).prop_map(|((short, id), value, abort)| OfTable::Put { short, id, value, abort }),
            1 => at.clone().prop_map(|(short, id)| OfTable::Delete { short, id }),
            1 => at.clone().prop_map(|(short, id)| OfTable::Modify { short, id }),
            4 => at.prop_map(|(short, id)| OfTable::Read { short, id }),
            6 => (0..3_usize, any::<u8>(), event, abort).prop_map(|(read, value, event, abort)| OfTable::Update { read, value, event, abort }),
        ]
        .boxed()
    }

    fn play(&mut self, store: &Store, now_us: u64, op: &OfTable) {
        self.rows.retain(|_, row| now_us < row.until_us);
        let name = |short| if short { "short" } else { "kept" };
        let table = |short| store.table(name(short)).retain(retain(short));
        match *op {
            OfTable::Put {
                short,
                id,
                value,
                abort,
            } => {
                let version = within(store, abort, |tx| {
                    tx.table(name(short))
                        .retain(retain(short))
                        .put(&id.to_string(), &value)
                });
                if !abort {
                    self.write(short, id, value, version.expect("puts"), None, now_us);
                }
            }
            OfTable::Delete { short, id } => {
                let there = self.rows.remove(&(short, id)).is_some();
                assert_eq!(
                    table(short).delete(&id.to_string()).expect("deletes"),
                    there
                );
            }
            OfTable::Modify { short, id } => {
                let id_text = id.to_string();
                let add = |value: Option<u8>| value.unwrap_or(0).wrapping_add(1);
                let expected = add(self.rows.get(&(short, id)).map(|row| row.value));
                assert_eq!(
                    table(short).modify(&id_text, add).expect("modifies"),
                    expected
                );
                let row = table(short)
                    .get::<u8>(&id_text)
                    .expect("reads")
                    .expect("a row");
                self.write(short, id, expected, row.version, None, now_us);
            }
            OfTable::Read { short, id } => {
                let row = table(short).get::<u8>(&id.to_string()).expect("reads");
                let expected = self
                    .rows
                    .get(&(short, id))
                    .map(|row| (row.value, row.version));
                assert_eq!(row.as_ref().map(|row| (row.value, row.version)), expected);
                self.read.extend(row.map(|row| (short, row)));
            }
            OfTable::Update {
                read,
                value,
                event,
                abort,
            } => {
                // Counted from the last, which matters most.
                let Some((short, from)) = self.read.iter().rev().nth(read).cloned() else {
                    return;
                };
                let event_text = event.map(|event| event.to_string());
                let id: u8 = from.id.parse().expect("a number");
                let given = within(store, abort, |tx| {
                    let table = tx.table(name(short)).retain(retain(short));
                    table.update(&from, &value, event_text.as_deref())
                });
                let known = self.rows.get(&(short, id));
                match (given.expect("answers"), known) {
                    (Update::Stale(None), None) => {}
                    (Update::Already(told), Some(known)) => {
                        let event = event.expect("an event");
                        assert!(known.events.contains(&event) && told == event.to_string());
                    }
                    (Update::Stale(Some(now)), Some(known)) => {
                        assert!(event.is_none_or(|event| !known.events.contains(&event)));
                        assert_eq!((now.value, now.version), (known.value, known.version));
                        assert_ne!(known.version, from.version);
                    }
                    (Update::Updated(row), Some(known)) => {
                        assert!(event.is_none_or(|event| !known.events.contains(&event)));
                        assert_eq!((known.version, row.value), (from.version, value));
                        if !abort {
                            self.write(short, id, value, row.version, event, now_us);
                        }
                    }
                    (given, _) => panic!("{given:?}"),
                }
            }
        }
    }
}

#[derive(Default)]
pub(super) struct Ledger {
    balances: BTreeMap<u8, i64>,
    entries: BTreeMap<(u8, u8), (i64, i64, u64)>,
}

#[derive(Clone, Debug)]
pub(super) struct OfLedger {
    account: u8,
    biz_no: u8,
    delta: i64,
    floor: Option<i64>,
    short: bool,
    abort: bool,
}

impl Plain for Ledger {
    type Op = OfLedger;

    fn op() -> BoxedStrategy<OfLedger> {
        let delta = prop_oneof![8 => -5..6_i64, 1 => Just(i64::MAX), 1 => Just(i64::MIN)];
        let floor = prop_oneof![Just(None), (-5..5_i64).prop_map(Some)];
        (
            0..2_u8,
            0..8_u8,
            delta,
            floor,
            any::<bool>(),
            prop::bool::weighted(0.2),
        )
            .prop_map(|(account, biz_no, delta, floor, short, abort)| OfLedger {
                account,
                biz_no,
                delta,
                floor,
                short,
                abort,
            })
            .boxed()
    }

    fn play(&mut self, store: &Store, now_us: u64, op: &OfLedger) {
        self.entries.retain(|_, (.., until_us)| now_us < *until_us);
        let (account, biz_no) = (op.account.to_string(), op.biz_no.to_string());
        let before = self.balances.get(&op.account).copied().unwrap_or(0);
        let given = within(store, op.abort, |tx| {
            let ledger = tx.ledger("points").retain(retain(op.short));
            ledger.post(&account, &biz_no, op.delta, op.floor)
        });
        let after = i128::from(before) + i128::from(op.delta);
        match self.entries.get(&(op.account, op.biz_no)) {
            Some((delta, balance, _)) if *delta == op.delta => {
                assert_eq!(given.expect("answers"), Post::AlreadyPosted(*balance));
            }
            Some((delta, ..)) => assert_eq!(given.expect("answers"), Post::Mismatch(*delta)),
            None => match i64::try_from(after) {
                Err(_) => assert_eq!(given.expect_err("refused").kind(), ErrorKind::InvalidInput),
                Ok(after) if op.delta < 0 && op.floor.is_some_and(|floor| after < floor) => {
                    assert_eq!(given.expect("answers"), Post::Insufficient(before));
                }
                Ok(after) => {
                    assert_eq!(given.expect("answers"), Post::Posted(after));
                    if !op.abort {
                        self.balances.insert(op.account, after);
                        let entry = (op.delta, after, until_us(op.short, now_us));
                        self.entries.insert((op.account, op.biz_no), entry);
                    }
                }
            },
        }
        for (account, balance) in &self.balances {
            let told = store.ledger("points").balance(&account.to_string());
            assert_eq!(told.expect("reads"), *balance);
        }
    }
}
