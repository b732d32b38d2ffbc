//! The options of the attribute as they are written: `name = value`, each at most once.

use proc_macro2::TokenStream;
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{Expr, Ident, Pat, Token};

use crate::faults::Faults;
use crate::text;

/// Every option there is.
const NAMES: [&str; 25] = [
    "store",
    "operation",
    "key",
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
    "classify",
    "retry_on",
    "fail_on",
    "ticket",
    "crate",
];

/// What stands to the right of the `=`.
pub(crate) enum Given {
    /// An expression.
    Value(Expr),
    /// A pattern: which errors are meant.
    Pattern(Pat),
}

/// The options by name.
pub(crate) struct Options {
    list: Vec<(Ident, Given)>,
    /// Whether they could be read to their end.
    whole: bool,
}

impl Options {
    /// Reads them, as far as they can be read.
    pub(crate) fn read(written: TokenStream, faults: &mut Faults) -> Self {
        let mut options = Self {
            list: Vec::new(),
            whole: true,
        };
        let read = |input: ParseStream<'_>| {
            while !input.is_empty() {
                options.read_one(input, faults)?;
                if !input.is_empty() {
                    input.parse::<Token![,]>()?;
                }
            }
            Ok(())
        };
        let read = read.parse2(written);
        options.whole = faults.keep(read).is_some();
        options
    }

    fn read_one(&mut self, input: ParseStream<'_>, faults: &mut Faults) -> syn::Result<()> {
        if !input.peek(Ident::peek_any) {
            return Err(
                input.error("an option is written `name = value`, as in `retain = \"10m\"`")
            );
        }
        let name = input.call(Ident::parse_any)?;
        let word = name.to_string();
        if !input.peek(Token![=]) {
            let fault = format!("`{word}` has no value; write `{word} = ...`");
            faults.at(&name, fault);
            return Ok(());
        }
        input.parse::<Token![=]>()?;
        let given = match &*word {
            "retry_on" | "fail_on" => which(input)?,
            _ => Given::Value(input.parse()?),
        };
        if !NAMES.contains(&&*word) {
            faults.at(&name, text::unknown("option", &word, &NAMES));
        } else if self.get(&word).is_some() {
            faults.at(&name, format!("`{word}` is given twice; leave one of them"));
        } else {
            self.list.push((name, given));
        }
        Ok(())
    }

    fn get(&self, name: &str) -> Option<&(Ident, Given)> {
        self.list.iter().find(|(known, _)| known == name)
    }

    /// Whether the option is given.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// The name of the option as it is written, for what is wrong with its being there.
    pub(crate) fn name(&self, name: &str) -> Option<&Ident> {
        self.get(name).map(|(name, _)| name)
    }

    /// The option's expression.
    pub(crate) fn value(&self, name: &str) -> Option<&Expr> {
        match self.get(name) {
            Some((_, Given::Value(value))) => Some(value),
            _ => None,
        }
    }

    /// What the option says, expression or pattern.
    pub(crate) fn given(&self, name: &str) -> Option<&Given> {
        self.get(name).map(|(_, given)| given)
    }

    /// The expression of an option that has to be there, for the function of this name.
    pub(crate) fn needed(
        &self,
        name: &str,
        example: &str,
        function: &Ident,
        faults: &mut Faults,
    ) -> Option<&Expr> {
        let value = self.value(name);
        if value.is_none() && self.whole {
            faults.at(function, format!("`{name}` is missing; say {example}"));
        }
        value
    }
}

/// Which errors: a pattern, a text with one in it, or a closure that is asked.
fn which(input: ParseStream<'_>) -> syn::Result<Given> {
    if input.peek(Token![|]) || input.peek(Token![move]) {
        return input.parse().map(Given::Value);
    }
    if input.peek(syn::LitStr) {
        let text: syn::LitStr = input.parse()?;
        return text
            .parse_with(Pat::parse_multi_with_leading_vert)
            .map(Given::Pattern);
    }
    Pat::parse_multi(input).map(Given::Pattern)
}
