//! One connection: its questions, one after the other, each answered by a call of the store that this process holds.

use std::borrow::Cow;
use std::future::Future;
use std::os::unix::ffi::OsStringExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::task::{Context, Poll, Waker};

use super::ALIVE_INTERVAL;
use super::bell::{Bell, HANG_UP, Heard};
use super::calls;
use super::client::PAUSE;
use super::frame::{Head, Hello, Kind, MAX_BODY_BYTES, Piece, Question, Reply, Welcome};
use super::server::{House, Idle};
use super::wire::{Broken, Wire};
use crate::backend::{Backend, Durability, Op, Scanned, Seen};
use crate::codec::{Content, decode_message};
use crate::error::{Error, ErrorKind, Result};
use crate::key::{Key, MAX_ID_BYTES, MAX_NAME_BYTES, Parts};
use crate::time::Stopwatch;

/// The longest key: its kind, and three parts with their lengths.
const MAX_KEY_BYTES: usize = 4 + 2 * MAX_NAME_BYTES + MAX_ID_BYTES;
/// The most keys that one question may name: those of a transaction, and the locks of its rows.
const MAX_KEYS: usize = 20_001;
/// About how long a piece of an answer is.
const PIECE_BYTES: usize = 1 << 20;
/// What is added to an answer no more that is as long as this: with one more it is still a message.
const LONG_BYTES: usize = MAX_BODY_BYTES / 4;
/// The most records that one question may ask for.
const MAX_RECORDS: usize = 1 << 20;

/// A connection that is served.
pub(super) struct Serving<'h> {
    house: &'h House,
    idle: Arc<Idle>,
    wire: Wire,
    session: u64,
    bell: Option<Arc<Bell>>,
}

impl<'h> Serving<'h> {
    pub(super) fn new(house: &'h House, idle: Arc<Idle>, wire: Wire) -> Self {
        Self {
            house,
            idle,
            wire,
            session: 0,
            bell: None,
        }
    }

    /// Serves until the other end goes, or does what it may not.
    pub(super) fn serve(mut self) {
        if self.greet().is_err() {
            return;
        }
        self.house.count_in(self.session);
        // Whatever happens: a call of the store that panics ends its own connection, and no other.
        let _ = catch_unwind(AssertUnwindSafe(|| while self.next().is_ok() {}));
        self.house.count_out(self.session);
    }

    fn greet(&mut self) -> Result<(), Broken> {
        let (kind, hello) = match self.wire.receive(false) {
            Ok((head, body)) => (head.kind, decode_message(body)),
            Err(Broken::Garbled(error)) => return self.refuse(&error).and(Err(Broken::Gone)),
            Err(broken) => return Err(broken),
        };
        let (Kind::Question, Ok(Question::Hello(Hello { session }))) = (kind, hello) else {
            return Err(Broken::Gone);
        };
        self.session = session;
        self.answer(&Reply::Welcome(Welcome {
            reign: self.house.reign,
            before: self.house.local.predecessor(),
            now_us: self.house.local.clock().now_us(),
            fingerprint_secret: *self.house.local.fingerprint_secret(),
            pid: std::process::id(),
        }))
    }

    fn refuse(&self, error: &Error) -> Result<(), Broken> {
        self.answer(&Reply::error(error))
    }

    fn answer(&self, reply: &Reply) -> Result<(), Broken> {
        let frame = match Head::frame(Kind::Answer, reply) {
            Ok(frame) => frame,
            Err(error) => {
                Head::frame(Kind::Answer, &Reply::error(&error)).map_err(Broken::Garbled)?
            }
        };
        self.wire.send(&frame)
    }

