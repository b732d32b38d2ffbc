//! The store: its verbs, and the way to its schemes.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::batch::{self, Batch};
use crate::claim::Claim;
use crate::errors::OrRaise;
use crate::failure::Known;
use crate::ground::Ground;
use crate::ids::Ids;
use crate::inbox;
use crate::ledger::Ledger;
use crate::lock::Lock;
use crate::machine::Machine;
use crate::names;
use crate::opening::{Opening, text_of};
use crate::options::{self, Options, Own, name_of};
use crate::outbox::Outbox;
use crate::record::Record;
use crate::resolving;
use crate::rows::Rows;
use crate::run::{self, How};
use crate::shared::Shared;
use crate::stats;
use crate::table::Table;
use crate::times;
use crate::tokens::Tokens;
use crate::transaction;
use crate::unique::Unique;

/// A store of what was executed. Safe to be used by many threads; closed by `close`, at the end of a `with`, or when the
/// last reference goes.
#[pyclass(frozen, subclass, module = "semel._native", name = "Store")]
pub(crate) struct Store {
    pub(crate) shared: Arc<Shared>,
}

#[pymethods]
impl Store {
    #[new]
    #[pyo3(signature = (place, **options))]
    fn new(place: &Bound<'_, PyAny>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let opening = Opening::of(place, options)?;
        let max_result_bytes = opening.max_result_bytes;
        Ok(Self {
            shared: Arc::new(Shared {
                store: opening.open(place.py())?,
                max_result_bytes,
            }),
        })
    }

    /// Claims an operation: may I run it, or has it been done? The answer is a value, never an exception.
    ///
    /// Options: scope, payload, lease, retain, remember, wait, in_doubt ("hold", "rerun" or "ask"), confirm, max_attempts,
    /// retry_window, twin_window, on_twin ("report" or "refuse"), durability ("sync" or "relaxed"), holder, on_lost,
    /// renew ("on" or "off"), renew_limit. Durations are seconds, timedeltas, or text like "30s"; None is "not given".
    ///
    /// Raises InvalidInput before anything is touched, and StoreError, which never means that the operation may run.
    ///
    /// >>> import semel
    /// >>> store = semel.open("memory:")
    /// >>> store.claim("order.create", "ORDER_1", scope="tenant-7").answer
    /// 'execute'
    #[pyo3(signature = (operation, id, **options))]
    fn claim(
        &self,
        py: Python<'_>,
        operation: &Bound<'_, PyAny>,
        id: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Claim> {
        let own = Own::of(options)?;
        let options = Options::of(options)?;
        let call = options::call(names::text("operation", operation)?, id, &own)?;
        let name = name_of(&call);
        let request = options.request(py, call);
        let answer = run::claim(py, &self.shared, &request, options.waits())?;
        Ok(Claim::new(answer, name, &self.shared))
    }

    /// Runs the work once, and gives every repeat its first result.
    ///
    /// `work()` is called, or `work(claim)` with pass_ticket=True. Its exceptions say what is known of its effect: those
    /// named in `retry_on`, and Retryable, that it took none and may run again; those in `fail_on`, and Terminal, that it is
    /// over, and every repeat gets Failed; any other leaves the operation in doubt. The caller whose work raised sees his
    /// own exception. `returns` is the type that kept results are read as. Options as of claim.
    ///
    /// Raises Busy, Mismatch, InDoubt, Gone or Twin when there is no result to give, Failed for a kept error, Lost when
    /// another attempt may have run as well, InvalidInput and StoreError.
    ///
    /// >>> import semel
    /// >>> store = semel.open("memory:")
    /// >>> [store.run("order.create", "ORDER_1", lambda: "created") for _ in range(2)]
    /// ['created', 'created']
    #[pyo3(signature = (operation, id, work, *, pass_ticket=false, retry_on=None, fail_on=None, returns=None, **options))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn run<'py>(
        &self,
        py: Python<'py>,
        operation: &Bound<'py, PyAny>,
        id: &Bound<'py, PyAny>,
        work: &Bound<'py, PyAny>,
        pass_ticket: bool,
        retry_on: Option<&Bound<'py, PyAny>>,
        fail_on: Option<&Bound<'py, PyAny>>,
        returns: Option<&Bound<'py, PyAny>>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let own = Own::of(options)?;
        let options = Options::of(options)?;
        let known = Known::of(retry_on, fail_on)?;
        let call = options::call(names::text("operation", operation)?, id, &own)?;
        let request = options.request(py, call);
        let how = How {
            work,
            arguments: None,
            keywords: None,
            pass_ticket,
            known: &known,
            returns,
        };
        let name = || {
            let scope = own.scope.as_ref().and_then(|scope| scope.extract().ok());
            let id = names::id("the key", id)
                .map(std::borrow::Cow::into_owned)
                .unwrap_or_default();
            (scope, operation.to_string(), id)
        };
        run::run(py, &self.shared, &request, options.waits(), name, &how)
    }

