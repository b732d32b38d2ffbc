//! How work ends: what `run` makes of each end, what a ticket may still say, and what is late.

use std::panic::{AssertUnwindSafe, catch_unwind};

use semel::{
    Doubt, ErrorKind, Failure, Policy, Renew, Request, RunError, WorkError, retryable, terminal,
};

use super::fixture::{answer, answered, block_on, execute, frozen, memory, replayed, seconds};

fn request(id: &str) -> Request<'_> {
    Request::new("pay", id)
}

#[derive(Debug)]
struct CardDeclined;

impl std::fmt::Display for CardDeclined {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the card was declined")
    }
}

impl std::error::Error for CardDeclined {}

#[test]
fn run_tells_the_first_caller_his_own_error_and_repeats_what_is_kept_of_it() {
    let store = memory();
    let fails =
        |error: fn() -> WorkError<CardDeclined>| move |_: &semel::Ticket| Err::<(), _>(error());

    for round in 0..2 {
        let got = store.run(
            &request("terminal"),
            fails(|| terminal(CardDeclined).code("declined")),
        );
        match (round, got) {
            (0, Err(RunError::Work(CardDeclined))) => {}
            (1, Err(RunError::Failed(failed))) => {
                assert_eq!(failed.failure.code, "declined");
                assert_eq!(failed.failure.kind, "CardDeclined");
                assert_eq!(failed.failure.message, "the card was declined");
                assert!(failed.to_string().contains("the card was declined"));
            }
            (_, other) => panic!("{other:?}"),
        }
    }
    for _ in 0..2 {
        let got = store.run(&request("retryable"), fails(|| retryable(CardDeclined)));
        assert!(matches!(got, Err(RunError::Work(CardDeclined))), "{got:?}");
    }
    let got = store.run(&request("unknown"), |_| Err::<(), _>(CardDeclined));
    assert!(matches!(got, Err(RunError::Work(CardDeclined))));
    let got = store.run(&request("unknown"), |_| Err::<(), _>(CardDeclined));
    let Err(RunError::InDoubt(doubt)) = got else {
        panic!("{got:?}")
    };
    assert_eq!(
        doubt.doubt,
        Doubt::Unclassified("the card was declined".into())
    );
}

#[test]
fn a_panic_goes_on_and_leaves_a_doubt() {
    let store = memory();
    let sync = catch_unwind(AssertUnwindSafe(|| {
        store.run(&request("sync"), |_| -> Result<(), CardDeclined> {
            panic!("at the till")
        })
    }));
    let awaited = catch_unwind(AssertUnwindSafe(|| {
        block_on(store.run_async(&request("async"), |_| async {
            if true {
                panic!("at the till");
            }
            Ok::<(), CardDeclined>(())
        }))
    }));
    for panic in [sync.map(drop), awaited.map(drop)] {
        assert_eq!(
            panic.expect_err("it goes on").downcast_ref(),
            Some(&"at the till")
        );
    }
    for id in ["sync", "async"] {
        let doubt = answered!(InDoubt, store.claim(&request(id)).expect("claims"));
        assert_eq!(doubt.doubt, Doubt::Panicked);
    }
}

#[test]
fn an_awaiting_caller_gets_the_same_of_every_end() {
    let store = memory();
    let run = |id: &'static str, error: fn() -> WorkError<CardDeclined>| {
        let first = block_on(store.run_async(&request(id), |_| async { Err::<(), _>(error()) }));
        assert!(
            matches!(first, Err(RunError::Work(CardDeclined))),
            "{first:?}"
        );
        answer(&store, &request(id))
    };
    assert_eq!(run("terminal", || terminal(CardDeclined)), "failed");
    assert_eq!(
        run("unknown", || WorkError::Unknown(CardDeclined)),
        "in_doubt"
    );
    assert_eq!(run("retryable", || retryable(CardDeclined)), "execute");
    for _ in 0..2 {
        let got = block_on(store.run_async(&request("ok"), |_| async { Ok::<_, CardDeclined>(7) }));
        assert_eq!(got.expect("runs or replays"), 7);
    }
}

#[test]
fn a_dropped_ticket_is_a_doubt_unless_a_clone_lives() {
    let store = memory();
    let ticket = execute(&store, &request("1"));
    let twin = ticket.clone();
    drop(ticket);
    assert_eq!(answer(&store, &request("1")), "busy");
    drop(twin);
    let doubt = answered!(InDoubt, store.claim(&request("1")).expect("claims"));
    assert_eq!(doubt.doubt, Doubt::Dropped);
    assert!(doubt.message.contains("dropped unfinished"));
}

#[test]
fn a_ticket_ends_once() {
    type End = fn(&semel::Ticket) -> semel::Result<()>;
    let ends: [(&str, End); 5] = [
        ("complete", |ticket| ticket.complete("done")),
        ("without result", |ticket| ticket.complete_without_result()),
        ("fail", |ticket| ticket.fail(Failure::new("no", "funds"))),
        ("release", |ticket| ticket.release()),
        ("doubt", |ticket| ticket.doubt("who knows")),
    ];
    let store = memory();
    for (first, end) in ends {
        let ticket = execute(&store, &request(first));
        end(&ticket).expect("ends");
        let before = store
            .lookup(&(&request(first)).into())
            .expect("looks up")
            .map(|info| (info.state, info.fence));
        for (_, again) in ends {
            let error = again(&ticket).expect_err("ended");
            assert_eq!(error.kind(), ErrorKind::Lost);
            assert!(error.message().contains("finished"), "{error}");
        }
        assert_eq!(ticket.renew().expect_err("ended").kind(), ErrorKind::Lost);
        assert!(!ticket.lost(), "it has ended, and was not lost");
        let after = store
            .lookup(&(&request(first)).into())
            .expect("looks up")
            .map(|info| (info.state, info.fence));
        assert_eq!(before, after, "{first}");
    }
    assert_eq!(store.stats().totals().lost_leases, 0);
    let doubt = answered!(InDoubt, store.claim(&request("doubt")).expect("claims"));
    assert_eq!(doubt.doubt, Doubt::Stated("who knows".into()));
}

