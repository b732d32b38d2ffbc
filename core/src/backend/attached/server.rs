//! Serves the other processes: one thread that lets them in, and one for each connection, as many as there may be.

use std::collections::HashMap;
use std::io;
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use super::bell::{Bell, CALL};
use super::frame::{Head, Kind, Reply};
use super::serving::Serving;
use super::socket;
use super::wire::{Allowance, Wire};
use crate::backend::Turn;
use crate::backend::local::Local;
use crate::nonce;
use crate::time::{Stopwatch, micros};

/// How many connections are served at a time.
pub(super) const MAX_CONNECTIONS: usize = 1024;
/// How many of them one process may have.
pub(super) const MAX_CONNECTIONS_OF_ONE: usize = 256;
/// How many connections may belong to callers that wait, so that there are some for those whom they wait for.
const MAX_WAITING: usize = MAX_CONNECTIONS / 4 * 3;
/// A connection over which nothing was asked for so long is hung up at when another process needs one: who is hung up at
/// connects again.
const IDLE: Duration = Duration::from_millis(500);
/// How many turns of promoted waiters are kept until they are used.
const MAX_TURNS: usize = 4096;
/// What frames that are long may take together, in bytes.
const ALLOWANCE_BYTES: usize = 128 << 20;
/// How long another process may take over a frame that it has begun, and to take its answer.
const FRAME_PATIENCE: Duration = Duration::from_secs(5);
/// How long a closing owner waits for calls that it is at.
const LEAVING_PATIENCE: Duration = Duration::from_secs(2);
/// The stack of a thread that serves a connection: what it does is shallow.
const STACK_BYTES: usize = 1 << 20;

/// The threads that serve.
pub(super) struct Server {
    house: Arc<House>,
    porter: JoinHandle<()>,
}

/// What they share.
pub(super) struct House {
    pub(super) local: Arc<Local>,
    /// Of this ownership: no two owners have the same.
    pub(super) reign: u64,
    opened: Stopwatch,
    bell: Bell,
    stopping: AtomicBool,
    /// How many callers wait.
    waiting: AtomicUsize,
    guests: Mutex<Guests>,
    left: Condvar,
    turns: Mutex<HashMap<u64, (u64, Turn)>>,
    allowance: Arc<Allowance>,
}

#[derive(Default)]
struct Guests {
    next_number: u64,
    /// By number.
    connections: HashMap<u64, Guest>,
    /// How many connections each session has.
    sessions: HashMap<u64, usize>,
}

/// One connection, as the door knows it.
struct Guest {
    /// Who it is, as far as the system says.
    pid: i32,
    stream: Arc<UnixStream>,
    idle: Arc<Idle>,
}

/// Since when nothing is asked over a connection, in microseconds of the house; 0 while something is.
#[derive(Default)]
pub(super) struct Idle(AtomicU64);

impl Guests {
    /// Hangs up at a connection that nobody uses: of this process alone, when it is given.
    fn hang_up_idle(&mut self, of: Option<i32>, now_us: u64) -> bool {
        let since_us = |guest: &Guest| guest.idle.0.load(Ordering::Relaxed);
        let is_idle = |guest: &Guest| {
            since_us(guest) != 0 && now_us.saturating_sub(since_us(guest)) >= micros(IDLE)
        };
        let longest = self
            .connections
            .iter()
            .filter(|(_, guest)| of.is_none_or(|pid| pid == guest.pid) && is_idle(guest))
            .min_by_key(|(_, guest)| since_us(guest))
            .map(|(number, _)| *number);
        let Some(guest) = longest.and_then(|number| self.connections.remove(&number)) else {
            return false;
        };
        let _ = guest.stream.shutdown(Shutdown::Both);
        true
    }
}

