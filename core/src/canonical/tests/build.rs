//! The builder: value by value the same form as by text, and types that JSON lacks.

use crate::canonical::{Builder, Canonical};
use crate::error::Result;

fn built(write: impl FnOnce(&mut Builder) -> Result<()>) -> Result<String> {
    let mut builder = Builder::default();
    write(&mut builder)?;
    let form = builder.finish()?;
    Ok(String::from_utf8(form.as_bytes().to_vec()).expect("UTF-8"))
}

fn refused(write: impl FnOnce(&mut Builder) -> Result<()>, place: &str) {
    let error = built(write).expect_err(place);
    let start = format!("payload refused at {place}: ");
    assert!(error.message().starts_with(&start), "{error}");
}

#[test]
fn a_built_value_has_the_form_of_its_text() {
    let form = built(|out| {
        out.open_object()?;
        out.member("b")?;
        out.open_array()?;
        for write in [Builder::null as fn(&mut Builder), |out| out.boolean(true)] {
            out.element()?;
            write(out);
        }
        out.element()?;
        out.float(1.5)?;
        out.close_array()?;
        out.member("a")?;
        out.integer(-170_141_183_460_469_231_731_687_303_715_884_105_728)?;
        out.member("c")?;
        out.number("1E2")?;
        out.member("d")?;
        out.json(br#" {"y": 1.0, "x": "\u0041"} "#)?;
        out.close_object()
    });
    let text = r#"{"b":[null,true,1.5],"a":-170141183460469231731687303715884105728,"c":1e2,"d":{"y":1,"x":"A"}}"#;
    let expected = Canonical::from_json(text.as_bytes()).expect("JSON");
    assert_eq!(form.expect("built").as_bytes(), expected.as_bytes());
}

#[test]
fn the_members_of_the_outermost_object_are_its_fields_typed_or_not() {
    for typed in [false, true] {
        let mut builder = Builder::default();
        if typed {
            builder.typed("class Order").expect("a name");
        }
        builder.open_object().expect("opens");
        for name in ["b", "a"] {
            builder.member(name).expect("a member");
            builder.integer(1).expect("a number");
        }
        builder.close_object().expect("closes");
        let form = builder.finish().expect("whole");
        let names: Vec<&str> = form.fields().map(|(name, _)| name).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(form.as_bytes().starts_with(b"@\"class Order\":{"), typed);
    }
}

#[test]
fn what_has_no_order_is_written_in_that_of_its_bytes() {
    let of = |texts: &[&str]| {
        let forms = texts
            .iter()
            .map(|text| Canonical::from_json(text.as_bytes()));
        let forms: Vec<Canonical> = forms.collect::<Result<_>>().expect("JSON");
        built(|out| {
            out.typed("set")?;
            out.unordered(forms)
        })
        .expect("built")
    };
    assert_eq!(of(&["2", "\"a\"", "10"]), "@\"set\":[\"a\",10,2]");
    assert_eq!(of(&["10", "2", "\"a\""]), of(&["2", "\"a\"", "10"]));
    assert_eq!(of(&[]), "@\"set\":[]");
}

#[test]
fn no_json_text_has_the_form_of_a_typed_value() {
    assert!(Canonical::from_json(b"@\"set\":[]").is_err());
}

#[test]
fn what_is_refused_names_its_place() {
    refused(|out| out.float(f64::NAN), "$");
    refused(|out| out.number("1e100001"), "$");
    refused(
        |out| {
            out.open_object()?;
            out.member("a")?;
            out.open_array()?;
            out.element()?;
            out.float(f64::INFINITY)
        },
        "$.a[0]",
    );
    refused(
        |out| {
            out.open_object()?;
            for _ in 0..2 {
                out.member("a")?;
                out.null();
            }
            out.close_object()
        },
        "$",
    );
    refused(Builder::open_array, "$");
    let mut builder = Builder::default();
    builder.open_array().expect("opens");
    builder.element().expect("an element");
    let error = builder.refuse("it is a socket", "send its name");
    assert_eq!(
        error.message(),
        "payload refused at $[0]: it is a socket; send its name"
    );
}
