//! One connection, frame by frame: what is claimed to be long takes memory only as it comes.

use std::io::{ErrorKind as Io, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use super::frame::{HEAD_BYTES, Head};
use crate::error::Error;
use crate::fork::{ShutInChildren, shut_in_children};
use crate::time::Stopwatch;

/// What a connection reads at a time.
const CHUNK_BYTES: usize = 16 << 10;
/// A buffer that has grown longer than this is not kept so long.
const KEPT_BYTES: usize = 64 << 10;

/// How often others are let run before a thread sleeps until something comes.
const YIELDS: usize = 4;

/// Why nothing more comes over a connection.
#[derive(Debug)]
pub(super) enum Broken {
    /// The other end is gone.
    Gone,
    /// The other end has taken longer than it may.
    Silent,
    /// There is no room for what it sends.
    Full,
    /// What came is no frame.
    Garbled(Error),
}

/// A connection.
pub(super) struct Wire {
    // First, so that no child shuts a descriptor that has become another file's by then.
    _shut: ShutInChildren,
    stream: Arc<UnixStream>,
    /// How long the other end may take over a frame that has begun.
    patience: Duration,
    buffer: Vec<u8>,
    /// What all connections of a process may take for frames that are long.
    allowance: Option<Arc<Allowance>>,
    /// What of the buffer was taken, and what is filled.
    taken: usize,
    filled: usize,
}

impl Wire {
    /// Takes a connection over; each end waits for so long for the other once a frame has begun.
    pub(super) fn over(stream: UnixStream, patience: Duration) -> std::io::Result<Self> {
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        Ok(Self {
            _shut: shut_in_children(stream.as_raw_fd()),
            stream: Arc::new(stream),
            patience,
            buffer: Vec::new(),
            allowance: None,
            taken: 0,
            filled: 0,
        })
    }

    /// Lets it take what is long from a common allowance.
    pub(super) fn within(mut self, allowance: &Arc<Allowance>) -> Self {
        self.allowance = Some(Arc::clone(allowance));
        self
    }

    pub(super) fn stream(&self) -> &Arc<UnixStream> {
        &self.stream
    }

    pub(super) fn send(&self, frame: &[u8]) -> Result<(), Broken> {
        (&*self.stream)
            .write_all(frame)
            .map_err(|e| match e.kind() {
                Io::WouldBlock | Io::TimedOut => Broken::Silent,
                _ => Broken::Gone,
            })
    }

    /// The next frame. `idle`: whether it may be as long as it likes until one begins.
    pub(super) fn receive(&mut self, idle: bool) -> Result<(Head, &[u8]), Broken> {
        let mut begun: Option<Stopwatch> = None;
        let head = loop {
            if let Some(head) = self.head()?
                && self.filled - self.taken >= HEAD_BYTES + head.body_bytes
            {
                break head;
            }
            self.make_room()?;
            match self.read() {
                Ok(0) => return Err(Broken::Gone),
                Ok(read) => self.filled += read,
                Err(e) if e.kind() == Io::Interrupted => {}
                Err(e) if matches!(e.kind(), Io::WouldBlock | Io::TimedOut) => {
                    if !idle || self.filled > self.taken {
                        return Err(Broken::Silent);
                    }
                }
                Err(_) => return Err(Broken::Gone),
            }
            if self.filled > self.taken {
                // One who sends a byte now and then is no faster than one who sends none.
                let begun = begun.get_or_insert_with(Stopwatch::start);
                if begun.elapsed() > 2 * self.patience {
                    return Err(Broken::Silent);
                }
            }
        };
        let from = self.taken + HEAD_BYTES;
        self.taken = from + head.body_bytes;
        Ok((head, &self.buffer[from..from + head.body_bytes]))
    }

    /// What comes next. Whoever is to send it is often about to: letting others run now and then costs less than being put
    /// to sleep and woken.
    fn read(&mut self) -> std::io::Result<usize> {
        let room = &mut self.buffer[self.filled..];
        for _ in 0..YIELDS {
            match recv(&*self.stream, &mut *room, RecvFlags::DONTWAIT) {
                Ok((_, read)) => return Ok(read),
                Err(Errno::WOULDBLOCK) => std::thread::yield_now(),
                Err(e) => return Err(e.into()),
            }
        }
        (&*self.stream).read(room)
    }

    /// How much of a frame that is not whole yet is still to come, by its own word.
    fn head(&self) -> Result<Option<Head>, Broken> {
        match self.buffer[self.taken..self.filled].first_chunk() {
            Some(bytes) => Head::read(bytes).map(Some).map_err(Broken::Garbled),
            None => Ok(None),
        }
    }

    /// Makes room for what comes next: as much again as has come, whatever the frame says of its length.
    fn make_room(&mut self) -> Result<(), Broken> {
        if self.taken > 0 {
            self.buffer.copy_within(self.taken..self.filled, 0);
            self.filled -= self.taken;
            self.taken = 0;
            if self.buffer.len() > KEPT_BYTES && self.filled < KEPT_BYTES {
                self.give_back(self.buffer.len() - KEPT_BYTES);
                self.buffer.truncate(KEPT_BYTES);
                self.buffer.shrink_to_fit();
            }
        }
        if self.buffer.len() - self.filled < CHUNK_BYTES / 2 {
            let long = self.filled + CHUNK_BYTES.max(self.filled);
            let more = long.saturating_sub(self.buffer.len().max(KEPT_BYTES));
            if let Some(allowance) = &self.allowance
                && !allowance.take(more)
            {
                return Err(Broken::Full);
            }
            self.buffer.resize(long, 0);
        }
        Ok(())
    }

    fn give_back(&self, bytes: usize) {
        if let Some(allowance) = &self.allowance {
            allowance.left.fetch_add(bytes, Ordering::Relaxed);
        }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.give_back(self.buffer.len().saturating_sub(KEPT_BYTES));
    }
}

/// Bytes that the connections of a process may take together for frames that are long.
#[derive(Debug)]
pub(super) struct Allowance {
    left: AtomicUsize,
}

impl Allowance {
    pub(super) fn of(bytes: usize) -> Self {
        Self {
            left: AtomicUsize::new(bytes),
        }
    }

    fn take(&self, bytes: usize) -> bool {
        let less = |left: usize| left.checked_sub(bytes);
        self.left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)
            .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::super::frame::{Kind, Question};
    use super::*;

    fn pair(patience: Duration) -> (UnixStream, Wire) {
        let (one, two) = UnixStream::pair().expect("a pair");
        (one, Wire::over(two, patience).expect("a wire"))
    }

    #[test]
    fn frames_come_whole_however_they_are_cut() {
        let (mut out, mut wire) = pair(Duration::from_secs(5));
        let long = Question::Load {
            keys: vec![vec![7u8; 100_000].into(); 3],
        };
        let frames = [
            Head::frame(Kind::Question, &Question::Stamp).expect("encodes"),
            Head::frame(Kind::Question, &long).expect("encodes"),
            Head::bare(Kind::Alive).to_vec(),
        ];
        let all = frames.concat();
        let sender = thread::spawn(move || {
            for part in all.chunks(4_999) {
                out.write_all(part).expect("sends");
            }
        });
        for frame in &frames {
            let (_, body) = wire.receive(true).expect("comes");
            assert_eq!(body, &frame[HEAD_BYTES..]);
        }
        sender.join().expect("sends");
        assert!(matches!(wire.receive(true), Err(Broken::Gone)));
    }

    #[test]
    fn a_long_frame_that_does_not_come_takes_no_memory() {
        let (mut out, mut wire) = pair(Duration::from_millis(50));
        let mut head = Head::bare(Kind::Question);
        head[..4].copy_from_slice(&(super::super::frame::MAX_BODY_BYTES as u32).to_le_bytes());
        out.write_all(&head).expect("sends");
        assert!(matches!(wire.receive(true), Err(Broken::Silent)));
        assert!(
            wire.buffer.len() <= 2 * CHUNK_BYTES,
            "{}",
            wire.buffer.len()
        );
    }

    #[test]
    fn long_frames_share_an_allowance_and_give_it_back() {
        let allowance = Arc::new(Allowance::of(2 << 20));
        let (mut out, wire) = pair(Duration::from_secs(5));
        let mut wire = wire.within(&allowance);
        let question = |bytes: usize| Question::Load {
            keys: vec![vec![7u8; bytes].into()],
        };
        let long = Head::frame(Kind::Question, &question(1 << 20)).expect("encodes");
        let too_long = Head::frame(Kind::Question, &question(8 << 20)).expect("encodes");
        let sender = thread::spawn(move || {
            let _ = out.write_all(&long);
            let _ = out.write_all(&too_long);
        });
        assert!(wire.receive(true).is_ok());
        assert!(matches!(wire.receive(true), Err(Broken::Full)));
        drop(wire);
        sender.join().expect("ends");
        assert_eq!(allowance.left.load(Ordering::Relaxed), 2 << 20);
    }

    #[test]
    fn who_sends_a_byte_now_and_then_is_given_up() {
        let (mut out, mut wire) = pair(Duration::from_millis(100));
        let dribble = thread::spawn(move || {
            for byte in Head::bare(Kind::Alive) {
                if out.write_all(&[byte]).is_err() {
                    return;
                }
                thread::sleep(Duration::from_millis(40));
            }
        });
        assert!(matches!(wire.receive(true), Err(Broken::Silent)));
        drop(wire);
        dribble.join().expect("ends");
    }
}
