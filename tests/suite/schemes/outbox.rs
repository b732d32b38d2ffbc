//! Outbox: what was committed is sent, in order, at least once, by one relay at a time.

use std::sync::Mutex;
use std::time::Duration;

use semel::{Error, ErrorKind, Relayed, Store, Value};

use super::{Place, SECOND, TICK, kind, on_each, stored, threads};

fn emit(store: &Store, id: &str) {
    store
        .transaction(|tx| tx.emit("topic", id, &id))
        .expect("emits");
}

/// Relays a topic, refusing what `refuse` says; what came of it, and what was sent.
fn relay(store: &Store, refuse: &[&str]) -> (Relayed, Vec<String>) {
    let mut sent = Vec::new();
    let relayed = store.outbox("topic").dead_after(u32::MAX).relay(|id, _| {
        if refuse.contains(&id) {
            return Err("refused");
        }
        sent.push(id.to_owned());
        Ok(())
    });
    (relayed.expect("relays"), sent)
}

#[test]
fn messages_are_sent_in_the_order_of_their_commits_and_once() {
    on_each(|place| {
        let store = place.open();
        for id in ["m3", "m1", "m2"] {
            emit(&store, id);
        }
        // Many in one commit keep the order in which they were emitted.
        let many: Vec<String> = (0..100).map(|at| format!("n{}", (at * 37) % 100)).collect();
        store
            .transaction(|tx| many.iter().try_for_each(|id| tx.emit("topic", id, id)))
            .expect("emits");
        assert_eq!(store.outbox("topic").len().expect("counts"), 103);
        let mut sent = Vec::new();
        while !store.outbox("topic").is_empty().expect("counts") {
            sent.extend(relay(&store, &[]).1);
        }
        assert_eq!(&sent[..3], ["m3", "m1", "m2"]);
        assert_eq!(sent[3..], many);
        assert_eq!(relay(&store, &[]).1, [""; 0]);
        assert_eq!(stored(&store), 0);
    });
}

#[test]
fn the_place_in_the_order_is_that_of_the_commit_and_not_of_the_call() {
    on_each(|place| {
        let store = place.open();
        store
            .transaction(|tx| {
                tx.emit("topic", "outer", &1)?;
                emit(&store, "inner"); // committed before
                Ok::<_, Error>(())
            })
            .expect("emits");
        assert_eq!(relay(&store, &[]).1, ["inner", "outer"]);
    });
}

#[test]
fn what_is_rolled_back_is_not_sent() {
    on_each(|place| {
        let store = place.open();
        let failed = store.transaction(|tx| {
            tx.emit("topic", "m1", &1)?;
            Err::<(), _>(Error::new(ErrorKind::Unsupported, "no"))
        });
        assert_eq!(kind(failed), ErrorKind::Unsupported);
        assert!(relay(&store, &[]).1.is_empty());
        assert_eq!(stored(&store), 0);
    });
}

#[test]
fn an_id_is_one_message_while_it_waits() {
    on_each(|place| {
        let store = place.open();
        let emit = |value: i32| store.transaction(|tx| tx.emit("topic", "m1", &value));
        emit(1).expect("emits");
        emit(1).expect("the same again");
        let other = emit(2).expect_err("another message");
        assert!(
            other.kind() == ErrorKind::InvalidInput
                && other.message().contains("another message waits"),
            "{other}"
        );
        let mut bytes = Vec::new();
        let relayed = store.outbox("topic").relay(|id, sent| {
            bytes.push((id.to_owned(), sent.to_vec()));
            Ok::<_, Error>(())
        });
        assert_eq!(relayed.expect("relays").sent, 1);
        let one = Value::of(&1).expect("encodes");
        assert_eq!(bytes, [("m1".to_owned(), one.as_bytes().to_vec())]);
        // Raw bytes go out as they came in; another topic is another order.
        store
            .transaction(|tx| tx.emit_bytes("raw", "m1", b"\x00\xff"))
            .expect("emits");
        let relayed = store.outbox("raw").relay(|_, sent| {
            assert_eq!(sent, b"\x00\xff");
            Ok::<_, Error>(())
        });
        assert_eq!(relayed.expect("relays").sent, 1);
    });
}

