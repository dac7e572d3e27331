//! The generated definitions, as they are installed.

#[test]
fn definitions_are_as_reviewed() {
    for definition in api::crds() {
        let name = definition.metadata.name.clone().unwrap();
        let text = serde_saphyr::to_string(&definition).unwrap();
        insta::assert_snapshot!(name, text);
    }
}
