//! What is wrong with a use of the attribute: all of it at once, each at its place.

use proc_macro2::TokenStream;
use quote::ToTokens;

/// The faults found so far.
#[derive(Default)]
pub(crate) struct Faults(Option<syn::Error>);

impl Faults {
    /// Takes down a fault of what stands at `place`.
    pub(crate) fn at(&mut self, place: impl ToTokens, message: impl std::fmt::Display) {
        self.add(syn::Error::new_spanned(place, message));
    }

    /// Takes down a fault that knows its place.
    pub(crate) fn add(&mut self, fault: syn::Error) {
        match &mut self.0 {
            Some(faults) => faults.combine(fault),
            None => self.0 = Some(fault),
        }
    }

    /// The value, or its fault taken down.
    pub(crate) fn keep<T>(&mut self, read: syn::Result<T>) -> Option<T> {
        read.map_err(|fault| self.add(fault)).ok()
    }

    /// The faults as code that the compiler shows; `None` when there are none.
    pub(crate) fn into_code(self) -> Option<TokenStream> {
        self.0.map(|faults| faults.into_compile_error())
    }
}
