//! What a function is asked to do: its arguments, or what the option names; always by reference, before they are moved.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Expr, Pat};

use crate::arguments::{Argument, Arguments};
use crate::faults::Faults;
use crate::options::Options;
use crate::{place, text, word};

/// The payload as code that gives a reference; `None` when there is none.
pub(crate) fn code(
    options: &Options,
    krate: &syn::Path,
    arguments: &Arguments,
    faults: &mut Faults,
) -> Option<TokenStream> {
    let Some(value) = options.value("payload") else {
        return of_arguments(options, krate, arguments, faults);
    };
    if is_none(value, arguments) {
        if let Some(window) = options.name("twin_window") {
            faults.at(window, "twin_window needs a payload: twins are told by it");
        }
        return None;
    }
    if let Expr::Tuple(parts) = value {
        let parts: Vec<TokenStream> = parts
            .elems
            .iter()
            .filter_map(|part| place::read("payload", part, arguments, faults))
            .map(|part| quote_spanned!(part.span()=> &(#part)))
            .collect();
        return Some(quote!(&(#(#parts,)*)));
    }
    let value = place::read("payload", value, arguments, faults)?;
    Some(quote_spanned!(value.span()=> &(#value)))
}

/// `none`, with or without quotes, when it is no argument.
fn is_none(value: &Expr, arguments: &Arguments) -> bool {
    match word::bare(value) {
        Some(name) => name == "none" && !arguments.has(name),
        None => text::literal(value).is_some_and(|text| text.value() == "none"),
    }
}

/// All arguments by name, but `self` and the one that the store comes from.
fn of_arguments(
    options: &Options,
    krate: &syn::Path,
    arguments: &Arguments,
    faults: &mut Faults,
) -> Option<TokenStream> {
    let store = options.value("store").and_then(store_root);
    let is_store = |argument: &&Argument| {
        let name = argument.name().map(ToString::to_string);
        name.is_some() && name == store
    };
    let mut list = quote!(#krate::attribute::Arguments);
    let mut any = false;
    for argument in arguments
        .all()
        .iter()
        .filter(|argument| !is_store(argument))
    {
        let Some(name) = argument.name() else {
            taken_apart(&argument.pattern, faults);
            continue;
        };
        any = true;
        let text = name.to_string();
        let text = text.trim_start_matches("r#");
        list = quote_spanned!(name.span()=> #list.and(#text, &#name));
    }
    any.then(|| quote!(&#list))
}

/// The argument that the store comes from.
fn store_root(store: &Expr) -> Option<String> {
    match text::literal(store) {
        Some(text) => place::root(&text.parse::<Expr>().ok()?).map(ToString::to_string),
        None => place::root(store).map(ToString::to_string),
    }
}

fn taken_apart(pattern: &Pat, faults: &mut Faults) {
    let fault = match pattern {
        Pat::Wild(_) => {
            "an argument without a name takes no part in the payload: name it, or say what the payload is: `payload = \"req\"`, or none"
        }
        _ => {
            "an argument that is taken apart may hide parts from the payload: give it one name, or say what the payload is: `payload = \"req\"`, or none"
        }
    };
    faults.at(pattern, fault);
}
