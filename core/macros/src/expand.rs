//! The code that a function becomes: its signature as it was, and in its body one call that runs the old body once.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Expr, Ident, ItemFn, Path, Type};

use crate::arguments::Arguments;
use crate::faults::Faults;
use crate::options::Options;
use crate::{classify, function, payload, place, settings, text, word};

/// As `semel::MAX_NAME_BYTES`.
const MAX_NAME_BYTES: usize = 128;

/// The function with the attribute's effect; with faults, the function as it was, beside them.
pub(crate) fn expand(written: TokenStream, item: TokenStream) -> TokenStream {
    let mut faults = Faults::default();
    let Some(mut function) = faults.keep(function::read(&item)) else {
        let faults = faults.into_code();
        return quote!(#faults #item);
    };
    let options = Options::read(written, &mut faults);
    let returns = function::check(&function, &mut faults);
    let body = body(&function, returns.as_ref(), &options, &mut faults);
    if let Some(faults) = faults.into_code() {
        return quote!(#faults #item);
    }
    match body.map(syn::parse2) {
        Some(Ok(body)) => *function.block = body,
        Some(Err(fault)) => return fault.into_compile_error(),
        None => {}
    }
    quote!(#function)
}

/// What stands in the place of the function's body.
fn body(
    function: &ItemFn,
    returns: Option<&Type>,
    options: &Options,
    faults: &mut Faults,
) -> Option<TokenStream> {
    let arguments = Arguments::of(&function.sig.inputs);
    let name = &function.sig.ident;
    let krate = krate(options, faults);
    let store = options
        .needed(
            "store",
            "where it is remembered, as in `store = STORE`",
            name,
            faults,
        )
        .and_then(|value| place::read("store", value, &arguments, faults));
    let request = request(options, name, &krate, &arguments, faults);
    let classify = classify::code(options, &krate, faults);
    let ticket = ticket(options, &arguments, faults);
    let (store, returns) = (store?, returns?);
    let work = work(function, returns, &krate, ticket);
    let run = match function.sig.asyncness {
        Some(_) => {
            quote_spanned!(returns.span()=> #krate::attribute::run_async::<#returns, _, _, _>)
        }
        None => quote_spanned!(returns.span()=> #krate::attribute::run::<#returns, _, _>),
    };
    let wait = function.sig.asyncness.map(|_| quote!(.await));
    let names = ["__semel_store", "__semel_request"];
    let [store_name, request_name] = names.map(|name| Ident::new(name, Span::mixed_site()));
    let store = quote_spanned!(store.span()=> #krate::attribute::store(&(#store)));
    Some(quote!({
        let #store_name = #store;
        let #request_name = #request;
        #run(&#store_name, #request_name, #work, #classify)#wait
    }))
}

/// The request, or the fault of its payload.
fn request(
    options: &Options,
    function: &Ident,
    krate: &Path,
    arguments: &Arguments,
    faults: &mut Faults,
) -> TokenStream {
    let operation = options
        .needed(
            "operation",
            "what is done, as in `operation = \"order.create\"`",
            function,
            faults,
        )
        .map(|value| text::name("operation", value, MAX_NAME_BYTES, faults));
    let key = options
        .needed(
            "key",
            "which one it is, as in `key = \"req.order_no\"`",
            function,
            faults,
        )
        .and_then(|value| place::read("key", value, arguments, faults))
        .map(|place| text::shown(&place));
    let scope = options
        .value("scope")
        .and_then(|value| place::read("scope", value, arguments, faults))
        .map(|place| quote_spanned!(place.span()=> .scope(#krate::attribute::ScopeOf(&(#place)).scope())));
    let calls = settings::calls(options, krate, arguments, faults);
    let payload = payload::code(options, krate, arguments, faults);
    let request = Ident::new("__semel_request", Span::mixed_site());
    let made = match payload {
        Some(payload) => quote!(#request.payload(#payload)),
        None => quote!(::core::result::Result::<_, #krate::Error>::Ok(#request)),
    };
    quote!({
        #[allow(unused_imports)]
        use #krate::attribute::{List as _, Shown as _};
        let #request = #krate::Request::new(#operation, #key) #scope #calls;
        #made
    })
}

/// The old body as a closure.
fn work(function: &ItemFn, returns: &Type, krate: &Path, ticket: Option<&Ident>) -> TokenStream {
    let block = &function.block;
    let running = Ident::new("__semel_ticket", Span::mixed_site());
    let known = ticket.map(|name| quote!(let #name: &#krate::Ticket = &#running;));
    if function.sig.asyncness.is_none() {
        return quote!(move |#running: &#krate::Ticket| -> #returns { #known #block });
    }
    // What the block returns is known before its first `?`.
    let typed = Ident::new("__semel_return", Span::mixed_site());
    quote!(move |#running: #krate::Ticket| async move {
        if let ::core::option::Option::Some(#typed) = ::core::option::Option::None::<#returns> {
            return #typed;
        }
        #known
        #block
    })
}

/// The name under which the body sees the running ticket.
fn ticket<'o>(
    options: &'o Options,
    arguments: &Arguments,
    faults: &mut Faults,
) -> Option<&'o Ident> {
    let value = options.value("ticket")?;
    match word::bare(value) {
        Some(name) if arguments.has(name) => {
            faults.at(
                name,
                format!("`{name}` is an argument already; give the ticket another name"),
            );
            None
        }
        Some(name) => Some(name),
        None => {
            faults.at(
                value,
                "ticket is the name that the body has for it, as in `ticket = ticket`",
            );
            None
        }
    }
}

/// The path of the crate `semel`.
fn krate(options: &Options, faults: &mut Faults) -> Path {
    let named = options.value("crate").and_then(|value| match value {
        Expr::Path(path) if path.qself.is_none() => Some(path.path.clone()),
        value => {
            faults.at(
                value,
                "crate is the path of the crate semel, as in `crate = ::semel`",
            );
            None
        }
    });
    named.unwrap_or_else(|| syn::parse_quote!(::semel))
}
