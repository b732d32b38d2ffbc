//! Forks while its store is busy, and checks in the children what they may do with what they inherited.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use semel::{Claim, ErrorKind, Identity, Request, Resolution, Shared, Store, Ticket};

use super::Ended;

/// How many children try everything while the parent's threads work.
const CHILDREN: usize = 25;
/// How long a child may take, in steps of 10 ms, before it counts as hung.
const PATIENCE: usize = 1_500;

/// Lines: `children N` when all went well, then `orphan PID`; then it ends without closing, and the orphan lives on.
pub(super) fn play(place: &str, other: &str) -> Ended {
    // Before the first store is opened, a fork costs nothing.
    in_fork(|| may_use(&format!("{other}-early")))?;
    let store = Store::builder(place).shared(Shared::Never).open()?;
    let busy = AtomicBool::new(true);
    let checked: Result<(), String> = thread::scope(|scope| {
        for worker in 0..3 {
            let (store, busy) = (&store, &busy);
            scope.spawn(move || work(store, worker, busy));
        }
        let checked = (0..CHILDREN).try_for_each(|child| one_child(&store, other, child));
        busy.store(false, Ordering::SeqCst);
        checked
    });
    checked?;
    // With nobody else, the child drops the last handle of the store.
    one_child(&store, other, CHILDREN)?;
    let Claim::Execute(ticket) = store.claim(&Request::new("fork", "after"))? else {
        return Err("the parent cannot claim any more".into());
    };
    ticket.complete("after")?;
    println!("children {CHILDREN}");
    // SAFETY: the child calls async-signal-safe functions only.
    let orphan = unsafe { libc::fork() };
    if orphan == 0 {
        // SAFETY: as above.
        unsafe {
            libc::sleep(60);
            libc::_exit(0)
        }
    }
    println!("orphan {orphan}");
    // SAFETY: ends the process at once, as a kill would.
    unsafe { libc::_exit(0) }
}

pub(super) fn work(store: &Store, worker: usize, busy: &AtomicBool) {
    for index in 0.. {
        if !busy.load(Ordering::SeqCst) {
            return;
        }
        let key = format!("busy-{worker}-{index}");
        if let Ok(Claim::Execute(ticket)) = store.claim(&Request::new("fork", key)) {
            let _ = ticket.complete("done");
        }
    }
}

fn one_child(store: &Store, other: &str, child: usize) -> Result<(), String> {
    let claim = store.claim(&Request::new("fork", format!("held-{child}")));
    let Ok(Claim::Execute(ticket)) = claim else {
        return Err(format!("the parent cannot claim before fork {child}"));
    };
    in_fork(|| {
        // SAFETY: in the child the originals are neither used nor dropped: these are the inherited handles themselves.
        let (store, ticket) = unsafe { (std::ptr::read(store), std::ptr::read(&raw const ticket)) };
        in_child(store, ticket, &format!("{other}-{child}"))
    })?;
    ticket
        .complete("held")
        .map_err(|e| format!("the parent's ticket after fork {child}: {e}"))
}

/// Does something in a forked child, and waits for it.
pub(super) fn in_fork(work: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    // SAFETY: the child runs Rust code after the fork of a process with threads; glibc keeps its allocator usable there.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let status = match work() {
            Ok(()) => 0,
            Err(what) => {
                eprintln!("in a child: {what}");
                1
            }
        };
        // SAFETY: ends the child without running what belongs to the parent.
        unsafe { libc::_exit(status) }
    }
    wait_for(pid)
}

fn wait_for(pid: i32) -> Result<(), String> {
    let mut status = 0;
    for _ in 0..PATIENCE {
        // SAFETY: `status` is a valid place for the child's status.
        if unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG) } == pid {
            return match status {
                0 => Ok(()),
                status => Err(format!("a child ended with {status:#x}")),
            };
        }
        thread::sleep(Duration::from_millis(10));
    }
    // SAFETY: the child was started here and not waited for yet.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    Err("a child hung".into())
}

fn in_child(store: Store, ticket: Ticket, other: &str) -> Result<(), String> {
    let request = Request::new("fork", "child");
    let identity = Identity::new("fork", "child");
    refused("claim", store.claim(&request))?;
    refused(
        "run",
        store
            .run(&request, |_| Ok::<_, semel::Error>(1))
            .map_err(|error| match error {
                semel::RunError::Store(error) => error,
                other => semel::Error::new(ErrorKind::Corrupt, other.to_string()),
            }),
    )?;
    refused("lookup", store.lookup(&identity))?;
    refused("forget", store.forget(&identity))?;
    refused("resolve", store.resolve(&identity, Resolution::Executed))?;
    refused("unresolved", store.unresolved(1))?;
    refused(
        "list",
        store
            .list()
            .next()
            .unwrap_or_else(|| Err(semel::Error::new(ErrorKind::Corrupt, "an empty list"))),
    )?;
    refused("sweep", store.sweep())?;
    refused("sync", store.sync())?;
    refused("verify", store.verify())?;
    refused("backup", store.backup(format!("{other}.backup")))?;
    refused("complete", ticket.complete("child"))?;
    refused("fail", ticket.fail(semel::Failure::new("child", "")))?;
    refused("release", ticket.release())?;
    refused("renew", ticket.renew())?;
    refused("doubt", ticket.doubt("child"))?;
    refused(
        "transaction",
        store.transaction(|_| Ok::<_, semel::Error>(())),
    )?;
    refused("segment", store.ids().segment("numbers"))?;
    if store.stats().records != 0 || !store.metrics().contains("semel_records 0") {
        return Err("a child counts what is its parent's".into());
    }
    refused("close", store.close())?;
    drop(ticket);
    drop(store);
    // The threads that serve stores stayed in the parent: that is said, not waited for.
    refused("another store", Store::open(other))?;
    refused("a store in memory", Store::open("memory:"))
}

/// Whether a store works in this process.
fn may_use(place: &str) -> Result<(), String> {
    let store = Store::open(place).map_err(|e| format!("{place}: {e}"))?;
    match store.claim(&Request::new("fork", "mine")) {
        Ok(Claim::Execute(ticket)) => ticket.complete("mine").map_err(|e| e.to_string())?,
        other => return Err(format!("{place}: a claim of its own: {other:?}")),
    }
    store.close().map_err(|e| format!("{place}: {e}"))
}

fn refused<T>(verb: &str, answer: semel::Result<T>) -> Result<(), String> {
    match answer {
        Err(error) if error.kind() == ErrorKind::ForkedProcess => Ok(()),
        Err(error) => Err(format!("{verb} answered {error:?}")),
        Ok(_) => Err(format!("{verb} did not refuse")),
    }
}
