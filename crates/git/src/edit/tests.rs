//! Drawings of single edits. `tests/edits.rs` has the generated ones.
use super::*;

const MARKER: &str = "team:app:prod";

/// `#M` stands for the marker, `<…>` around what must have changed.
fn check(before: &str, after: &str) {
    let comment = format!("# {{\"$promotion\": \"{MARKER}\"}}");
    let before = before.replace("#M", &comment);
    let expected = after.replace("#M", &comment);
    let edited = set_marked(before.as_bytes(), MARKER, "2.0.0").expect("it can be edited");
    assert_eq!(String::from_utf8(edited.content).expect("text"), expected);
}

fn check_untouched(before: &str) {
    check(before, before);
}

#[test]
fn a_marker_beside_a_scalar_sets_it() {
    check("version: 1.0.0 #M\n", "version: 2.0.0 #M\n");
    check("- 1.0.0 #M\n- 1.0.0\n", "- 2.0.0 #M\n- 1.0.0\n");
    check("a:\n  1.0.0 #M\n", "a:\n  2.0.0 #M\n");
    check("image: nginx:1.22.0 #M\n", "image: 2.0.0 #M\n");
}

#[test]
fn a_marker_above_a_key_sets_it() {
    check("x: 0\n#M\nversion: 1.0.0\n", "x: 0\n#M\nversion: 2.0.0\n");
    check(
        "s:\n  #M\n  version: 1.0.0\n",
        "s:\n  #M\n  version: 2.0.0\n",
    );
    check("- 0\n#M\n- 1\n", "- 0\n#M\n- 2.0.0\n");
    check("#M\n---\nv: 1\n", "#M\n---\nv: 2.0.0\n");
}

#[test]
fn a_marker_that_belongs_to_nothing_sets_nothing() {
    check_untouched("#M\n\nversion: 1.0.0\n");
    check_untouched("# more\n#M\nversion: 1.0.0\n");
    check_untouched("s: {version: 1.0.0} #M\n");
    check_untouched("s: #M\n  version: 1.0.0\n");
    check_untouched("#M\n- version: 1.0.0\n");
    check_untouched("s:\n  x: 0\n  #M\nversion: 1.0.0\n");
    check_untouched("version: 1.0.0\n#M\n");
    check_untouched("a: &a 1\nb: *a #M\n");
    check_untouched("version: 1.0.0 #M and more\n");
}

#[test]
fn a_comment_above_belongs_to_its_own_document() {
    check_untouched("a: 1\n#M\n---\nv: 1\n");
    check(
        "a: 1\n...\n#M\n---\nv: 1\n",
        "a: 1\n...\n#M\n---\nv: 2.0.0\n",
    );
    check("\n#M\n---\nv: 1\n", "\n#M\n---\nv: 2.0.0\n");
    check_untouched("# more\n---\n#M\nv: 1\n");
    // A block of the document before does not count.
    check(
        "s:\n  x: 0\n---\n  #M\nv: 1\n",
        "s:\n  x: 0\n---\n  #M\nv: 2.0.0\n",
    );
}

#[test]
fn after_a_deeper_block_the_indentation_decides_what_a_comment_belongs_to() {
    check("s:\n  x: 0\n#M\nv: 1\n", "s:\n  x: 0\n#M\nv: 2.0.0\n");
    check("s:\n    #M\n  v: 1\n", "s:\n    #M\n  v: 2.0.0\n");
    check("s:\n- 1\n  #M\nv: 1\n", "s:\n- 1\n  #M\nv: 2.0.0\n");
    check_untouched("s:\n  - 1\n  #M\nv: 1\n");
    check("- a: 1\n#M\n- 1\n", "- a: 1\n#M\n- 2.0.0\n");
    check_untouched("- a: 1\n  #M\n- 1\n");
    // The comment above belongs to the block if it is indented like it.
    check(
        "s:\n  x: 0\n  # more\n#M\nv: 1\n",
        "s:\n  x: 0\n  # more\n#M\nv: 2.0.0\n",
    );
    check_untouched("s:\n  x: 0\n# more\n#M\nv: 1\n");
}

#[test]
fn the_rest_of_the_file_keeps_its_bytes() {
    check(
        "\u{feff}a: 'x'\r\nv: 1 #M\r\n",
        "\u{feff}a: 'x'\r\nv: 2.0.0 #M\r\n",
    );
    check("v: '1' #M", "v: '2.0.0' #M");
    check("v: \"1\"   #M\n", "v: \"2.0.0\"   #M\n");
    check("v: &x 1 #M\nw: *x\n", "v: &x 2.0.0 #M\nw: *x\n");
    check("v: !!str 1 #M\n", "v: !!str 2.0.0 #M\n");
    check(
        "s: {\n  v: 1, #M\n  w: 2\n}\n",
        "s: {\n  v: 2.0.0, #M\n  w: 2\n}\n",
    );
    check(
        "a: 1\n---\nv: 1 #M\n...\n---\nv: 3 #M\n",
        "a: 1\n---\nv: 2.0.0 #M\n...\n---\nv: 2.0.0 #M\n",
    );
    check(
        "t: |\n  v: 1 # no\n\n\nv: 1 #M\n",
        "t: |\n  v: 1 # no\n\n\nv: 2.0.0 #M\n",
    );
    check("ü: \"é\"\nv: 1 #M\n", "ü: \"é\"\nv: 2.0.0 #M\n");
}

