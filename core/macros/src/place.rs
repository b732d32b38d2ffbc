//! Places in the arguments: `req.order_no`, `"req.order_no"`, `self.store`; and expressions that are none.

use syn::{Expr, Ident};

use crate::arguments::Arguments;
use crate::faults::Faults;
use crate::{text, word};

/// The value of an option that may name a place: a text is a place in the arguments, and so is a path that begins with a
/// name in small letters; any other expression is taken as it is.
pub(crate) fn read(
    option: &str,
    value: &Expr,
    arguments: &Arguments,
    faults: &mut Faults,
) -> Option<Expr> {
    let Some(text) = text::literal(value) else {
        if let Some(root) = root(value) {
            let constant = root.to_string().starts_with(char::is_uppercase);
            if !constant && !arguments.has(root) {
                faults.at(root, arguments.unknown(root));
                return None;
            }
        } else if matches!(value, Expr::Lit(_)) {
            let fault = format!(
                "the {option} would be the same in every call; name a place in the arguments, as in `{option} = \"req.order_no\"`"
            );
            faults.at(value, fault);
            return None;
        }
        return Some(value.clone());
    };
    let place = text.parse::<Expr>().ok();
    match place.as_ref().map(|place| (place, root(place))) {
        Some((_, Some(root))) if !arguments.has(root) => {
            faults.at(root, arguments.unknown(root));
            None
        }
        Some((place, Some(_))) => Some(place.clone()),
        _ => {
            let fault = format!(
                "{:?} names no place in the arguments; write one, as in `{option} = \"req.order_no\"`, or an expression without quotes",
                text.value()
            );
            faults.at(text, fault);
            None
        }
    }
}

/// The name that a place begins with.
pub(crate) fn root(value: &Expr) -> Option<&Ident> {
    match value {
        Expr::Path(_) => word::bare(value),
        Expr::Field(field) => root(&field.base),
        Expr::MethodCall(call) => root(&call.receiver),
        Expr::Index(index) => root(&index.expr),
        Expr::Reference(reference) => root(&reference.expr),
        Expr::Unary(unary) => root(&unary.expr),
        Expr::Paren(paren) => root(&paren.expr),
        Expr::Group(group) => root(&group.expr),
        _ => None,
    }
}
