//! Opening and closing: the directory is held, the log is read, the threads start; and all of it backwards.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::committer::{Committer, STAMP_SLACK_US};
use super::company::{Company, Tenancy};
use super::directory::{Directory, Identity};
use super::disk::Disk;
use super::durable::Durable;
use super::expiry::ExpiryIndex;
use super::files::settled;
use super::index::Index;
use super::log::Log;
use super::opening::{self, Findings};
use super::queue::Queue;
use super::stamps::Stamps;
use super::upkeep::Upkeep;
use super::watchlist::Watchlist;
use super::watermark::{Mark, Watermark};
use super::{Local, Options, Running, Shared};
use crate::backend::wait;
use crate::codec::BlockReader;
use crate::error::{Error, ErrorKind, Result};
use crate::fork::Origin;
use crate::histogram::Recorder;
use crate::nonce;
use crate::time::{Clock, StoreClock, after};
use crate::timer::Timers;

/// A wall clock this far past the last time on disk is taken for a wrong one.
const LEAP_US: u64 = 366 * 24 * 3600 * 1_000_000;

impl Local {
    /// A store that keeps nothing beyond this process.
    pub(crate) fn in_memory(options: Options, clock: Clock) -> Result<Self> {
        crate::fork::check_home()?;
        crate::fork::settle();
        let clock = StoreClock::anchored(clock, 0);
        let identity = Identity::new()?;
        let index = Index::new(i64::MAX as usize);
        let shared = shared(
            options,
            clock,
            &identity,
            index,
            ExpiryIndex::new(),
            None,
            &Findings::default(),
            (nonce::random(), None),
        );
        let running = match shared.options.sweep_interval {
            Some(_) => Some(Running {
                committer: None,
                upkeep: Some(Upkeep::start(&shared, None)?),
                directory: None,
            }),
            None => None,
        };
        Ok(local(shared, running, identity, 0))
    }

    /// Opens the store in a directory, made if there is none.
    pub(crate) fn open(
        path: &Path,
        options: Options,
        clock: Clock,
        tenancy: Tenancy<'_>,
    ) -> Result<Self> {
        crate::fork::check_home()?;
        let mut directory = Directory::hold(path, options.lock_timeout)?;
        crate::fork::settle();
        let company = tenancy.invite.and_then(|invite| invite(path));
        let identity = match directory.identity()? {
            Some(identity) => identity,
            None => {
                let identity = Identity::new()?;
                directory.establish(&identity)?;
                identity
            }
        };
        let (mut watermark, mark) = match Watermark::open(path) {
            Ok((watermark, mark)) => (Some(watermark), mark),
            Err(error) if options.accept_rollback && error.kind() == ErrorKind::Corrupt => {
                Watermark::remove(path)?;
                let (watermark, mark) = Watermark::open(path)?;
                (Some(watermark), mark)
            }
            Err(error) => return Err(error),
        };
        let of_this_life = |mark: &Mark| mark.epoch == identity.epoch;
        let marked_swept_us = mark
            .filter(of_this_life)
            .map_or(0, |mark| mark.swept_until_us);
        let disk = Disk::open(&directory.log(), (options.cache_bytes / 2) as u64)?;
        let index = Index::new(options.cache_bytes / 2);
        let expiry = ExpiryIndex::new();
        let mut found = opening::scan(&disk, &index, &expiry, marked_swept_us)?;
        check_epoch(&found.ends, &identity, path)?;
        check_marked(&found.ends, mark, &options, path)?;
        check_whole(&disk, &found.ends, mark, &options, path)?;
        let marked_us = mark.map_or(0, |mark| mark.time_us);
        let seen_us = found.highest_time_us.max(marked_us);
        let leaps = leaps(&clock, seen_us);
        check_clock(leaps, &options)?;
        let clock = StoreClock::anchored(clock, seen_us.max(tenancy.not_before_us));
        // Accepted once, it is the time of the store from now on.
        found.ends.time_us = match leaps {
            Some(_) => clock.now_us(),
            None => seen_us,
        };
        // A log that was cut back has lost stamps that were given.
        found.stamp_floor = found.stamp_floor.max(after(marked_us, STAMP_SLACK_US));
        if let Some(watermark) = &mut watermark {
            if leaps.is_some() || mark.is_none_or(|mark| !covers(&found.ends, &mark)) {
                watermark.write(Mark {
                    time_us: clock.now_us(),
                    swept_until_us: found.swept_until_us,
                    epoch: identity.epoch,
                    ..found.ends
                })?;
            }
            watermark.settle(path)?;
        }
        let log = Arc::new(Log::new(
            disk,
            found.ends,
            found.swept_until_us,
            found.live_bytes,
        ));
        let shared = shared(
            options,
            clock,
            &identity,
            index,
            expiry,
            Some(Arc::clone(&log)),
            &found,
            (tenancy.session, company),
        );
        for (hash, since_us) in &found.open {
            shared.watchlist.change(hash, None, Some(*since_us));
        }
        for (hash, loc) in &found.ordered {
            let (key, content) = shared.read_at_home(hash, || *loc)?;
            let place = super::ordered::place(content.as_ref());
            shared.ordered.change(&key, *hash, 0, place);
        }
        // What the scan has read and let go is as large as the log.
        super::memory::give_back();
        let committer = Committer::new(Arc::clone(&shared), Arc::clone(&log), identity.epoch);
        let thread = std::thread::Builder::new()
            .name("semel-commit".into())
            .spawn(move || committer.run());
        let thread = thread.map_err(|e| {
            Error::unavailable(format!("the committer's thread could not be started: {e}"))
        })?;
        directory.say("open")?;
        let predecessor = directory.predecessor();
        let running = Running {
            committer: Some(thread),
            upkeep: None,
            directory: Some(directory),
        };
        // From here on, what fails closes the store in passing.
        let local = local(shared, Some(running), identity, predecessor);
        let upkeep = Upkeep::start(&local.shared, watermark)?;
        if let Some(running) = &mut *local.running.lock() {
            running.upkeep = Some(upkeep);
        }
        Ok(local)
    }

