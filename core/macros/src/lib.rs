//! The attribute `#[semel::idempotent]`: a function that takes effect once. Its page is in the crate `semel`.

mod arguments;
mod classify;
mod expand;
mod faults;
mod function;
mod options;
mod payload;
mod place;
mod settings;
mod text;
mod time;
mod word;

#[path = "../../src/duration/grammar.rs"]
mod duration;

use proc_macro::TokenStream;

#[expect(
    missing_docs,
    reason = "the page stands where the attribute is re-exported"
)]
#[proc_macro_attribute]
pub fn idempotent(options: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(options.into(), item.into()).into()
}
