//! The arguments of a function: what they are called, and which of them a payload can name.

use syn::punctuated::Punctuated;
use syn::{FnArg, Ident, Pat, Token};

/// The names that the arguments bind.
pub(crate) struct Arguments {
    /// Whether one of them is `self`.
    receiver: bool,
    list: Vec<Argument>,
}

/// One argument.
pub(crate) struct Argument {
    /// Its pattern.
    pub(crate) pattern: Pat,
    /// The names that it binds.
    names: Vec<Ident>,
}

impl Argument {
    /// Its name, when it is a name and not taken apart.
    pub(crate) fn name(&self) -> Option<&Ident> {
        match &self.pattern {
            Pat::Ident(name) if name.subpat.is_none() && name.by_ref.is_none() => Some(&name.ident),
            _ => None,
        }
    }
}

impl Arguments {
    /// Those of a signature.
    pub(crate) fn of(inputs: &Punctuated<FnArg, Token![,]>) -> Self {
        let mut arguments = Self {
            receiver: false,
            list: Vec::new(),
        };
        for input in inputs {
            match input {
                FnArg::Receiver(_) => arguments.receiver = true,
                FnArg::Typed(typed) => {
                    let mut names = Vec::new();
                    bound(&typed.pat, &mut names);
                    arguments.list.push(Argument {
                        pattern: (*typed.pat).clone(),
                        names,
                    });
                }
            }
        }
        arguments
    }

    /// Whether a name is bound by one of them.
    pub(crate) fn has(&self, name: &Ident) -> bool {
        (self.receiver && name == "self") || self.names().any(|known| known == name)
    }

    /// All but `self`.
    pub(crate) fn all(&self) -> &[Argument] {
        &self.list
    }

    fn names(&self) -> impl Iterator<Item = &Ident> {
        self.list.iter().flat_map(|argument| &argument.names)
    }

    /// What is said of a name that none of them has.
    pub(crate) fn unknown(&self, name: &Ident) -> String {
        let receiver = self.receiver.then(|| "self".to_owned());
        let known: Vec<String> = receiver
            .into_iter()
            .chain(self.names().map(Ident::to_string))
            .collect();
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        match known.as_slice() {
            [] => format!("`{name}` is no argument of this function, which has none"),
            known => crate::text::unknown("argument of this function", &name.to_string(), known),
        }
    }
}

/// The names that a pattern binds.
fn bound(pattern: &Pat, names: &mut Vec<Ident>) {
    match pattern {
        Pat::Ident(name) => {
            names.push(name.ident.clone());
            if let Some((_, inner)) = &name.subpat {
                bound(inner, names);
            }
        }
        Pat::Tuple(tuple) => tuple.elems.iter().for_each(|part| bound(part, names)),
        Pat::TupleStruct(tuple) => tuple.elems.iter().for_each(|part| bound(part, names)),
        Pat::Struct(fields) => fields.fields.iter().for_each(|f| bound(&f.pat, names)),
        Pat::Slice(slice) => slice.elems.iter().for_each(|part| bound(part, names)),
        Pat::Reference(reference) => bound(&reference.pat, names),
        Pat::Paren(paren) => bound(&paren.pat, names),
        Pat::Type(typed) => bound(&typed.pat, names),
        // All cases of an irrefutable pattern bind the same names.
        Pat::Or(or) => or.cases.iter().take(1).for_each(|case| bound(case, names)),
        _ => {}
    }
}
