//! What can be known about an expression before it runs.
//!
//! The real server type-checks rules when a definition is written. This finds
//! what matters most of it: names, functions and fields that do not exist, and
//! operands that cannot be compared. What it does not understand it lets pass.

use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SelectExpr,
};

use super::super::node::Node;
use super::convert::escaped;

/// Deeper expressions could exhaust the stack of whoever runs them.
const DEEPEST: usize = 48;

/// The functions rules may call; everything else is refused with the definition.
const FUNCTIONS: &str = " contains size max min startsWith endsWith string bytes double int uint \
    optional.none optional.of optional.ofNonZeroValue value hasValue or orValue matches duration \
    timestamp getFullYear getMonth getDayOfYear getDayOfMonth getDate getDayOfWeek getHours \
    getMinutes getSeconds getMilliseconds dyn add asApproximateFloat asInteger base64.decode \
    base64.encode charAt cidr compareTo containsCIDR containsIP distinct family find findAll first \
    flatten format format.byte format.date format.datetime format.dns1035Label \
    format.dns1035LabelPrefix format.dns1123Label format.dns1123LabelPrefix \
    format.dns1123Subdomain format.dns1123SubdomainPrefix format.labelValue format.named \
    format.qualifiedName format.uri format.uuid getEscapedPath getHost getHostname getPort getQuery \
    getScheme indexOf ip ip.isCanonical isCIDR isGlobalUnicast isGreaterThan isIP isInteger \
    isLessThan isLinkLocalMulticast isLinkLocalUnicast isLoopback isQuantity isSemver isSorted \
    isURL isUnspecified join jsonpatch.escapeKey last lastIndexOf lists.range lowerAscii major \
    masked math.abs math.bitAnd math.bitNot math.bitOr math.bitShiftLeft math.bitShiftRight \
    math.bitXor math.ceil math.floor math.greatest math.isFinite math.isInf math.isNaN math.least \
    math.round math.sign math.sqrt math.trunc minor patch prefixLength quantity replace reverse \
    semver sets.contains sets.equivalent sets.intersects sign slice sort split strings.quote sub \
    substring sum trim upperAscii url validate ";

const YES_OR_NO: &str = " contains startsWith endsWith matches hasValue containsCIDR containsIP \
    isCIDR isGlobalUnicast isGreaterThan isIP isInteger isLessThan isLinkLocalMulticast \
    isLinkLocalUnicast isLoopback isQuantity isSemver isSorted isURL isUnspecified \
    sets.contains sets.equivalent sets.intersects ";

const TEXTS: &str = " string charAt find format join lowerAscii upperAscii trim substring \
    strings.quote jsonpatch.escapeKey getHost getHostname getScheme getPort getEscapedPath ";

fn lists(names: &str, name: &str) -> bool {
    names.contains(&format!(" {name} "))
}