#[test]
fn an_empty_value_is_filled() {
    check("v: #M\nw: 1\n", "v: 2.0.0 #M\nw: 1\n");
    check("v : #M\n", "v : 2.0.0 #M\n");
}

#[test]
fn only_the_whole_marker_counts() {
    for other in [
        "team:app:pro",
        "team:app:prod:x",
        "team:app",
        "TEAM:app:prod",
    ] {
        let text = format!("v: 1 # {{\"$promotion\": \"{other}\"}}\n");
        let edited = set_marked(text.as_bytes(), MARKER, "2").expect("it can be read");
        assert_eq!((edited.marked, edited.content), (0, text.into_bytes()));
    }
}

#[test]
fn other_string_keys_may_stand_in_the_marker() {
    let good = format!("v: 1 #{{\"$promotion\":\"{MARKER}\",\"note\":\"x\"}}\n");
    assert_eq!(
        set_marked(good.as_bytes(), MARKER, "2")
            .expect("readable")
            .changed,
        1
    );
    let bad = format!("v: 1 #{{\"$promotion\":\"{MARKER}\",\"note\":1}}\n");
    assert_eq!(
        set_marked(bad.as_bytes(), MARKER, "2")
            .expect("readable")
            .marked,
        0
    );
}

#[test]
fn a_value_that_is_there_already_is_marked_but_unchanged() {
    let text = format!("v: 2.0.0 # {{\"$promotion\": \"{MARKER}\"}}\n");
    let edited = set_marked(text.as_bytes(), MARKER, "2.0.0").expect("readable");
    assert_eq!(
        (edited.marked, edited.changed, edited.content),
        (1, 0, text.into_bytes())
    );
}

#[test]
fn numbers_become_text() {
    let text = format!("v: 1.9 # {{\"$promotion\": \"{MARKER}\"}}\n");
    let edited = set_marked(text.as_bytes(), MARKER, "1.10").expect("readable");
    assert!(edited.content.starts_with(b"v: \"1.10\" #"));
}

#[test]
fn blocks_of_text_and_broken_files_are_refused() {
    let block = format!("v: | # {{\"$promotion\": \"{MARKER}\"}}\n  text\n");
    assert_eq!(
        set_marked(block.as_bytes(), MARKER, "2"),
        Err(Error::BlockScalar { line: 2 })
    );
    let item = block.replace("v: |", "- |");
    assert_eq!(
        set_marked(item.as_bytes(), MARKER, "2"),
        Err(Error::BlockScalar { line: 2 })
    );
    let broken = format!("v: [1 # {{\"$promotion\": \"{MARKER}\"}}\n");
    assert!(matches!(
        set_marked(broken.as_bytes(), MARKER, "2"),
        Err(Error::NotYaml { .. })
    ));
    let binary = [b"\xff\xfe v: # ".as_slice(), MARKER_KEY].concat();
    assert_eq!(set_marked(&binary, MARKER, "2"), Err(Error::NotText));
}

#[test]
fn a_value_with_a_line_break_is_refused() {
    for value in ["", "1\n2: 3", "a\u{0}b"] {
        assert_eq!(
            set_marked(b"v: 1\n", MARKER, value),
            Err(Error::UnusableValue)
        );
    }
}

#[test]
fn all_markers_of_a_file_are_listed() {
    let text = "a: 1 # {\"$promotion\": \"x:y:z\"}\nb: 2 # {\"$promotion\": \"u:v:w\"}\n";
    let found = markers(text.as_bytes()).expect("readable");
    assert_eq!(found.into_iter().collect::<Vec<_>>(), ["u:v:w", "x:y:z"]);
}

