//! Sources and what they become with switches. In the tables, `is_7` stands for the switch with its marks.

use super::super::known::{Function, Position, Span};
use super::*;

/// A mutation of the text between two `~` of the source, which are taken out.
fn check(genre: Genre, replacements: &[&str], source: &str, expected: &str) {
    let parts: Vec<&str> = source.split('~').collect();
    let [before, marked, after] = parts[..] else {
        panic!("a source has two marks: {source}");
    };
    let source = [before, marked, after].concat();
    let mutants: Vec<Mutant> = replacements
        .iter()
        .map(|it| mutant(genre, it, before.len(), before.len() + marked.len()))
        .collect();
    let switched = switched(&source, (7..).zip(&mutants)).expect("valid source");
    assert_eq!(plain(&switched.text), expected, "{:?}", switched.left_out);
    syn::parse_file(&switched.text).expect("valid result");
}

fn mutant(genre: Genre, replacement: &str, start: usize, end: usize) -> Mutant {
    let position = |offset| Position {
        line: 1,
        column: offset + 1,
    };
    Mutant {
        file: String::new(),
        function: Some(Function {
            return_type: String::new(),
        }),
        genre,
        name: String::new(),
        package: String::new(),
        replacement: replacement.to_owned(),
        span: Span {
            start: position(start),
            end: position(end),
        },
    }
}

fn plain(text: &str) -> String {
    let mut text = text.replace("/*>*/", "");
    for id in 7..12 {
        text = text.replace(&format!("/*<{id}*/"), "");
        text = text.replace(&format!("::mutation_switch::is({id})"), &format!("is_{id}"));
    }
    text
}

#[test]
fn functions_return_at_their_start() {
    check(
        Genre::FnValue,
        &["true", "false"],
        "fn f() -> bool { ~g(1)~ }",
        "fn f() -> bool { if is_7 { return true; } if is_8 { return false; } g(1) }",
    );
}

#[test]
fn binary_operators() {
    let table: &[(&[&str], &str, &str)] = &[
        (
            &["!="],
            "fn f() { a ~==~ b }",
            "fn f() { ((a == b) != is_7) }",
        ),
        (
            &["||"],
            "fn f() { a ~&&~ b }",
            "fn f() { ({ let mutated_7: bool = a; if mutated_7 != is_7 { b } else { mutated_7 } }) }",
        ),
        (
            &["&&"],
            "fn f() { a ~||~ b }",
            "fn f() { ({ let mutated_7: bool = a; if mutated_7 == is_7 { b } else { mutated_7 } }) }",
        ),
        (
            &["==", ">"],
            "fn f() { if a + 1 ~<~ b {} }",
            "fn f() { if (if is_7 { a + 1 == b } else if is_8 { a + 1 > b } else { a + 1 < b }) {} }",
        ),
        (
            &["-="],
            "fn f() { a ~+=~ b; }",
            "fn f() { (if is_7 { a -= b } else { a += b }); }",
        ),
        (
            &["||"],
            "fn f() { if let Some(a) = b ~&&~ c {} }",
            "fn f() { if let Some(a) = b && c {} }",
        ),
    ];
    for (replacements, source, expected) in table {
        check(Genre::BinaryOperator, replacements, source, expected);
    }
}

#[test]
fn macros_are_left_out() {
    let source = "fn f() { assert!(a ~==~ b); }";
    let expected = "fn f() { assert!(a == b); }";
    check(Genre::BinaryOperator, &["!="], source, expected);
}

#[test]
fn unary_operators() {
    let table = [
        ("fn f() { ~!~a.b() }", "fn f() { ((!a.b()) != is_7) }"),
        (
            "fn f() { 2 * ~-~a }",
            "fn f() { 2 * (if is_7 { a } else { -a }) }",
        ),
    ];
    for (source, expected) in table {
        check(Genre::UnaryOperator, &[""], source, expected);
    }
}

#[test]
fn match_arms_and_guards() {
    let guards = &["true", "false"];
    let source = "fn f() { match a { b if ~c || d~ => 1, _ => 2 } }";
    let expected = "fn f() { match a { b if (is_7 || (!is_8 && (c || d))) => 1, _ => 2 } }";
    check(Genre::MatchArmGuard, guards, source, expected);
    let table = [
        (
            "fn f() { match a { ~b => 1,~ _ => 2 } }",
            "fn f() { match a { b if !is_7 => 1, _ => 2 } }",
        ),
        (
            "fn f() { match a { ~b if c => 1,~ _ => 2 } }",
            "fn f() { match a { b if !is_7 && (c) => 1, _ => 2 } }",
        ),
    ];
    for (source, expected) in table {
        check(Genre::MatchArm, &[""], source, expected);
    }
}

#[test]
fn struct_fields() {
    let table = [
        (
            "fn f() { A { ~b: 1,~ ..c() } }",
            "fn f() { A { b: (if is_7 { (c()).b } else { 1 }), ..c() } }",
        ),
        (
            "fn f() { A { ~b~, ..c } }",
            "fn f() { A { b: (if is_7 { (c).b } else { b }), ..c } }",
        ),
    ];
    for (source, expected) in table {
        check(Genre::StructField, &[""], source, expected);
    }
}

#[test]
fn mutations_of_the_same_expression_nest() {
    let source = "fn f() -> bool { a == b && !c }";
    let mutants = [
        mutant(Genre::FnValue, "true", 17, 29),
        mutant(Genre::BinaryOperator, "!=", 19, 21),
        mutant(Genre::BinaryOperator, "||", 24, 26),
        mutant(Genre::UnaryOperator, "", 27, 28),
    ];
    let text = switched(source, (7..).zip(&mutants))
        .expect("valid source")
        .text;
    let expected = "fn f() -> bool { if is_7 { return true; } ({ let mutated_9: bool = ((a == b) != is_8); \
                    if mutated_9 != is_9 { ((!c) != is_10) } else { mutated_9 } }) }";
    assert_eq!(plain(&text), expected);
    let at = |part| mutation_at(&text, text.find(part).expect("part of the text"));
    assert_eq!(at("return"), Some(7));
    assert_eq!(at("a == b"), None);
    assert_eq!(at("is(10)"), Some(10));
}
