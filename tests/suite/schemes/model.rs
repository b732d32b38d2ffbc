//! Each scheme under random calls, held against a plain model of it that was written from the contract: while time passes, the
//! wall clock is stepped, what is forgotten is swept, and the store is closed and opened again.

use std::fmt::Debug;
use std::time::Duration;

use proptest::prelude::*;
use semel::{Result, Store};

use super::{Place, START_S};

mod held;
mod kept;
mod machine;
mod once;
mod outbox;

/// A scheme as plainly as it can be put, and the calls that are made of it.
trait Plain: Default {
    type Op: Clone + Debug;

    /// Random calls.
    fn op() -> BoxedStrategy<Self::Op>;

    /// Makes a call on the store and on the model, and compares.
    fn play(&mut self, store: &Store, now_us: u64, op: &Self::Op);

    /// The store is about to be closed.
    fn leave(&mut self) {}
}

#[derive(Clone, Debug)]
enum Step<O> {
    Call(O),
    Pass { ms: u64 },
    Wall { back_s: i64 },
    Sweep,
    Reopen,
}

fn steps<O: Clone + Debug + 'static>(op: BoxedStrategy<O>) -> BoxedStrategy<Vec<Step<O>>> {
    let ms = prop_oneof![1..200_u64, Just(1_000), Just(1_500), Just(6_000)];
    let step = prop_oneof![
        14 => op.prop_map(Step::Call),
        3 => ms.prop_map(|ms| Step::Pass { ms }),
        1 => (-7_200..7_200_i64).prop_map(|back_s| Step::Wall { back_s }),
        1 => Just(Step::Sweep),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 1..80).boxed()
}

fn open(place: &Place) -> Store {
    place.builder().sweep_by_hand().open().expect("opens")
}

fn play<S: Plain>(place: &Place, steps: &[Step<S::Op>]) {
    let (mut model, mut store) = (S::default(), open(place));
    let mut last_us = 0;
    for step in steps {
        // The store's own time, which is what everything goes by: it stands still but for what is passed here.
        let now: Result<u64> = store.transaction(|tx| Ok(tx.now_us()));
        let now_us = now.expect("a time");
        assert!(now_us >= last_us, "time went back, before {step:?}");
        last_us = now_us;
        match step {
            Step::Call(op) => model.play(&store, now_us, op),
            Step::Pass { ms } => place.clock.advance(Duration::from_millis(*ms)),
            Step::Wall { back_s } => {
                let to_s = START_S.saturating_add_signed(-*back_s);
                place.clock.step_wall(Duration::from_secs(to_s));
            }
            Step::Sweep => drop(store.sweep().expect("sweeps")),
            Step::Reopen if place.url() == "memory:" => {}
            Step::Reopen => {
                model.leave();
                // The time of the last write is what outlives a wall clock that was set back.
                store
                    .table("of the test")
                    .put("now", &now_us)
                    .expect("puts");
                store.close().expect("closes");
                drop(store);
                store = open(place);
            }
        }
    }
    model.leave();
}

/// Plays a scheme in memory, and less often in a directory, where each call waits for the disk.
macro_rules! models {
    ($($(#[$doc:meta])* $name:ident: $model:ty,)*) => {
        proptest! {
            #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
            $(
                #[test]
                fn $name((steps, on_disk) in (steps(<$model>::op()), prop::bool::weighted(0.1))) {
                    let place = if on_disk { Place::directory() } else { Place::memory() };
                    play::<$model>(&place, &steps);
                }
            )*
        }
    };
}

models! {
    a_unique_index_is_a_map_that_is_written_once: kept::Unique,
    a_table_is_a_map_with_versions_and_the_last_events: kept::Table,
    a_ledger_is_a_sum_and_a_list_of_numbers: kept::Ledger,
    a_machine_is_a_state_and_a_list_of_transitions: machine::Machine,
    a_token_is_a_line_of_a_list: once::Tokens,
    a_message_is_handled_or_counted: once::Inbox,
    periodic_work_is_the_time_of_its_last_firing: once::Ticks,
    a_lock_is_its_holder_and_a_time: held::Locks,
    locked_rows_are_a_map_that_one_may_write: held::LockedRows,
    an_outbox_is_a_queue: outbox::Topic,
}
