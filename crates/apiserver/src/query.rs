//! The query parameters of a request.

use http::Uri;
use serde_json::{Value, json};

use crate::{
    percent,
    schema::FieldError,
    status::{ApiError, Result},
};

const FIELD_MANAGER_LIMIT: usize = 128;

/// The parsed query parameters.
#[derive(Debug, Default, Clone)]
pub(crate) struct Query {
    pub(crate) watch: bool,
    pub(crate) label_selector: String,
    pub(crate) field_selector: String,
    pub(crate) limit: u64,
    pub(crate) continue_token: String,
    pub(crate) resource_version: String,
    pub(crate) resource_version_match: String,
    pub(crate) timeout_seconds: Option<u64>,
    pub(crate) allow_bookmarks: bool,
    pub(crate) send_initial_events: Option<bool>,
    pub(crate) dry_run: Vec<String>,
    pub(crate) field_manager: String,
    pub(crate) field_validation: String,
    pub(crate) propagation_policy: String,
    pub(crate) force: Option<bool>,
    pub(crate) include_object: String,
}

impl Query {
    /// Reads the parameters; unknown ones are ignored, as in kube-apiserver.
    pub(crate) fn parse(uri: &Uri) -> Result<Self> {
        let mut query = Self::default();
        let pairs = percent::pairs(uri.query().unwrap_or_default());
        // The first value of a repeated parameter counts.
        for (name, value) in pairs.into_iter().rev() {
            query.set(&name, value)?;
        }
        Ok(query)
    }

    fn set(&mut self, name: &str, value: String) -> Result<()> {
        match name {
            "watch" => self.watch = boolean(&value),
            "labelSelector" => self.label_selector = value,
            "fieldSelector" => self.field_selector = value,
            "limit" => self.limit = number(&value)?,
            "continue" => self.continue_token = value,
            "resourceVersion" => self.resource_version = value,
            "resourceVersionMatch" => self.resource_version_match = value,
            "timeoutSeconds" => self.timeout_seconds = Some(number(&value)?),
            "allowWatchBookmarks" => self.allow_bookmarks = boolean(&value),
            "sendInitialEvents" => self.send_initial_events = Some(boolean(&value)),
            "dryRun" => self.dry_run.insert(0, value),
            "fieldManager" => self.field_manager = value,
            "fieldValidation" => self.field_validation = value,
            "includeObject" => self.include_object = value,
            "force" => self.force = Some(boolean(&value)),
            "propagationPolicy" => self.propagation_policy = value,
            _ => {}
        }
        Ok(())
    }
}

/// The validated query parameters of a write.
pub(crate) struct WriteParameters {
    pub(crate) dry_run: bool,
    pub(crate) field_validation: String,
}

impl Query {
    /// Validates the parameters of a write; `kind` is the name of the options in error messages.
    pub(crate) fn write_parameters(&self, kind: &str) -> Result<WriteParameters> {
        if self.dry_run.iter().any(|value| value != "All") {
            let given = json!(self.dry_run);
            return Err(unsupported(kind, "dryRun", &given, &["All"]));
        }
        if self.field_manager.len() > FIELD_MANAGER_LIMIT {
            let error = FieldError {
                reason: "FieldValueTooLong",
                field: "fieldManager".to_owned(),
                message: format!("Too long: may not be more than {FIELD_MANAGER_LIMIT} bytes"),
            };
            return Err(ApiError::invalid_options(kind, error));
        }
        let known = ["", "Ignore", "Strict", "Warn"];
        if !known.contains(&self.field_validation.as_str()) {
            let given = json!(self.field_validation);
            return Err(unsupported(kind, "fieldValidation", &given, &known));
        }
        Ok(WriteParameters {
            dry_run: !self.dry_run.is_empty(),
            field_validation: self.field_validation.clone(),
        })
    }
}

/// The error of an option with an unsupported value.
pub(crate) fn unsupported(kind: &str, field: &str, given: &Value, known: &[&str]) -> ApiError {
    let known: Vec<String> = known.iter().map(|value| format!("{value:?}")).collect();
    let error = FieldError {
        reason: "FieldValueNotSupported",
        field: field.to_owned(),
        message: format!(
            "Unsupported value: {given}: supported values: {}",
            known.join(", ")
        ),
    };
    ApiError::invalid_options(kind, error)
}

fn boolean(value: &str) -> bool {
    !value.eq_ignore_ascii_case("false") && value != "0"
}

fn number(value: &str) -> Result<u64> {
    let number: i64 = value.parse().map_err(|_| {
        ApiError::bad_request(format!(
            "strconv.ParseInt: parsing {value:?}: invalid syntax"
        ))
    })?;
    Ok(u64::try_from(number).unwrap_or_default())
}
