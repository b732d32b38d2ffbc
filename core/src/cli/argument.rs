//! The arguments that many subcommands share.

use std::ffi::OsStr;

use clap::builder::TypedValueParser;
use clap::error::ErrorKind;

use crate::{Identity, Scope};

/// The operation that `semel run` claims under when none is named, and that the other subcommands look for.
pub(crate) const RUN: &str = "run";

/// Takes text, and names the argument when its bytes are no text.
#[derive(Clone, Copy)]
pub(crate) struct Text;

impl TypedValueParser for Text {
    type Value = String;

    fn parse_ref(
        &self,
        _: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        value.to_str().map(str::to_owned).ok_or_else(|| {
            let name = arg.map_or_else(|| "an argument".to_owned(), ToString::to_string);
            let shown = value.to_string_lossy();
            let advice =
                "it becomes a name, and names are text: encode the bytes, for example in hex";
            clap::Error::raw(
                ErrorKind::InvalidUtf8,
                format!("{name}: {shown:?} is not UTF-8; {advice}\n"),
            )
        })
    }
}

/// Which store.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct StoreArg {
    /// Directory or URL of the store
    #[arg(long, value_name = "DIR", value_parser = Text)]
    pub(crate) store: String,
}

/// Which record.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct KeyArgs {
    /// Which one: order number, payment number, line key
    #[arg(long, value_name = "K", value_parser = Text)]
    pub(crate) key: String,
    /// What was asked for
    #[arg(long, value_name = "NAME", default_value = RUN, value_parser = Text)]
    pub(crate) operation: String,
    /// Whose it is; the global scope when absent
    #[arg(long, value_name = "S", value_parser = Text)]
    pub(crate) scope: Option<String>,
}

impl KeyArgs {
    /// The record's identity.
    pub(crate) fn identity(&self) -> Identity<'_> {
        let identity = Identity::new(&*self.operation, &*self.key);
        match &self.scope {
            Some(scope) => identity.scope(Scope::from(scope)),
            None => identity,
        }
    }

    /// The record's name for a message.
    pub(crate) fn named(&self) -> String {
        match &self.scope {
            Some(scope) => format!("{} {:?} of scope {scope:?}", self.operation, self.key),
            None => format!("{} {:?}", self.operation, self.key),
        }
    }

    /// The options that name the record on a command line. What begins like an option is joined to its own by a sign.
    pub(crate) fn options(&self) -> Vec<String> {
        let parts = [
            ("--operation", Some(&self.operation)),
            ("--key", Some(&self.key)),
            ("--scope", self.scope.as_ref()),
        ];
        let given = parts
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)));
        given
            .flat_map(|(name, value)| match value.starts_with('-') {
                true => vec![format!("{name}={value}")],
                false => vec![name.to_owned(), value.clone()],
            })
            .collect()
    }
}