#[test]
fn a_message_that_cannot_be_sent_blocks_its_topic_and_is_tried_after_pauses_that_grow() {
    on_each(|place| {
        let store = place.open();
        for id in ["m1", "m2", "m3"] {
            emit(&store, id);
        }
        let (relayed, sent) = relay(&store, &["m2"]);
        assert_eq!(sent, ["m1"]);
        assert_eq!(relayed.blocked, Some(("m2".into(), 1, "refused".into())));
        let mut pause = Duration::from_millis(100);
        for failures in 2..14u32 {
            // Before its time it is not tried; at its time it is, and fails again.
            place.clock.advance(pause - TICK);
            let (relayed, sent) = relay(&store, &[]);
            assert_eq!((relayed.sent, sent.len()), (0, 0), "failure {failures}");
            assert_eq!(
                relayed.blocked,
                Some(("m2".into(), failures - 1, "refused".into()))
            );
            place.clock.advance(TICK);
            let (relayed, _) = relay(&store, &["m2"]);
            assert_eq!(
                relayed.blocked,
                Some(("m2".into(), failures, "refused".into()))
            );
            pause = (pause * 2).min(Duration::from_secs(60));
        }
        // Other topics go on.
        store
            .transaction(|tx| tx.emit("other", "m1", &1))
            .expect("emits");
        assert_eq!(
            store
                .outbox("other")
                .relay(|_, _| Ok::<_, Error>(()))
                .expect("relays")
                .sent,
            1
        );
        place.clock.advance(Duration::from_secs(60));
        assert_eq!(relay(&store, &[]).1, ["m2", "m3"]);
    });
}

#[test]
fn a_message_that_keeps_failing_moves_to_the_dead_letters_when_that_is_asked_for() {
    on_each(|place| {
        let store = place.open();
        for id in ["m1", "m2", "m3"] {
            emit(&store, id);
        }
        let outbox = store.outbox("topic").dead_after(2);
        let refuse = |id: &str, _: &[u8]| if id == "m3" { Ok(()) } else { Err("refused") };
        let mut sent = 0;
        for _ in 0..3 {
            let relayed = outbox.relay(refuse).expect("relays");
            sent += relayed.sent;
            place.clock.advance(SECOND);
        }
        assert_eq!(sent, 1);
        assert!(outbox.is_empty().expect("counts"));
        let mut dead = Vec::new();
        let relayed = store.outbox("topic.dead").relay(|id, _| {
            dead.push(id.to_owned());
            Ok::<_, Error>(())
        });
        assert_eq!(
            (relayed.expect("relays").sent, dead),
            (2, vec!["m1".to_owned(), "m2".to_owned()])
        );
        let long = "t".repeat(127);
        assert_eq!(
            kind(store.outbox(&long).dead_after(1).relay(refuse)),
            ErrorKind::InvalidInput
        );
        assert_eq!(
            kind(store.outbox("topic").dead_after(0).relay(refuse)),
            ErrorKind::InvalidInput
        );
        assert_eq!(
            kind(store.outbox("").relay(refuse)),
            ErrorKind::InvalidInput
        );
    });
}

