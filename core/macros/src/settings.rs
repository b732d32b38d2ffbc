//! The rules of a request: the options as calls of its builder, and those that contradict each other.

use std::collections::BTreeMap;
use std::time::Duration;

use proc_macro2::TokenStream;
use quote::{ToTokens, quote_spanned};
use syn::spanned::Spanned;
use syn::{Expr, Ident, Lit};

use crate::arguments::Arguments;
use crate::faults::Faults;
use crate::options::Options;
use crate::text;
use crate::time::{Known, TIMES};
use crate::word::WORDS;

/// As `semel::MAX_HOLDER_BYTES`.
const MAX_HOLDER_BYTES: usize = 255;
/// As `semel::DEFAULT_RETAIN`.
const DEFAULT_RETAIN: Duration = Duration::from_secs(24 * 3600);

/// The calls that put the options into a request.
pub(crate) fn calls(
    options: &Options,
    krate: &syn::Path,
    arguments: &Arguments,
    faults: &mut Faults,
) -> TokenStream {
    let mut calls = TokenStream::new();
    let mut call = |option: &str, value: &Expr, code: TokenStream| {
        let method = Ident::new(option, value.span());
        calls.extend(quote_spanned!(value.span()=> .#method(#code)));
    };
    let (mut times, mut words) = (BTreeMap::new(), BTreeMap::new());
    for time in &TIMES {
        if let Some(value) = options.value(time.option)
            && let Some(known) = time.read(value, arguments, faults)
        {
            call(time.option, value, time.code(known, value, krate));
            times.insert(time.option, known);
        }
    }
    for set in &WORDS {
        if let Some(value) = options.value(set.option) {
            call(set.option, value, set.code(value, krate, arguments, faults));
            words.insert(set.option, set.written(value, arguments));
        }
    }
    for option in ["confirm", "on_lost"] {
        if let Some(value) = options.value(option) {
            called(option, value, faults);
            call(option, value, value.to_token_stream());
        }
    }
    if let Some(value) = options.value("max_attempts") {
        attempts(value, faults);
        call("max_attempts", value, value.to_token_stream());
    }
    if let Some(value) = options.value("holder") {
        let code = text::name("holder", value, MAX_HOLDER_BYTES, faults);
        call("holder", value, code);
    }
    agree(options, &Said { times, words }, faults);
    calls
}

/// What is called cannot be a literal.
fn called(option: &str, value: &Expr, faults: &mut Faults) {
    if matches!(value, Expr::Lit(_)) {
        faults.at(
            value,
            format!("{option} is a closure or the path of a function, without quotes"),
        );
    }
}

/// A literal number of attempts is at least one, and fits.
fn attempts(value: &Expr, faults: &mut Faults) {
    let Expr::Lit(literal) = value else { return };
    let number = match &literal.lit {
        Lit::Int(number) => number.base10_parse::<u32>().ok(),
        _ => None,
    };
    match number {
        Some(0) => faults.at(
            value,
            "max_attempts is zero; the operation could never run: give at least 1, or leave it out",
        ),
        Some(_) => {}
        None => faults.at(
            value,
            format!(
                "max_attempts is a number from 1 to {}, without quotes",
                u32::MAX
            ),
        ),
    }
}

/// What the options say, as far as it is known while compiling.
struct Said {
    times: BTreeMap<&'static str, Known>,
    words: BTreeMap<&'static str, Option<String>>,
}

impl Said {
    fn word(&self, option: &str) -> Option<&str> {
        self.words.get(option)?.as_deref()
    }
}

/// Takes down options that would do nothing beside the others, or that the store would refuse.
fn agree(options: &Options, said: &Said, faults: &mut Faults) {
    let asks = said.word("in_doubt") == Some("ask");
    let may_ask = asks || said.words.get("in_doubt") == Some(&None);
    if asks && !options.has("confirm") {
        let fault = "`in_doubt = ask` asks nobody; add `confirm = |info| ...`, which finds out whether it was done";
        fault_at(options.value("in_doubt"), fault, faults);
    }
    if options.has("confirm") && !may_ask {
        let fault =
            "`confirm` is never called without `in_doubt = ask`; add that, or leave this out";
        fault_at(options.name("confirm"), fault, faults);
    }
    if options.has("on_twin") && !options.has("twin_window") {
        let fault =
            "`on_twin` does nothing without `twin_window`, the time in which twins are looked for";
        fault_at(options.name("on_twin"), fault, faults);
    }
    if options.has("renew_limit") && said.word("renew") == Some("off") {
        let fault = "`renew_limit` does nothing beside `renew = off`; leave one of them out";
        fault_at(options.name("renew_limit"), fault, faults);
    }
    if said.times.get("lease") == Some(&Known::Endless)
        && matches!(said.word("in_doubt"), Some("rerun" | "ask"))
    {
        let fault = "a lease without end goes with `in_doubt = hold` alone: with another policy nobody would ever run the operation again";
        fault_at(options.value("lease"), fault, faults);
    }
    window(options, said, faults);
}

/// A window for retries that is longer than what is kept.
fn window(options: &Options, said: &Said, faults: &mut Faults) {
    let time = |option, default| match said.times.get(option) {
        Some(Known::For(time)) => Some(*time),
        Some(_) => None,
        None if options.has(option) => None,
        None => Some(default),
    };
    let (Some(window), Some(retain), Some(remember)) = (
        time("retry_window", Duration::ZERO),
        time("retain", DEFAULT_RETAIN),
        time("remember", Duration::ZERO),
    ) else {
        return;
    };
    let kept = retain.saturating_add(remember);
    if kept < window {
        let fault = format!(
            "retry_window is {window:?}, but the key is forgotten {kept:?} after its end: a late retry would run the operation again; let retain + remember cover the window"
        );
        fault_at(options.value("retry_window"), &fault, faults);
    }
}

fn fault_at(place: Option<impl ToTokens>, fault: &str, faults: &mut Faults) {
    if let Some(place) = place {
        faults.at(place, fault);
    }
}
