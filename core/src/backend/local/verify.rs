//! Reading everything that is stored, to know that it can be read.

use serde::{Deserialize, Serialize};

use super::Local;
use super::loc::Loc;
use super::log::Log;
use crate::backend::Backend;
use crate::codec::{BlockReader, Kind, decode_body, split_payload};
use crate::error::Result;

/// How many problems are told one by one.
const MAX_PROBLEMS: usize = 100;

/// What a verification has read, and what is wrong.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Verification {
    pub(crate) blocks: u64,
    pub(crate) entries: u64,
    pub(crate) live: u64,
    pub(crate) bytes: u64,
    pub(crate) problems: Vec<String>,
}

impl Local {
    /// Reads every block and every entry of the log, and looks up each live one.
    pub(crate) fn verify(&self) -> Result<Verification> {
        self.check()?;
        let mut found = Verification::default();
        let Some(log) = &self.shared.log else {
            found.live = self.shared.index.len();
            return Ok(found);
        };
        self.barrier().wait()?;
        let (mut next, head) = (log.ends().tail, log.ends().head);
        let mut previous = None;
        while head > 0 && next <= head {
            let blocks = log.disk.read_from(next, 64)?;
            if blocks.is_empty() {
                found.tell(format!("blocks {next} to {head} of the log are missing"));
                break;
            }
            for (number, bytes) in &blocks {
                if *number > head {
                    break;
                }
                found.blocks += 1;
                found.bytes += bytes.len() as u64;
                match BlockReader::open(*number, bytes) {
                    Ok(block) => {
                        if let Some((before, check)) = previous
                            && (before + 1 != *number || check != block.head.previous)
                            && *number > self.settled_tail(log)?
                        {
                            found.tell(format!("block {number} does not continue block {before}"));
                        }
                        previous = Some((*number, block.check));
                        self.verify_block(&mut found, *number, block);
                    }
                    Err(error) => found.tell(error.to_string()),
                }
            }
            next = blocks.last().map_or(head, |(number, _)| *number) + 1;
        }
        Ok(found)
    }

    /// Where the log begins, once the batch in progress is over: what that removes leaves the disk a little earlier.
    fn settled_tail(&self, log: &Log) -> Result<u64> {
        let _pause = log.pause_cleaning(|| self.shared.durable.check())?;
        Ok(log.ends().tail)
    }

    fn verify_block(&self, found: &mut Verification, number: u64, block: BlockReader<'_>) {
        found.entries += block.entries().count() as u64;
        let entries = match block.newest_entries() {
            Ok(entries) => entries,
            Err(error) => return found.tell(error.to_string()),
        };
        for entry in entries {
            if matches!(entry.head.kind, Kind::Marker | Kind::Piece) {
                continue;
            }
            let loc = Loc::new(number, super::cleaner::entry_bytes(&entry.head));
            if self.shared.index.home(&entry.head.hash) != Some(loc) {
                continue;
            }
            found.live += 1;
            let log = self.shared.log.as_ref();
            let whole = log
                .map(|log| log.payload(&entry.head.hash, loc))
                .transpose()
                .map(Option::flatten);
            let checked = whole.and_then(|whole| match whole {
                Some((kind, payload)) => match split_payload(&payload) {
                    Some((key, body)) if self.shared.hash(key) == entry.head.hash => {
                        decode_body(kind, body).map(|_| None)
                    }
                    _ => Ok(Some("an entry is not that of its key")),
                },
                // Cleaning has moved it since: it will be met again.
                None => Ok(None),
            });
            match checked {
                Ok(None) => {}
                Ok(Some(problem)) => found.tell(format!("block {number}: {problem}")),
                Err(error) => found.tell(format!("block {number}: {error}")),
            }
        }
    }
}

impl Verification {
    fn tell(&mut self, problem: String) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(problem);
        }
    }
}
