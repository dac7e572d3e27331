//! Validates limits and formats of numbers.

use serde_json::Number;

use super::error::float;
use super::node::SchemaNode;

/// An error of a number: the validator reports the field only for `Limit`.
pub(super) enum NumberError {
    Range(String),
    Limit(String),
    /// What is wrong with the factor of a schema, and that factor.
    Factor(String, String),
}

/// Whether a float is a whole number, within the tolerance kube-apiserver allows.
pub(super) fn is_whole(number: f64) -> bool {
    const LARGEST: f64 = 9_007_199_254_740_991.0;
    const TOLERANCE: f64 = 1e-9;
    if !number.is_finite() || number.abs() > LARGEST {
        return false;
    }
    let nearest = number.trunc();
    if number == nearest {
        return true;
    }
    nearest != 0.0 && (number - nearest).abs() / (number.abs() + nearest.abs()) < TOLERANCE
}

pub(super) fn check(
    node: &SchemaNode,
    types: &[&str],
    given: &Number,
    path: &str,
) -> Vec<NumberError> {
    let range = NumberRange::of(node, types);
    let limits = &node.number;
    let mut errors = Vec::new();
    let value = GoNumber::of(given);
    range.check(value, "Checked", path, &mut errors);
    if let Some(factor) = limits.multiple_of {
        let exact = range.check(GoNumber::Float(factor), "MultipleOf", path, &mut errors);
        check_multiple(value.comparable(exact), factor, path, &mut errors);
    }
    if let Some(minimum) = limits.minimum {
        let limit = GoNumber::Float(minimum);
        let exact = range.check(limit, "Minimum boundary", path, &mut errors);
        let (value, minimum) = value.comparable(exact).same_type(minimum);
        errors.extend(minimum.as_minimum(value, limits.exclusive_minimum));
    }
    if let Some(maximum) = limits.maximum {
        let limit = GoNumber::Float(maximum);
        let exact = range.check(limit, "Maximum boundary", path, &mut errors);
        let (value, maximum) = value.comparable(exact).same_type(maximum);
        errors.extend(maximum.as_maximum(value, limits.exclusive_maximum));
    }
    errors
}

fn check_multiple(value: GoNumber, factor: f64, path: &str, errors: &mut Vec<NumberError>) {
    let (value, factor) = value.same_type(factor);
    let fits = match (value, factor) {
        (_, GoNumber::Integer(..=0)) => None,
        (_, GoNumber::Float(factor)) if factor <= 0.0 => None,
        (GoNumber::Integer(value), GoNumber::Integer(factor)) => Some(value % factor == 0),
        (value, factor) => {
            let (value, factor) = (value.float(), factor.float());
            let times = if factor < 1.0 {
                1.0 / factor * value
            } else {
                value / factor
            };
            Some(is_whole(times))
        }
    };
    match fits {
        Some(true) => {}
        Some(false) => {
            errors.push(NumberError::Limit(format!(
                "should be a multiple of {}",
                factor.printed()
            )));
        }
        None => {
            let factor = factor.printed();
            let text = format!("factor MultipleOf declared for {path} must be positive: {factor}");
            errors.push(NumberError::Factor(text, factor));
        }
    }
}

/// A number as Go represents it.
#[derive(Clone, Copy)]
enum GoNumber {
    Integer(i64),
    Float(f64),
}

impl GoNumber {
    fn of(number: &Number) -> Self {
        match number.as_i64() {
            Some(number) => Self::Integer(number),
            None => Self::Float(number.as_f64().unwrap_or_default()),
        }
    }

    /// Integers are compared as floats with a limit that is no integer.
    fn comparable(self, exact: bool) -> Self {
        if exact {
            self
        } else {
            Self::Float(self.float())
        }
    }

    /// This number and `limit` as numbers of the same kind.
    fn same_type(self, limit: f64) -> (Self, Self) {
        match self {
            Self::Integer(_) => (self, Self::Integer(limit as i64)),
            Self::Float(_) => (self, Self::Float(limit)),
        }
    }

    fn as_minimum(self, value: Self, exclusive: bool) -> Option<NumberError> {
        let (fails, message) = match exclusive {
            true => (value.at_most(self), "should be greater than"),
            false => (value.below(self), "should be greater than or equal to"),
        };
        fails.then(|| NumberError::Limit(format!("{message} {}", self.printed())))
    }

    fn as_maximum(self, value: Self, exclusive: bool) -> Option<NumberError> {
        let (fails, message) = match exclusive {
            true => (self.at_most(value), "should be less than"),
            false => (self.below(value), "should be less than or equal to"),
        };
        fails.then(|| NumberError::Limit(format!("{message} {}", self.printed())))
    }

    fn float(self) -> f64 {
        match self {
            Self::Integer(number) => number as f64,
            Self::Float(number) => number,
        }
    }

    fn below(self, other: Self) -> bool {
        match (self, other) {
            (Self::Integer(this), Self::Integer(other)) => this < other,
            _ => self.float() < other.float(),
        }
    }

    fn at_most(self, other: Self) -> bool {
        !other.below(self)
    }

    fn printed(self) -> String {
        match self {
            Self::Integer(number) => number.to_string(),
            Self::Float(number) => float(number),
        }
    }
}

/// The numbers a type and format can hold.
struct NumberRange<'a> {
    integer: bool,
    format: &'a str,
}

impl<'a> NumberRange<'a> {
    fn of(node: &'a SchemaNode, types: &[&str]) -> Self {
        let (integer, formats): (bool, &[&str]) = match types {
            ["integer"] => (true, &["int32", "int64"]),
            ["number"] => (false, &["float", "double"]),
            _ => (false, &[]),
        };
        let known = formats.contains(&node.format.as_str());
        Self {
            integer,
            format: if known { &node.format } else { "" },
        }
    }

    /// Whether `number` is in the range; adds an error if not.
    fn check(
        &self,
        number: GoNumber,
        what: &str,
        path: &str,
        errors: &mut Vec<NumberError>,
    ) -> bool {
        let fits = match (self.integer, self.format) {
            (true, "int32") => self
                .integer_of(number)
                .is_some_and(|n| i32::try_from(n).is_ok()),
            (true, _) => self.integer_of(number).is_some(),
            (false, "float") => number.float().abs() <= f64::from(f32::MAX),
            (false, _) => true,
        };
        if !fits {
            let kind = if self.integer { "integer" } else { "number" };
            let format = match self.format {
                "" => "(default format)".to_owned(),
                format => format!("with format {format}"),
            };
            errors.push(NumberError::Range(format!(
                "{what} value must be of type {kind} {format} in {path}"
            )));
        }
        fits
    }

    fn integer_of(&self, number: GoNumber) -> Option<i64> {
        match number {
            GoNumber::Integer(number) => Some(number),
            GoNumber::Float(number) => number.to_string().parse().ok(),
        }
    }
}
