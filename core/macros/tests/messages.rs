//! What the attribute says of each mistake, and where: every message is its own, so that no compiler rewords it.

#[test]
fn mistakes_are_told_where_they_are() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
