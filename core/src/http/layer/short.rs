//! Answers that the layer gives by itself: problems, replays and tokens.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use http::{HeaderMap, Response, StatusCode};

use super::super::kept::{Kept, REPLAYED};
use super::super::problem::Problem;
use super::super::token::TokenRoute;
use super::body::{Body, Whole};

/// An answer with a short body.
pub(super) struct Short {
    status: StatusCode,
    fields: HeaderMap,
    body: Bytes,
}

impl Short {
    pub(super) fn problem(problem: &Problem) -> Self {
        let mut fields = HeaderMap::new();
        let content_type = HeaderValue::from_static(Problem::CONTENT_TYPE);
        fields.insert(CONTENT_TYPE, content_type);
        if let Some(seconds) = problem.retry_after() {
            fields.insert(RETRY_AFTER, seconds.into());
        }
        Self {
            status: status(problem.status()),
            fields,
            body: problem.body().into(),
        }
    }

    /// What is kept, and that it is a replay. A field that is none of HTTP, which nobody here has kept, is left out.
    pub(super) fn replay(kept: &Kept) -> Self {
        let mut fields = HeaderMap::new();
        for (name, value) in kept.fields() {
            if let (Ok(name), Ok(value)) = (
                HeaderName::from_bytes(name.as_bytes()),
                HeaderValue::from_bytes(value),
            ) {
                fields.append(name, value);
            }
        }
        fields.insert(
            HeaderName::from_static(REPLAYED),
            HeaderValue::from_static("true"),
        );
        Self {
            status: status(kept.status()),
            fields,
            body: Bytes::copy_from_slice(kept.body()),
        }
    }

    pub(super) fn token(route: &TokenRoute, token: &str) -> Self {
        let mut fields = HeaderMap::new();
        for (name, value) in TokenRoute::FIELDS {
            fields.insert(
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            );
        }
        Self {
            status: status(TokenRoute::STATUS),
            fields,
            body: route.body(token).into(),
        }
    }

    pub(super) fn response<B>(self) -> Response<Body<B>> {
        let mut response = Response::new(Body::whole(Whole {
            bytes: self.body,
            trailers: None,
        }));
        *response.status_mut() = self.status;
        *response.headers_mut() = self.fields;
        response
    }
}

impl From<Problem> for Short {
    fn from(problem: Problem) -> Self {
        Self::problem(&problem)
    }
}

/// A status that cannot be sent is one of ours to answer for.
fn status(number: u16) -> StatusCode {
    StatusCode::from_u16(number).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}
