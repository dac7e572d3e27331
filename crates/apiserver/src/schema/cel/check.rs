//! Type-checks expressions before they run.
//!
//! kube-apiserver type-checks rules when a definition is written. This finds
//! what matters most of it: names, functions and fields that do not exist, and
//! operands that cannot be compared. What it does not understand it lets pass.

use expression::functions::{FUNCTIONS, TEXTS, UNSUPPORTED, YES_OR_NO, lists};
use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SelectExpr,
};

use super::super::node::SchemaNode;
use super::convert::escaped;

/// The type of an expression, as far as it is known.
#[derive(Clone, Copy)]
pub(super) enum ExpressionType<'a> {
    Unknown,
    Described(&'a SchemaNode),
    /// The metadata of a whole resource.
    Metadata,
    Plain(&'static str),
}

impl<'a> ExpressionType<'a> {
    /// The name CEL has for this kind of scalar.
    fn scalar(self) -> Option<&'static str> {
        match self {
            Self::Plain(name) => Some(name),
            Self::Described(node) if node.int_or_string => None,
            Self::Described(node) => match (node.type_name.as_str(), node.format.as_str()) {
                ("boolean", _) => Some("bool"),
                ("integer", _) => Some("int"),
                ("number", _) => Some("double"),
                ("array", _) => Some("list"),
                ("object", _) => Some("map"),
                ("string", "byte" | "date" | "date-time" | "datetime" | "duration") => None,
                ("string", _) => Some("string"),
                _ => None,
            },
            _ => None,
        }
    }

    pub(super) fn may_be(self, name: &str) -> bool {
        self.scalar().is_none_or(|scalar| scalar == name)
    }

    fn of(node: Option<&'a SchemaNode>) -> Self {
        node.map_or(Self::Unknown, Self::Described)
    }
}

/// An error and the part of the expression that it is about.
pub(super) struct CheckError {
    pub(super) message: String,
    pub(super) at: String,
}

pub(super) struct Checker<'a> {
    variables: Vec<(String, ExpressionType<'a>)>,
    pub(super) fault: Option<CheckError>,
    /// The node of a whole resource, if `self` is one.
    resource: Option<&'a SchemaNode>,
}

impl<'a> Checker<'a> {
    pub(super) fn new(
        node: &'a SchemaNode,
        is_resource: bool,
        old_self: ExpressionType<'a>,
    ) -> Self {
        let variables = vec![
            ("self".to_owned(), ExpressionType::Described(node)),
            ("oldSelf".to_owned(), old_self),
        ];
        Self {
            variables,
            fault: None,
            resource: is_resource.then_some(node),
        }
    }

    fn blame(&mut self, message: String, at: &str) {
        self.fault.get_or_insert(CheckError {
            message,
            at: at.to_owned(),
        });
    }