impl Server {
    pub(super) fn start(listener: Arc<UnixListener>, local: Arc<Local>) -> io::Result<Self> {
        let house = Arc::new(House {
            // A process owns a store once in a session.
            reign: local.session(),
            local,
            opened: Stopwatch::start(),
            bell: Bell::new()?,
            stopping: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
            guests: Mutex::default(),
            left: Condvar::new(),
            turns: Mutex::default(),
            allowance: Arc::new(Allowance::of(ALLOWANCE_BYTES)),
        });
        let inside = Arc::clone(&house);
        let porter = Builder::new()
            .name("semel-door".into())
            .stack_size(STACK_BYTES)
            .spawn(move || inside.let_in(&listener))?;
        Ok(Self { house, porter })
    }

    /// Ends all connections, once the calls are answered that can be answered soon.
    pub(super) fn stop(self) {
        let house = &self.house;
        house.stopping.store(true, Ordering::SeqCst);
        house.bell.ring();
        let _ = self.porter.join();
        house.hang_up(Shutdown::Read);
        let leaving = Stopwatch::start();
        let mut guests = house.guests();
        while !guests.connections.is_empty() {
            let Some(left) = LEAVING_PATIENCE.checked_sub(leaving.elapsed()) else {
                break;
            };
            guests = match house.left.wait_timeout(guests, left) {
                Ok((guests, _)) => guests,
                Err(e) => e.into_inner().0,
            };
        }
        drop(guests);
        house.hang_up(Shutdown::Both);
        house.turns().clear();
    }
}

impl House {
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    fn guests(&self) -> MutexGuard<'_, Guests> {
        self.guests.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn turns(&self) -> MutexGuard<'_, HashMap<u64, (u64, Turn)>> {
        self.turns.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn hang_up(&self, how: Shutdown) {
        for guest in self.guests().connections.values() {
            let _ = guest.stream.shutdown(how);
        }
    }

    /// Lets others in until the store closes.
    fn let_in(self: &Arc<Self>, listener: &UnixListener) {
        while !self.is_stopping() {
            match listener.accept() {
                Ok((stream, _)) => self.receive(stream),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.bell
                        .wait(Some((listener, CALL)), Duration::from_secs(60));
                }
                // Out of descriptors, say: whoever waits at the door goes on waiting.
                Err(_) => {
                    let none: Option<(&UnixStream, _)> = None;
                    self.bell.wait(none, Duration::from_millis(20));
                }
            }
        }
    }

    /// Gives a connection a thread, if there is room, and the other end may have one.
    fn receive(self: &Arc<Self>, stream: UnixStream) {
        if !socket::is_trusted(&stream, None) || stream.set_nonblocking(false).is_err() {
            return;
        }
        let pid = socket::peer(&stream).map_or(0, |peer| peer.pid);
        let Ok(wire) = Wire::over(stream, FRAME_PATIENCE) else {
            return;
        };
        let wire = wire.within(&self.allowance);
        let Some((number, idle)) = self.enter(pid, &wire) else {
            if let Ok(full) = Head::frame(Kind::Answer, &Reply::Full) {
                let _ = wire.send(&full);
            }
            return;
        };
        let house = Arc::clone(self);
        let thread = Builder::new()
            .name("semel-serve".into())
            .stack_size(STACK_BYTES)
            .spawn(move || {
                let leaving = Leaving {
                    house: &house,
                    number,
                };
                Serving::new(&house, idle, wire).serve();
                drop(leaving);
            });
        if thread.is_err() {
            self.leave(number);
        }
    }

    fn enter(&self, pid: i32, wire: &Wire) -> Option<(u64, Arc<Idle>)> {
        let now_us = micros(self.opened.elapsed());
        let mut guests = self.guests();
        let of_it = |guest: &&Guest| guest.pid == pid;
        let own = guests.connections.values().filter(of_it).count();
        let full = match pid != 0 && own >= MAX_CONNECTIONS_OF_ONE {
            true => !guests.hang_up_idle(Some(pid), now_us),
            false => {
                guests.connections.len() >= MAX_CONNECTIONS && !guests.hang_up_idle(None, now_us)
            }
        };
        if full {
            return None;
        }
        let number = guests.next_number;
        guests.next_number += 1;
        let guest = Guest {
            pid,
            stream: Arc::clone(wire.stream()),
            idle: Arc::default(),
        };
        let idle = Arc::clone(&guest.idle);
        guests.connections.insert(number, guest);
        Some((number, idle))
    }

    fn leave(&self, number: u64) {
        self.guests().connections.remove(&number);
        self.left.notify_all();
    }

    /// Nothing is asked over a connection from now on.
    pub(super) fn begin_idle(&self, idle: &Idle) {
        let now_us = micros(self.opened.elapsed()).max(1);
        idle.0.store(now_us, Ordering::Relaxed);
    }

    /// Lets a caller wait, until the result is dropped; `None` when as many wait as may.
    pub(super) fn may_wait(&self) -> Option<WaitsHere<'_>> {
        let here = WaitsHere(self);
        (self.waiting.fetch_add(1, Ordering::SeqCst) < MAX_WAITING).then_some(here)
    }

    /// A connection says whose it is.
    pub(super) fn count_in(&self, session: u64) {
        *self.guests().sessions.entry(session).or_default() += 1;
    }

    /// A connection of a session is over; with the last one its turns pass on.
    pub(super) fn count_out(&self, session: u64) {
        let mut guests = self.guests();
        let gone = match guests.sessions.get_mut(&session) {
            Some(count) if *count > 1 => {
                *count -= 1;
                false
            }
            _ => guests.sessions.remove(&session).is_some(),
        };
        drop(guests);
        if gone {
            let passed: Vec<(u64, Turn)> = {
                let mut turns = self.turns();
                let of_it = |(_, turn): &(&u64, &(u64, Turn))| turn.0 == session;
                let ids: Vec<u64> = turns.iter().filter(of_it).map(|(id, _)| *id).collect();
                ids.iter().filter_map(|id| turns.remove(id)).collect()
            };
            drop(passed);
        }
    }

    /// Keeps the turn of a waiter until it is used; its number, which no other owner gives.
    pub(super) fn keep_turn(&self, session: u64, turn: Turn) -> u64 {
        if turn.id() == 0 {
            return 0;
        }
        let number = nonce::fresh();
        let mut turns = self.turns();
        if turns.len() >= MAX_TURNS {
            drop(turns);
            return 0; // it passes on
        }
        turns.insert(number, (session, turn));
        number
    }

    /// The turn of this number, if it is this session's.
    pub(super) fn take_turn(&self, session: u64, number: u64) -> Option<Turn> {
        let mut turns = self.turns();
        match turns.get(&number) {
            Some((of, _)) if *of == session => turns.remove(&number).map(|(_, turn)| turn),
            _ => None,
        }
    }
}

