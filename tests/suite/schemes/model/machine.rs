//! Machines: a state and a list of transitions.

use std::collections::BTreeMap;

use proptest::prelude::*;
use semel::{Fire, Store};

use super::Plain;
use super::kept::{retain, until_us, within};

const EDGES: &[(&str, &[&str])] = &[
    ("WAIT", &["PAID", "CANCELLED"]),
    ("PAID", &["REFUNDED", "WAIT"]),
];
const STATES: [&str; 4] = ["WAIT", "PAID", "CANCELLED", "REFUNDED"];

#[derive(Default)]
pub(super) struct Machine(BTreeMap<(bool, u8), Instance>);

struct Instance {
    state: usize,
    /// From, to, and by which event.
    history: Vec<(usize, usize, u8)>,
    until_us: u64,
}

#[derive(Clone, Debug)]
pub(super) enum OfMachine {
    Create {
        short: bool,
        id: u8,
    },
    Fire {
        short: bool,
        id: u8,
        from: usize,
        to: usize,
        event: u8,
        abort: bool,
    },
}

impl Plain for Machine {
    type Op = OfMachine;

    fn op() -> BoxedStrategy<OfMachine> {
        let at = (any::<bool>(), 0..2_u8);
        // Twice as often to and fro, so that there is a history to forget.
        let edge = prop_oneof![
            3 => Just((0, 1)),
            3 => Just((1, 0)),
            1 => (0..4_usize, 0..4_usize),
        ];
        prop_oneof![
            1 => at.clone().prop_map(|(short, id)| OfMachine::Create { short, id }),
            8 => (at, edge, any::<u8>(), prop::bool::weighted(0.1)).prop_map(|((short, id), (from, to), event, abort)| OfMachine::Fire { short, id, from, to, event: event % 64, abort }),
        ]
        .boxed()
    }

    fn play(&mut self, store: &Store, now_us: u64, op: &OfMachine) {
        self.0.retain(|_, instance| now_us < instance.until_us);
        let machine = |short| {
            let name = if short { "short" } else { "kept" };
            let machine = store.machine(name, EDGES, "WAIT").expect("a machine");
            machine.retain(retain(short))
        };
        match *op {
            OfMachine::Create { short, id } => {
                let known = self
                    .0
                    .get(&(short, id))
                    .map(|known| STATES[known.state].to_owned());
                assert_eq!(
                    machine(short).create(&id.to_string()).expect("answers"),
                    known
                );
                self.0.entry((short, id)).or_insert_with(|| Instance {
                    state: 0,
                    history: Vec::new(),
                    until_us: until_us(short, now_us),
                });
            }
            OfMachine::Fire {
                short,
                id,
                from,
                to,
                event,
                abort,
            } => {
                let machine = machine(short);
                let (from_name, to_name) = (STATES[from], STATES[to]);
                let given = within(store, abort, |tx| {
                    tx.machine(machine.edges()).fire(
                        &id.to_string(),
                        from_name,
                        to_name,
                        &event.to_string(),
                    )
                });
                let given = given.expect("answers");
                let Some(known) = self.0.get_mut(&(short, id)) else {
                    return assert_eq!(given, Fire::Illegal(None));
                };
                let by: Vec<u8> = known
                    .history
                    .iter()
                    .filter(|step| (step.0, step.1) == (from, to))
                    .map(|step| step.2)
                    .collect();
                let leads = EDGES
                    .iter()
                    .any(|(a, to)| *a == from_name && to.contains(&to_name));
                let expected = match by.last() {
                    _ if by.contains(&event) => Fire::Already,
                    _ if known.state == from && leads => Fire::Applied,
                    Some(other) => Fire::Taken(other.to_string()),
                    None => Fire::Illegal(Some(STATES[known.state].to_owned())),
                };
                assert_eq!(given, expected);
                if expected == Fire::Applied && !abort {
                    known.state = to;
                    known.history.push((from, to, event));
                    known.until_us = until_us(short, now_us);
                    if known.history.len() > semel::scheme::machine::MAX_HISTORY {
                        known.history.remove(0);
                    }
                }
                let (state, length) = (known.state, known.history.len());
                let id = id.to_string();
                assert_eq!(
                    machine.state(&id).expect("reads").as_deref(),
                    Some(STATES[state])
                );
                assert_eq!(machine.history(&id).expect("reads").len(), length);
            }
        }
    }
}
