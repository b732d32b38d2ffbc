//! Outbox: messages that are written with the work that causes them, and sent afterwards, each at least once.
//!
//! Stops: the message that is lost, or sent for work that was rolled back. Does not stop: a message that is sent twice
//! because its sender crashed before it could say so: ids are stable, so that an inbox at the other end drops the second.
//! Choose it whenever work in the store must be told to others. Messages of a topic are sent in the order of their commits,
//! so that one which keeps failing blocks those behind it: [`Stats::blocked_topics`](crate::Stats::blocked_topics) counts
//! such topics, and [`Outbox::dead_after`] lets them go on.
//!
//! ```
//! use semel::Store;
//!
//! let store = Store::open("memory:")?;
//! store.transaction(|tx| tx.emit("orders.paid", "ORDER_1", &"ORDER_1"))?;
//! let mut sent = Vec::new();
//! let relayed = store.outbox("orders.paid").relay(|id, _bytes| {
//!     sent.push(id.to_owned());
//!     Ok::<_, std::io::Error>(())
//! })?;
//! assert_eq!((relayed.sent, sent), (1, vec!["ORDER_1".to_owned()]));
//! # Ok::<(), semel::Error>(())
//! ```

use std::fmt::Display;
use std::time::Duration;

use serde::Serialize;

use crate::backend::Durability;
use crate::error::{Error, Result};
use crate::key::{Key, MAX_ID_BYTES, MAX_NAME_BYTES, Namespace, check_name};
use crate::message::Message;
use crate::scheme::lock::Lock;
use crate::store::Store;
use crate::time::{NEVER_US, micros};
use crate::tx::Tx;
use crate::value::Value;

/// How many messages one call relays when nothing is said.
pub const DEFAULT_RELAY_LIMIT: usize = 100;
/// The first pause after a message could not be sent; it doubles with every failure.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How much of the last error is kept with a message, in characters.
const MAX_ERROR_CHARS: usize = 500;

/// What relaying came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Relayed {
    /// Messages that were sent and acknowledged.
    pub sent: usize,
    /// Messages that were moved to the topic's dead letters.
    pub dead: usize,
    /// The message that could not be sent, how often by now, and why; it blocks its topic.
    pub blocked: Option<(String, u32, String)>,
    /// Another process relays this topic now.
    pub busy: bool,
}

/// A topic of a store's outbox.
#[derive(Clone, Debug)]
pub struct Outbox<'a> {
    store: &'a Store,
    topic: &'a str,
    limit: usize,
    dead_after: Option<u32>,
}

impl Store {
    /// The outbox of a topic.
    pub fn outbox<'a>(&'a self, topic: &'a str) -> Outbox<'a> {
        Outbox {
            store: self,
            topic,
            limit: DEFAULT_RELAY_LIMIT,
            dead_after: None,
        }
    }
}

impl Tx<'_> {
    /// Puts a message into the outbox with this commit. Its id is stable: emitting it again before it is sent is no second
    /// message. Its bytes are CBOR (RFC 8949), as of results; for receivers that read something else, such as JSON, encode it
    /// and use [`emit_bytes`](Tx::emit_bytes).
    ///
    /// # Errors
    /// `InvalidInput` for names and messages that cannot be kept, and when another message waits under this id; store errors.
    pub fn emit<T: Serialize + ?Sized>(
        &mut self,
        topic: &str,
        id: &str,
        message: &T,
    ) -> Result<()> {
        self.emit_value(topic, id, Value::of(message)?)
    }

    /// [`emit`](Tx::emit) of bytes as they are.
    ///
    /// # Errors
    /// As [`emit`](Tx::emit).
    pub fn emit_bytes(&mut self, topic: &str, id: &str, message: &[u8]) -> Result<()> {
        self.emit_value(topic, id, Value::bytes(message))
    }

    fn emit_value(&mut self, topic: &str, id: &str, value: Value) -> Result<()> {
        let key = key(topic, id)?;
        self.check_length(&key, &value)?;
        if let Some(waiting) = self.get::<Message>(&key)? {
            return match waiting.value.is_same(&value) {
                true => Ok(()),
                false => Err(Error::invalid(format!(
                    "another message waits under the id {id:?} of topic {topic:?}; give each message an id of its own"
                ))),
            };
        }
        self.set(&key, &Message::new(value), NEVER_US)?;
        self.put_last(&key)
    }
}