    /// Says that the store is being closed: others that open it wait for a holder that says this.
    #[cfg_attr(not(unix), expect(dead_code))]
    pub(crate) fn say_closing(&self) {
        if let Some(running) = &mut *self.running.lock()
            && let Some(directory) = &mut running.directory
        {
            let _ = directory.say("closing");
        }
    }

    /// Takes no more claims, writes what is queued, and lets go of the store. Tickets that still run are left to their
    /// leases.
    pub(super) fn shut(&self) -> Result<()> {
        if self.origin.is_foreign() {
            return Ok(());
        }
        let running = self.running.lock().take();
        let Some(mut running) = running else {
            if self.shared.log.is_none() {
                self.shared.end_waiting();
            }
            return Ok(());
        };
        if let Some(directory) = &mut running.directory {
            // Others that open the store wait for a holder that says this.
            let _ = directory.say("closing");
        }
        self.shared.queue.close();
        self.shared.join_committer(running.committer.take());
        let fault = self.shared.durable.check().err();
        self.shared.end_waiting();
        if let Some(upkeep) = running.upkeep.take() {
            upkeep.stop(fault.is_none());
        }
        self.shared.alarms.close();
        match fault.or_else(|| self.shared.durable.check().err()) {
            None => {
                if let Some(directory) = &mut running.directory {
                    directory.leave(self.shared.session);
                }
                Ok(())
            }
            Some(fault) => Err(fault),
        }
    }
}

impl Shared {
    /// Waits until all is written, unless this is the thread that writes, or the disk does not answer any more.
    fn join_committer(&self, thread: Option<std::thread::JoinHandle<()>>) {
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
            && wait(self.durable.ended())
        {
            let _ = thread.join();
        }
    }

    /// No call is taken from here on, and who waits for a key is told to look again, and finds that out.
    fn end_waiting(&self) {
        self.closed.store(true, Ordering::Release);
        self.queue.call_waiting();
        self.timers.close();
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        if self.origin.is_foreign() {
            // The memory stays: threads that exist in the parent alone are still in line for its locks, and whatever is put
            // in its place would inherit that line.
            std::mem::forget(Arc::clone(&self.shared));
            std::mem::forget(self.running.get_mut().take());
            return;
        }
        // What cannot be written any more was never acknowledged as durable.
        let _ = self.shut();
    }
}

fn local(
    shared: Arc<Shared>,
    running: Option<Running>,
    identity: Identity,
    predecessor: u64,
) -> Local {
    Local {
        shared,
        origin: Origin::here(),
        running: Mutex::new(running),
        identity,
        predecessor,
    }
}

