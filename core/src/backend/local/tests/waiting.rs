//! Waiting for a key: nobody is woken in vain for ever, no turn is lost, and nothing is left behind.

use super::*;
use crate::backend::{Op, Turn};
use crate::error::Error;

fn waiting<'a>(local: &'a Local, key: &'a Key) -> Op<'a, Result<Turn>> {
    let version = local.load(&[key]).wait().expect("loads")[0].version();
    local.changed(key, version, NEVER_US)
}

fn poll<T: Unpin>(op: &mut Op<'_, T>) -> Option<T> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::Pin::new(op).poll(&mut context) {
        std::task::Poll::Ready(value) => Some(value),
        std::task::Poll::Pending => None,
    }
}

fn release(local: &Local, id: &str, fence: u64) {
    tell(local, id, Verb::Release { fence }, Durability::Relaxed).expect("releases");
}

fn take(local: &Local, key: &Key, turn: Turn) -> Answer {
    let event = claim_of(local, terms());
    let told = local
        .update(key, &event, Some(turn), Durability::Relaxed)
        .wait();
    told.expect("answers").answer
}

fn stores() -> [(Option<Place>, Local); 2] {
    let place = Place::new();
    let logged = place.open();
    let memory = Local::in_memory(options(), Clock::system()).expect("opens");
    [(Some(place), logged), (None, memory)]
}

#[test]
fn a_release_wakes_the_first_and_a_dropped_turn_passes_on() {
    for (_place, local) in stores() {
        let (fence, key) = (claim(&local, "a"), key("a"));
        let mut line: Vec<_> = (0..4).map(|_| waiting(&local, &key)).collect();
        assert!(line.iter_mut().all(|op| poll(op).is_none()));
        release(&local, "a", fence);
        assert!(poll(&mut line[1]).is_none());
        // The first goes away before he has looked; the second drops his turn; the third takes it.
        drop(line.remove(0));
        let turn = poll(&mut line[0]).expect("promoted").expect("a turn");
        let other = claim_with(&local, "a", terms(), Durability::Relaxed).expect("answers");
        assert!(
            matches!(other.answer, Answer::Busy { .. }),
            "the turn is reserved"
        );
        drop(turn);
        let turn = poll(&mut line[1]).expect("promoted").expect("a turn");
        assert!(matches!(take(&local, &key, turn), Answer::Execute { .. }));
        assert!(poll(&mut line[2]).is_none());
    }
}

#[test]
fn a_completion_wakes_everybody() {
    for (_place, local) in stores() {
        let (fence, key) = (claim(&local, "a"), key("a"));
        let mut line: Vec<_> = (0..4).map(|_| waiting(&local, &key)).collect();
        assert!(line.iter_mut().all(|op| poll(op).is_none()));
        complete(&local, "a", fence, b"x", Durability::Relaxed);
        assert!(line.iter_mut().all(|op| poll(op).is_some()));
    }
}

#[test]
fn closing_ends_every_wait() {
    for (_place, local) in stores() {
        claim(&local, "a");
        let key = key("a");
        std::thread::scope(|scope| {
            let waiters: Vec<_> = (0..3)
                .map(|_| scope.spawn(|| waiting(&local, &key).wait().map(drop)))
                .collect();
            let waits = || {
                let hash = local.shared.hash(key.as_bytes());
                let cell = local.shared.index.find(&hash).expect("claimed");
                let state = cell.lock();
                state.line.as_ref().map_or(0, |line| line.waiters())
            };
            while waits() < 3 {
                std::thread::yield_now();
            }
            local.close().expect("closes");
            for waiter in waiters {
                let _woken: Result<(), Error> = waiter.join().expect("no panic");
            }
        });
        assert!(
            local
                .update(&key, &claim_of(&local, terms()), None, Durability::Sync)
                .wait()
                .is_err()
        );
    }
}

#[test]
fn a_line_that_has_gone_leaves_no_cell_of_an_absent_key() {
    for (_place, local) in stores() {
        for at in 0..200 {
            let id = format!("k{at}");
            let (fence, key) = (claim(&local, &id), key(&id));
            let mut first = waiting(&local, &key);
            let mut second = waiting(&local, &key);
            assert!(poll(&mut first).is_none() && poll(&mut second).is_none());
            release(&local, &id, fence);
            let turn = poll(&mut first).expect("promoted");
            tell(&local, &id, Verb::Forget { fence: 0 }, Durability::Relaxed).expect("forgets");
            local.barrier().wait().expect("on disk");
            match at % 3 {
                0 => drop((turn, second)),
                1 => drop((second, turn)),
                _ => {
                    drop(turn);
                    drop(poll(&mut second));
                }
            }
        }
        local.barrier().wait().expect("on disk");
        let settled = (0..2_000).any(|_| {
            std::thread::sleep(Duration::from_millis(1));
            local.facts().entries == 0
        });
        assert!(settled, "{} cells are left", local.facts().entries);
    }
}

#[test]
fn who_waits_beyond_a_lease_is_the_next_to_run() {
    for (_place, local) in stores() {
        let short = Terms {
            lease_us: 30_000,
            ..terms()
        };
        claim_with(&local, "a", short, Durability::Relaxed).expect("claims");
        let key = key("a");
        let mut later = waiting(&local, &key);
        assert!(poll(&mut later).is_none());
        let turn = later.wait().expect("a turn");
        assert!(matches!(
            take(&local, &key, turn),
            Answer::Execute { takeover: true }
        ));
    }
}

/// A task that goes on wherever it is woken.
struct Inline(parking_lot::Mutex<Option<std::pin::Pin<Box<dyn Future<Output = ()> + Send>>>>);

impl std::task::Wake for Inline {
    fn wake(self: Arc<Self>) {
        let waker = std::task::Waker::from(Arc::clone(&self));
        let mut task = self.0.lock();
        if let Some(future) = &mut *task
            && future
                .as_mut()
                .poll(&mut std::task::Context::from_waker(&waker))
                .is_ready()
        {
            *task = None;
        }
    }
}

#[test]
fn the_last_handle_may_be_dropped_on_the_thread_that_writes() {
    let place = Place::new();
    let local = Arc::new(place.open());
    let fence = claim(&local, "a");
    local.barrier().wait().expect("on disk");
    let (open, wait) = std::sync::mpsc::channel::<()>();
    *log(&local).disk.before_write.lock() = Some(Box::new(move |_| {
        let _ = wait.recv();
        Ok(())
    }));
    let ended = Arc::downgrade(&local);
    let task = async move {
        let done = Event {
            nonce: 5,
            verb: Verb::Complete { fence, value: None },
        };
        let told = local.update(&key("a"), &done, None, Durability::Sync).await;
        assert!(told.is_ok());
        let writer = std::thread::current();
        assert_eq!(writer.name(), Some("semel-commit"));
    };
    std::task::Waker::from(Arc::new(Inline(parking_lot::Mutex::new(Some(Box::pin(
        task,
    ))))))
    .wake();
    drop(open);
    let gone = (0..5_000).any(|_| {
        std::thread::sleep(Duration::from_millis(1));
        ended.strong_count() == 0
    });
    assert!(gone, "the handle is still held");
    let local = place.open();
    let told = claim_with(&local, "a", terms(), Durability::Relaxed).expect("answers");
    assert_eq!(told.answer, Answer::Gone);
}