impl Outbox<'_> {
    /// How many messages one call relays: 100 by default.
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// After so many failures a message moves to the topic `TOPIC.dead` instead of blocking its own.
    pub fn dead_after(mut self, failures: u32) -> Self {
        self.dead_after = Some(failures);
        self
    }

    /// Sends messages in their order, each at least once; a message is sent no more once `send` has returned without an
    /// error, except by a relay that comes after a crash of this one. The first that cannot be sent ends the call, and is
    /// tried again after a pause that grows, from 100 ms to a minute. One relay per topic works at a time.
    ///
    /// `send` gets the message's id and bytes: CBOR of what [`emit`](Tx::emit) was given, or those of
    /// [`emit_bytes`](Tx::emit_bytes) as they are.
    ///
    /// # Errors
    /// `InvalidInput`, and store errors; what `send` returns is in the answer.
    pub fn relay<E: Display>(
        &self,
        mut send: impl FnMut(&str, &[u8]) -> Result<(), E>,
    ) -> Result<Relayed> {
        self.relay_values(|id, message| send(id, message.as_bytes()))
    }

    /// [`relay`](Outbox::relay) of messages with what their bytes are.
    #[doc(hidden)]
    pub fn relay_values<E: Display>(
        &self,
        mut send: impl FnMut(&str, &Value) -> Result<(), E>,
    ) -> Result<Relayed> {
        check_name("topic", self.topic, MAX_NAME_BYTES)?;
        if let Some(most) = self.dead_after {
            check_name("topic of dead letters", &self.grave(), MAX_NAME_BYTES)?;
            if most == 0 {
                return Err(Error::invalid(
                    "dead_after is zero; a message has to fail before it is dead: give at least 1",
                ));
            }
        }
        let Lock::Held(relay) = self.store.lock_of("relay", self.topic).acquire()? else {
            return Ok(Relayed {
                busy: true,
                ..Relayed::default()
            });
        };
        let mut relayed = Relayed::default();
        for (id, message) in self.waiting(self.limit)? {
            if relayed.sent >= self.limit || relay.lost() {
                break;
            }
            if self.store.0.now_us() < message.not_before_us {
                relayed.blocked =
                    Some((id, message.failures, message.last_error.unwrap_or_default()));
                break;
            }
            match send(&id, &message.value) {
                Ok(()) => {
                    self.settle(&id, |tx, key, _| tx.remove(key).map(drop))?;
                    relayed.sent += 1;
                }
                Err(error) => match self.note_failure(&id, &error.to_string())? {
                    Noted::Dead => relayed.dead += 1,
                    Noted::Blocks(failures) => {
                        relayed.blocked = Some((id, failures, error.to_string()));
                        break;
                    }
                    Noted::Gone => {}
                },
            }
        }
        // What is told as sent stays sent.
        crate::backend::wait(self.store.0.backend().barrier())?;
        Ok(relayed)
    }

    /// How many messages wait in the topic.
    ///
    /// # Errors
    /// Store errors.
    pub fn len(&self) -> Result<usize> {
        Ok(self.waiting(usize::MAX)?.len())
    }

    /// Whether no message waits in the topic.
    ///
    /// # Errors
    /// Store errors.
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.waiting(1)?.is_empty())
    }

    /// The messages of the topic that are on disk, in their order.
    fn waiting(&self, limit: usize) -> Result<Vec<(String, Message)>> {
        crate::backend::wait(self.store.0.backend().barrier())?;
        let mut found = Vec::new();
        for row in self.store.0.backend().ordered(self.topic, limit)? {
            found.extend(Message::read(&row)?);
        }
        Ok(found)
    }

    /// Changes a message that still waits. Not waited for: what a crash takes back is sent again, which it may be.
    fn settle<T>(
        &self,
        id: &str,
        mut change: impl FnMut(&mut Tx<'_>, &Key, Message) -> Result<T>,
    ) -> Result<Option<T>> {
        let key = key(self.topic, id)?;
        self.store
            .transact()
            .durability(Durability::Relaxed)
            .run(|tx| match tx.get::<Message>(&key)? {
                Some(message) => change(tx, &key, message).map(Some),
                None => Ok(None),
            })
    }

    fn note_failure(&self, id: &str, error: &str) -> Result<Noted> {
        let noted = self.settle(id, |tx, key, mut message| {
            message.failures = message.failures.saturating_add(1);
            message.last_error = Some(error.chars().take(MAX_ERROR_CHARS).collect());
            if self.dead_after.is_some_and(|most| message.failures >= most) {
                self.bury(tx, key, id, message)?;
                return Ok(Noted::Dead);
            }
            let pause = FIRST_PAUSE
                .saturating_mul(1 << message.failures.saturating_sub(1).min(10))
                .min(LONGEST_PAUSE);
            message.not_before_us = tx.now_us().saturating_add(micros(pause));
            tx.set(key, &message, NEVER_US)?;
            Ok(Noted::Blocks(message.failures))
        })?;
        Ok(noted.unwrap_or(Noted::Gone))
    }

    /// Moves a message to the dead letters. One that died there under this id before is replaced.
    fn bury(&self, tx: &mut Tx<'_>, key: &Key, id: &str, mut message: Message) -> Result<()> {
        let grave = self::key(&self.grave(), id)?;
        (message.failures, message.not_before_us) = (0, 0);
        tx.remove(key)?;
        tx.set(&grave, &message, NEVER_US)?;
        tx.put_last(&grave)
    }

    fn grave(&self) -> String {
        format!("{}.dead", self.topic)
    }
}

/// What became of a message that could not be sent.
enum Noted {
    /// It is one of the dead letters.
    Dead,
    /// It blocks its topic, after so many failures.
    Blocks(u32),
    /// It waits no more: another relay has sent it.
    Gone,
}

fn key(topic: &str, id: &str) -> Result<Key> {
    check_name("topic", topic, MAX_NAME_BYTES)?;
    check_name("message id", id, MAX_ID_BYTES)?;
    Key::row(Namespace::Message, ("topic", topic), ("message id", id))
}
