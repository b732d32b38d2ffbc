//! Options whose value is one of a few words, with or without quotes.

use proc_macro2::TokenStream;
use quote::quote_spanned;
use syn::spanned::Spanned;
use syn::{Expr, Ident};

use crate::arguments::Arguments;
use crate::faults::Faults;
use crate::text;

/// The words of an option, and the variants that they stand for.
pub(crate) struct Words {
    /// The option.
    pub(crate) option: &'static str,
    /// The type of its values.
    pub(crate) of: &'static str,
    /// Word and variant.
    pub(crate) words: &'static [(&'static str, &'static str)],
}

/// Every option of this kind.
pub(crate) const WORDS: [Words; 4] = [
    Words {
        option: "in_doubt",
        of: "Policy",
        words: &[("hold", "Hold"), ("rerun", "Rerun"), ("ask", "Ask")],
    },
    Words {
        option: "on_twin",
        of: "OnTwin",
        words: &[("report", "Report"), ("refuse", "Refuse")],
    },
    Words {
        option: "durability",
        of: "Durability",
        words: &[("sync", "Sync"), ("relaxed", "Relaxed")],
    },
    Words {
        option: "renew",
        of: "Renew",
        words: &[("on", "On"), ("off", "Off")],
    },
];

/// A name without quotes, path or arguments.
pub(crate) fn bare(value: &Expr) -> Option<&Ident> {
    match value {
        Expr::Path(path) if path.qself.is_none() => path.path.get_ident(),
        _ => None,
    }
}

impl Words {
    /// The word that is written, if it is one: `None` for an expression, whose value is known when it is called.
    pub(crate) fn written(&self, value: &Expr, arguments: &Arguments) -> Option<String> {
        if let Some(text) = text::literal(value) {
            return Some(text.value());
        }
        if let Expr::Lit(literal) = value {
            let lit = &literal.lit;
            return Some(quote::quote!(#lit).to_string());
        }
        let name = bare(value)?;
        let word = name.to_string();
        let is_word = word.starts_with(char::is_lowercase) && !arguments.has(name);
        is_word.then_some(word)
    }

    /// The value as code.
    pub(crate) fn code(
        &self,
        value: &Expr,
        krate: &syn::Path,
        arguments: &Arguments,
        faults: &mut Faults,
    ) -> TokenStream {
        let Some(word) = self.written(value, arguments) else {
            return quote_spanned!(value.span()=> #value);
        };
        let span = value.span();
        let of = Ident::new(self.of, span);
        let Some((_, variant)) = self.words.iter().find(|(known, _)| *known == word) else {
            let known: Vec<&str> = self.words.iter().map(|(word, _)| *word).collect();
            let what = format!("value of `{}`", self.option);
            faults.at(value, text::unknown(&what, &word, &known));
            return TokenStream::new();
        };
        let variant = Ident::new(variant, span);
        quote_spanned!(span=> #krate::#of::#variant)
    }
}
