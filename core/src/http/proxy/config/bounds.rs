//! How long to wait, and how much to take.

use std::time::Duration;

use super::document::{Section, number};
use super::{limit, some_time, time};

/// The most connections of clients that can be allowed.
const MAX_CONNECTIONS: usize = 1_000_000;
/// Within what the longest head of a request must be, in bytes: 8 KiB is the least that hyper takes.
const HEAD_BYTES: (usize, usize) = (8 << 10, 1 << 20);
/// The most fields that a request can be allowed.
const MAX_FIELDS: usize = 10_000;

/// How long to wait for what; `None` is without end.
#[derive(Clone, Copy, Debug)]
pub(in crate::http::proxy) struct Timeouts {
    /// For a connection to the service, its name looked up included.
    pub(in crate::http::proxy) connect: Duration,
    /// For the head of its answer, since the last byte of the request went out.
    pub(in crate::http::proxy) answer: Option<Duration>,
    /// For the next bytes of its answer.
    pub(in crate::http::proxy) stall: Option<Duration>,
    /// For another request, before a connection to the service is closed; zero keeps none.
    pub(in crate::http::proxy) idle: Duration,
    /// For the head of a client's request, and for the next bytes of it.
    pub(in crate::http::proxy) client: Option<Duration>,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            answer: Some(Duration::from_secs(60)),
            stall: Some(Duration::from_secs(60)),
            // Below the 2 s after which the quickest of the common servers closes: a request on a connection that is being
            // closed is in doubt.
            idle: Duration::from_secs(1),
            client: Some(Duration::from_secs(30)),
        }
    }
}

/// How much of what.
#[derive(Clone, Copy, Debug)]
pub(in crate::http::proxy) struct Limits {
    /// Connections of clients.
    pub(in crate::http::proxy) connections: usize,
    /// The head of a request, in bytes.
    pub(in crate::http::proxy) head: usize,
    /// The fields of a request.
    pub(in crate::http::proxy) fields: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4_096,
            head: 64 << 10,
            fields: 100,
        }
    }
}

/// The table `[timeouts]`.
pub(super) fn timeouts(table: Section<'_, '_>) -> Timeouts {
    let usual = Timeouts::default();
    let timeouts = Timeouts {
        connect: table
            .value("connect", "\"5s\"", some_time)
            .unwrap_or(usual.connect),
        answer: table
            .value("answer", "\"60s\"", limit)
            .unwrap_or(usual.answer),
        stall: table
            .value("stall", "\"60s\"", limit)
            .unwrap_or(usual.stall),
        idle: table.value("idle", "\"1s\"", time).unwrap_or(usual.idle),
        client: table
            .value("client", "\"30s\"", limit)
            .unwrap_or(usual.client),
    };
    table.finish();
    timeouts
}

/// The table `[limits]`.
pub(super) fn limits(table: Section<'_, '_>) -> Limits {
    let usual = Limits::default();
    let (least, most) = HEAD_BYTES;
    let limits = Limits {
        connections: table
            .value("connections", "4096", |value| {
                number(value, 1, MAX_CONNECTIONS)
            })
            .unwrap_or(usual.connections),
        head: table
            .value("head", "65536", |value| number(value, least, most))
            .unwrap_or(usual.head),
        fields: table
            .value("fields", "100", |value| number(value, 1, MAX_FIELDS))
            .unwrap_or(usual.fields),
    };
    table.finish();
    limits
}
