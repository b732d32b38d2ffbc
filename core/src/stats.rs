//! What is measured for the user, by operation. Keys never appear here.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use crate::histogram::{Histogram, Recorder};
use crate::lifecycle::Answer;

/// How many operations are counted by name; what comes after is counted together.
pub const MAX_OPERATIONS: usize = 256;
/// The name under which the operations beyond [`MAX_OPERATIONS`] are counted.
pub const OTHER_OPERATIONS: &str = "(other)";

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of one operation, as they count.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            pub(crate) name: String,
            $($name: AtomicU64,)*
            claim_times: Recorder,
            work_times: Recorder,
        }

        /// What was counted of one operation since the store was opened.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct OperationStats {
            $($(#[$doc])* pub $name: u64,)*
            /// Operations that somebody must resolve now.
            pub unresolved: u64,
            /// How long claims took; one in eight is timed.
            pub claim: Histogram,
            /// How long the work took, from claim to end.
            pub work: Histogram,
        }

        impl Counters {
            pub(crate) fn snapshot(&self) -> OperationStats {
                OperationStats {
                    $($name: self.$name.load(Ordering::Relaxed),)*
                    unresolved: 0,
                    claim: self.claim_times.snapshot(),
                    work: self.work_times.snapshot(),
                }
            }
        }

        impl OperationStats {
            /// Names and values of all counters, and of `unresolved`.
            pub fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$((stringify!($name), self.$name),)* ("unresolved", self.unresolved)].into_iter()
            }

            fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)*
                self.unresolved += other.unresolved;
            }
        }
    };
}

counters! {
    /// Claims, whatever their answer.
    claims,
    /// Claims that were told to run the operation.
    executed,
    /// Claims that got the kept result.
    replayed,
    /// Claims that got the kept error.
    failed,
    /// Claims that found the operation running.
    busy,
    /// Claims of a key that belongs to another request.
    mismatch,
    /// Claims of an operation whose effect is unknown.
    in_doubt,
    /// Claims of an operation whose result is no longer kept.
    gone,
    /// Claims whose payload came under another id before.
    twins,
    /// Executions of an operation that had been attempted before.
    reexecuted,
    /// Executions after an attempt that ended with unknown effect.
    takeovers,
    /// Completions by holders whose lease was over, or who had been replaced. Its right value is 0.
    possible_double_effects,
    /// Tickets that lost their key.
    lost_leases,
    /// Results that were too large, or could not be encoded, and were not kept.
    results_not_kept,
    /// Records that were swept.
    swept,
}

impl OperationStats {
    /// Claims kept from running, as a part of all claims; 0 when there were none.
    pub fn interception_rate(&self) -> f64 {
        rate(self.claims.saturating_sub(self.executed), self.claims)
    }

    /// Claims that found a record, as a part of all claims; 0 when there were none.
    pub fn hit_rate(&self) -> f64 {
        rate(
            self.replayed
                + self.failed
                + self.busy
                + self.mismatch
                + self.in_doubt
                + self.gone
                + self.reexecuted,
            self.claims,
        )
    }
}

fn rate(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

/// What is known of a store at one moment.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Records and rows that are stored.
    pub records: u64,
    /// Operations that somebody must resolve; of the 100,000 attempts whose leases ended first, when there are more.
    pub unresolved: u64,
    /// Since when the oldest of them is in doubt: microseconds since the Unix epoch.
    pub oldest_unresolved_us: Option<u64>,
    /// Records that were swept since the store was opened.
    pub swept: u64,
    /// Changes on their way to the disk, in bytes.
    pub queued_bytes: usize,
    /// The log, in bytes of its blocks.
    pub log_bytes: u64,
    /// What of it is the newest of its key, in bytes.
    pub live_bytes: u64,
    /// Reads of a record that had to go to the log.
    pub cold_reads: u64,
    /// Batches written, each with one sync.
    pub commits: u64,
    /// How long the batches took.
    pub commit: Histogram,
    /// Topics of the outbox that are blocked by a message which could not be sent, and how often it was tried. Of the first
    /// 256 topics in which messages wait.
    pub blocked_topics: BTreeMap<String, u32>,
    /// By operation.
    pub operations: BTreeMap<String, OperationStats>,
}

impl Stats {
    /// All operations together, without their histograms.
    pub fn totals(&self) -> OperationStats {
        let mut totals = OperationStats::default();
        self.operations
            .values()
            .for_each(|operation| totals.add(operation));
        totals
    }
}

impl Counters {
    fn named(name: &str) -> Arc<Self> {
        Arc::new(Self {
            name: name.to_owned(),
            ..Self::default()
        })
    }

    /// Counts the answer to a claim, given for this attempt of its operation.
    pub(crate) fn answered(&self, answer: &Answer, attempt: u32) {
        self.claims.fetch_add(1, Ordering::Relaxed);
        let word = match answer {
            Answer::Execute { takeover } => {
                if attempt > 1 {
                    self.reexecuted.fetch_add(1, Ordering::Relaxed);
                }
                if *takeover {
                    self.takeovers.fetch_add(1, Ordering::Relaxed);
                }
                (&self.executed, "execute")
            }
            Answer::Replay(_) => (&self.replayed, "replay"),
            Answer::Failed(_) => (&self.failed, "failed"),
            Answer::Busy { .. } => (&self.busy, "busy"),
            Answer::Mismatch { .. } => (&self.mismatch, "mismatch"),
            Answer::InDoubt { .. } | Answer::Ask { .. } => (&self.in_doubt, "in_doubt"),
            Answer::Gone => (&self.gone, "gone"),
            _ => return,
        };
        word.0.fetch_add(1, Ordering::Relaxed);
        self.tell("semel_claims_total", word.1);
    }

