//! The rivals, one file each, and semel among them.

mod fjall;
mod map;
mod raw_log;
mod redb;
mod redis;
mod semel;
mod sled;
mod sqlite;
mod web;

pub use self::fjall::Fjall;
pub use self::map::{ArcMap, ByteKeyMap, CRASH_COSTS as MAP_CRASH_COSTS, Pair, PairMap, VecMap};
pub use self::raw_log::{CRASH_COSTS as RAW_LOG_CRASH_COSTS, RawLog};
pub use self::redb::Redb;
pub use self::redis::{Redis, RedisServer};
pub use self::semel::{Semel, request, store};
pub use self::sled::Sled;
pub use self::sqlite::Sqlite;
pub use self::web::{Nginx, Wrk, free_address};

/// The cache that every store with a cache gets, semel included.
pub const CACHE_BYTES: u64 = 64 << 20;
