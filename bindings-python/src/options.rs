//! The options of an operation: keyword arguments, checked once, and put on requests.

use std::borrow::Cow;
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use semel::{Durability, Info, Lease, OnTwin, Policy, Renew, Request, Retain, Scope};

use crate::claim::Name;
use crate::confirm;
use crate::errors::invalid;
use crate::names;
use crate::payload;
use crate::times;

/// Options that are the same for every call.
#[derive(Default)]
pub(crate) struct Options {
    lease: Option<Lease>,
    retain: Option<Retain>,
    remember: Option<Duration>,
    wait: Option<Duration>,
    in_doubt: Option<Policy>,
    confirm: Option<Py<PyAny>>,
    max_attempts: Option<u32>,
    retry_window: Option<Duration>,
    twin_window: Option<Duration>,
    on_twin: Option<OnTwin>,
    durability: Option<Durability>,
    holder: Option<String>,
    on_lost: Option<Py<PyAny>>,
    renew: Option<Renew>,
    renew_limit: Option<Duration>,
}

/// What belongs to one call.
pub(crate) struct Call<'a> {
    pub(crate) operation: &'a str,
    pub(crate) id: Cow<'a, str>,
    pub(crate) scope: Scope<'a>,
    pub(crate) payload: Option<semel::Canonical>,
}

impl Options {
    /// Takes the options of keyword arguments; `scope` and `payload` are the call's own, and left to it.
    pub(crate) fn of(given: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let mut options = Self::default();
        let Some(given) = given else {
            return Ok(options);
        };
        for (name, value) in given.iter() {
            let name = name.cast::<PyString>()?.to_str()?;
            let not_given = value.is_none() && is_known(name);
            if !not_given && !matches!(name, "scope" | "payload") {
                options.take(name, &value)?;
            }
        }
        Ok(options)
    }

    fn take(&mut self, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        match name {
            "lease" => self.lease = Some(times::lease(value)?),
            "retain" => self.retain = Some(times::retain(value)?),
            "remember" => self.remember = Some(times::span(name, value)?),
            "wait" => self.wait = Some(times::span(name, value)?),
            "in_doubt" => self.in_doubt = Some(policy(value)?),
            "confirm" => self.confirm = Some(callable(name, value)?),
            "max_attempts" => self.max_attempts = Some(count(name, value)?),
            "retry_window" => self.retry_window = Some(times::span(name, value)?),
            "twin_window" => self.twin_window = Some(times::span(name, value)?),
            "on_twin" => self.on_twin = Some(on_twin(value)?),
            "durability" => self.durability = Some(durability(value)?),
            "holder" => self.holder = Some(names::text(name, value)?.to_owned()),
            "on_lost" => self.on_lost = Some(callable(name, value)?),
            "renew" => self.renew = Some(renew(value)?),
            "renew_limit" => self.renew_limit = Some(times::span(name, value)?),
            _ => {
                return Err(invalid(
                    value.py(),
                    format!(
                        "there is no option {name:?}; the options are {}",
                        NAMES.join(", ")
                    ),
                ));
            }
        }
        Ok(())
    }

    pub(crate) fn waits(&self) -> bool {
        self.wait.is_some_and(|wait| !wait.is_zero())
    }

    /// A request with these options.
    pub(crate) fn request<'a>(&self, py: Python<'_>, call: Call<'a>) -> Request<'a> {
        let mut request = Request::new(call.operation, call.id).scope(call.scope);
        if let Some(payload) = call.payload {
            request = request.payload_canonical(payload);
        }
        self.on(py, request)
    }

    /// Puts the options on a request.
    pub(crate) fn on<'a>(&self, py: Python<'_>, mut request: Request<'a>) -> Request<'a> {
        if let Some(lease) = self.lease {
            request = request.lease(lease);
        }
        if let Some(retain) = self.retain {
            request = request.retain(retain);
        }
        if let Some(remember) = self.remember {
            request = request.remember(remember);
        }
        if let Some(wait) = self.wait {
            request = request.wait(wait);
        }
        if let Some(policy) = self.in_doubt {
            request = request.in_doubt(policy);
        }
        if let Some(attempts) = self.max_attempts {
            request = request.max_attempts(attempts);
        }
        if let Some(window) = self.retry_window {
            request = request.retry_window(window);
        }
        if let Some(window) = self.twin_window {
            request = request.twin_window(window);
        }
        if let Some(on_twin) = self.on_twin {
            request = request.on_twin(on_twin);
        }
        if let Some(durability) = self.durability {
            request = request.durability(durability);
        }
        if let Some(holder) = &self.holder {
            request = request.holder(holder.clone());
        }
        if let Some(renew) = self.renew {
            request = request.renew(renew);
        }
        if let Some(limit) = self.renew_limit {
            request = request.renew_limit(limit);
        }
        self.callbacks(py, request)
    }