    /// Counts a claim whose answer was the kept result.
    pub(crate) fn replayed_at_a_glance(&self) {
        self.claims.fetch_add(1, Ordering::Relaxed);
        self.replayed.fetch_add(1, Ordering::Relaxed);
        self.tell("semel_claims_total", "replay");
    }

    /// Counts a claim that was refused as a twin.
    pub(crate) fn refused_twin(&self) {
        self.claims.fetch_add(1, Ordering::Relaxed);
        self.tell("semel_claims_total", "twin");
    }

    pub(crate) fn twin(&self) {
        self.twins.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn claim_took(&self, took: Duration) {
        self.claim_times.record(took);
    }

    /// Counts the end of an attempt.
    pub(crate) fn finished(&self, work_us: u64, late: bool) {
        self.work_times.record(Duration::from_micros(work_us));
        if late {
            self.possible_double_effects.fetch_add(1, Ordering::Relaxed);
            self.tell("semel_possible_double_effects_total", "");
            #[cfg(feature = "tracing")]
            tracing::warn!(target: "semel", operation = %self.name, "an operation was completed by a holder whose lease was over");
        }
    }

    pub(crate) fn lost_lease(&self) {
        self.lost_leases.fetch_add(1, Ordering::Relaxed);
        self.tell("semel_lost_leases_total", "");
        #[cfg(feature = "tracing")]
        tracing::warn!(target: "semel", operation = %self.name, "a ticket has lost its key");
    }

    /// A result could not be kept; the operation counts as executed all the same.
    pub(crate) fn result_not_kept(&self, why: &str) {
        self.results_not_kept.fetch_add(1, Ordering::Relaxed);
        self.tell("semel_results_not_kept_total", "");
        #[cfg(feature = "tracing")]
        tracing::warn!(target: "semel", operation = %self.name, why, "a result was not kept; repeats will be answered gone");
        let _ = why;
    }

    #[cfg(feature = "metrics")]
    fn tell(&self, counter: &'static str, answer: &'static str) {
        match answer {
            "" => metrics::counter!(counter, "operation" => self.name.clone()).increment(1),
            answer => {
                metrics::counter!(counter, "operation" => self.name.clone(), "answer" => answer)
                    .increment(1)
            }
        }
    }

    #[cfg(not(feature = "metrics"))]
    fn tell(&self, _: &'static str, _: &'static str) {}
}

/// The counters of a store.
pub(crate) struct Book {
    /// Distinguishes this book in what a thread remembers.
    number: u64,
    /// No map of dashmap's: in a forked child its locks may have waiters that are not there.
    operations: RwLock<BTreeMap<String, Arc<Counters>>>,
}

thread_local! {
    /// The counters that this thread used last: most threads call one operation again and again.
    static LAST: std::cell::RefCell<Option<(u64, Arc<Counters>)>> = const { std::cell::RefCell::new(None) };
    static CALLS: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// One claim in so many is timed.
const TIMED_EVERY: u32 = 8;

/// Whether this claim is one that is timed.
pub(crate) fn is_timed() -> bool {
    CALLS.with(|calls| {
        calls.set(calls.get().wrapping_add(1));
        calls.get().is_multiple_of(TIMED_EVERY)
    })
}

impl Book {
    pub(crate) fn new() -> Self {
        Self {
            number: crate::nonce::fresh(),
            operations: RwLock::default(),
        }
    }

    /// The counters of an operation.
    pub(crate) fn of(&self, operation: &str) -> Arc<Counters> {
        let known = LAST.try_with(|last| {
            let last = &mut *last.borrow_mut();
            if let Some((number, counters)) = last
                && *number == self.number
                && counters.name == operation
            {
                return Arc::clone(counters);
            }
            let counters = self.find(operation);
            *last = Some((self.number, Arc::clone(&counters)));
            counters
        });
        // A thread that ends remembers nothing any more.
        known.unwrap_or_else(|_| self.find(operation))
    }

    fn find(&self, operation: &str) -> Arc<Counters> {
        let known = self.operations.read().unwrap_or_else(|e| e.into_inner());
        if let Some(counters) = known.get(operation) {
            return Arc::clone(counters);
        }
        drop(known);
        let mut known = self.operations.write().unwrap_or_else(|e| e.into_inner());
        let name = match known.len() < MAX_OPERATIONS || known.contains_key(operation) {
            true => operation,
            false => OTHER_OPERATIONS,
        };
        let counters = known.entry(name.to_owned());
        Arc::clone(counters.or_insert_with(|| Counters::named(name)))
    }

    pub(crate) fn snapshot(
        &self,
        swept: &BTreeMap<String, u64>,
        unresolved: &BTreeMap<&str, u64>,
    ) -> BTreeMap<String, OperationStats> {
        let known = self.operations.read().unwrap_or_else(|e| e.into_inner());
        let mut operations: BTreeMap<String, OperationStats> = known
            .iter()
            .map(|(name, counters)| (name.clone(), counters.snapshot()))
            .collect();
        for (operation, count) in swept {
            operations.entry(operation.clone()).or_default().swept = *count;
        }
        for (operation, count) in unresolved {
            let known = operations.contains_key(*operation) || operations.len() < MAX_OPERATIONS;
            let name = if known { operation } else { OTHER_OPERATIONS };
            operations.entry(name.to_owned()).or_default().unresolved += count;
        }
        operations
    }
}
