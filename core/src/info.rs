//! A record as it is shown to people and programs: everything that is known of a key, in public words.

use serde::Serialize;

use crate::codec::Content;
use crate::key::{Namespace, Parts};
use crate::record::{Doubt, Policy, Record, State, StepState};
use crate::time::NEVER_US;
use crate::value::{Failure, Value};

/// What is known of one operation. Times are microseconds since the Unix epoch, in the store's time.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Info {
    /// Whose operation; `None` is the global scope.
    pub scope: Option<String>,
    /// What.
    pub operation: String,
    /// Which one.
    pub id: String,
    /// `running`, `confirming`, `in_doubt`, `released`, `succeeded`, `failed` or `gone`.
    pub state: &'static str,
    /// How many attempts have started.
    pub attempt: u32,
    /// The fence of the last attempt.
    pub fence: u64,
    /// When the first attempt began.
    pub first_executed_us: u64,
    /// When the last attempt began.
    pub claimed_us: u64,
    /// When the lease of the running attempt ends; `None` without one, or without end.
    pub lease_until_us: Option<u64>,
    /// When the operation ended; `None` while it has not.
    pub finished_us: Option<u64>,
    /// When the record is forgotten; `None` when never.
    pub forgotten_at_us: Option<u64>,
    /// What happens after an attempt with unknown effect.
    pub in_doubt: Policy,
    /// Since when the effect is unknown, and why; `None` when it is known.
    pub doubt: Option<(u64, Doubt)>,
    /// The result.
    pub value: Option<Value>,
    /// The error that is the result.
    pub failure: Option<Failure>,
    /// Who claimed, in the caller's words.
    pub holder: Option<String>,
    /// Names of the top-level members of the payload.
    pub fields: Vec<String>,
    /// The steps of the work, and whether each is done.
    pub steps: Vec<(String, bool)>,
}

impl Info {
    /// The record of a key at `now_us`; `None` for what is no operation, or is forgotten.
    pub(crate) fn of(
        key: &[u8],
        content: &Content,
        now_us: u64,
        holder_gone: bool,
    ) -> Option<Self> {
        let Content::Record(record) = content else {
            return None;
        };
        Self::of_record(key, record, now_us, holder_gone).filter(|_| !record.forgotten(now_us))
    }

    pub(crate) fn of_record(
        key: &[u8],
        record: &Record,
        now_us: u64,
        holder_gone: bool,
    ) -> Option<Self> {
        let parts = Parts::decode(key).filter(|parts| parts.namespace == Namespace::Claim)?;
        let in_doubt = record.doubt(now_us, holder_gone);
        let retained = now_us < record.retained_until_us();
        let (value, failure) = match &record.state {
            State::Succeeded { value, .. } if retained => (value.clone(), None),
            State::Failed { failure, .. } if retained => (None, failure.clone()),
            _ => (None, None),
        };
        let state = match &record.state {
            _ if in_doubt.is_some() => "in_doubt",
            State::Running { .. } => "running",
            State::Confirming { .. } => "confirming",
            State::InDoubt { .. } => "in_doubt",
            State::Released { .. } => "released",
            State::Succeeded { .. } if value.is_some() => "succeeded",
            State::Failed { .. } if failure.is_some() => "failed",
            State::Succeeded { .. } | State::Failed { .. } => "gone",
        };
        let doubt = in_doubt.or_else(|| match &record.state {
            State::Confirming {
                since_us, doubt, ..
            } => Some((*since_us, doubt.clone())),
            _ => None,
        });
        let until = |us: u64| (us != NEVER_US).then_some(us);
        Some(Self {
            scope: (!parts.scope.is_empty()).then(|| parts.scope.to_owned()),
            operation: parts.operation.to_owned(),
            id: parts.id_text().to_owned(),
            state,
            attempt: record.attempt,
            fence: record.fence,
            first_executed_us: record.first_us,
            claimed_us: record.claimed_us,
            lease_until_us: match record.state {
                State::Running { lease_until_us } => until(lease_until_us),
                State::Confirming { until_us, .. } => until(until_us),
                _ => None,
            },
            finished_us: match record.state {
                State::Succeeded { at_us, .. } | State::Failed { at_us, .. } => Some(at_us),
                _ => None,
            },
            forgotten_at_us: until(record.forgotten_at_us()),
            in_doubt: record.terms.in_doubt,
            doubt,
            value,
            failure,
            holder: record.holder.label.as_deref().map(str::to_owned),
            fields: record
                .fingerprint
                .as_ref()
                .map(|f| f.fields.iter().map(|field| field.name.clone()).collect())
                .unwrap_or_default(),
            steps: record
                .steps
                .iter()
                .map(|step| (step.name.clone(), matches!(step.state, StepState::Done(_))))
                .collect(),
        })
    }
}