#[test]
fn a_blocked_topic_is_counted_until_its_message_is_sent_or_dead() {
    on_each(|place| {
        let store = place.open();
        let blocked = |store: &Store| -> Vec<(String, u32)> {
            store.stats().blocked_topics.into_iter().collect()
        };
        for topic in ["free", "odd \"topic\"", "topic"] {
            for id in ["m1", "m2"] {
                store
                    .transaction(|tx| tx.emit(topic, id, &id))
                    .expect("emits");
            }
        }
        assert!(blocked(&store).is_empty(), "who waits is not blocked");
        let refuse = |_: &str, _: &[u8]| Err::<(), _>("refused");
        for topic in ["odd \"topic\"", "topic"] {
            store.outbox(topic).relay(refuse).expect("relays");
        }
        place.clock.advance(SECOND);
        store.outbox("topic").relay(refuse).expect("relays");
        store.sync().expect("on disk");
        let counted = [("odd \"topic\"".to_owned(), 1), ("topic".to_owned(), 2)];
        assert_eq!(blocked(&store), counted);
        let text = store.metrics();
        for line in [
            "semel_outbox_blocked_topics 2",
            "semel_outbox_blocked_failures{topic=\"odd \\\"topic\\\"\"} 1",
            "semel_outbox_blocked_failures{topic=\"topic\"} 2",
        ] {
            assert!(text.lines().any(|told| told == line), "{line} in\n{text}");
        }
        // What is known of it is on disk.
        let store = match place.url().as_str() {
            "memory:" => store,
            _ => {
                drop(store);
                place.open()
            }
        };
        assert_eq!(blocked(&store), counted);
        place.clock.advance(SECOND);
        assert_eq!(relay(&store, &[]).1, ["m1", "m2"]);
        let buried = store.outbox("odd \"topic\"").dead_after(2).relay(refuse);
        assert_eq!(buried.expect("relays").dead, 1);
        store.sync().expect("on disk");
        // The next message stands first now, and was tried once.
        assert_eq!(blocked(&store), [("odd \"topic\"".to_owned(), 1)]);
        place.clock.advance(SECOND);
        let outbox = store.outbox("odd \"topic\"");
        assert_eq!(
            outbox
                .relay(|_, _| Ok::<_, Error>(()))
                .expect("relays")
                .sent,
            1
        );
        store.sync().expect("on disk");
        assert!(blocked(&store).is_empty(), "a dead letter blocks nobody");
    });
}

#[test]
fn one_relay_works_at_a_time_and_a_panic_lets_go() {
    on_each(|place| {
        let store = place.open();
        emit(&store, "m1");
        let relayed = store.outbox("topic").relay(|_, _| {
            let other = std::thread::scope(|scope| {
                scope.spawn(|| relay(&store, &[])).join().expect("no panic")
            });
            assert!(other.0.busy && other.1.is_empty());
            Ok::<_, Error>(())
        });
        assert_eq!(relayed.expect("relays").sent, 1);
        emit(&store, "m2");
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            store
                .outbox("topic")
                .relay(|_, _| -> Result<(), Error> { panic!("in the sender") })
        }));
        assert!(panicked.is_err());
        assert_eq!(relay(&store, &[]).1, ["m2"], "sent again: at least once");
    });
}

#[test]
fn a_call_sends_as_many_as_was_said_and_the_rest_is_there_after_reopening() {
    let place = Place::directory();
    {
        let store = place.open();
        (0..10).for_each(|at| emit(&store, &format!("m{at}")));
        let relayed = store
            .outbox("topic")
            .limit(4)
            .relay(|_, _| Ok::<_, Error>(()));
        assert_eq!(relayed.expect("relays").sent, 4);
    }
    let store = place.open();
    emit(&store, "m10");
    let expected: Vec<String> = (4..=10).map(|at| format!("m{at}")).collect();
    assert_eq!(relay(&store, &[]).1, expected);
}

#[test]
fn what_eight_threads_emit_while_it_is_relayed_is_sent_once_and_in_each_threads_order() {
    on_each(|place| {
        let store = place.open_live();
        let sent: Mutex<Vec<String>> = Mutex::default();
        threads(9, |thread| {
            if thread < 8 {
                return (0..25).for_each(|at| emit(&store, &format!("{thread}-{at}")));
            }
            while sent.lock().expect("no panic").len() < 200 {
                let relayed = store.outbox("topic").relay(|id, _| {
                    sent.lock().expect("no panic").push(id.to_owned());
                    Ok::<_, Error>(())
                });
                relayed.expect("relays");
            }
        });
        let sent = sent.into_inner().expect("no panic");
        for thread in 0..8 {
            let prefix = format!("{thread}-");
            let own: Vec<&String> = sent.iter().filter(|id| id.starts_with(&prefix)).collect();
            let expected: Vec<String> = (0..25).map(|at| format!("{thread}-{at}")).collect();
            assert_eq!(own, expected.iter().collect::<Vec<_>>());
        }
        assert_eq!(sent.len(), 200);
    });
}

#[test]
fn no_lock_of_a_caller_is_that_of_a_relay() {
    on_each(|place| {
        let store = place.open();
        emit(&store, "m1");
        let names = ["outbox relay of topic", "relay", "topic"];
        let held = names.map(|name| store.lock(name).acquire().expect("answers"));
        assert_eq!(relay(&store, &[]).1, ["m1"]);
        drop(held);
    });
}
