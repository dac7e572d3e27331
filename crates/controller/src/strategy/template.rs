//! Fills in `${field}` in texts of a strategy. The fields are a closed list; there is no logic.

use planner::Failure;

use super::failure::needs_edit;

/// Fills in the fields. A field that is not in the list is an error.
pub(super) fn fill(text: &str, fields: &[(&str, &str)]) -> Result<String, Failure> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        filled.push_str(before);
        let Some((name, after)) = after.split_once('}') else {
            return Err(needs_edit(
                "InvalidTemplate",
                "a `${` in the strategy has no `}`",
            ));
        };
        let Some((_, value)) = fields.iter().find(|(field, _)| *field == name) else {
            let known: Vec<_> = fields.iter().map(|(field, _)| *field).collect();
            let text = format!(
                "the strategy uses ${{{name}}}, which is not a field; the fields are {}",
                known.join(", ")
            );
            return Err(needs_edit("InvalidTemplate", text));
        };
        filled.push_str(value);
        rest = after;
    }
    filled.push_str(rest);
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::fill;

    #[test]
    fn fields_are_a_closed_list() {
        let fields = [("environment", "prod"), ("version", "${environment}")];
        for (text, expected) in [
            ("", ""),
            ("no field, $5 or {x}", "no field, $5 or {x}"),
            ("${environment}/${environment}", "prod/prod"),
            // Values are not filled in again.
            ("to ${version}!", "to ${environment}!"),
        ] {
            assert_eq!(fill(text, &fields).as_deref(), Ok(expected));
        }
        for (text, complaint) in [
            ("${Environment}", "${Environment}"),
            ("${}", "${}"),
            ("${environment", "no `}`"),
        ] {
            let failure = fill(text, &fields).expect_err(text);
            assert!(failure.message.contains(complaint), "{failure:?}");
        }
    }
}
