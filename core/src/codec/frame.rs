//! What two processes of one machine say to each other, as bytes: the same encoding as that of records, in a frame of its
//! own (`docs/processes.md`), and never on disk.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::config;
use crate::error::{Error, Result};

/// Puts a value behind what is in `out`.
pub(crate) fn encode_message<T: Serialize>(out: &mut Vec<u8>, value: &T) -> Result<()> {
    match bincode::serde::encode_into_writer(value, super::Draft(out), config()) {
        Ok(()) => Ok(()),
        Err(e) => Err(Error::invalid(format!(
            "the call cannot be sent to the process that holds the store: {e}"
        ))),
    }
}

/// A value from all of these bytes.
pub(crate) fn decode_message<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    match bincode::serde::decode_from_slice(bytes, config()) {
        Ok((value, taken)) if taken == bytes.len() => Ok(value),
        Ok(_) => Err(garbled("it is longer than what it says")),
        Err(e) => Err(garbled(&e.to_string())),
    }
}

fn garbled(why: &str) -> Error {
    Error::corrupt(format!(
        "a message between processes of the store cannot be read: {why}; all of them should run the same version of semel"
    ))
}
