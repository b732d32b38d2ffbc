//! What was promised to be on disk is there before it shows; what was not waits for nobody; and a disk that fails ends it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;

use super::*;
use crate::ErrorKind;
use crate::error::Error;

/// A disk whose batches wait to be let through.
struct Gate(mpsc::Sender<()>);

impl Gate {
    fn shut(local: &Local) -> Self {
        let (open, wait) = mpsc::channel();
        *log(local).disk.before_write.lock() = Some(Box::new(move |_| {
            let _ = wait.recv();
            Ok(())
        }));
        Self(open)
    }

    fn let_through(&self) {
        self.0.send(()).expect("the disk is there");
    }
}

fn is_pending<T: Unpin>(op: &mut crate::backend::Op<'_, T>) -> bool {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    std::pin::Pin::new(op).poll(&mut context).is_pending()
}

#[test]
fn a_replay_does_not_show_before_its_completion_is_on_disk() {
    let place = Place::new();
    let local = place.open();
    let fence = claim(&local, "a");
    local.barrier().wait().expect("on disk");
    let gate = Gate::shut(&local);
    let key = key("a");
    let done = Event {
        nonce: 7,
        verb: Verb::Complete {
            fence,
            value: Some(Value::bytes(*b"done")),
        },
    };
    let mut completing = local.update(&key, &done, None, Durability::Sync);
    assert!(is_pending(&mut completing));
    let again = claim_of(&local, terms());
    let mut replaying = local.update(&key, &again, None, Durability::Relaxed);
    let keys = [&key];
    let mut loading = local.load(&keys);
    assert!(is_pending(&mut replaying) && is_pending(&mut loading));
    gate.let_through();
    assert!(completing.wait().is_ok());
    assert!(matches!(
        replaying.wait().expect("replays").answer,
        Answer::Replay(_)
    ));
    assert!(loading.wait().is_ok());
}

#[test]
fn what_is_busy_or_relaxed_waits_for_no_disk() {
    let place = Place::new();
    let local = place.open();
    let gate = Gate::shut(&local);
    let hold = Terms {
        in_doubt: Policy::Hold,
        ..terms()
    };
    let (key, other) = (key("a"), key("b"));
    let first = claim_of(&local, hold);
    // The first execution under hold is on disk before it begins, also when the store is relaxed.
    let mut claiming = local.update(&key, &first, None, Durability::Relaxed);
    assert!(is_pending(&mut claiming));
    let second = claim_of(&local, hold);
    let busy = local.update(&key, &second, None, Durability::Sync).now();
    let busy = busy.expect("at once").expect("answers").answer;
    assert!(matches!(busy, Answer::Busy { .. }));
    let relaxed = claim_of(&local, terms());
    let told = local
        .update(&other, &relaxed, None, Durability::Relaxed)
        .now();
    let told = told.expect("at once").expect("answers");
    assert!(matches!(told.answer, Answer::Execute { .. }));
    let fence = told.record.expect("a record").fence;
    complete(&local, "b", fence, b"x", Durability::Relaxed);
    assert_eq!(replay(&local, "b"), b"x");
    gate.let_through();
    gate.let_through();
    assert!(claiming.wait().is_ok());
}

#[test]
fn positions_are_given_in_the_order_of_decisions() {
    let place = Place::new();
    let local = place.open();
    write_rows(&local, &[key("n")], |_| 0u64.to_le_bytes().to_vec()).expect("commits");
    // Every thread adds to the same row and to one of its own: the last batch on disk has the last of both.
    std::thread::scope(|scope| {
        for thread in 0..8u64 {
            let local = &local;
            scope.spawn(move || {
                let keys = [key("n"), key(&format!("own-{thread}"))];
                let mut done = 0u64;
                while done < 50 {
                    let seen = load(local, &keys);
                    let n = number(&seen[0]);
                    let commit = commit_of(
                        vec![(&keys[0], seen[0].version()), (&keys[1], seen[1].version())],
                        vec![
                            (&keys[0], row((n + 1).to_le_bytes().to_vec())),
                            (&keys[1], row((done + 1).to_le_bytes().to_vec())),
                        ],
                        Durability::Relaxed,
                        Admission::Finish,
                    );
                    if let Committed::Written(_) = local.commit(&commit).wait().expect("commits") {
                        done += 1;
                    }
                }
            });
        }
    });
    drop(local);
    let local = place.open();
    let mut keys = vec![key("n")];
    keys.extend((0..8).map(|thread| key(&format!("own-{thread}"))));
    let seen = load(&local, &keys);
    assert_eq!(number(&seen[0]), 400);
    assert!(seen[1..].iter().all(|seen| number(seen) == 50));
}