    fn next(&mut self) -> Result<(), Broken> {
        self.house.begin_idle(&self.idle);
        let received = self.wire.receive(true);
        self.idle.end();
        let (head, question) = match received {
            Ok((head, body)) => (head, decode_message::<Question<'static>>(body)),
            Err(Broken::Garbled(error)) => {
                let _ = self.refuse(&error);
                return Err(Broken::Gone);
            }
            Err(broken) => return Err(broken),
        };
        let question = match question {
            Ok(question) => question,
            Err(error) => {
                let _ = self.refuse(&error);
                return Err(Broken::Gone);
            }
        };
        let now_us = self.house.local.clock().now_us();
        if head.kind != Kind::Question || now_us > head.until_us {
            // Whoever asked this has given up: this process was stopped meanwhile, say.
            return Err(Broken::Gone);
        }
        let reply = match self.reply(question, head.again) {
            Ok(reply) => reply,
            Err(Setback::Broken(broken)) => return Err(broken),
            // The next owner will answer.
            Err(Setback::Error(error)) if error.kind() == ErrorKind::Closed => {
                return Err(Broken::Gone);
            }
            Err(Setback::Error(error)) => Reply::error(&error),
        };
        self.answer(&reply)
    }

    fn reply(&mut self, question: Question<'static>, again: bool) -> Result<Reply, Setback> {
        let house = self.house;
        let local = &*house.local;
        Ok(match question {
            Question::Update {
                key,
                event,
                turn,
                durability,
            } => {
                let key = key_of(&key)?;
                let turn = match turn {
                    0 => None,
                    number => house.take_turn(self.session, number),
                };
                let op = calls::update(local, &key, &event, turn, durability, again);
                Reply::Decided(self.attend(op, false)??)
            }
            Question::Withdraw { key, event, noted } => {
                let key = key_of(&key)?;
                let noted = noted.map(|noted| key_of(&noted)).transpose()?;
                let op = local.update(&key, &event, None, Durability::Relaxed);
                let decided = self.attend(op, false)??;
                local.withdrawn(&event, &decided, noted.as_ref());
                Reply::Done
            }
            Question::Load { keys } => {
                let keys = keys_of(keys.iter())?;
                let keys: Vec<&Key> = keys.iter().collect();
                let mut seen = self.attend(local.load(&keys), false)??;
                seen.truncate(fitting(&seen));
                Reply::Seen(seen)
            }
            Question::Commit {
                keys,
                nonce,
                durability,
                admission,
                asked_us,
            } => {
                let named = keys_of(keys.iter().map(|part| &part.key))?;
                let parts = named
                    .iter()
                    .zip(keys)
                    .map(|(key, part)| crate::backend::Touched {
                        key,
                        version: part.version,
                        write: part.write.into_owned(),
                    });
                let commit = crate::backend::Commit {
                    keys: parts.collect(),
                    nonce,
                    durability,
                    admission,
                };
                let op = Op::later(calls::commit(local, commit, asked_us, again));
                Reply::Committed(self.attend(op, false)??)
            }
            Question::Changed {
                key,
                seen,
                until_us,
            } => {
                let key = key_of(&key)?;
                let Some(_waits) = house.may_wait() else {
                    std::thread::sleep(PAUSE);
                    return Ok(Reply::Turn(0));
                };
                let turn = self.attend(local.changed(&key, seen, until_us), true)??;
                Reply::Turn(house.keep_turn(self.session, turn))
            }
            Question::Pass { turn } => {
                drop(house.take_turn(self.session, turn));
                Reply::Done
            }
            Question::Scan { from } => {
                let (found, next) = local.scan(from)?;
                self.pieces(found)?;
                Reply::Scanned(next)
            }
            Question::OpenRecords { until_us, limit } => {
                self.pieces(local.open_records(until_us, bounded(limit))?)?;
                Reply::Scanned(None)
            }
            Question::Ordered { space, limit } => {
                self.pieces(local.ordered(&space, bounded(limit))?)?;
                Reply::Scanned(None)
            }
            Question::FirstRows { limit } => {
                let found = local.first_rows(bounded(limit))?;
                self.pieces(found.into_iter().map(|(_, row)| row).collect())?;
                Reply::Scanned(None)
            }
            Question::Stamp => Reply::Number(local.stamp()?),
            Question::Sweep => Reply::Number(self.slowly(|| local.sweep())??),
            Question::Barrier => {
                self.attend(local.barrier(), false)??;
                Reply::Number(house.reign)
            }
            Question::Accounts => Reply::Accounts(Box::new(local.accounts())),
            Question::Verify => Reply::Verified(self.slowly(|| local.verify())??),
            Question::Backup { file } => {
                let file = PathBuf::from(std::ffi::OsString::from_vec(file));
                Reply::Copied(self.slowly(|| local.backup(&file))??)
            }
            Question::Hello(_) => return Err(Setback::Broken(Broken::Gone)),
        })
    }

    /// Sees a call through, and says now and then that this process is still at it. `leaves`: whether it is of no use any
    /// more when the other end is gone.
    pub(super) fn attend<T: Unpin>(&mut self, op: Op<'_, T>, leaves: bool) -> Result<T, Broken> {
        let mut op = pin!(op);
        if let Poll::Ready(value) = op.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return Ok(value);
        }
        let bell = match &self.bell {
            Some(bell) => Arc::clone(bell),
            None => {
                let bell = Arc::new(Bell::new().map_err(|_| Broken::Gone)?);
                Arc::clone(self.bell.insert(bell))
            }
        };
        let waker = Waker::from(Arc::clone(&bell));
        let mut said = Stopwatch::start();
        loop {
            if let Poll::Ready(value) = op.as_mut().poll(&mut Context::from_waker(&waker)) {
                return Ok(value);
            }
            let stream = leaves.then_some((&**self.wire.stream(), HANG_UP));
            match bell.wait(stream, ALIVE_INTERVAL.saturating_sub(said.elapsed())) {
                Heard::Socket => return Err(Broken::Gone),
                // A call may be woken again and again before it is through.
                Heard::Bell if said.elapsed() < ALIVE_INTERVAL => {}
                Heard::Bell | Heard::Nothing => {
                    if leaves && self.house.is_stopping() {
                        return Err(Broken::Gone);
                    }
                    self.wire.send(&Head::bare(Kind::Alive))?;
                    said = Stopwatch::start();
                }
            }
        }
    }

