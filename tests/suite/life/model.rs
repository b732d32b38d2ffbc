//! Random lives of one key, held against a plain model of it that was written from the table of the contract.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use proptest::prelude::*;
use semel::{
    Claim, Clock, Confirmation, ErrorKind, Failure, Identity, Policy, Renew, Request, Resolution,
    Store, Ticket, Value,
};

use self::reference::{Asked, End, Model, Rules};
use super::fixture::START;

mod reference;

#[derive(Clone, Debug)]
enum Op {
    Claim {
        payload: Option<u8>,
        asked: Asked,
        policy: Policy,
    },
    End {
        ticket: usize,
        end: End,
    },
    Renew {
        ticket: usize,
    },
    Pass {
        seconds: u64,
    },
    Resolve {
        to: u8,
        stale: bool,
    },
    Forget,
    Sweep,
}

/// The store under test, and the tickets it gave.
struct Life {
    store: Store,
    clock: Clock,
    tickets: Vec<Option<Ticket>>,
    rules: Rules,
    fence: u64,
}

impl Life {
    fn request(&self, policy: Policy) -> Request<'static> {
        let seconds = Duration::from_secs;
        let request = Request::new("op", "id")
            .in_doubt(policy)
            .renew(Renew::Off)
            .lease(seconds(self.rules.lease))
            .retain(seconds(self.rules.retain))
            .remember(seconds(self.rules.remember));
        match self.rules.max_attempts {
            Some(attempts) => request.max_attempts(attempts),
            None => request,
        }
    }

    fn claim(&mut self, payload: Option<u8>, asked: Asked, policy: Policy) -> String {
        let mut request = self.request(policy);
        if let Some(payload) = payload {
            request = request.payload(&payload).expect("a payload");
        }
        if asked != Asked::Nobody {
            request = request.confirm(move |_| match asked {
                Asked::Done => Confirmation::Done(Value::of(&1).expect("a value")),
                Asked::NotDone => Confirmation::NotDone,
                Asked::Panics => std::panic::resume_unwind(Box::new("nobody knows")),
                _ => Confirmation::Still,
            });
        }
        let claim = catch_unwind(AssertUnwindSafe(|| self.store.claim(&request)));
        let claim = claim.expect("a panic is the caller's own").expect("claims");
        let name = claim.name();
        match claim {
            Claim::Execute(ticket) => {
                assert!(ticket.fence() > self.fence, "the fence rises");
                self.fence = ticket.fence();
                let told = format!("execute {}", ticket.attempt());
                self.tickets.push(Some(ticket));
                told
            }
            _ => name.to_owned(),
        }
    }

    fn end(&mut self, ticket: usize, end: End) -> bool {
        let Some(held) = &self.tickets[ticket] else {
            return false;
        };
        let told = match end {
            End::Complete => held.complete(&1),
            End::Fail => held.fail(Failure::new("no", "")),
            End::Release => held.release(),
            End::Doubt => held.doubt("who knows"),
            End::Drop => {
                self.tickets[ticket] = None;
                return true;
            }
        };
        told.map_err(|error| assert_eq!(error.kind(), ErrorKind::Lost))
            .is_ok()
    }
}