    /// Finds the first error and returns the type of the expression.
    pub(super) fn visit(&mut self, expression: &IdedExpr) -> ExpressionType<'a> {
        match &expression.expr {
            Expr::Unspecified => ExpressionType::Unknown,
            Expr::Literal(literal) => literal_kind(literal),
            Expr::Ident(name) => self.variable(name),
            Expr::Select(select) => self.select(select),
            Expr::Call(call) => self.call(call),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::List(list) => {
                list.elements.iter().for_each(|element| {
                    self.visit(element);
                });
                ExpressionType::Plain("list")
            }
            Expr::Map(map) => {
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(entry) = &entry.expr {
                        self.visit(&entry.key);
                        self.visit(&entry.value);
                    }
                }
                ExpressionType::Plain("map")
            }
            Expr::Struct(message) => {
                let name = message.type_name.as_str();
                self.blame(
                    format!("undeclared reference to '{name}' (in container '')"),
                    name,
                );
                ExpressionType::Unknown
            }
        }
    }

    fn variable(&mut self, name: &str) -> ExpressionType<'a> {
        let known = self.variables.iter().rev().find(|(known, _)| known == name);
        if let Some((_, kind)) = known {
            return *kind;
        }
        if !name.starts_with('@') {
            self.blame(
                format!("undeclared reference to '{name}' (in container '')"),
                name,
            );
        }
        ExpressionType::Unknown
    }

    fn select(&mut self, select: &SelectExpr) -> ExpressionType<'a> {
        let operand = self.visit(&select.operand);
        let field = self.field(operand, &select.field);
        if select.test {
            ExpressionType::Plain("bool")
        } else {
            field
        }
    }

    fn field(&mut self, operand: ExpressionType<'a>, field: &str) -> ExpressionType<'a> {
        let node = match operand {
            ExpressionType::Metadata if ["name", "generateName"].contains(&field) => {
                return ExpressionType::Plain("string");
            }
            ExpressionType::Metadata => return self.no_field(field),
            ExpressionType::Described(node) => node,
            ExpressionType::Unknown | ExpressionType::Plain(_) => return ExpressionType::Unknown,
        };
        let declared = node
            .properties
            .iter()
            .find(|(name, _)| escaped(name) == field);
        let is_whole = self
            .resource
            .is_some_and(|resource| std::ptr::eq(node, resource));
        let is_root = is_whole || node.embedded;
        match (declared, field) {
            (_, "metadata") if is_root => ExpressionType::Metadata,
            (Some((_, node)), _) => ExpressionType::Described(node),
            (None, "apiVersion" | "kind") if is_root => ExpressionType::Plain("string"),
            _ if node.takes_additional() => ExpressionType::of(node.additional_schema()),
            _ if node.properties.is_empty() && node.type_name == "object" => {
                ExpressionType::Unknown
            }
            _ if node.type_name == "object" => self.no_field(field),
            _ => ExpressionType::Unknown,
        }
    }

    fn no_field(&mut self, field: &str) -> ExpressionType<'a> {
        self.blame(format!("undefined field '{field}'"), &format!(".{field}"));
        ExpressionType::Unknown
    }

    fn call(&mut self, call: &CallExpr) -> ExpressionType<'a> {
        let mut name = call.func_name.clone();
        let mut target = None;
        match call.target.as_deref() {
            Some(IdedExpr {
                expr: Expr::Ident(space),
                ..
            }) if !self.knows(space) => {
                name = format!("{space}.{name}");
            }
            Some(other) => target = Some(self.visit(other)),
            None => {}
        }
        let is_operator = name.starts_with(['_', '!', '-', '@']);
        if !is_operator && !self.can_call(&name, call.args.len()) {
            return ExpressionType::Unknown;
        }
        let arguments: Vec<ExpressionType<'a>> = call
            .args
            .iter()
            .map(|argument| self.visit(argument))
            .collect();
        if is_operator {
            return self.operator(&name, &arguments);
        }
        match name.as_str() {
            name if lists(YES_OR_NO, name) => ExpressionType::Plain("bool"),
            "size" | "int" => ExpressionType::Plain("int"),
            "find" | "format" if target.is_none() => ExpressionType::Unknown,
            name if lists(TEXTS, name) => ExpressionType::Plain("string"),
            _ => ExpressionType::Unknown,
        }
    }

    fn can_call(&mut self, name: &str, arguments: usize) -> bool {
        let in_a_time_zone = name.starts_with("get") && arguments > 0;
        if lists(FUNCTIONS, name) && !in_a_time_zone {
            return true;
        }
        let message = match in_a_time_zone || lists(UNSUPPORTED, name) {
            true => format!("'{name}' with these arguments is not supported by this server"),
            false => format!("undeclared reference to '{name}' (in container '')"),
        };
        self.blame(message, &format!("{name}("));
        false
    }

    fn knows(&self, name: &str) -> bool {
        name.starts_with('@') || self.variables.iter().any(|(known, _)| known == name)
    }

    fn operator(&mut self, name: &str, arguments: &[ExpressionType<'a>]) -> ExpressionType<'a> {
        self.check_operands(name, arguments);
        match (name, arguments) {
            ("_?_:_", [_, yes, _]) => *yes,
            ("_[_]", [ExpressionType::Described(node), _]) => {
                ExpressionType::of(node.items.as_deref().or_else(|| node.additional_schema()))
            }
            ("_==_" | "_!=_" | "_<_" | "_<=_" | "_>_" | "_>=_", [left, right]) => {
                self.compare(name, *left, *right);
                ExpressionType::Plain("bool")
            }
            ("_&&_" | "_||_" | "!_" | "@in", _) => ExpressionType::Plain("bool"),
            ("_+_" | "_-_" | "_*_" | "_/_" | "_%_", [left, _]) => {
                let simple = |name: &&str| ["int", "uint", "double", "string"].contains(name);
                left.scalar()
                    .filter(simple)
                    .map_or(ExpressionType::Unknown, ExpressionType::Plain)
            }
            _ => ExpressionType::Unknown,
        }
    }

    /// Logical operators take booleans, arithmetic ones take two values of the same type.
    fn check_operands(&mut self, name: &str, arguments: &[ExpressionType<'a>]) {
        let known: Option<Vec<&str>> = arguments.iter().map(|kind| kind.scalar()).collect();
        let first = arguments.first().and_then(|kind| kind.scalar());
        let refuse = |kinds: &[&str]| {
            let kinds = kinds.join(", ");
            format!("found no matching overload for '{name}' applied to '({kinds})'")
        };
        let arithmetic = ["_+_", "_-_", "_*_", "_/_", "_%_"].contains(&name);
        match (name, known.as_deref()) {
            ("_&&_" | "_||_", _) => {
                let wrong = arguments
                    .iter()
                    .filter_map(|kind| kind.scalar())
                    .find(|kind| *kind != "bool");
                if let Some(kind) = wrong {
                    self.blame(format!("expected type 'bool' but found '{kind}'"), "");
                }
            }
            ("!_", Some([kind])) if *kind != "bool" => self.blame(refuse(&[kind]), "!"),
            ("_?_:_", Some(kinds)) if first != Some("bool") || kinds[1] != kinds[2] => {
                self.blame(refuse(kinds), "?");
            }
            (_, Some([left, right])) if arithmetic && left != right => {
                let simple = ["bool", "int", "uint", "double", "string", "null"];
                if simple.contains(left) && simple.contains(right) {
                    self.blame(refuse(&[left, right]), name.trim_matches('_'));
                }
            }
            _ => {}
        }
    }

    /// Numbers of any type can be ordered; equality needs the same type.
    fn compare(&mut self, operator: &str, left: ExpressionType<'a>, right: ExpressionType<'a>) {
        let (Some(left), Some(right)) = (left.scalar(), right.scalar()) else {
            return;
        };
        let simple = ["bool", "int", "uint", "double", "string", "null"];
        let numbers = ["int", "uint", "double"];
        if left == right || !simple.contains(&left) || !simple.contains(&right) {
            return;
        }
        let ordered = !["_==_", "_!=_"].contains(&operator);
        if ordered && numbers.contains(&left) && numbers.contains(&right) {
            return;
        }
        let sign = operator.trim_matches('_').to_owned();
        let message =
            format!("found no matching overload for '{operator}' applied to '({left}, {right})'");
        self.blame(message, &sign);
    }

    fn comprehension(&mut self, comprehension: &ComprehensionExpr) -> ExpressionType<'a> {
        let range = self.visit(&comprehension.iter_range);
        let item = match range {
            ExpressionType::Described(node) if node.type_name == "array" => {
                ExpressionType::of(node.items.as_deref())
            }
            ExpressionType::Described(node) if node.takes_additional() => {
                ExpressionType::Plain("string")
            }
            _ => ExpressionType::Unknown,
        };
        if let Some(name) = range
            .scalar()
            .filter(|name| !["list", "map"].contains(name))
        {
            let message = format!(
                "expression of type '{name}' cannot be range of a comprehension \
                 (must be list, map, or dynamic)"
            );
            let at = match &comprehension.iter_range.expr {
                Expr::Select(select) => format!(".{}", select.field),
                Expr::Ident(name) => name.clone(),
                _ => String::new(),
            };
            self.blame(message, &at);
        }
        let start = self.visit(&comprehension.accu_init);
        let known = self.variables.len();
        self.variables.push((comprehension.iter_var.clone(), item));
        self.variables
            .push((comprehension.accu_var.clone(), ExpressionType::Unknown));
        self.visit(&comprehension.loop_cond);
        self.visit(&comprehension.loop_step);
        self.visit(&comprehension.result);
        self.variables.truncate(known);
        match start {
            // `exists_one` starts with a counter; its result is a boolean.
            ExpressionType::Plain("int") => ExpressionType::Plain("bool"),
            start => start,
        }
    }
}

fn literal_kind<'a>(literal: &LiteralValue) -> ExpressionType<'a> {
    ExpressionType::Plain(match literal {
        LiteralValue::Boolean(_) => "bool",
        LiteralValue::Bytes(_) => "bytes",
        LiteralValue::Double(_) => "double",
        LiteralValue::Int(_) => "int",
        LiteralValue::String(_) => "string",
        LiteralValue::UInt(_) => "uint",
        LiteralValue::Null => "null",
    })
}
