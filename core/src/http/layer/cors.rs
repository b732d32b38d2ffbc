//! What answers tell pages of other origins.

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, HeaderMap, HeaderName, HeaderValue, ORIGIN,
};
use http::request::Parts;

use super::super::cors::{CORS_EXPOSED, cors_lacks, is_preflight};
use super::super::key::IDEMPOTENCY_KEY;
use super::builder::{Cors, Shared};

/// What is to be added to an answer, by the request.
#[derive(Clone, Copy)]
pub(super) enum Told {
    Nothing,
    Exposed,
    Preflight,
}

impl Told {
    pub(super) fn of(shared: &Shared, parts: &Parts) -> Self {
        let text = |name| {
            parts
                .headers
                .get(name)
                .and_then(|value| value.to_str().ok())
        };
        match shared.cors {
            Cors::Off => Self::Nothing,
            Cors::On
                if is_preflight(
                    parts.method.as_str(),
                    text(ORIGIN),
                    text(ACCESS_CONTROL_REQUEST_METHOD),
                ) =>
            {
                Self::Preflight
            }
            Cors::On => Self::Exposed,
        }
    }

    /// Adds it. Whoever was not let in by the service is told nothing.
    pub(super) fn add(self, shared: &Shared, fields: &mut HeaderMap) {
        match self {
            Self::Nothing => {}
            Self::Exposed => lengthen(fields, &ACCESS_CONTROL_EXPOSE_HEADERS, CORS_EXPOSED),
            Self::Preflight if fields.contains_key(ACCESS_CONTROL_ALLOW_ORIGIN) => {
                let guards = std::iter::once(&shared.guard).chain(shared.routes.guards());
                let keys = guards.filter_map(|guard| guard.key_field());
                lengthen(
                    fields,
                    &ACCESS_CONTROL_ALLOW_HEADERS,
                    keys.chain([IDEMPOTENCY_KEY]),
                );
            }
            Self::Preflight => {}
        }
    }
}

fn lengthen<'n>(
    fields: &mut HeaderMap,
    list: &HeaderName,
    names: impl IntoIterator<Item = &'n str>,
) {
    let given = fields.get_all(list);
    let given = given.iter().filter_map(|value| value.to_str().ok());
    let lacks = cors_lacks(given, names);
    if let Some(lacks) = lacks.and_then(|lacks| HeaderValue::from_str(&lacks).ok()) {
        fields.append(list, lacks);
    }
}
