//! State machine: declared edges, fired as compare-and-set.
//!
//! Stops: an order paid twice, cancelled after it was shipped, or moved by a late message. Does not stop: what happens
//! outside of the machine: put it into the same transaction, or claim it. Choose it for anything with a status. It is
//! idempotence for the state alone, and tells a second payment apart from the same payment twice.
//!
//! ```
//! use semel::{Fire, Store};
//!
//! let store = Store::open("memory:")?;
//! let order = store.machine("order", &[("WAIT_PAY", &["PAID", "CANCELLED"]), ("PAID", &["REFUNDED"])], "WAIT_PAY")?;
//! order.create("ORDER_1")?;
//! assert_eq!(order.fire("ORDER_1", "WAIT_PAY", "PAID", "pay-77")?, Fire::Applied);
//! assert_eq!(order.fire("ORDER_1", "WAIT_PAY", "PAID", "pay-77")?, Fire::Already); // the same callback again
//! assert_eq!(order.fire("ORDER_1", "WAIT_PAY", "PAID", "pay-78")?, Fire::Taken("pay-77".into())); // a second payment
//! assert_eq!(order.fire("ORDER_1", "WAIT_PAY", "CANCELLED", "timeout")?, Fire::Illegal(Some("PAID".into())));
//! # Ok::<(), semel::Error>(())
//! ```

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::codec::decode_row;
use crate::error::{Error, Result};
use crate::key::{Key, MAX_ID_BYTES, MAX_NAME_BYTES, Namespace, check_name};
use crate::request::Retain;
use crate::store::Store;
use crate::tx::{Tx, kept_until_us};

/// How many of the last transitions an instance remembers: an event that comes again after so many others is no longer
/// known for a repeat.
pub const MAX_HISTORY: usize = 32;
/// The most states that a machine may have.
pub const MAX_STATES: usize = 256;

/// What firing an edge came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fire {
    /// The instance is in the new state.
    Applied,
    /// This very edge was fired by the same event before: the same request again.
    Already,
    /// This edge was fired by another event, which is this: think of a second payment.
    Taken(String),
    /// The instance is in this state, from which the edge does not lead; `None` when there is no such instance.
    Illegal(Option<String>),
}

impl Fire {
    /// The answer's word, the same in every language.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Already => "already",
            Self::Taken(_) => "taken",
            Self::Illegal(_) => "illegal",
        }
    }
}

/// One transition of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition {
    /// The state before.
    pub from: String,
    /// The state after.
    pub to: String,
    /// What caused it.
    pub event: String,
    /// When: microseconds since the Unix epoch.
    pub at_us: u64,
}

/// An instance as it is kept; read where it lies, since it is read to be left as it is more often than not.
#[derive(Serialize, Deserialize)]
struct Instance<'b> {
    state: &'b str,
    history: Vec<Step<'b>>,
}

#[derive(Serialize, Deserialize)]
struct Step<'b> {
    from: &'b str,
    to: &'b str,
    event: &'b str,
    at_us: u64,
}

impl Step<'_> {
    fn told(&self) -> Transition {
        Transition {
            from: self.from.to_owned(),
            to: self.to.to_owned(),
            event: self.event.to_owned(),
            at_us: self.at_us,
        }
    }
}

/// The edges of a machine, checked once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edges {
    name: String,
    initial: String,
    edges: BTreeMap<String, Vec<String>>,
    states: BTreeSet<String>,
    retain: Retain,
}

impl Edges {
    /// Declares a machine: from which state to which others, and the state in which an instance begins.
    ///
    /// # Errors
    /// `InvalidInput` for blank or over-long names, edges declared twice, too many states, an initial state that no edge
    /// names.
    pub fn new(name: &str, edges: &[(&str, &[&str])], initial: &str) -> Result<Self> {
        check_name("machine", name, MAX_NAME_BYTES)?;
        let mut declared: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (from, targets) in edges {
            check_name("state", from, MAX_NAME_BYTES)?;
            for to in *targets {
                check_name("state", to, MAX_NAME_BYTES)?;
                let known = declared.entry((*from).to_owned()).or_default();
                if known.iter().any(|known| known == to) {
                    return Err(Error::invalid(format!(
                        "the edge {from} -> {to} is declared twice; declare it once"
                    )));
                }
                known.push((*to).to_owned());
            }
            declared.entry((*from).to_owned()).or_default();
        }
        let states: BTreeSet<String> = declared
            .iter()
            .flat_map(|(from, to)| std::iter::once(from).chain(to))
            .cloned()
            .collect();
        if states.len() > MAX_STATES {
            return Err(Error::invalid(format!(
                "the machine has {} states; at most {MAX_STATES} are allowed",
                states.len()
            )));
        }
        let machine = Self {
            name: name.to_owned(),
            initial: initial.to_owned(),
            edges: declared,
            states,
            retain: Retain::Forever,
        };
        machine.check_state(initial)?;
        Ok(machine)
    }

    /// How long an instance is kept after its last transition: for ever by default.
    pub fn retain(mut self, retain: impl Into<Retain>) -> Self {
        self.retain = retain.into();
        self
    }

    fn check_state(&self, state: &str) -> Result<()> {
        match self.states.contains(state) {
            true => Ok(()),
            false => Err(Error::invalid(format!(
                "the machine {:?} has no state {state:?}; declare it in an edge",
                self.name
            ))),
        }
    }

    fn leads(&self, from: &str, to: &str) -> bool {
        self.edges
            .get(from)
            .is_some_and(|targets| targets.iter().any(|target| target == to))
    }
}

/// A state machine of a store.
#[derive(Clone, Debug)]
pub struct Machine<'a> {
    store: &'a Store,
    edges: Edges,
}

