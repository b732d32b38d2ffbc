//! A message of an outbox as it is kept, and which topics are held up by theirs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::backend::Scanned;
use crate::codec::{Content, decode_row};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::key::Parts;
use crate::value::Value;

/// How many topics are looked at when they are counted.
const MAX_TOPICS_LOOKED_AT: usize = 256;

/// A message that waits to be sent.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Message {
    pub(crate) value: Value,
    pub(crate) failures: u32,
    pub(crate) not_before_us: u64,
    pub(crate) last_error: Option<String>,
}

impl Message {
    pub(crate) fn new(value: Value) -> Self {
        Self {
            value,
            failures: 0,
            not_before_us: 0,
            last_error: None,
        }
    }

    /// The message of a row and its id; `None` when it is gone by now.
    pub(crate) fn read((key, content): &Scanned) -> Result<Option<(String, Self)>> {
        let (Some(parts), Content::Row(row)) = (Parts::decode(key), content) else {
            return Ok(None);
        };
        let message = decode_row(&row.bytes).map_err(|e| {
            Error::corrupt(format!(
                "a message of topic {:?} cannot be read: {e}",
                parts.operation
            ))
        })?;
        Ok(Some((parts.id_text().to_owned(), message)))
    }
}

impl Engine {
    /// Topics whose first message could not be sent, and how often it was tried.
    pub(crate) fn blocked_topics(&self) -> Result<BTreeMap<String, u32>> {
        let mut blocked = BTreeMap::new();
        for (topic, first) in self.hub().first_rows(MAX_TOPICS_LOOKED_AT)? {
            if let Some((_, message)) = Message::read(&first)?
                && message.failures > 0
            {
                blocked.insert(topic, message.failures);
            }
        }
        Ok(blocked)
    }
}