#[cfg(any(feature = "cli", feature = "proxy"))]
impl Info {
    /// The record as one JSON object for people and their programs, without its result: times in RFC 3339. Members that have
    /// no meaning in its state are null.
    pub(crate) fn json(&self) -> serde_json::Value {
        use crate::moment::rfc3339;
        use serde_json::json;

        let doubt = self.doubt.as_ref().map(
            |(since_us, doubt)| json!({ "since": rfc3339(*since_us), "why": doubt.to_string() }),
        );
        let failure = self
            .failure
            .as_ref()
            .map(|f| json!({ "code": f.code, "kind": f.kind, "message": f.message }));
        let step = |(name, done): &(String, bool)| json!({ "name": name, "done": done });
        json!({
            "scope": self.scope,
            "operation": self.operation,
            "id": self.id,
            "state": self.state,
            "attempt": self.attempt,
            "fence": self.fence,
            "first_executed": rfc3339(self.first_executed_us),
            "claimed": rfc3339(self.claimed_us),
            "lease_until": self.lease_until_us.map(rfc3339),
            "finished": self.finished_us.map(rfc3339),
            "forgotten_at": self.forgotten_at_us.map(rfc3339),
            "in_doubt": policy_name(self.in_doubt),
            "doubt": doubt,
            "failure": failure,
            "holder": self.holder,
            "fields": self.fields,
            "steps": self.steps.iter().map(step).collect::<Vec<_>>(),
        })
    }
}

impl Serialize for Info {
    fn serialize<S: serde::Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        let mut map = out.serialize_map(None)?;
        map.serialize_entry("scope", &self.scope)?;
        map.serialize_entry("operation", &self.operation)?;
        map.serialize_entry("id", &self.id)?;
        map.serialize_entry("state", self.state)?;
        map.serialize_entry("attempt", &self.attempt)?;
        map.serialize_entry("fence", &self.fence)?;
        map.serialize_entry("first_executed_us", &self.first_executed_us)?;
        map.serialize_entry("claimed_us", &self.claimed_us)?;
        map.serialize_entry("lease_until_us", &self.lease_until_us)?;
        map.serialize_entry("finished_us", &self.finished_us)?;
        map.serialize_entry("forgotten_at_us", &self.forgotten_at_us)?;
        map.serialize_entry("in_doubt", policy_name(self.in_doubt))?;
        map.serialize_entry(
            "doubt",
            &self.doubt.as_ref().map(|(_, doubt)| doubt.to_string()),
        )?;
        map.serialize_entry(
            "in_doubt_since_us",
            &self.doubt.as_ref().map(|(since_us, _)| since_us),
        )?;
        map.serialize_entry("content", &self.value.as_ref().map(Value::content))?;
        map.serialize_entry(
            "value_hex",
            &self.value.as_ref().map(|value| hex(value.as_bytes())),
        )?;
        map.serialize_entry("failure", &self.failure)?;
        map.serialize_entry("holder", &self.holder)?;
        map.serialize_entry("fields", &self.fields)?;
        map.serialize_entry("steps", &self.steps)?;
        map.end()
    }
}

/// The word for a policy in every language.
pub(crate) fn policy_name(policy: Policy) -> &'static str {
    match policy {
        Policy::Hold => "hold",
        Policy::Rerun => "rerun",
        Policy::Ask => "ask",
    }
}

/// Bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes
        .iter()
        .fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}
