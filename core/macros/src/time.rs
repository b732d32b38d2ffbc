//! Options whose value is a time: a text that is read while compiling, or an expression.

use std::time::Duration;

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Expr, Ident, Lit};

use crate::arguments::Arguments;
use crate::faults::Faults;
use crate::{duration, text, word};

/// An option that takes a time.
pub(crate) struct Time {
    /// The option.
    pub(crate) option: &'static str,
    /// The word for a time without end, and the type whose variant it is.
    endless: Option<(&'static str, &'static str, &'static str)>,
    /// What is wrong with no time at all, if anything is.
    zero: Option<&'static str>,
}

/// Every option of this kind.
pub(crate) const TIMES: [Time; 7] = [
    Time {
        option: "lease",
        endless: Some(("never", "Lease", "Never")),
        zero: Some("give the time that the work may take without a sign of life, or \"never\""),
    },
    Time {
        option: "retain",
        endless: Some(("forever", "Retain", "Forever")),
        zero: Some(
            "a repeat would run the operation again: give the time in which repeats can come",
        ),
    },
    Time {
        option: "remember",
        endless: None,
        zero: None,
    },
    Time {
        option: "wait",
        endless: None,
        zero: None,
    },
    Time {
        option: "retry_window",
        endless: None,
        zero: None,
    },
    Time {
        option: "twin_window",
        endless: None,
        zero: Some("leave it out to look for no twins"),
    },
    Time {
        option: "renew_limit",
        endless: None,
        zero: Some("turn renewal off with `renew = off` instead"),
    },
];

/// A time as far as it is known while compiling.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Known {
    /// So long.
    For(Duration),
    /// Without end.
    Endless,
    /// When it is called.
    Later,
}

impl Time {
    /// Reads a value; `None` when it is faulty.
    pub(crate) fn read(
        &self,
        value: &Expr,
        arguments: &Arguments,
        faults: &mut Faults,
    ) -> Option<Known> {
        let option = self.option;
        let Some(written) = written(value, arguments) else {
            return self.later(value, faults);
        };
        if let Some((word, ..)) = self.endless
            && written == word
        {
            return Some(Known::Endless);
        }
        if matches!(&*written, "never" | "forever") {
            let fault = match self.endless {
                Some((word, ..)) => format!("a {option} without end is written \"{word}\""),
                None => format!("{option} takes a time that ends, as in `{option} = \"30s\"`"),
            };
            faults.at(value, fault);
            return None;
        }
        match duration::parse(&written) {
            Ok(Duration::ZERO) if self.zero.is_some() => {
                let advice = self.zero.unwrap_or_default();
                faults.at(value, format!("{option} is zero; {advice}"));
                None
            }
            Ok(time) => Some(Known::For(time)),
            Err(advice) => {
                faults.at(value, format!("{option} is no time: {advice}"));
                None
            }
        }
    }

    /// An expression is a time when it is called; a bare number is none.
    fn later(&self, value: &Expr, faults: &mut Faults) -> Option<Known> {
        let number = match value {
            Expr::Lit(literal) => &literal.lit,
            Expr::Unary(unary) => match &*unary.expr {
                Expr::Lit(literal) => &literal.lit,
                _ => return Some(Known::Later),
            },
            _ => return Some(Known::Later),
        };
        let option = self.option;
        let fault = match number {
            Lit::Int(number) if !matches!(value, Expr::Unary(_)) => {
                format!(
                    "a time says its unit: seconds are `{option} = \"{}s\"`",
                    number.base10_digits()
                )
            }
            _ => format!(
                "{option} takes a time, as in `{option} = \"30s\"`, or an expression that gives one"
            ),
        };
        faults.at(value, fault);
        None
    }

    /// The value as code.
    pub(crate) fn code(&self, known: Known, value: &Expr, krate: &syn::Path) -> TokenStream {
        let span = value.span();
        match (known, self.endless) {
            (Known::For(time), _) => {
                let (seconds, nanos) = (time.as_secs(), time.subsec_nanos());
                quote_spanned!(span=> ::core::time::Duration::new(#seconds, #nanos))
            }
            (Known::Endless, Some((_, of, variant))) => {
                let (of, variant) = (Ident::new(of, span), Ident::new(variant, span));
                quote_spanned!(span=> #krate::#of::#variant)
            }
            _ => quote!(#value),
        }
    }
}

/// The text of a literal, or one of the words without quotes.
fn written(value: &Expr, arguments: &Arguments) -> Option<String> {
    if let Some(text) = text::literal(value) {
        return Some(text.value());
    }
    let name = word::bare(value).filter(|name| !arguments.has(name))?;
    let word = name.to_string();
    matches!(&*word, "never" | "forever").then_some(word)
}