#[test]
fn an_editor_that_is_wrong_is_caught() {
    const TEXT: &str = "a: &x 1.0.0\nv: 1.0.0\nlist: [one, two]\nw: *x\n";
    let editors: [(&str, Editor); 9] = [
        ("does nothing", |text, _| text.to_owned()),
        ("sets another value", |text, _| {
            text.replace("v: 1.0.0", "v: 2.0.1")
        }),
        ("sets another scalar", |text, _| {
            text.replace("&x 1.0.0", "&x 2.0.0")
        }),
        ("sets one more", |text, _| text.replace("1.0.0", "2.0.0")),
        ("drops what follows", |text, _| {
            let end = text.find("list").unwrap_or_default();
            text[..end].replace("v: 1.0.0", "v: 2.0.0")
        }),
        ("adds a key", |text, _| {
            format!("{}y: 1\n", text.replace("v: 1.0.0", "v: 2.0.0"))
        }),
        ("moves an anchor", |text, _| {
            text.replace("v: 1.0.0", "v: &x 2.0.0")
        }),
        ("renames a key", |text, _| {
            text.replace("v: 1.0.0", "u: 2.0.0")
        }),
        ("leaves no YAML", |text, _| {
            text.replace("v: 1.0.0", "v: 2.0.0: [")
        }),
    ];
    let document = document::read(TEXT).expect("YAML");
    let mut scalars = document.scalars.iter();
    let target = scalars.rfind(|it| it.value == "1.0.0").expect("a scalar");
    for (name, editor) in editors {
        let edited = set((b"", TEXT), &document, vec![(target, "2.0.0")], editor);
        assert!(matches!(edited, Err(Error::Ambiguous { .. })), "{name}");
    }
    let edited = set((b"", TEXT), &document, vec![(target, "2.0.0")], splice).expect("it is right");
    assert_eq!(edited.content, TEXT.replace("v: 1", "v: 2").into_bytes());
}

/// The paths, old and new values of the edits.
fn check_edits(before: &str, expected: &[(&str, Option<&str>)]) {
    let comment = format!("# {{\"$promotion\": \"{MARKER}\"}}");
    let before = before.replace("#M", &comment);
    let edited = set_marked(before.as_bytes(), MARKER, "2.0.0").expect("it can be edited");
    let edits = edited.edits.iter();
    let edits: Vec<_> = edits
        .map(|it| (it.path.as_str(), it.old.as_deref()))
        .collect();
    assert_eq!(edits, expected);
    assert!(edited.edits.iter().all(|it| it.new == "2.0.0"));
}

#[test]
fn edits_are_listed_by_path() {
    check_edits("spec:\n  version: 1 #M\n", &[("spec.version", Some("1"))]);
    check_edits("spec:\n  version: 2.0.0 #M\n", &[]);
    check_edits("spec:\n  version: #M\n", &[("spec.version", None)]);
    check_edits(
        "- 1 #M\n- 3 #M\n",
        &[("[0]", Some("1")), ("[1]", Some("3"))],
    );
    check_edits("a.b/c: 1 #M\n", &[("[\"a.b/c\"]", Some("1"))]);
}

#[test]
fn neighbours_do_not_change_the_path_of_an_edit() {
    let image = "- name: shop\n  newTag: 1 #M\n";
    let path = [("images[name=shop].newTag", Some("1"))];
    check_edits(&format!("images:\n{image}"), &path);
    check_edits(
        &format!("images:\n- name: web\n  newTag: 1\n{image}"),
        &path,
    );
    // Two items of the same name are told apart by their places.
    check_edits(
        &format!("images:\n- name: shop\n{image}"),
        &[("images[1].newTag", Some("1"))],
    );
    // Neither are items told apart by something else than a name that can be shown.
    let long = "a".repeat(257);
    for item in [
        "id: shop",
        "name: ''",
        "name: 'a]'",
        "name: \"a\\n\"",
        &format!("name: {long}"),
    ] {
        let text = format!("images:\n- {item}\n  newTag: 1 #M\n");
        check_edits(&text, &[("images[0].newTag", Some("1"))]);
    }
    let object = "kind: A\nmetadata: {name: x}\nv: 1 #M\n";
    let path = [("A/x v", Some("1"))];
    check_edits(&format!("{object}---\nkind: B\n"), &path);
    check_edits(&format!("kind: B\n---\nkind: C\n---\n{object}"), &path);
    check_edits(
        &format!("{object}---\n{object}"),
        &[("document[0] v", Some("1")), ("document[1] v", Some("1"))],
    );
}

/// A pipeline that finds its field by the app must not change what another one has marked.
#[test]
fn a_field_that_is_found_is_not_changed_where_it_is_marked() {
    let event = |text: &str| {
        let document = document::read(text).unwrap();
        let mut scalars = document.scalars.iter();
        scalars.find(|it| it.value == "1.0.0").unwrap().event
    };
    let set = |text: &str| set_events(text.as_bytes(), &[(event(text), "2.0.0".to_owned())]);
    let marked = "a: x\nversion: 1.0.0 # {\"$promotion\": \"shop:web:prod\"}\n";
    assert_eq!(
        set(marked),
        Err(Error::MarkedForOther {
            line: 2,
            marker: "shop:web:prod".to_owned()
        })
    );
    let image_policy = "version: 1.0.0 # {\"$imagepolicy\": \"shop:web\"}\n";
    assert_eq!(set(image_policy).unwrap().changed, 1);
    let another = "version: 1.0.0\nother: 1 # {\"$promotion\": \"shop:web:prod\"}\n";
    assert_eq!(set(another).unwrap().changed, 1);
}