    fn callbacks<'a>(&self, py: Python<'_>, mut request: Request<'a>) -> Request<'a> {
        if let Some(ask) = &self.confirm {
            let ask = ask.clone_ref(py);
            request = request.confirm(move |info: &Info| confirm::asked(&ask, info));
        }
        if let Some(on_lost) = &self.on_lost {
            request = request.on_lost(teller(py, on_lost));
        }
        request
    }
}

/// Tells a holder that what he held is lost.
pub(crate) fn teller(py: Python<'_>, on_lost: &Py<PyAny>) -> impl Fn(&str) + Send + Sync + 'static {
    let on_lost = on_lost.clone_ref(py);
    move |why| {
        // An interpreter that is shutting down has no holder left to tell.
        Python::try_attach(|py| {
            if let Err(error) = on_lost.call1(py, (why,)) {
                error.write_unraisable(py, Some(on_lost.bind(py)));
            }
        });
    }
}

/// The options of an operation, by name.
const NAMES: [&str; 17] = [
    "scope",
    "payload",
    "lease",
    "retain",
    "remember",
    "wait",
    "in_doubt",
    "confirm",
    "max_attempts",
    "retry_window",
    "twin_window",
    "on_twin",
    "durability",
    "holder",
    "on_lost",
    "renew",
    "renew_limit",
];

fn is_known(name: &str) -> bool {
    NAMES.contains(&name)
}

/// The scope and payload of a call, from its keyword arguments.
pub(crate) fn call<'a>(
    operation: &'a str,
    id: &'a Bound<'_, PyAny>,
    own: &'a Own<'_>,
) -> PyResult<Call<'a>> {
    Ok(Call {
        operation,
        id: names::id("the key", id)?,
        scope: names::maybe_scope(own.scope.as_ref())?,
        payload: match &own.payload {
            Some(payload) if !payload.is_none() => Some(payload::canonical(payload)?),
            _ => None,
        },
    })
}

/// The name of what a call is about.
pub(crate) fn name_of(call: &Call<'_>) -> Name {
    (
        call.scope.text().map(str::to_owned),
        call.operation.to_owned(),
        call.id.clone().into_owned(),
    )
}

/// Keyword arguments that belong to the call itself.
pub(crate) struct Own<'py> {
    pub(crate) scope: Option<Bound<'py, PyAny>>,
    pub(crate) payload: Option<Bound<'py, PyAny>>,
}

impl<'py> Own<'py> {
    pub(crate) fn of(given: Option<&Bound<'py, PyDict>>) -> PyResult<Self> {
        let take = |name| given.map_or(Ok(None), |given| given.get_item(name));
        Ok(Self {
            scope: take("scope")?,
            payload: take("payload")?,
        })
    }
}

fn callable(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    match value.is_callable() {
        true => Ok(value.clone().unbind()),
        false => Err(invalid(
            value.py(),
            format!("{name} is not callable; give a function"),
        )),
    }
}

/// A whole number of at least zero.
pub(crate) fn count(name: &str, value: &Bound<'_, PyAny>) -> PyResult<u32> {
    value.extract().map_err(|_| {
        invalid(
            value.py(),
            format!("{name} is no whole number from 0 to {}", u32::MAX),
        )
    })
}

fn word<'a, T: Copy>(name: &str, value: &Bound<'a, PyAny>, words: &[(&str, T)]) -> PyResult<T> {
    let given = value
        .cast::<PyString>()
        .ok()
        .and_then(|text| text.to_str().ok());
    let found = words.iter().find(|(word, _)| Some(*word) == given);
    found.map(|(_, meaning)| *meaning).ok_or_else(|| {
        let words: Vec<String> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
        invalid(
            value.py(),
            format!("{name} is {value:?}; it is one of {}", words.join(", ")),
        )
    })
}

pub(crate) fn policy(value: &Bound<'_, PyAny>) -> PyResult<Policy> {
    let words = [
        ("hold", Policy::Hold),
        ("rerun", Policy::Rerun),
        ("ask", Policy::Ask),
    ];
    word("in_doubt", value, &words)
}

pub(crate) fn durability(value: &Bound<'_, PyAny>) -> PyResult<Durability> {
    let words = [("sync", Durability::Sync), ("relaxed", Durability::Relaxed)];
    word("durability", value, &words)
}

pub(crate) fn shared(value: &Bound<'_, PyAny>) -> PyResult<semel::Shared> {
    let words = [
        ("auto", semel::Shared::Auto),
        ("never", semel::Shared::Never),
        ("only", semel::Shared::Only),
    ];
    word("shared", value, &words)
}

fn on_twin(value: &Bound<'_, PyAny>) -> PyResult<OnTwin> {
    word(
        "on_twin",
        value,
        &[("report", OnTwin::Report), ("refuse", OnTwin::Refuse)],
    )
}

pub(crate) fn renew(value: &Bound<'_, PyAny>) -> PyResult<Renew> {
    if let Ok(on) = value.extract::<bool>() {
        return Ok(if on { Renew::On } else { Renew::Off });
    }
    word("renew", value, &[("on", Renew::On), ("off", Renew::Off)])
}