fn number(seen: &Seen) -> u64 {
    seen.row().map_or(0, |row| {
        u64::from_le_bytes(row.bytes[..8].try_into().expect("8 bytes"))
    })
}

#[test]
fn claims_stop_while_what_ends_an_attempt_still_passes_and_memory_is_bounded() {
    let place = Place::new();
    let local = place.open();
    let held: Vec<u64> = (0..50)
        .map(|at| claim(&local, &format!("held-{at}")))
        .collect();
    local.barrier().wait().expect("on disk");
    let gate = Gate::shut(&local);
    let refused = (0..100_000).find(|at| {
        let key = key(&format!("flood-{at}"));
        let event = claim_of(&local, terms());
        local
            .update(&key, &event, None, Durability::Relaxed)
            .now()
            .is_none()
    });
    assert!(refused.is_some(), "the flood was never stopped");
    assert!(local.shared.queue.bytes() < super::super::queue::QUEUE_BYTES);
    // Renewals and completions of what is held pass at once, and do not wait for the disk.
    for (at, fence) in held.into_iter().enumerate() {
        let key = key(&format!("held-{at}"));
        for verb in [
            Verb::Renew { fence },
            Verb::Complete {
                fence,
                value: Some(Value::bytes(vec![1; 1000])),
            },
        ] {
            let event = Event {
                nonce: crate::nonce::fresh(),
                verb,
            };
            let told = local.update(&key, &event, None, Durability::Relaxed).now();
            let told = told.expect("at once").expect("answers");
            assert_eq!(told.answer, Answer::Done { late: false });
        }
    }
    drop(gate);
    // Once the disk goes on, so do claims.
    claim(&local, "after");
    assert_sound(&local);
}

#[test]
fn large_results_wait_for_room_and_never_fill_the_queue_beyond_its_bound() {
    let place = Place::new();
    let local = place.open();
    *log(&local).disk.before_write.lock() = Some(Box::new(|_| {
        std::thread::sleep(Duration::from_millis(1));
        Ok(())
    }));
    let (stop, most) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                most.fetch_max(local.shared.queue.bytes() as u64, Ordering::Relaxed);
                std::thread::yield_now();
            }
        });
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let local = &local;
                scope.spawn(move || {
                    for at in 0..60 {
                        put(local, &format!("{thread}-{at}"), &vec![9; 300_000]);
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("no panic");
        }
        stop.store(true, Ordering::Relaxed);
    });
    // Each thread may be past its look at the queue with one change in hand.
    let bound = super::super::queue::QUEUE_BYTES as u64 + 4 * 400_000;
    assert!(most.into_inner() <= bound);
    assert_sound(&local);
}

#[test]
fn the_same_event_again_has_the_same_answer() {
    let place = Place::new();
    let local = place.open();
    let key = key("a");
    let event = claim_of(&local, terms());
    let tell = |event: &Event| local.update(&key, event, None, Durability::Sync).wait();
    let (first, again) = (tell(&event).expect("claims"), tell(&event).expect("claims"));
    let of = |decided: &Decided| decided.record.as_ref().map(|r| (r.fence, r.attempt));
    assert_eq!(of(&first), of(&again));
    assert_eq!(first.answer, again.answer);
    let fence = first.record.expect("a record").fence;
    let done = Event {
        nonce: 11,
        verb: Verb::Complete { fence, value: None },
    };
    assert_eq!(
        tell(&done).expect("tells").answer,
        tell(&done).expect("tells").answer
    );
}

#[test]
fn a_disk_that_hangs_is_given_up_and_closing_does_not_wait_for_it() {
    let place = Place::new();
    let mut options = options();
    options.tuning.batch_timeout_us = 20_000;
    let local = place.open_with(options);
    put(&local, "a", b"kept");
    local.barrier().wait().expect("on disk");
    let gate = Gate::shut(&local);
    let told = claim_with(&local, "b", terms(), Durability::Sync);
    assert_eq!(told.expect_err("no answer").kind(), ErrorKind::Unavailable);
    // What is durable replays; nothing else is begun.
    assert_eq!(replay(&local, "a"), b"kept");
    let told = claim_with(&local, "c", terms(), Durability::Relaxed);
    assert_eq!(told.expect_err("no writes").kind(), ErrorKind::Unavailable);
    let told = claim_with(&local, "b", terms(), Durability::Relaxed);
    assert_eq!(
        told.expect_err("not durable").kind(),
        ErrorKind::Unavailable
    );
    assert!(local.close().is_err());
    drop(gate);
    drop(local);
    let local = place.open();
    assert_eq!(replay(&local, "a"), b"kept");
}

