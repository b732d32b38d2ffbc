//! An error of the kind that services have, an order, and the stores that the tests of this folder share.

use std::fmt;

use semel::RunError;
use serde::{Deserialize, Serialize};

pub(super) use crate::life::fixture::{LONG, frozen, memory};

/// What goes wrong in the functions of these tests.
#[derive(Debug)]
pub(super) enum Fault {
    Timeout,
    Declined { code: u32 },
    Odd(String),
    NoAnswer(RunError),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timeout => f.write_str("timed out"),
            Self::Declined { code } => write!(f, "declined with {code}"),
            Self::Odd(what) => write!(f, "odd: {what}"),
            Self::NoAnswer(error) => write!(f, "no answer: {error}"),
        }
    }
}

impl std::error::Error for Fault {}

impl From<RunError> for Fault {
    fn from(error: RunError) -> Self {
        Self::NoAnswer(error)
    }
}

impl From<std::num::ParseIntError> for Fault {
    fn from(error: std::num::ParseIntError) -> Self {
        Self::Odd(error.to_string())
    }
}

/// What a function is asked for.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Order {
    pub(super) order_no: String,
    pub(super) tenant: String,
    pub(super) amount: u32,
}

impl Order {
    pub(super) fn new(order_no: &str, amount: u32) -> Self {
        Self {
            order_no: order_no.to_owned(),
            tenant: "tenant-7".to_owned(),
            amount,
        }
    }
}

/// What it gives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Receipt {
    pub(super) number: u32,
    pub(super) note: Option<String>,
}

/// Takes what semel itself has to say, of the kind that is meant, or says what came instead.
macro_rules! no_answer {
    ($variant:ident, $result:expr) => {
        match $result {
            Err($crate::attribute::fixture::Fault::NoAnswer(semel::RunError::$variant(answer))) => {
                answer
            }
            other => panic!("{} was expected, but {other:?}", stringify!($variant)),
        }
    };
}
pub(super) use no_answer;
