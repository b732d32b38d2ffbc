//! What the attribute's code calls: no surface of its own, and free to change with it.

use std::fmt;
use std::future::Future;

use serde::de::DeserializeOwned;
use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::key::Scope;
use crate::request::Request;
use crate::run::RunError;
use crate::store::Store;
use crate::ticket::Ticket;
use crate::work::{Classify, WorkError};

/// What an idempotent function returns.
#[diagnostic::on_unimplemented(
    message = "an idempotent function returns a `Result`, and this one returns `{Self}`",
    note = "a repeat can be busy, in doubt or a mismatch, and the store can fail: return `Result<{Self}, E>` where `E: From<semel::RunError>`"
)]
pub trait Outcome {
    /// What repeats get.
    type Value: Serialize + DeserializeOwned;
    /// The function's own error.
    type Error: From<RunError> + fmt::Display;

    /// The outcome as the type that it is.
    fn into_result(self) -> Result<Self::Value, Self::Error>;
    /// The other way round.
    fn from_result(result: Result<Self::Value, Self::Error>) -> Self;
}

impl<T, E> Outcome for Result<T, E>
where
    T: Serialize + DeserializeOwned,
    E: From<RunError> + fmt::Display,
{
    type Value = T;
    type Error = E;

    fn into_result(self) -> Self {
        self
    }

    fn from_result(result: Self) -> Self {
        result
    }
}

/// The handle of the store, from whatever gives a reference to one.
pub fn store(store: &Store) -> Store {
    store.clone()
}

/// Errors of a type that says by itself what is known of the effect.
pub fn unsorted<E: Classify<Error = E>>(error: E) -> WorkError<E> {
    error.classify()
}

/// Runs the body of a function once.
pub fn run<R: Outcome, B, C>(
    store: &Store,
    request: Result<Request<'_>, crate::Error>,
    body: B,
    classify: C,
) -> R
where
    B: FnOnce(&Ticket) -> R,
    C: FnOnce(R::Error) -> WorkError<R::Error>,
{
    let ran = request.map_err(RunError::Store).and_then(|request| {
        store.run(&request, |ticket| {
            body(ticket).into_result().map_err(classify)
        })
    });
    R::from_result(ran.map_err(RunError::flatten))
}

/// [`run`] for a function that is `async`.
pub async fn run_async<R: Outcome, B, W, C>(
    store: &Store,
    request: Result<Request<'_>, crate::Error>,
    body: B,
    classify: C,
) -> R
where
    B: FnOnce(Ticket) -> W,
    W: Future<Output = R>,
    C: FnOnce(R::Error) -> WorkError<R::Error>,
{
    let ran = match request {
        Ok(request) => {
            let work = |ticket| {
                let body = body(ticket);
                async move { body.await.into_result().map_err(classify) }
            };
            store.run_async(&request, work).await
        }
        Err(error) => Err(RunError::Store(error)),
    };
    R::from_result(ran.map_err(RunError::flatten))
}

/// A function's arguments by name, as one map: the payload when none is named.
pub struct Arguments;

/// Arguments, and one more.
pub struct And<'a, A, V: ?Sized>(A, &'static str, &'a V);

/// A list of arguments.
pub trait List: Sized {
    /// How many there are.
    const LEN: usize;

    /// Writes them, in the order in which they were named.
    fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error>;

    /// The list, and the argument `name`.
    fn and<'a, V: Serialize + ?Sized>(self, name: &'static str, value: &'a V) -> And<'a, Self, V> {
        And(self, name, value)
    }
}

impl List for Arguments {
    const LEN: usize = 0;

    fn write<M: SerializeMap>(&self, _: &mut M) -> Result<(), M::Error> {
        Ok(())
    }
}

impl<A: List, V: Serialize + ?Sized> List for And<'_, A, V> {
    const LEN: usize = A::LEN + 1;

    fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        self.0.write(map)?;
        map.serialize_entry(self.1, self.2)
    }
}

impl<A: List, V: Serialize + ?Sized> Serialize for And<'_, A, V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(Self::LEN))?;
        self.write(&mut map)?;
        map.end()
    }
}

/// A scope from a value: a [`Scope`] as it is, found by the method of the type itself, and what can be shown by its text,
/// found by the method of [`Shown`].
pub struct ScopeOf<'a, T: ?Sized>(pub &'a T);

impl<'s> ScopeOf<'_, Scope<'s>> {
    /// The scope itself.
    pub fn scope(&self) -> Scope<'s> {
        self.0.clone()
    }
}

impl<'s> ScopeOf<'_, &Scope<'s>> {
    /// The scope itself.
    pub fn scope(&self) -> Scope<'s> {
        (*self.0).clone()
    }
}

/// See [`ScopeOf`].
pub trait Shown {
    /// The scope that is called as the value is shown.
    fn scope(&self) -> Scope<'static>;
}

impl<T: fmt::Display + ?Sized> Shown for ScopeOf<'_, T> {
    fn scope(&self) -> Scope<'static> {
        Scope::from(self.0.to_string())
    }
}

/// Whether a closure says so of an error.
pub fn holds<E>(error: &E, says: impl FnOnce(&E) -> bool) -> bool {
    says(error)
}
