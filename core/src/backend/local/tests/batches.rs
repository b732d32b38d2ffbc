//! Batches: never over their bound, and what stands by itself never gives way to what may not be whole.

use std::collections::VecDeque;
use std::sync::Arc;

use proptest::prelude::*;

use super::super::batch::{Packer, Plan};
use super::super::cell::Cell;
use super::super::parcels::{Parcel, Parcels};
use super::super::queue::Change;
use crate::codec::{BlockHead, Group, Kind, pieces};

fn change(pos: u64, hash: u64, payload_bytes: usize, group: Option<Group>) -> Change {
    Change {
        hash: [hash, hash],
        pos,
        stamp: pos,
        decided_us: pos,
        due_us: 0,
        forgotten_at_us: 0,
        kind: Kind::Row,
        group,
        payload: Parcel::of(payload_bytes),
        cell: Arc::new(Cell::vacant()),
    }
}

fn positions(plan: &Plan) -> Vec<u64> {
    plan.changes.iter().map(|change| change.pos).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_batch_never_takes_more_blocks_than_it_was_cut_for(
        sizes in prop::collection::vec(prop_oneof![1usize..300, 300usize..4000, 3000usize..3890], 1..400),
        keys in 1u64..400,
        blocks in 1usize..62,
    ) {
        let mut waiting: VecDeque<Change> = sizes
            .iter()
            .enumerate()
            .map(|(at, size)| change(at as u64 + 1, at as u64 % keys, *size, None))
            .collect();
        while !waiting.is_empty() {
            let plan = Plan::cut(&mut waiting, blocks);
            prop_assert!(!plan.changes.is_empty());
            if plan.is_long() {
                prop_assert_eq!(plan.changes.len(), 1);
                continue;
            }
            let mut packer = Packer::new(BlockHead { number: 1, ..BlockHead::default() });
            for change in &plan.changes {
                prop_assert_eq!(pieces(change.payload.bytes), 1);
                packer.push(&change.head(), &vec![0; change.payload.bytes]);
            }
            let taken = packer.finish().0.len();
            prop_assert!(taken <= plan.fill.blocks() && plan.fill.blocks() <= blocks.max(2));
        }
    }
}

#[test]
fn the_last_change_of_a_key_stands_for_those_before_it() {
    let mut waiting: VecDeque<_> = [(1, 7), (2, 8), (3, 7), (4, 7)]
        .map(|(pos, hash)| change(pos, hash, 100, None))
        .into();
    let plan = Plan::cut(&mut waiting, 10);
    assert_eq!(positions(&plan), [2, 4]);
    assert_eq!(plan.last_pos, 4);
}

fn group(id: u64, pos: u64, last: u64) -> Option<Group> {
    Some(Group {
        id,
        last: pos == last,
    })
}

#[test]
fn a_change_gives_way_to_a_group_that_is_whole_and_to_no_other() {
    let queue = |members: u64| -> VecDeque<Change> {
        let alone = std::iter::once(change(1, 2, 300, None));
        let last = 1 + members;
        alone
            .chain((2..=last).map(|pos| change(pos, pos, 300, group(2, pos, last))))
            .collect()
    };
    let mut fits = queue(10);
    let plan = Plan::cut(&mut fits, 10);
    assert_eq!(positions(&plan), (2..=11).collect::<Vec<_>>());
    assert!(plan.has(&[2, 2]));
    // A group that does not fit is begun in a batch of its own, and counts for nothing before its end.
    let mut long = queue(500);
    let first = Plan::cut(&mut long, 10);
    assert_eq!(positions(&first), [1]);
    let second = Plan::cut(&mut long, 10);
    assert_eq!(second.changes[0].pos, 2);
    assert!(!second.has(&[2, 2]));
    let mut rest = Plan::cut(&mut long, 10);
    while !long.is_empty() {
        assert!(!rest.has(&rest.changes[0].hash));
        rest = Plan::cut(&mut long, 10);
    }
    assert!(rest.has(&[501, 501]));
}

#[test]
fn payloads_are_found_until_they_are_on_disk_and_their_memory_comes_again() {
    let payload = |at: usize| vec![at as u8; 1 + at * 977 % 90_000];
    let mut queued = Parcels::default();
    for round in 0..3 {
        let mut parcels: Vec<Parcel> = (0..40).map(|at| queued.put(&payload(at))).collect();
        let mut taken = queued.take();
        parcels.extend((40..60).map(|at| queued.put(&payload(at))));
        for (at, parcel) in parcels.iter().enumerate() {
            let held = if at < 40 { &taken } else { &queued };
            assert!(
                held.get(*parcel) == payload(at),
                "round {round}, payload {at}"
            );
        }
        taken.done_before(parcels[30]);
        assert!(taken.get(parcels[0]).is_empty());
        assert!(taken.get(parcels[39]) == payload(39));
        queued.give_back(taken);
        let rest = queued.take();
        queued.give_back(rest);
    }
}
