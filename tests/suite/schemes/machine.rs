//! State machine: an edge is fired once, and a repeat is told from a rival.

use semel::scheme::machine::Machine;
use semel::{Edges, ErrorKind, Fire, Store};

use super::{Place, SECOND, TICK, kind, on_each, stored, threads};

/// Edges as they are declared.
type Edged<'a> = &'a [(&'a str, &'a [&'a str])];

const EDGES: Edged<'static> = &[
    ("WAIT_PAY", &["PAID", "CANCELLED"]),
    ("PAID", &["REFUNDED"]),
];

fn orders(store: &Store) -> Machine<'_> {
    store.machine("order", EDGES, "WAIT_PAY").expect("declared")
}

#[test]
fn every_answer_of_the_contract() {
    on_each(|place| {
        let store = place.open();
        let order = orders(&store);
        let illegal = |state: &str| Fire::Illegal(Some(state.to_owned()));
        let taken = |event: &str| Fire::Taken(event.to_owned());
        assert_eq!(order.create("A").expect("creates"), None);
        assert_eq!(
            order.create("A").expect("answers").as_deref(),
            Some("WAIT_PAY")
        );
        let cases = [
            ("A", "PAID", "REFUNDED", "r-1", illegal("WAIT_PAY")),
            ("A", "WAIT_PAY", "REFUNDED", "r-1", illegal("WAIT_PAY")), // no such edge
            ("A", "WAIT_PAY", "PAID", "pay-77", Fire::Applied),
            ("A", "WAIT_PAY", "PAID", "pay-77", Fire::Already),
            ("A", "WAIT_PAY", "PAID", "pay-78", taken("pay-77")),
            ("A", "WAIT_PAY", "CANCELLED", "timeout", illegal("PAID")),
            ("A", "PAID", "REFUNDED", "r-1", Fire::Applied),
            // Late repeats and rivals are told apart wherever the instance has gone.
            ("A", "WAIT_PAY", "PAID", "pay-77", Fire::Already),
            ("A", "WAIT_PAY", "PAID", "pay-78", taken("pay-77")),
            ("A", "PAID", "REFUNDED", "pay-77", taken("r-1")),
            ("A", "WAIT_PAY", "CANCELLED", "timeout", illegal("REFUNDED")),
            ("B", "WAIT_PAY", "PAID", "pay-77", Fire::Illegal(None)),
        ];
        for (id, from, to, event, answer) in cases {
            let told = order.fire(id, from, to, event).expect("answers");
            assert_eq!(told, answer, "{id} {from} -> {to} by {event}");
        }
        assert_eq!(
            order.state("A").expect("reads").as_deref(),
            Some("REFUNDED")
        );
        assert_eq!(order.state("B").expect("reads"), None);
        let history = order.history("A").expect("reads");
        let steps: Vec<_> = history
            .iter()
            .map(|t| (&*t.from, &*t.to, &*t.event))
            .collect();
        assert_eq!(
            steps,
            [("WAIT_PAY", "PAID", "pay-77"), ("PAID", "REFUNDED", "r-1")]
        );
        assert!(order.history("B").expect("reads").is_empty());
    });
}

#[test]
fn an_instance_is_where_it_was_after_reopening() {
    let place = Place::directory();
    {
        let store = place.open();
        orders(&store).create("A").expect("creates");
        orders(&store)
            .fire("A", "WAIT_PAY", "PAID", "pay-77")
            .expect("fires");
    }
    let store = place.open();
    let again = |event| {
        orders(&store)
            .fire("A", "WAIT_PAY", "PAID", event)
            .expect("answers")
    };
    assert_eq!(
        (again("pay-77"), again("pay-78")),
        (Fire::Already, Fire::Taken("pay-77".into()))
    );
}

#[test]
fn of_sixty_four_payments_one_is_applied_and_the_others_are_told_which() {
    on_each(|place| {
        let store = place.open();
        let order = orders(&store);
        order.create("A").expect("creates");
        let event = |at: usize| format!("pay-{}", at / 2); // each is called back twice
        let answers = threads(64, |at| {
            order
                .fire("A", "WAIT_PAY", "PAID", &event(at))
                .expect("answers")
        });
        let won = answers
            .iter()
            .position(|answer| *answer == Fire::Applied)
            .expect("one is applied");
        for (at, answer) in answers.into_iter().enumerate() {
            let expected = match event(at) {
                _ if at == won => Fire::Applied,
                same if same == event(won) => Fire::Already,
                _ => Fire::Taken(event(won)),
            };
            assert_eq!(answer, expected, "thread {at}");
        }
        assert_eq!(order.history("A").expect("reads").len(), 1);
    });
}

#[test]
fn whatever_the_interleaving_the_history_is_a_path() {
    on_each(|place| {
        let store = place.open();
        let ring = store
            .machine(
                "ring",
                &[("A", &["B", "C"]), ("B", &["C"]), ("C", &["A"])],
                "A",
            )
            .expect("declared");
        ring.create("x").expect("creates");
        let edges = [("A", "B"), ("A", "C"), ("B", "C"), ("C", "A")];
        let applied: usize = threads(8, |thread| {
            let fired = (0..24).filter(|round| {
                let (from, to) = edges[(thread + round) % 4];
                let event = format!("{thread}-{round}");
                ring.fire("x", from, to, &event).expect("answers") == Fire::Applied
            });
            fired.count()
        })
        .iter()
        .sum();
        let history = ring.history("x").expect("reads");
        assert_eq!(history.len(), applied.min(32));
        for pair in history.windows(2) {
            assert_eq!(pair[0].to, pair[1].from);
            assert!(pair[0].at_us <= pair[1].at_us);
        }
        assert_eq!(
            ring.state("x").expect("reads").as_deref(),
            history.last().map(|last| &*last.to)
        );
    });
}

#[test]
fn a_machine_is_declared_whole_or_refused() {
    let many: Vec<String> = (0..300).map(|at| format!("state-{at}")).collect();
    let targets: Vec<&str> = many.iter().map(String::as_str).collect();
    let cases: [(&str, Edged<'_>, &str, &str); 7] = [
        ("", EDGES, "WAIT_PAY", "machine is blank"),
        ("order", &[("A", &[" "])], "A", "state is blank"),
        ("order", &[("A", &["B", "B"])], "A", "declared twice"),
        (
            "order",
            &[("A", &["B"]), ("A", &["B"])],
            "A",
            "declared twice",
        ),
        ("order", EDGES, "PAYED", "has no state \"PAYED\""),
        ("order", &[], "A", "has no state \"A\""),
        ("order", &[("A", &targets)], "A", "at most 256"),
    ];
    for (name, edges, initial, words) in cases {
        let error = Edges::new(name, edges, initial).expect_err(words);
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.message().contains(words), "{error}");
    }
    let store = Place::memory().open();
    let order = orders(&store);
    assert_eq!(
        kind(order.fire("A", "WAIT_PAY", "PAYED", "e")),
        ErrorKind::InvalidInput
    );
    assert_eq!(
        kind(order.fire("A", "NEW", "PAID", "e")),
        ErrorKind::InvalidInput
    );
    assert_eq!(
        kind(order.fire("A", "WAIT_PAY", "PAID", "")),
        ErrorKind::InvalidInput
    );
    assert_eq!(kind(order.create("")), ErrorKind::InvalidInput);
    assert_eq!(stored(&store), 0);
}

#[test]
fn an_instance_is_kept_for_as_long_as_was_said_after_its_last_transition() {
    on_each(|place| {
        let store = place.open();
        let order = orders(&store).retain(SECOND);
        order.create("A").expect("creates");
        place.clock.advance(SECOND - TICK);
        order
            .fire("A", "WAIT_PAY", "PAID", "pay-77")
            .expect("fires");
        place.clock.advance(SECOND - TICK);
        assert_eq!(order.state("A").expect("reads").as_deref(), Some("PAID"));
        place.clock.advance(TICK);
        assert_eq!(order.state("A").expect("reads"), None);
    });
}
