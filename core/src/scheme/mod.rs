//! The eight classic schemes, each a small thing on one transaction.

pub mod inbox;
pub mod ledger;
pub mod lock;
pub mod machine;
pub mod outbox;
pub mod rows;
pub mod table;
pub mod tick;
pub mod token;
pub mod unique;