impl Store {
    /// The machine `name` with these edges.
    ///
    /// # Errors
    /// As [`Edges::new`].
    pub fn machine(
        &self,
        name: &str,
        edges: &[(&str, &[&str])],
        initial: &str,
    ) -> Result<Machine<'_>> {
        Ok(Machine {
            store: self,
            edges: Edges::new(name, edges, initial)?,
        })
    }
}

impl Machine<'_> {
    /// How long an instance is kept after its last transition: for ever by default.
    pub fn retain(mut self, retain: impl Into<Retain>) -> Self {
        self.edges.retain = retain.into();
        self
    }

    /// The machine's declaration, to be used within a transaction.
    pub fn edges(&self) -> &Edges {
        &self.edges
    }

    /// Makes an instance in the initial state; `None` when it is new, else the state of the one that is there.
    ///
    /// # Errors
    /// `InvalidInput`, and store errors.
    pub fn create(&self, id: &str) -> Result<Option<String>> {
        self.store
            .transaction(|tx| tx.machine(&self.edges).create(id))
    }

    /// Moves an instance along an edge, if it is where the edge begins.
    ///
    /// # Errors
    /// `InvalidInput` for an unknown state or an event that is no name; store errors.
    pub fn fire(&self, id: &str, from: &str, to: &str, event: &str) -> Result<Fire> {
        self.store
            .transaction(|tx| tx.machine(&self.edges).fire(id, from, to, event))
    }

    /// The state of an instance; `None` when there is none.
    ///
    /// # Errors
    /// Store errors.
    pub fn state(&self, id: &str) -> Result<Option<String>> {
        self.store
            .transaction(|tx| tx.machine(&self.edges).state(id))
    }

    /// The last transitions of an instance, oldest first.
    ///
    /// # Errors
    /// Store errors.
    pub fn history(&self, id: &str) -> Result<Vec<Transition>> {
        self.store
            .transaction(|tx| tx.machine(&self.edges).history(id))
    }
}

/// A state machine within a transaction.
#[derive(Debug)]
pub struct TxMachine<'t, 's> {
    tx: &'t mut Tx<'s>,
    edges: &'t Edges,
}

impl<'s> Tx<'s> {
    /// The machine with these edges.
    pub fn machine<'t>(&'t mut self, edges: &'t Edges) -> TxMachine<'t, 's> {
        TxMachine { tx: self, edges }
    }
}

impl TxMachine<'_, '_> {
    /// As [`Machine::create`].
    ///
    /// # Errors
    /// As [`Machine::create`].
    pub fn create(self, id: &str) -> Result<Option<String>> {
        let key = self.key(id)?;
        if let Some(row) = self.tx.row(&key)? {
            return Ok(Some(read(&key, &row.bytes)?.state.to_owned()));
        }
        let instance = Instance {
            state: &self.edges.initial,
            history: Vec::new(),
        };
        let until_us = kept_until_us(self.tx.now_us(), self.edges.retain)?;
        self.tx.set(&key, &instance, until_us)?;
        Ok(None)
    }

    /// As [`Machine::fire`].
    ///
    /// # Errors
    /// As [`Machine::fire`].
    pub fn fire(self, id: &str, from: &str, to: &str, event: &str) -> Result<Fire> {
        self.edges.check_state(from)?;
        self.edges.check_state(to)?;
        check_name("event", event, MAX_ID_BYTES)?;
        let key = self.key(id)?;
        let Some(row) = self.tx.row(&key)? else {
            return Ok(Fire::Illegal(None));
        };
        let mut instance = read(&key, &row.bytes)?;
        let fired = |step: &&Step<'_>| step.from == from && step.to == to;
        // Looked for first: the instance may have come back to where the edge begins.
        let mut same = instance.history.iter().filter(fired);
        if same.any(|step| step.event == event) {
            return Ok(Fire::Already);
        }
        if instance.state != from || !self.edges.leads(from, to) {
            return Ok(match instance.history.iter().rev().find(fired) {
                Some(step) => Fire::Taken(step.event.to_owned()),
                None => Fire::Illegal(Some(instance.state.to_owned())),
            });
        }
        let at_us = self.tx.now_us();
        let until_us = kept_until_us(at_us, self.edges.retain)?;
        if instance.history.len() >= MAX_HISTORY {
            instance.history.remove(0);
        }
        instance.history.push(Step {
            from,
            to,
            event,
            at_us,
        });
        instance.state = to;
        self.tx.set(&key, &instance, until_us)?;
        Ok(Fire::Applied)
    }

    /// As [`Machine::state`].
    ///
    /// # Errors
    /// As [`Machine::state`].
    pub fn state(self, id: &str) -> Result<Option<String>> {
        let key = self.key(id)?;
        match self.tx.row(&key)? {
            Some(row) => Ok(Some(read(&key, &row.bytes)?.state.to_owned())),
            None => Ok(None),
        }
    }

    /// As [`Machine::history`].
    ///
    /// # Errors
    /// As [`Machine::history`].
    pub fn history(self, id: &str) -> Result<Vec<Transition>> {
        let key = self.key(id)?;
        match self.tx.row(&key)? {
            Some(row) => Ok(read(&key, &row.bytes)?
                .history
                .iter()
                .map(Step::told)
                .collect()),
            None => Ok(Vec::new()),
        }
    }

    fn key(&self, id: &str) -> Result<Key> {
        Key::row(
            Namespace::Machine,
            ("machine", &self.edges.name),
            ("id", id),
        )
    }
}

fn read<'b>(key: &Key, bytes: &'b [u8]) -> Result<Instance<'b>> {
    decode_row(bytes).map_err(|e| Error::corrupt(format!("{} cannot be read: {e}", key.describe())))
}
