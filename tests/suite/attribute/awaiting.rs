//! Functions that are `async`: once among tasks, on any thread, and a caller who goes away loses nothing.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use semel::{Identity, Store};
use tokio::sync::{Notify, oneshot};

use super::fixture::{Fault, Order, memory, no_answer};

#[derive(Clone)]
struct Service {
    store: Store,
    runs: Arc<AtomicU32>,
}

impl Service {
    fn new() -> Self {
        Self {
            store: memory(),
            runs: Arc::default(),
        }
    }

    #[semel::idempotent(
        store = self.store, operation = "create", key = order.order_no, scope = order.tenant, wait = "20s",
        ticket = ticket, retry_on = Fault::Timeout,
    )]
    async fn create(&self, order: Order) -> Result<String, Fault> {
        tokio::task::yield_now().await;
        let run = self.runs.fetch_add(1, Ordering::SeqCst) + 1;
        if order.amount == 0 && ticket.attempt() == 1 {
            return Err(Fault::Timeout);
        }
        let amount: u32 = order.amount.to_string().parse()?;
        Ok(format!("{}: {amount}, run {run}", order.order_no))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_tasks_one_runs_and_all_get_its_answer() {
    let service = Service::new();
    let tasks: Vec<_> = (0..32)
        .map(|_| {
            let service = service.clone();
            tokio::spawn(async move { service.create(Order::new("A", 3)).await })
        })
        .collect();
    for task in tasks {
        assert_eq!(task.await.expect("ends").expect("an answer"), "A: 3, run 1");
    }
    no_answer!(Mismatch, service.create(Order::new("A", 4)).await);
    assert_eq!(service.runs.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_retryable_error_lets_it_run_again() {
    let service = Service::new();
    let first = service.create(Order::new("A", 0)).await;
    assert!(matches!(first, Err(Fault::Timeout)), "{first:?}");
    for _ in 0..2 {
        let again = service.create(Order::new("A", 0)).await;
        assert_eq!(again.expect("an answer"), "A: 0, run 2");
    }
}

#[tokio::test]
async fn a_caller_who_goes_away_while_it_runs_leaves_a_doubt() {
    #[semel::idempotent(store = store, operation = "hang", key = id, payload = none)]
    async fn hang(store: Store, id: u32, started: oneshot::Sender<()>) -> Result<(), Fault> {
        started.send(()).expect("somebody listens");
        pending().await
    }
    let store = memory();
    let (started, start) = oneshot::channel();
    let task = tokio::spawn(hang(store.clone(), 1, started));
    start.await.expect("starts");
    task.abort();
    assert!(task.await.expect_err("aborted").is_cancelled());
    let info = store.lookup(&Identity::new("hang", "1"));
    assert_eq!(info.expect("looks up").expect("a record").state, "in_doubt");
    let doubt = no_answer!(InDoubt, hang(store, 1, oneshot::channel().0).await);
    assert!(doubt.to_string().contains("cancel"), "{doubt}");
}

#[tokio::test]
async fn a_caller_who_goes_away_before_it_starts_leaves_nothing() {
    let service = Service::new();
    drop(service.create(Order::new("A", 1)));
    let identity = Identity::new("create", "A").scope("tenant-7");
    assert!(service.store.lookup(&identity).expect("looks up").is_none());
}

#[tokio::test]
async fn a_panic_leaves_a_doubt_and_goes_on() {
    #[semel::idempotent(store = store, operation = "panic", key = id)]
    async fn panics(store: Store, id: u32) -> Result<(), Fault> {
        tokio::task::yield_now().await;
        panic!("this test panics on purpose: {id}")
    }
    let store = memory();
    let task = tokio::spawn(panics(store.clone(), 1));
    assert!(task.await.expect_err("panics").is_panic());
    no_answer!(InDoubt, panics(store, 1).await);
}

#[tokio::test]
async fn it_borrows_mutably_and_generically() {
    #[semel::idempotent(store = store, operation = "borrow", key = id, payload = "text")]
    async fn borrow<F>(store: &Store, id: u32, text: &mut String, then: F) -> Result<usize, Fault>
    where
        F: AsyncFnOnce(),
    {
        text.push('!');
        then().await;
        Ok(text.len())
    }
    let (store, notify) = (memory(), Notify::new());
    let mut text = "abc".to_owned();
    notify.notify_one();
    let run = borrow(&store, 1, &mut text, async || notify.notified().await);
    assert_eq!(run.await.expect("runs"), 4);
    assert_eq!(text, "abc!");
    let mut text = "abc".to_owned();
    let repeat = borrow(&store, 1, &mut text, async || {
        panic!("a repeat runs nothing")
    });
    assert_eq!(repeat.await.expect("replays"), 4);
    assert_eq!(text, "abc", "the effect is not repeated");
}
