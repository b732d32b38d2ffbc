//! A connection to the owner, as the process at this end has it: one question at a time.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::frame::{Head, Hello, Kind, Piece, Question, Reply, Welcome};
use super::socket;
use super::wire::{Broken, Wire};
use crate::backend::Scanned;
use crate::codec::decode_message;
use crate::error::{Error, ErrorKind};

/// A connection to an owner.
pub(super) struct Link {
    wire: Wire,
    pub(super) reign: u64,
    pub(super) pid: u32,
}

/// Why there is no connection.
#[derive(Debug)]
pub(super) enum Refused {
    /// Nobody listens.
    Nobody,
    /// The owner serves as many as it can.
    Full,
    /// Somebody listens, and does not answer.
    Silent,
    Error(Error),
}

impl Link {
    /// Calls the owner of a store.
    pub(super) fn open(
        store: &Path,
        session: u64,
        patience: Duration,
    ) -> Result<(Self, Welcome), Refused> {
        let stream = socket::call(store, patience).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Refused::Nobody,
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Refused::Silent,
            _ => Refused::Error(
                Error::unavailable(format!(
                    "the process that holds the store in {} cannot be reached: {e}",
                    store.display()
                ))
                .caused_by(e),
            ),
        })?;
        if !socket::is_trusted(&stream, Some(store)) {
            return Err(Refused::Error(Error::unavailable(format!(
                "a process of another user listens at the socket of the store in {}; see which, and end it",
                store.display()
            ))));
        }
        let wire = Wire::over(stream, patience);
        let wire = wire.map_err(|e| Refused::Error(Error::unavailable(e.to_string())))?;
        let mut link = Self {
            wire,
            reign: 0,
            pid: 0,
        };
        let hello = Head::frame(Kind::Question, &Question::Hello(Hello { session }));
        let (_, reply) = link
            .ask(&hello.map_err(Refused::Error)?)
            .or_else(|broken| match broken {
                Broken::Gone => link.parting_word().ok_or(Broken::Gone),
                broken => Err(broken),
            })
            .map_err(|e| match e {
                Broken::Gone => Refused::Nobody,
                Broken::Silent => Refused::Silent,
                Broken::Full => Refused::Full,
                Broken::Garbled(error) => Refused::Error(error),
            })?;
        match reply {
            Reply::Welcome(welcome) => {
                (link.reign, link.pid) = (welcome.reign, welcome.pid);
                Ok((link, welcome))
            }
            Reply::Full => Err(Refused::Full),
            reply => match reply.checked() {
                Err(error) => Err(Refused::Error(error)),
                Ok(reply) => Err(Refused::Error(reply.unexpected())),
            },
        }
    }

    /// What was said by an owner that hung up before it was asked: that it has no room.
    fn parting_word(&mut self) -> Option<(Vec<Scanned>, Reply)> {
        let (head, body) = self.wire.receive(false).ok()?;
        let reply = decode_message(body).ok()?;
        (head.kind == Kind::Answer).then_some((Vec::new(), reply))
    }

    /// What another thread hangs up with.
    pub(super) fn stream(&self) -> &Arc<UnixStream> {
        self.wire.stream()
    }

    /// Asks, and waits for the answer as long as the owner says that it is at it.
    pub(super) fn ask(&mut self, question: &[u8]) -> Result<(Vec<Scanned>, Reply), Broken> {
        self.wire.send(question)?;
        let mut found: Vec<Scanned> = Vec::new();
        loop {
            let (head, body) = self.wire.receive(false)?;
            match head.kind {
                Kind::Alive => {}
                Kind::Piece => {
                    found.extend(decode_message::<Piece>(body).map_err(Broken::Garbled)?)
                }
                Kind::Answer => {
                    let reply = decode_message(body).map_err(Broken::Garbled)?;
                    return Ok((found, reply));
                }
                Kind::Question => {
                    return Err(Broken::Garbled(Error::new(
                        ErrorKind::Corrupt,
                        "the process that holds the store asks instead of answering",
                    )));
                }
            }
        }
    }
}
