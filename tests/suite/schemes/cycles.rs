//! State machine with cycles: the last transitions are remembered, so that a repeat is known for as long as they last.

use semel::Fire;
use semel::scheme::machine::MAX_HISTORY;

use super::on_each;

#[test]
fn a_repeat_is_known_for_as_long_as_the_history_lasts() {
    on_each(|place| {
        let store = place.open();
        let switch = store
            .machine("switch", &[("OFF", &["ON"]), ("ON", &["OFF"])], "OFF")
            .expect("declared");
        switch.create("x").expect("creates");
        let edge = |round: usize| {
            if round.is_multiple_of(2) {
                ("OFF", "ON")
            } else {
                ("ON", "OFF")
            }
        };
        let fire = |round: usize, event: &str| {
            let (from, to) = edge(round);
            switch.fire("x", from, to, event).expect("answers")
        };
        for round in 0..3 * MAX_HISTORY {
            let event = format!("e{round}");
            assert_eq!(fire(round, &event), Fire::Applied, "round {round}");
            assert_eq!(fire(round, &event), Fire::Already, "round {round}");
            if round + 1 >= MAX_HISTORY {
                let oldest = round + 1 - MAX_HISTORY;
                assert_eq!(
                    fire(oldest, &format!("e{oldest}")),
                    Fire::Already,
                    "round {round}"
                );
            }
        }
        let history = switch.history("x").expect("reads");
        assert_eq!(history.len(), MAX_HISTORY);
        assert_eq!(
            history[MAX_HISTORY - 1].event,
            format!("e{}", 3 * MAX_HISTORY - 1)
        );
        // A rival of the last firing of an edge is told by whom it was taken.
        let last = 3 * MAX_HISTORY - 1;
        assert_eq!(fire(last, "rival"), Fire::Taken(format!("e{last}")));
    });
}
