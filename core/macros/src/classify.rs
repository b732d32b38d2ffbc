//! What an error of the function says of its effect, as a closure.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Expr, Ident};

use crate::faults::Faults;
use crate::options::{Given, Options};
use crate::text;

/// A closure from an error to what it says. Patterns come first, then the function, then what the type says by itself.
pub(crate) fn code(options: &Options, krate: &syn::Path, faults: &mut Faults) -> TokenStream {
    let rest = match options.value("classify") {
        Some(value) => function(value, faults),
        None => quote!(#krate::attribute::unsorted),
    };
    let retry = options.given("retry_on");
    let fail = options.given("fail_on");
    if retry.is_none() && fail.is_none() {
        return rest;
    }
    let error = Ident::new("__semel_error", Span::mixed_site());
    let branch = |given: Option<&Given>, marked: TokenStream| {
        let meant = asked(given?, krate, &error);
        Some(quote!(if #meant { #krate::#marked(#error) } else))
    };
    let retry = branch(retry, quote!(retryable));
    let fail = branch(fail, quote!(terminal));
    quote!(|#error| #retry #fail { (#rest)(#error) })
}

/// Whether the error is meant, as an expression.
fn asked(given: &Given, krate: &syn::Path, error: &Ident) -> TokenStream {
    match given {
        Given::Pattern(pattern) => {
            quote_spanned!(pattern.span()=> ::core::matches!(&#error, #pattern))
        }
        Given::Value(closure) => {
            quote_spanned!(closure.span()=> #krate::attribute::holds(&#error, #closure))
        }
    }
}

/// The path of a function, or a closure; a text is read as a path.
fn function(value: &Expr, faults: &mut Faults) -> TokenStream {
    if let Some(text) = text::literal(value) {
        if let Ok(path) = text.parse::<syn::ExprPath>() {
            return quote!(#path);
        }
    } else if !matches!(value, Expr::Lit(_)) {
        return quote!(#value);
    }
    faults.at(
        value,
        "classify is the path of a function from the error to `semel::WorkError`, or a closure",
    );
    TokenStream::new()
}
