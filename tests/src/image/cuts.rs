//! The moments at which a power cut hurts most.

use super::choice::Dice;
use crate::recording::{Event, Found, Op};

/// How many operations after the first mark still count as the creation.
const CREATION_TAIL_OPS: usize = 8;

/// The shares of the moments, in percent.
const SHARES: [(Moment, u8); 7] = [
    (Moment::Written, 30),
    (Moment::Syncing, 20),
    (Moment::Acknowledged, 15),
    (Moment::Creation, 10),
    (Moment::Closing, 10),
    (Moment::Names, 10),
    (Moment::Any, 5),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    /// Right after a write, before its sync.
    Written,
    /// While a sync runs.
    Syncing,
    /// Right after a sync or a mark.
    Acknowledged,
    /// From the start of a process until shortly after its first mark.
    Creation,
    /// After the last mark of a process.
    Closing,
    /// Right after a name or a size changed.
    Names,
    /// Whenever.
    Any,
}

/// Picks `count` cuts in ascending order; a cut is the number of operations that came before it.
pub fn cuts(ops: &[Op], count: usize, seed: u64) -> Vec<usize> {
    let mut dice = Dice::new(seed);
    let moments = SHARES.map(|(moment, _)| moments(ops, moment));
    let mut cuts: Vec<usize> = (0..count)
        .map(|_| {
            let at = &moments[share(&mut dice)];
            match at.len() {
                0 => dice.below(ops.len() + 1),
                len => at[dice.below(len)],
            }
        })
        .collect();
    cuts.sort_unstable();
    cuts
}

fn share(dice: &mut Dice) -> usize {
    let mut left = dice.below(100);
    for (index, (_, percent)) in SHARES.iter().enumerate() {
        match left.checked_sub(usize::from(*percent)) {
            Some(rest) => left = rest,
            None => return index,
        }
    }
    SHARES.len() - 1
}

fn moments(ops: &[Op], wanted: Moment) -> Vec<usize> {
    match wanted {
        Moment::Any => (0..=ops.len()).collect(),
        Moment::Creation => processes(ops)
            .flat_map(|range| creation(ops, range))
            .collect(),
        Moment::Closing => processes(ops)
            .flat_map(|range| closing(ops, range))
            .collect(),
        Moment::Syncing => syncing(ops),
        Moment::Written | Moment::Acknowledged | Moment::Names => (0..ops.len())
            .filter(|index| moment(&ops[*index].event) == Some(wanted))
            .map(|index| index + 1)
            .collect(),
    }
}

/// The moment that comes after this event.
fn moment(event: &Event) -> Option<Moment> {
    match event {
        Event::Write { .. } => Some(Moment::Written),
        Event::SyncEnd { .. } | Event::Mark { .. } => Some(Moment::Acknowledged),
        Event::Open {
            found: Found::Nothing | Found::Emptied,
            ..
        }
        | Event::Truncate { .. }
        | Event::Allocate { .. }
        | Event::Rename { .. }
        | Event::Unlink { .. }
        | Event::Mkdir { .. }
        | Event::Rmdir { .. }
        | Event::Link { .. } => Some(Moment::Names),
        _ => None,
    }
}

fn syncing(ops: &[Op]) -> Vec<usize> {
    let mut running = 0_usize;
    let mut found = Vec::new();
    for (index, op) in ops.iter().enumerate() {
        match op.event {
            Event::SyncBegin { .. } => running += 1,
            Event::SyncEnd { .. } => running = running.saturating_sub(1),
            _ => {}
        }
        if running > 0 {
            found.push(index + 1);
        }
    }
    found
}

/// The operations of each process.
fn processes(ops: &[Op]) -> impl Iterator<Item = std::ops::Range<usize>> + '_ {
    let starts: Vec<usize> = (0..ops.len())
        .filter(|index| matches!(ops[*index].event, Event::Start { .. }))
        .collect();
    let ends: Vec<usize> = starts.iter().skip(1).copied().chain([ops.len()]).collect();
    starts.into_iter().zip(ends).map(|(start, end)| start..end)
}

fn is_mark(op: &Op) -> bool {
    matches!(op.event, Event::Mark { .. })
}

fn creation(ops: &[Op], process: std::ops::Range<usize>) -> std::ops::RangeInclusive<usize> {
    let first = ops[process.clone()].iter().position(is_mark);
    let last = first.map_or(process.end, |first| {
        (process.start + first + CREATION_TAIL_OPS).min(process.end)
    });
    process.start..=last
}

fn closing(ops: &[Op], process: std::ops::Range<usize>) -> std::ops::RangeInclusive<usize> {
    let last = ops[process.clone()].iter().rposition(is_mark);
    process.start + last.map_or(0, |last| last + 1)..=process.end
}