fn play(rules: Rules, ops: &[Op]) {
    let clock = Clock::manual(START);
    let store = Store::builder("memory:")
        .clock(clock.clone())
        .sweep_by_hand()
        .open()
        .expect("opens");
    let identity = Identity::new("op", "id");
    let mut life = Life {
        store,
        clock,
        tickets: Vec::new(),
        rules,
        fence: 0,
    };
    let mut model = Model::default();
    for (at, op) in ops.iter().enumerate() {
        model.expire(rules);
        match *op {
            Op::Claim {
                payload,
                asked,
                policy,
            } => {
                let told = life.claim(payload, asked, policy);
                assert_eq!(
                    told,
                    model.claim(payload, asked, policy, rules),
                    "{at}: {op:?}"
                );
            }
            Op::End { ticket, end } if !life.tickets.is_empty() => {
                let ticket = life.tickets.len() - 1 - ticket % life.tickets.len();
                let counts = life.end(ticket, end);
                let expected = model.end(ticket, end);
                assert!(
                    counts == expected || end == End::Drop,
                    "{at}: {op:?} gives {counts}"
                );
            }
            Op::Renew { ticket } if !life.tickets.is_empty() => {
                let ticket = life.tickets.len() - 1 - ticket % life.tickets.len();
                let renewed = life.tickets[ticket]
                    .as_ref()
                    .is_some_and(|held| held.renew().is_ok());
                assert_eq!(renewed, model.renew(ticket, rules), "{at}: {op:?}");
            }
            Op::End { .. } | Op::Renew { .. } => {}
            Op::Pass { seconds } => {
                life.clock.advance(Duration::from_secs(seconds));
                model.now += seconds;
            }
            Op::Resolve { to, stale } => {
                let resolution = match to {
                    0 => Resolution::Value(Value::of(&1).expect("a value")),
                    1 => Resolution::Value(Value::bytes(*b"")),
                    2 => Resolution::Failure(Failure::new("no", "")),
                    _ => Resolution::Rerun,
                };
                let fence = if stale { life.fence + 1 } else { life.fence };
                let resolved = life
                    .store
                    .resolve_attempt(&identity, fence, resolution)
                    .expect("answers");
                assert_eq!(resolved, model.resolve(to, stale), "{at}: {op:?}");
            }
            Op::Forget => {
                let forgotten = life.store.forget(&identity).expect("answers");
                assert_eq!(forgotten, model.forget(), "{at}: {op:?}");
            }
            Op::Sweep => drop(life.store.sweep().expect("sweeps")),
        }
        model.expire(rules);
        let info = life.store.lookup(&identity).expect("looks up");
        assert_eq!(
            info.as_ref().map(|info| info.state),
            model.state(rules),
            "{at}: after {op:?}"
        );
        let attempt = model.key.as_ref().map(|key| key.attempt);
        assert_eq!(info.map(|info| info.attempt), attempt, "{at}: after {op:?}");
        let holds = model.key.as_ref().is_some_and(|key| {
            key.in_doubt(model.now) && (key.policy != Policy::Rerun || key.used_up())
        });
        assert_eq!(
            life.store.stats().unresolved,
            u64::from(holds),
            "{at}: after {op:?}"
        );
    }
    let totals = life.store.stats().totals();
    assert_eq!(totals.possible_double_effects, model.double_effects);
}

fn policy() -> impl Strategy<Value = Policy> {
    prop_oneof![Just(Policy::Hold), Just(Policy::Rerun), Just(Policy::Ask)]
}

fn op(usual: Policy) -> impl Strategy<Value = Op> {
    let asked = prop_oneof![
        2 => Just(Asked::Nobody),
        1 => Just(Asked::Done),
        2 => Just(Asked::NotDone),
        1 => Just(Asked::Still),
        1 => Just(Asked::Panics),
    ];
    let payload = prop_oneof![2 => Just(Some(1)), 1 => Just(None), 1 => Just(Some(2))];
    let policy = prop_oneof![9 => Just(usual), 1 => policy()];
    let end = prop_oneof![
        1 => Just(End::Complete),
        1 => Just(End::Fail),
        2 => Just(End::Release),
        1 => Just(End::Doubt),
        1 => Just(End::Drop),
    ];
    // Counted from the last, which matters most.
    let ticket = prop_oneof![3 => Just(0_usize), 1 => 0..4_usize];
    prop_oneof![
        6 => (payload, asked, policy).prop_map(|(payload, asked, policy)| Op::Claim { payload, asked, policy }),
        4 => (ticket.clone(), end).prop_map(|(ticket, end)| Op::End { ticket, end }),
        1 => ticket.prop_map(|ticket| Op::Renew { ticket }),
        4 => prop_oneof![1..3_u64, Just(5), Just(10), Just(15)].prop_map(|seconds| Op::Pass { seconds }),
        1 => (0..4_u8, any::<bool>()).prop_map(|(to, stale)| Op::Resolve { to, stale }),
        1 => Just(Op::Forget),
        1 => Just(Op::Sweep),
    ]
}

fn lives() -> impl Strategy<Value = (Rules, Vec<Op>)> {
    let limits =
        prop_oneof![2 => Just(None), 1 => Just(Some(1)), 1 => Just(Some(2)), 1 => Just(Some(3))];
    let remember = prop_oneof![Just(0), Just(5)];
    (policy(), limits, remember).prop_flat_map(|(policy, max_attempts, remember)| {
        let rules = Rules {
            max_attempts,
            lease: 5,
            retain: 10,
            remember,
        };
        (Just(rules), prop::collection::vec(op(policy), 1..60))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(512), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_key_lives_as_the_table_says((rules, ops) in lives()) {
        play(rules, &ops);
    }
}