#[test]
fn a_holder_that_was_not_replaced_completes_late_and_it_is_counted() {
    let (store, clock) = frozen();
    let lapsing = request("late").renew(Renew::Off).lease(seconds(30));
    let ticket = execute(&store, &lapsing);
    clock.advance(seconds(30));
    assert_eq!(answer(&store, &lapsing), "in_doubt");
    ticket.complete("late").expect("nobody came between");
    assert_eq!(replayed(store.claim(&lapsing).expect("claims")), "late");
    let in_time = request("in time").renew(Renew::Off).lease(seconds(30));
    let ticket = execute(&store, &in_time);
    clock.advance(seconds(30) - std::time::Duration::from_micros(1));
    ticket.complete("in time").expect("completes");
    assert_eq!(store.stats().totals().possible_double_effects, 1);
}

#[test]
fn a_stale_holder_changes_nothing_and_a_lost_completion_is_counted() {
    let (store, clock) = frozen();
    let request = request("1")
        .in_doubt(Policy::Rerun)
        .renew(Renew::Off)
        .lease(seconds(30));
    let stale: Vec<_> = (0..4)
        .map(|_| {
            let ticket = execute(&store, &request);
            clock.advance(seconds(30));
            ticket
        })
        .collect();
    let current = execute(&store, &request);
    assert_eq!(
        stale[0].complete("stale").expect_err("lost").kind(),
        ErrorKind::Lost
    );
    assert_eq!(
        stale[1]
            .fail(Failure::new("stale", ""))
            .expect_err("lost")
            .kind(),
        ErrorKind::Lost
    );
    assert_eq!(
        stale[2].release().expect_err("lost").kind(),
        ErrorKind::Lost
    );
    drop(stale);
    assert_eq!(answer(&store, &request), "busy");
    current.complete("current").expect("completes");
    assert_eq!(replayed(store.claim(&request).expect("claims")), "current");
    let totals = store.stats().totals();
    assert_eq!((totals.possible_double_effects, totals.takeovers), (1, 4));
}

#[test]
fn a_run_that_lost_its_ticket_gives_its_value_and_says_so() {
    let (store, clock) = frozen();
    let request = request("1")
        .in_doubt(Policy::Rerun)
        .renew(Renew::Off)
        .lease(seconds(30));
    let got = store.run(&request, |_| {
        clock.advance(seconds(30));
        execute(&store, &request)
            .complete("second")
            .expect("completes");
        Ok::<_, CardDeclined>("first".to_owned())
    });
    let Err(RunError::Lost(value)) = got else {
        panic!("{got:?}")
    };
    assert_eq!(value, "first");
    assert_eq!(replayed(store.claim(&request).expect("claims")), "second");
}

#[test]
fn every_answer_that_is_no_result_is_raised_by_run() {
    let store = memory();
    let never = |_: &semel::Ticket| -> Result<String, CardDeclined> { panic!("it has run") };
    let with = |id: &'static str, n: u32| request(id).payload(&n).expect("a payload");
    let running = execute(&store, &with("busy", 1));
    assert!(matches!(
        store.run(&with("busy", 1), never),
        Err(RunError::Busy(_))
    ));
    assert!(matches!(
        store.run(&with("busy", 2), never),
        Err(RunError::Mismatch(_))
    ));
    drop(running);
    let error = store.run(&with("busy", 1), never).expect_err("in doubt");
    assert!(matches!(error, RunError::InDoubt(_)));
    assert!(error.to_string().contains("not executed"), "{error}");
    execute(&store, &with("gone", 1))
        .complete_without_result()
        .expect("completes");
    assert!(matches!(
        store.run(&with("gone", 1), never),
        Err(RunError::Gone(_))
    ));
}

#[test]
fn a_ticket_that_ends_with_a_transaction_is_not_lost_and_is_late_when_it_is() {
    let (_dir, path) = super::fixture::directory();
    let store = semel::Store::open(&path).expect("opens");
    for n in 0..40 {
        let id = n.to_string();
        let request = request(&id)
            .lease(std::time::Duration::from_micros(100))
            .on_lost(|why| panic!("{why}"));
        let ticket = execute(&store, &request);
        let ended = store.transaction(|tx| tx.complete(&ticket, &n));
        ended.expect("commits");
        assert!(!ticket.lost());
        assert_eq!(answer(&store, &request), "replay");
    }
    assert_eq!(store.stats().totals().lost_leases, 0);

    let (store, clock) = frozen();
    let lapsing = request("late").renew(Renew::Off).lease(seconds(30));
    let ticket = execute(&store, &lapsing);
    clock.advance(seconds(30));
    store
        .transaction(|tx| tx.complete(&ticket, &1))
        .expect("commits");
    assert_eq!(store.stats().totals().possible_double_effects, 1);
}