    /// Claims many operations; all of them share one wait for the disk. `items` are ids, pairs of id and payload, or a dict of
    /// them. Options as of claim, but for payload.
    ///
    /// A list with a Claim for each, or the exception that kept it from being claimed.
    ///
    /// >>> import semel
    /// >>> [claim.answer for claim in semel.open("memory:").claim_many("mail.send", ["A", "B", "A"])]
    /// ['execute', 'execute', 'busy']
    #[pyo3(signature = (operation, items, **options))]
    fn claim_many<'py>(
        &self,
        py: Python<'py>,
        operation: &str,
        items: &Bound<'py, PyAny>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyList>> {
        batch::claim_many(py, &self.shared, operation, items, options)
    }

    /// Runs the work for each operation that was not done before, one after the other: `work(id)`, or `work(id, payload)`
    /// for items that are pairs. The claims share one wait for the disk, and so do the results. A request that comes twice
    /// in the batch is run once. A batch may fail in part: a list with an Outcome for each.
    ///
    /// >>> import semel
    /// >>> store = semel.open("memory:")
    /// >>> [outcome.value for outcome in store.run_many("mail.send", {"A": 1, "B": 2}, lambda id, payload: id * payload)]
    /// ['A', 'BB']
    #[pyo3(signature = (operation, items, work, *, retry_on=None, fail_on=None, returns=None, **options))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn run_many<'py>(
        &self,
        py: Python<'py>,
        operation: &str,
        items: &Bound<'py, PyAny>,
        work: &Bound<'py, PyAny>,
        retry_on: Option<&Bound<'py, PyAny>>,
        fail_on: Option<&Bound<'py, PyAny>>,
        returns: Option<&Bound<'py, PyAny>>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let known = Known::of(retry_on, fail_on)?;
        let batch = Batch {
            work,
            known: &known,
            returns,
        };
        batch::run_many(py, &self.shared, operation, items, &batch, options)
    }

    /// The unique index `name`. Rows are kept for ever, or as long as `retain` says; then their ids are free again.
    #[pyo3(signature = (name, *, retain=None))]
    fn unique(&self, name: &str, retain: Option<&Bound<'_, PyAny>>) -> PyResult<Unique> {
        Unique::new(Ground::of(&self.shared), name, retain)
    }

    /// The tokens of the store.
    #[getter]
    fn tokens(&self) -> Tokens {
        Tokens {
            shared: Arc::clone(&self.shared),
        }
    }

    /// The machine `name`: `edges` is a dict from each state to the list of those that it may move to.
    #[pyo3(signature = (name, edges, initial, *, retain=None))]
    fn machine(
        &self,
        name: &str,
        edges: &Bound<'_, PyDict>,
        initial: &str,
        retain: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Machine> {
        Machine::new(Ground::of(&self.shared), name, edges, initial, retain)
    }

    /// The table `name`. Rows are kept for ever, or as long as `retain` says; writes wait up to `timeout` (5 s) for a row
    /// that somebody has locked.
    #[pyo3(signature = (name, *, retain=None, timeout=None))]
    fn table(
        &self,
        name: &str,
        retain: Option<&Bound<'_, PyAny>>,
        timeout: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Table> {
        Table::new(Ground::of(&self.shared), name, retain, timeout)
    }

    /// The ledger `name`. Balances are kept for ever, and entries too, or as long as `retain` says.
    #[pyo3(signature = (name, *, retain=None))]
    fn ledger(&self, name: &str, retain: Option<&Bound<'_, PyAny>>) -> PyResult<Ledger> {
        Ledger::new(Ground::of(&self.shared), name, retain)
    }

    /// The lock `name`, to be held within a `with`. Options: lease (30 s), wait (0), renew ("on" or "off"), renew_limit,
    /// holder, on_lost.
    #[pyo3(signature = (name, **options))]
    fn lock(&self, name: &str, options: Option<&Bound<'_, PyDict>>) -> PyResult<Lock> {
        Lock::new(&self.shared, name, options)
    }

    /// Rows of a table, to be locked together within a `with`, waiting up to `timeout` (5 s) for all of them.
    #[pyo3(signature = (table, ids, *, timeout=None, retain=None))]
    fn lock_rows(
        &self,
        table: &str,
        ids: &Bound<'_, PyAny>,
        timeout: Option<&Bound<'_, PyAny>>,
        retain: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Rows> {
        Rows::new(&self.shared, table, ids, timeout, retain)
    }

    /// Runs `work(tx)`, whose reads and writes of this store are committed together: all of them, or none. When a key that
    /// was read has changed by the time of the commit, it runs again, so that effects outside of the store do not belong in
    /// it. What it raises rolls back.
    ///
    /// Raises TransactionConflict when it met too many conflicts, Timeout when a row that it writes was locked for too long
    /// (`timeout`, 5 s), and StoreError.
    ///
    /// >>> import semel
    /// >>> store = semel.open("memory:")
    /// >>> def pay(tx):
    /// ...     tx.table("orders").put("ORDER_1", "PAID")
    /// ...     tx.emit("orders.paid", "ORDER_1", {"amount": 100})
    /// ...     return tx.ledger("wallet").post("anna", "ORDER_1", 100).balance
    /// >>> store.transaction(pay)
    /// 100
    #[pyo3(signature = (work, *, durability=None, timeout=None))]
    fn transaction<'py>(
        &self,
        py: Python<'py>,
        work: &Bound<'py, PyAny>,
        durability: Option<&Bound<'py, PyAny>>,
        timeout: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let durability = durability.map(options::durability).transpose()?;
        let timeout = timeout
            .map(|given| times::span("timeout", given))
            .transpose()?;
        transaction::run(py, &self.shared, work, durability, timeout)
    }

    /// Handles a message once: what `work(tx)` writes and the mark that it was handled are committed together. An exception
    /// rolls back, releases the message at once, and is raised. Options: max_attempts (5), lease (30 s), retain (7 days),
    /// wait (0), durability.
    ///
    /// "done" and "duplicate": acknowledge the message. "busy": requeue it. "rejected": its attempts are used up, send it to
    /// the dead letters. The word has the attributes `value` (what work returned), `failure` and `retry_after`.
    ///
    /// >>> import semel
    /// >>> store = semel.open("memory:")
    /// >>> def handle(tx):
    /// ...     tx.ledger("wallet").post("anna", "pay:777", 100)
    /// >>> [store.consume("billing", "pay:777", handle) for _ in range(2)]
    /// ['done', 'duplicate']
    #[pyo3(signature = (consumer, message_key, work, **options))]
    fn consume<'py>(
        &self,
        py: Python<'py>,
        consumer: &str,
        message_key: &Bound<'py, PyAny>,
        work: &Bound<'py, PyAny>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        inbox::consume(py, &self.shared, consumer, message_key, work, options)
    }

    /// The outbox of a topic; messages come into it by tx.emit.
    fn outbox(&self, topic: &str) -> Outbox {
        Outbox {
            shared: Arc::clone(&self.shared),
            topic: topic.to_owned(),
        }
    }

    /// Claims the present period of periodic work: True for the first who asks in it, on whatever node. Periods are aligned
    /// to UTC, so that a day begins at midnight.
    ///
    /// Raises InvalidInput for a period below 10 ms, and StoreError, which never means that the period is free.
    ///
    /// >>> import semel
    /// >>> store = semel.open("memory:", clock=semel.Clock())
    /// >>> [store.tick("report", every="1d") for _ in range(2)]
    /// [True, False]
    fn tick(&self, py: Python<'_>, name: &str, every: &Bound<'_, PyAny>) -> PyResult<bool> {
        let every = times::span("every", every)?;
        py.detach(|| self.shared.store.tick(name, every))
            .or_raise(py)
    }

    /// Makers of ids for keys.
    #[getter]
    fn ids(&self) -> Ids {
        Ids {
            shared: Arc::clone(&self.shared),
        }
    }

    /// What is known of an operation; None when it is absent or forgotten.
    ///
    /// Raises InvalidInput, and StoreError, which never means that it is absent.
    ///
    /// >>> import semel
    /// >>> semel.open("memory:").lookup("order.create", "ORDER_1") is None
    /// True
    #[pyo3(signature = (operation, id, *, scope=None))]
    fn lookup(
        &self,
        py: Python<'_>,
        operation: &str,
        id: &Bound<'_, PyAny>,
        scope: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Option<Record>> {
        let identity = names::identity(operation, id, scope)?;
        let found = py
            .detach(|| self.shared.store.lookup(&identity))
            .or_raise(py)?;
        Ok(found.map(Record::of))
    }

    /// Drops what is known of an operation, so that it may run again: "forgotten", "absent", or "busy" when it runs under a
    /// live lease, and nothing was changed.
    #[pyo3(signature = (operation, id, *, scope=None))]
    fn forget(
        &self,
        py: Python<'_>,
        operation: &str,
        id: &Bound<'_, PyAny>,
        scope: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<&'static str> {
        let identity = names::identity(operation, id, scope)?;
        let forgotten = py
            .detach(|| self.shared.store.forget(&identity))
            .or_raise(py)?;
        Ok(resolving::forgotten(forgotten))
    }

    /// Ends a doubt: says what came of an operation whose effect is unknown, by exactly one of `value` (it took effect, with
    /// this result), `executed=True` (it did, and the result is not known), `error` (it ended with this exception, or dict
    /// with code and message) and `rerun=True` (it took none). With `fence`, only the doubt about that attempt.
    ///
    /// "resolved"; "not_in_doubt" when somebody ended it before, or it runs; "absent".
    ///
    /// >>> import semel
    /// >>> store = semel.open("memory:")
    /// >>> claim = store.claim("order.create", "ORDER_1")
    /// >>> claim.doubt("the gateway timed out")
    /// >>> store.resolve("order.create", "ORDER_1", value="created")
    /// 'resolved'
    /// >>> store.claim("order.create", "ORDER_1").result()
    /// 'created'
    #[pyo3(signature = (operation, id, *, scope=None, fence=None, rerun=false, executed=false, **ending))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn resolve(
        &self,
        py: Python<'_>,
        operation: &str,
        id: &Bound<'_, PyAny>,
        scope: Option<&Bound<'_, PyAny>>,
        fence: Option<u64>,
        rerun: bool,
        executed: bool,
        ending: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<&'static str> {
        let resolution = resolving::resolution(py, rerun, executed, ending)?;
        let identity = names::identity(operation, id, scope)?;
        let store = &self.shared.store;
        let resolved = py.detach(|| match fence {
            Some(fence) => store.resolve_attempt(&identity, fence, resolution),
            None => store.resolve(&identity, resolution),
        });
        resolved.or_raise(py).map(resolving::resolved)
    }

    /// Operations that somebody must resolve, longest in doubt first.
    #[pyo3(signature = (limit=1000))]
    fn unresolved(&self, py: Python<'_>, limit: usize) -> PyResult<Vec<Record>> {
        let found = py
            .detach(|| self.shared.store.unresolved(limit))
            .or_raise(py)?;
        Ok(found.into_iter().map(Record::of).collect())
    }

    /// Frees what is forgotten, as is done in the background; how many records.
    fn sweep(&self, py: Python<'_>) -> PyResult<u64> {
        py.detach(|| self.shared.store.sweep()).or_raise(py)
    }

    /// What was counted since the store was opened, and how it stands: a dict, with a dict for each operation.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let told = py.detach(|| self.shared.store.stats());
        stats::told(py, &told)
    }

    /// stats as Prometheus text.
    fn metrics(&self, py: Python<'_>) -> String {
        py.detach(|| self.shared.store.metrics())
    }

    /// Reads everything that is stored, to know that it can be read: a dict with counts, and `problems`, empty when all is
    /// well.
    fn verify<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let found = py.detach(|| self.shared.store.verify()).or_raise(py)?;
        stats::verified(py, found)
    }

    /// Copies all that is on disk into a new file, while the store goes on working: a dict with `blocks` and `bytes`.
    fn backup<'py>(
        &self,
        py: Python<'py>,
        path: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let path = text_of(path)?;
        let copied = py.detach(|| self.shared.store.backup(&path)).or_raise(py)?;
        stats::copied(py, copied)
    }

    /// Waits until all that was written before is on disk, whatever its durability.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.shared.store.sync()).or_raise(py)
    }

    /// Takes no more calls, writes what is queued, and lets go of the store. Closing twice is no error.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.shared.store.close()).or_raise(py)
    }

    /// Whether this process holds the store. If not, another one does, and answers the calls of this one.
    #[getter]
    fn is_owner(&self, py: Python<'_>) -> bool {
        py.detach(|| self.shared.store.is_owner())
    }

    /// How many other processes use the store now.
    #[getter]
    fn other_processes(&self, py: Python<'_>) -> usize {
        py.detach(|| self.shared.store.other_processes())
    }

    /// How many records are stored.
    fn __len__(&self, py: Python<'_>) -> usize {
        py.detach(|| self.shared.store.len()) as usize
    }

    /// A store is true, however little is in it.
    fn __bool__(&self) -> bool {
        true
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyAny>) -> PyResult<()> {
        self.close(py)
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.shared.store).replace("Store", "semel.Store")
    }
}