    /// The same for a call that blocks.
    fn slowly<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, Broken> {
        std::thread::scope(|scope| {
            let (done, ended) = channel();
            scope.spawn(move || {
                let _ = done.send(work());
            });
            loop {
                match ended.recv_timeout(ALIVE_INTERVAL) {
                    Ok(value) => return Ok(value),
                    Err(RecvTimeoutError::Timeout) => self.wire.send(&Head::bare(Kind::Alive))?,
                    Err(RecvTimeoutError::Disconnected) => return Err(Broken::Gone),
                }
            }
        })
    }

    /// Sends records in pieces that are not long.
    fn pieces(&self, found: Vec<Scanned>) -> Result<(), Broken> {
        let mut piece: Piece = Vec::new();
        let mut bytes = 0;
        for (key, content) in found {
            bytes += key.len() + content.weight();
            piece.push((key, content));
            if bytes >= PIECE_BYTES {
                self.piece(&std::mem::take(&mut piece))?;
                bytes = 0;
            }
        }
        self.piece(&piece)
    }

    fn piece(&self, piece: &Piece) -> Result<(), Broken> {
        let frame = Head::frame(Kind::Piece, piece).map_err(Broken::Garbled)?;
        self.wire.send(&frame)
    }
}

/// Why there is no answer.
enum Setback {
    Error(Error),
    Broken(Broken),
}

impl From<Error> for Setback {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl From<Broken> for Setback {
    fn from(broken: Broken) -> Self {
        Self::Broken(broken)
    }
}

/// A key that somebody has sent, which need not be one.
fn key_of(bytes: &[u8]) -> Result<Key> {
    match bytes.len() <= MAX_KEY_BYTES && Parts::decode(bytes).is_some() {
        true => Ok(Key::encoded(bytes)),
        false => Err(Error::invalid("another process sent a key that is none")),
    }
}

/// Keys that somebody has sent, no more than one call may name.
fn keys_of<'k>(keys: impl ExactSizeIterator<Item = &'k Cow<'k, [u8]>>) -> Result<Vec<Key>> {
    match keys.len() <= MAX_KEYS {
        true => keys.map(|key| key_of(key)).collect(),
        false => Err(Error::invalid(format!(
            "another process named {} keys in one call; at most {MAX_KEYS} are allowed",
            keys.len()
        ))),
    }
}

/// How many of these fit one answer; one always does.
fn fitting(seen: &[Seen]) -> usize {
    let mut bytes = 0;
    let fits = seen.iter().take_while(|seen| {
        let fits = bytes < LONG_BYTES;
        bytes += seen.content.as_ref().map_or(0, Content::weight);
        fits
    });
    fits.count()
}

fn bounded(limit: u64) -> usize {
    usize::try_from(limit)
        .unwrap_or(MAX_RECORDS)
        .min(MAX_RECORDS)
}