#[allow(clippy::too_many_arguments)]
fn shared(
    mut options: Options,
    clock: StoreClock,
    identity: &Identity,
    index: Index,
    expiry: ExpiryIndex<u64>,
    log: Option<Arc<Log>>,
    found: &Findings,
    (session, company): (u64, Option<Arc<dyn Company>>),
) -> Arc<Shared> {
    let secret = |at: usize| {
        u64::from_le_bytes(
            identity.hash_secret[at..at + 8]
                .try_into()
                .unwrap_or_default(),
        )
    };
    options.archive = options.archive.as_deref().map(settled);
    let alarm_clock = StoreClock::anchored(Clock::system(), 0);
    Arc::new(Shared {
        origin: Origin::here(),
        timers: Timers::new(clock.clone()),
        alarms: Arc::new(Timers::new(alarm_clock.clone())),
        stamps: Stamps::above(found.stamp_floor.max(found.highest_stamp)),
        queue: Queue::new(found.last_pos),
        durable: Durable::at(found.last_pos),
        options,
        clock,
        alarm_clock,
        session,
        company,
        hash_secret: (secret(0), secret(8)),
        index,
        watchlist: Watchlist::new(),
        ordered: Default::default(),
        expiry,
        unlogged_expiry: ExpiryIndex::new(),
        log,
        next_waiter: AtomicU64::new(1),
        swept: AtomicU64::new(0),
        swept_by_operation: Mutex::default(),
        sweeping: Mutex::new(false),
        commits: AtomicU64::new(0),
        commit_times: Recorder::default(),
        closed: AtomicBool::new(false),
    })
}

fn check_epoch(ends: &Mark, identity: &Identity, path: &Path) -> Result<()> {
    match ends.head == 0 || ends.epoch == identity.epoch {
        true => Ok(()),
        false => Err(Error::corrupt(format!(
            "the log in {} belongs to another store; put back the files that belong together",
            path.display()
        ))),
    }
}

/// Whether the log reaches the mark, and has there what the mark says.
fn covers(ends: &Mark, mark: &Mark) -> bool {
    ends.head >= mark.head
}

/// Refuses a log without a mark beside it: nothing would tell it from one that was cut back.
fn check_marked(ends: &Mark, mark: Option<Mark>, options: &Options, path: &Path) -> Result<()> {
    match ends.head == 0 || mark.is_some() || options.accept_rollback {
        true => Ok(()),
        false => Err(Error::corrupt(format!(
            "the watermark of the store in {} is missing, so that a log that was cut back could not be told from a whole one; put it back, restore a backup with `semel restore`, or, if you know that the log was not cut, open the store once with accept_rollback (`semel verify --accept-rollback`)",
            path.display()
        ))),
    }
}

/// Refuses a log that is shorter than it was, or another one.
fn check_whole(
    disk: &Disk,
    ends: &Mark,
    mark: Option<Mark>,
    options: &Options,
    path: &Path,
) -> Result<()> {
    let Some(mark) = mark.filter(|mark| mark.head > 0 && !options.accept_rollback) else {
        return Ok(());
    };
    let refuse = |what: &str| {
        Err(Error::corrupt(format!(
            "the log in {} {what}: operations that were acknowledged are missing and would run again. Restore a backup with `semel restore`, or, if you know which they are, open the store once with accept_rollback (`semel verify --accept-rollback`)",
            path.display()
        )))
    };
    if !covers(ends, &mark) {
        return refuse(&format!(
            "ends at block {}, but it had got to block {}",
            ends.head, mark.head
        ));
    }
    if mark.head >= ends.tail {
        let same = match disk.read(mark.head)? {
            Some(block) => BlockReader::open(mark.head, &block)?.check == mark.check,
            None => false,
        };
        if !same {
            return refuse(&format!(
                "has another block {} than the one that was written",
                mark.head
            ));
        }
    }
    Ok(())
}

/// How far the wall clock is past the last time on disk, when that is further than a clock can be trusted.
fn leaps(clock: &Clock, seen_us: u64) -> Option<u64> {
    let wall_us = clock.read().wall_us;
    (seen_us != 0 && wall_us > after(seen_us, LEAP_US)).then(|| wall_us - seen_us)
}

fn check_clock(leaps: Option<u64>, options: &Options) -> Result<()> {
    let Some(leap_us) = leaps.filter(|_| !options.accept_clock) else {
        return Ok(());
    };
    Err(Error::unavailable(format!(
        "the clock of this machine is {} days past the last time this store was written: if it is wrong, set it; if it is right, open the store once with accept_clock, or `semel verify --accept-clock` (everything whose time is over is forgotten then)",
        leap_us / (24 * 3600 * 1_000_000)
    )))
}
