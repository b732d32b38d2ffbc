//! What went wrong on the way to the service: the answer for the client, and what is known of the request.

use std::time::Duration;

use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};

use super::body::{Body, whole};
use crate::http::{Ending, Problem, ProblemKind};

/// When to ask again where nobody could be reached.
const RETRY_AFTER_UNREACHABLE: Duration = Duration::from_secs(1);

/// What went wrong.
#[derive(Debug)]
pub(super) struct Fault {
    problem: Problem,
    ending: Ending,
}

impl Fault {
    /// Nobody could be reached, and nothing was sent.
    pub(super) fn unreachable(why: &str) -> Self {
        let words = format!("the request was not passed on: {why}; ask again with the same key");
        let problem = Problem::new(ProblemKind::UpstreamUnreachable, words);
        Self {
            problem: problem.ask_again_after(RETRY_AFTER_UNREACHABLE),
            ending: Ending::NotSent,
        }
    }

    /// The request cannot be passed on as it is.
    pub(super) fn refused(why: &str) -> Self {
        Self {
            problem: Problem::new(ProblemKind::RequestMalformed, why),
            ending: Ending::NotSent,
        }
    }

    /// The service gave no whole answer.
    pub(super) fn broken(why: &str) -> Self {
        let words = format!(
            "the request was passed on, and no whole answer came back: {why}; it may have taken effect"
        );
        Self {
            problem: Problem::new(ProblemKind::UpstreamBroken, words),
            ending: Ending::Broken,
        }
    }

    /// The service did not answer in time.
    pub(super) fn late() -> Self {
        let words = "the request was passed on, and the answer did not come in time; it may have taken effect";
        Self {
            problem: Problem::new(ProblemKind::UpstreamTimeout, words),
            ending: Ending::Broken,
        }
    }

    /// The client broke off while his request was passed on.
    pub(super) fn cut_short() -> Self {
        let words = "its body broke off while it was passed on; a part of it may have taken effect";
        Self {
            problem: Problem::new(ProblemKind::RequestMalformed, words),
            ending: Ending::Broken,
        }
    }

    /// The answer, which carries the ending for whoever guards the request.
    pub(super) fn answer(self) -> Response<Body> {
        let mut answer = answer(&self.problem);
        answer.extensions_mut().insert(self.ending);
        answer
    }
}

/// A problem as an answer.
pub(super) fn answer(problem: &Problem) -> Response<Body> {
    let mut answer = Response::new(whole(problem.body()));
    *answer.status_mut() =
        StatusCode::from_u16(problem.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let fields = answer.headers_mut();
    fields.insert(
        CONTENT_TYPE,
        HeaderValue::from_static(Problem::CONTENT_TYPE),
    );
    if let Some(seconds) = problem.retry_after() {
        fields.insert(RETRY_AFTER, seconds.into());
    }
    answer
}
