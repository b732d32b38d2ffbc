//! Forks with a store that is shared: the children use the handle that they inherited.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use semel::{Claim, Request, Store, Ticket};

use super::Ended;
use super::fork::{in_fork, work};

/// How many children try everything while the parent's threads work.
const CHILDREN: usize = 12;
/// How many children live on without their parent.
const ORPHANS: usize = 4;

/// One line: `children N` when all went well.
pub(super) fn play(place: &str) -> Ended {
    let store = Store::open(place)?;
    let busy = AtomicBool::new(true);
    let checked: Result<(), String> = thread::scope(|scope| {
        for worker in 0..2 {
            let (store, busy) = (&store, &busy);
            scope.spawn(move || work(store, worker, busy));
        }
        let checked = (0..CHILDREN).try_for_each(|child| one_child(&store, child));
        busy.store(false, Ordering::SeqCst);
        checked
    });
    checked?;
    one_child(&store, CHILDREN)?;
    println!("children {CHILDREN}");
    Ok(())
}

fn one_child(store: &Store, child: usize) -> Result<(), String> {
    let claim = store.claim(&Request::new("forked", format!("held-{child}")));
    let Ok(Claim::Execute(ticket)) = claim else {
        return Err(format!("the parent cannot claim before fork {child}"));
    };
    in_fork(|| {
        // SAFETY: in the child the originals are neither used nor dropped: these are the inherited handles themselves.
        let (store, ticket) = unsafe { (std::ptr::read(store), std::ptr::read(&raw const ticket)) };
        in_child(store, ticket, child)
    })?;
    ticket
        .complete("held")
        .map_err(|e| format!("the parent's ticket after fork {child}: {e}"))
}

fn in_child(store: Store, ticket: Ticket, child: usize) -> Result<(), String> {
    let told = |e: semel::Error| format!("{e:?}");
    let mine = Request::new("forked", format!("child-{child}"));
    let Claim::Execute(own) = store.claim(&mine).map_err(told)? else {
        return Err("a child cannot claim".into());
    };
    own.complete(&child).map_err(told)?;
    let theirs = Request::new("forked", format!("held-{child}"));
    let claim = store.claim(&theirs).map_err(told)?;
    if claim.name() != "busy" {
        return Err(format!("what the parent runs was {}", claim.name()));
    }
    // A copy of a ticket ends nothing by being dropped.
    drop(ticket);
    if store.claim(&theirs).map_err(told)?.name() != "busy" {
        return Err("the parent's ticket went with its copy".into());
    }
    let first = store.ids().segment("numbers").map_err(told)?;
    let second = store.ids().segment("numbers").map_err(told)?;
    if second <= first || store.stats().records == 0 {
        return Err("a child reserves no numbers of its own".into());
    }
    // Another handle at the same store, and a child of the child.
    let again =
        Store::open(format!("{store:?}").split('"').nth(1).unwrap_or_default()).map_err(told)?;
    again.sync().map_err(told)?;
    in_fork(|| match store.claim(&mine).map_err(told)? {
        Claim::Replay(_) => Ok(()),
        other => Err(format!("a grandchild was told {}", other.name())),
    })?;
    store.close().map_err(told)
}

/// One line, `working`; then it waits to be killed. Each child that finds itself without a parent claims once more, and
/// writes down what it was told.
pub(super) fn orphans(place: &str, told: &Path) -> Ended {
    let store = Store::open(place)?;
    // SAFETY: getpid has no conditions.
    let parent = unsafe { libc::getpid() };
    for child in 0..ORPHANS {
        // SAFETY: the child runs Rust code after the fork of a process with threads; glibc keeps its allocator usable there.
        if unsafe { libc::fork() } == 0 {
            let status = match orphan(&store, parent, child, told) {
                Ok(()) => 0,
                Err(error) => {
                    let _ = tell(told, &error.to_string());
                    1
                }
            };
            // SAFETY: ends the child without running what belongs to the parent.
            unsafe { libc::_exit(status) }
        }
    }
    thread::sleep(Duration::from_millis(200));
    println!("working");
    thread::sleep(Duration::from_secs(60));
    Ok(())
}

fn orphan(store: &Store, parent: i32, child: usize, told: &Path) -> Ended {
    let request = Request::new("forked", format!("orphan-{child}"));
    let Claim::Execute(ticket) = store.claim(&request)? else {
        return Err("the first claim".into());
    };
    // SAFETY: getppid has no conditions.
    while unsafe { libc::getppid() } == parent {
        thread::sleep(Duration::from_millis(5));
    }
    ticket.complete(&child)?;
    Ok(tell(told, "served by the next owner")?)
}

fn tell(file: &Path, line: &str) -> std::io::Result<()> {
    let mut file = OpenOptions::new().append(true).create(true).open(file)?;
    file.write_all(format!("{line}\n").as_bytes())
}
