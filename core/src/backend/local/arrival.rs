//! Telling the index where entries are: not before all that belongs together is on disk.

use super::batch::Plan;
use super::cleaner::Copy;
use super::committer::Committer;
use super::loc::Loc;
use super::queue::Change;
use crate::codec::Kind;

impl Committer {
    /// The plan is on disk: the index is told where, except of a group whose last has not arrived. Until it has, what the
    /// group replaces is live, and cleaning keeps it: a crash would drop the group and bring it back.
    pub(super) fn finish(&mut self, plan: Plan, placed: Vec<Loc>) {
        let mut arrived: Vec<Change> = Vec::with_capacity(placed.len());
        for (change, loc) in plan.changes.into_iter().zip(placed) {
            let Some(group) = change.group else {
                self.publish(&change, loc);
                arrived.push(change);
                continue;
            };
            self.arriving.push((change, loc));
            if group.last {
                for (change, loc) in std::mem::take(&mut self.arriving) {
                    self.publish(&change, loc);
                    arrived.push(change);
                }
            }
        }
        self.log.let_leave();
        if plan.last_pos == 0 {
            return;
        }
        for change in arrived {
            let marker = (change.kind == Kind::Marker).then_some(change.hash);
            drop(change);
            if let Some(hash) = marker {
                self.shared.index.discard_if_vacant(&hash);
            }
        }
        // Last: who is woken finds the index as it is, and no cell in the committer's hand.
        self.shared.durable.advance(plan.last_pos);
        self.shared.queue.written(plan.weight);
    }

    fn publish(&self, change: &Change, loc: Loc) {
        let loc = if change.kind == Kind::Marker {
            Loc::NONE
        } else {
            loc
        };
        self.log.replaced(change.cell.set_home(loc), loc);
        if loc != Loc::NONE {
            self.shared.expiry.note(change.forgotten_at_us, loc.block());
        }
    }

    pub(super) fn publish_copy(&self, copy: &Copy, to: Loc) {
        if self.shared.index.moved(&copy.head.hash, copy.from, to) {
            self.log.replaced(copy.from, to);
            self.shared
                .expiry
                .note(copy.head.forgotten_at_us, to.block());
        }
    }
}