impl Idle {
    /// Something is asked.
    pub(super) fn end(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// While it lives, a caller waits.
pub(super) struct WaitsHere<'a>(&'a House);

impl Drop for WaitsHere<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

/// While it lives, a connection is served.
struct Leaving<'a> {
    house: &'a House,
    number: u64,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.house.leave(self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Poll;

    use super::super::calls::local;
    use super::*;
    use crate::backend::Op;

    #[test]
    fn a_call_that_is_woken_again_and_again_is_said_to_go_on() {
        let dir = tempfile::tempdir().expect("a directory");
        let listener = Arc::new(socket::listen(dir.path()).expect("listens"));
        let server = Server::start(listener, Arc::new(local())).expect("starts");
        let (here, there) = UnixStream::pair().expect("a pair");
        let wire = Wire::over(here, FRAME_PATIENCE).expect("a wire");
        let mut serving = Serving::new(&server.house, Arc::default(), wire);
        let going_on = Stopwatch::start();
        let op = Op::later(poll_fn(move |context| {
            if going_on.elapsed() > super::super::ALIVE_INTERVAL * 3 / 2 {
                return Poll::Ready(());
            }
            std::thread::sleep(Duration::from_millis(1));
            context.waker().wake_by_ref();
            Poll::Pending
        }));
        serving.attend(op, false).expect("is seen through");
        let mut other = Wire::over(there, Duration::from_millis(10)).expect("a wire");
        let (head, _) = other.receive(false).expect("something was said");
        assert_eq!(head.kind, Kind::Alive);
        drop(serving);
        server.stop();
    }
}
