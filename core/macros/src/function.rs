//! The function that the attribute stands on, and what it has to be.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Item, ItemFn, ReturnType, TraitItemFn, Type};

use crate::faults::Faults;

/// What a function returns, said where it does not.
const RETURNS: &str = "return `Result<T, E>` where `E: From<semel::RunError>`: a repeat can be busy, in doubt or a mismatch, and the store can fail";

/// Reads the function.
pub(crate) fn read(item: &TokenStream) -> syn::Result<ItemFn> {
    let fault = match syn::parse2::<ItemFn>(item.clone()) {
        Ok(function) => return Ok(function),
        Err(fault) => fault,
    };
    if let Ok(method) = syn::parse2::<TraitItemFn>(item.clone())
        && method.default.is_none()
    {
        let fault = "a method without a body has nothing to run; put the attribute on the method of each `impl`";
        return Err(syn::Error::new_spanned(method.sig, fault));
    }
    match syn::parse2::<Item>(item.clone()) {
        Ok(item) => Err(syn::Error::new_spanned(
            item,
            "the attribute goes on a function or a method",
        )),
        Err(_) => Err(fault),
    }
}

/// Takes down what keeps the function from taking effect once; gives its return type.
pub(crate) fn check(function: &ItemFn, faults: &mut Faults) -> Option<Type> {
    let signature = &function.sig;
    if let Some(word) = &signature.constness {
        faults.at(
            word,
            "a `const fn` runs while compiling, where there is no store; leave out `const`",
        );
    }
    if let Some(abi) = &signature.abi {
        faults.at(
            abi,
            "what another language calls cannot get a `Result`; put the attribute on a Rust function, and call that from here",
        );
    }
    if let Some(dots) = &signature.variadic {
        faults.at(
            dots,
            "a list of arguments without end has no payload; take a slice",
        );
    }
    let ReturnType::Type(_, written) = &signature.output else {
        faults.at(
            &signature.ident,
            format!("`{}` returns nothing; {RETURNS}", signature.ident),
        );
        return None;
    };
    let fault = match unwrapped(written) {
        Type::ImplTrait(_) if signature.asyncness.is_none() => {
            "a type that has no name cannot be kept; if this is a future, write `async fn`"
                .to_owned()
        }
        written if has_impl(written) => {
            "what is kept for repeats needs a type with a name, not `impl`".to_owned()
        }
        Type::Path(path) if !is_plain(path) => return Some((**written).clone()),
        Type::Macro(_) => return Some((**written).clone()),
        written => format!("`{}` is no `Result`; {RETURNS}", shown(written)),
    };
    faults.at(written, fault);
    None
}

/// A type without the parentheses and groups around it.
fn unwrapped(written: &Type) -> &Type {
    match written {
        Type::Paren(inner) => unwrapped(&inner.elem),
        Type::Group(inner) => unwrapped(&inner.elem),
        written => written,
    }
}

/// Types of the language and the prelude that are no `Result`, whoever names them. Of other names the compiler knows.
fn is_plain(path: &syn::TypePath) -> bool {
    const PLAIN: [&str; 22] = [
        "bool", "char", "f32", "f64", "i8", "i16", "i32", "i64", "i128", "isize", "u8", "u16",
        "u32", "u64", "u128", "usize", "str", "String", "Vec", "Option", "Box", "Self",
    ];
    let name = path.path.get_ident().map(ToString::to_string);
    let generic = path.path.segments.last().map(|last| last.ident.to_string());
    let name = name.or(generic.filter(|_| path.path.segments.len() == 1));
    path.qself.is_none() && name.is_some_and(|name| PLAIN.contains(&&*name))
}

fn has_impl(written: &Type) -> bool {
    fn within(code: TokenStream) -> bool {
        code.into_iter().any(|token| match token {
            proc_macro2::TokenTree::Ident(word) => word == "impl",
            proc_macro2::TokenTree::Group(group) => within(group.stream()),
            _ => false,
        })
    }
    within(written.to_token_stream())
}

/// A type as people write it.
fn shown(written: &Type) -> String {
    let tight = |text: String, pairs: &[(&str, &str)]| {
        pairs
            .iter()
            .fold(text, |text, (from, to)| text.replace(from, to))
    };
    tight(
        quote!(#written).to_string(),
        &[
            (" < ", "<"),
            (" >", ">"),
            (" :: ", "::"),
            (" , ", ", "),
            ("& ", "&"),
        ],
    )
}