#[test]
fn the_first_fault_is_final() {
    let place = Place::new();
    let local = place.open();
    put(&local, "a", b"kept");
    local.barrier().wait().expect("on disk");
    let mut faults = 0;
    *log(&local).disk.before_write.lock() = Some(Box::new(move |_| {
        faults += 1;
        match faults {
            1 => panic!("the disk is gone"),
            _ => Err(Error::unavailable("it is still gone")),
        }
    }));
    for id in ["b", "c"] {
        let told = claim_with(&local, id, terms(), Durability::Sync).expect_err("no disk");
        assert!(told.message().contains("panicked"), "{told}");
    }
    assert_eq!(replay(&local, "a"), b"kept");
    assert!(local.close().is_err());
}

#[test]
fn closing_refuses_claims_and_takes_what_ends_an_attempt_until_all_is_written() {
    let place = Place::new();
    let local = place.open();
    let fence = claim(&local, "a");
    local.barrier().wait().expect("on disk");
    let gate = Gate::shut(&local);
    claim(&local, "b");
    std::thread::scope(|scope| {
        let closing = scope.spawn(|| local.close());
        let is_refused = |at: &u32| {
            let id = format!("c{at}");
            claim_with(&local, &id, terms(), Durability::Relaxed).is_err()
        };
        assert!((0..).find(is_refused).is_some());
        complete(&local, "a", fence, b"late but welcome", Durability::Relaxed);
        drop(gate);
        closing.join().expect("no panic").expect("closes");
    });
    drop(local);
    assert_eq!(replay(&place.open(), "a"), b"late but welcome");
}

#[test]
fn a_result_whose_caller_goes_away_while_there_is_no_room_is_kept() {
    const RESULTS: usize = 40;
    let place = Place::new();
    let local = place.open();
    let fences: Vec<u64> = (0..RESULTS)
        .map(|at| claim(&local, &format!("k{at}")))
        .collect();
    local.barrier().wait().expect("on disk");
    let gate = Gate::shut(&local);
    let mut gave_up = 0;
    for (at, fence) in fences.into_iter().enumerate() {
        let key = key(&format!("k{at}"));
        let value = Some(Value::bytes(vec![at as u8; 1_000_000]));
        let done = Event {
            nonce: crate::nonce::fresh(),
            verb: Verb::Complete { fence, value },
        };
        let mut completing = local.update(&key, &done, None, Durability::Relaxed);
        gave_up += u32::from(is_pending(&mut completing));
    }
    assert!(gave_up > 0, "there was room for all");
    drop(gate);
    for at in 0..RESULTS {
        assert_eq!(replay(&local, &format!("k{at}")), vec![at as u8; 1_000_000]);
    }
}

#[test]
fn who_waits_for_room_is_called_as_soon_as_the_queue_is_taken() {
    use super::super::cell::Cell;
    use super::super::parcels::Parcel;
    use super::super::queue::{Change, Queue};

    let queue = Queue::new(0);
    let payload = vec![0; 100_000];
    let change = Change {
        hash: [1, 1],
        pos: 0,
        stamp: 1,
        decided_us: 1_000_000,
        due_us: NEVER_US,
        forgotten_at_us: NEVER_US,
        kind: crate::codec::Kind::EndedRecord,
        group: None,
        payload: Parcel::of(payload.len()),
        cell: Arc::new(Cell::vacant()),
    };
    let changes = std::iter::once((change, &payload[..]));
    queue.push(changes, Admission::Claim, true).expect("queued");
    let calls = Arc::new(Calls::default());
    let waker = std::task::Waker::from(Arc::clone(&calls));
    let mut context = std::task::Context::from_waker(&waker);
    // The oldest has waited too long.
    let mut room = std::pin::pin!(queue.room(Admission::Claim, || 2_000_000, || Ok(())));
    assert!(room.as_mut().poll(&mut context).is_pending());
    let mut spare = std::collections::VecDeque::new();
    queue.take(Duration::ZERO, &mut spare);
    // All of it fits the batch that is about to be written: who comes now finds room, and so must who waits.
    queue.in_hand_since(0);
    assert_eq!(calls.0.load(Ordering::SeqCst), 1);
    assert!(room.as_mut().poll(&mut context).is_ready());
}

#[derive(Default)]
struct Calls(AtomicU64);

impl std::task::Wake for Calls {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}