/// What an expression evaluates to, as far as it is known.
#[derive(Clone, Copy)]
pub(super) enum Kind<'a> {
    Unknown,
    Described(&'a Node),
    /// The metadata of a whole resource.
    Metadata,
    Plain(&'static str),
}

impl<'a> Kind<'a> {
    /// The name CEL has for this kind of scalar.
    fn scalar(self) -> Option<&'static str> {
        match self {
            Self::Plain(name) => Some(name),
            Self::Described(node) if node.int_or_string || node.nullable => None,
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

    fn of(node: Option<&'a Node>) -> Self {
        node.map_or(Self::Unknown, Self::Described)
    }
}

/// A problem and the part of the text it is about.
pub(super) struct Fault {
    pub(super) message: String,
    pub(super) at: String,
}

pub(super) struct Checker<'a> {
    variables: Vec<(String, Kind<'a>)>,
    pub(super) fault: Option<Fault>,
    root: &'a Node,
}

impl<'a> Checker<'a> {
    pub(super) fn new(node: &'a Node, old_self: Kind<'a>) -> Self {
        let variables = vec![
            ("self".to_owned(), Kind::Described(node)),
            ("oldSelf".to_owned(), old_self),
        ];
        Self {
            variables,
            fault: None,
            root: node,
        }
    }

    pub(super) fn check(&mut self, expression: &IdedExpr) -> Kind<'a> {
        if depth_exceeds(expression, DEEPEST) {
            self.blame(format!("expression is deeper than {DEEPEST} levels"), "");
            return Kind::Unknown;
        }
        self.visit(expression)
    }

    fn blame(&mut self, message: String, at: &str) {
        self.fault.get_or_insert(Fault {
            message,
            at: at.to_owned(),
        });
    }

    fn visit(&mut self, expression: &IdedExpr) -> Kind<'a> {
        match &expression.expr {
            Expr::Unspecified => Kind::Unknown,
            Expr::Literal(literal) => literal_kind(literal),
            Expr::Ident(name) => self.variable(name),
            Expr::Select(select) => self.select(select),
            Expr::Call(call) => self.call(call),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::List(list) => {
                list.elements.iter().for_each(|element| {
                    self.visit(element);
                });
                Kind::Plain("list")
            }
            Expr::Map(map) => {
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(entry) = &entry.expr {
                        self.visit(&entry.key);
                        self.visit(&entry.value);
                    }
                }
                Kind::Plain("map")
            }
            Expr::Struct(message) => {
                let name = message.type_name.as_str();
                self.blame(
                    format!("undeclared reference to '{name}' (in container '')"),
                    name,
                );
                Kind::Unknown
            }
        }
    }

    fn variable(&mut self, name: &str) -> Kind<'a> {
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
        Kind::Unknown
    }

    fn select(&mut self, select: &SelectExpr) -> Kind<'a> {
        let operand = self.visit(&select.operand);
        let field = self.field(operand, &select.field);
        if select.test {
            Kind::Plain("bool")
        } else {
            field
        }
    }

    fn field(&mut self, operand: Kind<'a>, field: &str) -> Kind<'a> {
        let node = match operand {
            Kind::Metadata if ["name", "generateName"].contains(&field) => {
                return Kind::Plain("string");
            }
            Kind::Metadata => return self.no_field(field),
            Kind::Described(node) => node,
            Kind::Unknown | Kind::Plain(_) => return Kind::Unknown,
        };
        let declared = node
            .properties
            .iter()
            .find(|(name, _)| escaped(name) == field);
        let is_root = std::ptr::eq(node, self.root) || node.embedded;
        match (declared, field) {
            (_, "metadata") if is_root => Kind::Metadata,
            (Some((_, node)), _) => Kind::Described(node),
            (None, "apiVersion" | "kind") if is_root => Kind::Plain("string"),
            _ if node.takes_additional() => Kind::of(node.additional_schema()),
            _ if node.properties.is_empty() && node.type_name == "object" => Kind::Unknown,
            _ if node.type_name == "object" => self.no_field(field),
            _ => Kind::Unknown,
        }
    }

    fn no_field(&mut self, field: &str) -> Kind<'a> {
        self.blame(format!("undefined field '{field}'"), &format!(".{field}"));
        Kind::Unknown
    }

    fn call(&mut self, call: &CallExpr) -> Kind<'a> {
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
        let arguments: Vec<Kind<'a>> = call
            .args
            .iter()
            .map(|argument| self.visit(argument))
            .collect();
        if name.starts_with(['_', '!', '-', '@']) {
            return self.operator(&name, &arguments);
        }
        if !lists(FUNCTIONS, &name) {
            let message = format!("undeclared reference to '{name}' (in container '')");
            self.blame(message, &format!("{name}("));
        }
        match name.as_str() {
            name if lists(YES_OR_NO, name) => Kind::Plain("bool"),
            "size" | "int" => Kind::Plain("int"),
            "find" | "format" if target.is_none() => Kind::Unknown,
            name if lists(TEXTS, name) => Kind::Plain("string"),
            _ => Kind::Unknown,
        }
    }

    fn knows(&self, name: &str) -> bool {
        name.starts_with('@') || self.variables.iter().any(|(known, _)| known == name)
    }

    fn operator(&mut self, name: &str, arguments: &[Kind<'a>]) -> Kind<'a> {
        match (name, arguments) {
            ("_?_:_", [_, yes, _]) => *yes,
            ("_[_]", [Kind::Described(node), _]) => {
                Kind::of(node.items.as_deref().or_else(|| node.additional_schema()))
            }
            ("_==_" | "_!=_" | "_<_" | "_<=_" | "_>_" | "_>=_", [left, right]) => {
                self.compare(name, *left, *right);
                Kind::Plain("bool")
            }
            ("_&&_" | "_||_" | "!_" | "@in", _) => Kind::Plain("bool"),
            ("_+_", [left, _]) if left.scalar() == Some("string") => Kind::Plain("string"),
            _ => Kind::Unknown,
        }
    }

    /// Numbers of any kind have an order; equality asks for the same kind.
    fn compare(&mut self, operator: &str, left: Kind<'a>, right: Kind<'a>) {
        let (Some(left), Some(right)) = (left.scalar(), right.scalar()) else {
            return;
        };
        let simple = ["bool", "int", "uint", "double", "string"];
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

    fn comprehension(&mut self, comprehension: &ComprehensionExpr) -> Kind<'a> {
        let range = self.visit(&comprehension.iter_range);
        let item = match range {
            Kind::Described(node) if node.type_name == "array" => Kind::of(node.items.as_deref()),
            Kind::Described(node) if node.takes_additional() => Kind::Plain("string"),
            _ => Kind::Unknown,
        };
        let start = self.visit(&comprehension.accu_init);
        let known = self.variables.len();
        self.variables.push((comprehension.iter_var.clone(), item));
        self.variables
            .push((comprehension.accu_var.clone(), Kind::Unknown));
        self.visit(&comprehension.loop_cond);
        self.visit(&comprehension.loop_step);
        self.visit(&comprehension.result);
        self.variables.truncate(known);
        match start {
            // Counting is how `exists_one` starts; its result is yes or no.
            Kind::Plain("int") => Kind::Plain("bool"),
            start => start,
        }
    }
}

fn literal_kind<'a>(literal: &LiteralValue) -> Kind<'a> {
    Kind::Plain(match literal {
        LiteralValue::Boolean(_) => "bool",
        LiteralValue::Bytes(_) => "bytes",
        LiteralValue::Double(_) => "double",
        LiteralValue::Int(_) => "int",
        LiteralValue::String(_) => "string",
        LiteralValue::UInt(_) => "uint",
        LiteralValue::Null => return Kind::Unknown,
    })
}

/// Whether an expression has more than `limit` levels; goes no deeper than that itself.
fn depth_exceeds(expression: &IdedExpr, limit: usize) -> bool {
    let Some(limit) = limit.checked_sub(1) else {
        return true;
    };
    let deep = |expression: &IdedExpr| depth_exceeds(expression, limit);
    match &expression.expr {
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => false,
        Expr::Select(select) => deep(&select.operand),
        Expr::Call(call) => call.target.as_deref().is_some_and(deep) || call.args.iter().any(deep),
        Expr::List(list) => list.elements.iter().any(deep),
        Expr::Map(map) => map.entries.iter().any(|entry| match &entry.expr {
            EntryExpr::MapEntry(entry) => deep(&entry.key) || deep(&entry.value),
            EntryExpr::StructField(field) => deep(&field.value),
        }),
        Expr::Struct(_) => false,
        Expr::Comprehension(inner) => {
            let parts = [&inner.iter_range, &inner.accu_init, &inner.loop_cond];
            parts
                .into_iter()
                .chain([&inner.loop_step, &inner.result])
                .any(deep)
        }
    }
}
