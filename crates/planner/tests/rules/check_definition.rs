//! What checks ask: `${…}` is escaped for where it stands, and what cannot work is refused with a sentence.

use api::{
    check_run::CheckRunSpec,
    pipeline::{Check, PipelineSpec},
};
use planner::{check_problem, check_urls, condition_text, http_url, prometheus_query};
use serde_json::{Value, json};

fn spec(check: Value, value: &str) -> CheckRunSpec {
    CheckRunSpec {
        pipeline: "shop".to_owned(),
        environment: value.to_owned(),
        revision: value.to_owned(),
        version: "1.2.3".to_owned(),
        check: serde_json::from_value(check).unwrap(),
        ..Default::default()
    }
}

fn url(url: &str, value: &str) -> Result<String, String> {
    http_url(&spec(
        json!({"name": "a", "http": {"url": url, "passExpr": "true"}}),
        value,
    ))
}

fn query(query: &str, value: &str) -> Result<String, String> {
    let prometheus = json!({"address": "http://p", "query": query, "passExpr": "true"});
    prometheus_query(&spec(json!({"name": "a", "prometheus": prometheus}), value))
}

#[test]
fn values_in_urls_are_percent_encoded() {
    for (template, value, expected) in [
        (
            "https://e/${version}?p=${pipeline}",
            "x",
            "https://e/1.2.3?p=shop",
        ),
        (
            "https://e/a/${revision}",
            "main@sha1:ab/c",
            "https://e/a/main%40sha1%3Aab%2Fc",
        ),
        (
            "https://e/?q=${revision}",
            "a&b=c#d?e",
            "https://e/?q=a%26b%3Dc%23d%3Fe",
        ),
        ("https://e/${revision}", "../admin", "https://e/..%2Fadmin"),
        ("https://host/${revision}", "a/b", "https://host/a%2Fb"),
        ("https://e/#${revision}", "ä\r\n", "https://e/#%C3%A4%0D%0A"),
        (
            "https://shop-${environment}.e/",
            "prod-1",
            "https://shop-prod-1.e/",
        ),
    ] {
        assert_eq!(url(template, value), Ok(expected.to_owned()), "{template}");
    }
}

#[test]
fn values_that_would_change_the_host_are_refused() {
    for (template, value) in [
        ("https://${revision}/", "evil.test"),
        ("https://${revision}/", "evil.test:80"),
        ("https://shop-${revision}.e/", "a@evil.test/"),
        ("https://e:${revision}/", "80@evil"),
        ("${revision}://e/", "file:"),
        ("https://${revision}.e/", ""),
        ("https://e/${revision}/x", ".."),
        ("https://e/${revision}", "."),
    ] {
        let refused = url(template, value).unwrap_err();
        assert!(
            refused.contains("${revision} is"),
            "{template} {value}: {refused}"
        );
    }
}

#[test]
fn values_in_promql_stay_in_their_string() {
    for (template, value, expected) in [
        (r#"up{e="${environment}"}"#, "prod", r#"up{e="prod"}"#),
        (
            r#"up{e="${environment}"}"#,
            r#"a"} or vector(1) #"#,
            r#"up{e="a\"} or vector(1) #"}"#,
        ),
        (r"up{e='${environment}'}", r"a\'b", r"up{e='a\\\'b'}"),
        (r#"up{a="\"${environment}"}"#, "x\"y", r#"up{a="\"x\"y"}"#),
        (
            r#"up{a="it's ${environment}"}"#,
            "a\"b",
            r#"up{a="it's a\"b"}"#,
        ),
        ("up{e=`${environment}`}", r#"a"b\"#, r#"up{e=`a"b\`}"#),
        (
            "errors_${environment}_total",
            "prod_1",
            "errors_prod_1_total",
        ),
        (
            "up # it's\n{e=\"${environment}\"}",
            "a\nb",
            "up # it's\n{e=\"a\\nb\"}",
        ),
    ] {
        assert_eq!(
            query(template, value),
            Ok(expected.to_owned()),
            "{template} {value}"
        );
    }
    for (template, value) in [
        ("errors_${environment}", "a} or vector(1"),
        ("up # it's\n == ${environment}", "1 or vector(1)"),
        ("up{e=`${environment}`}", "a`} or vector(1) #"),
        ("up # ${environment}", "a\n or vector(1)"),
        (r#"up{e="x"} + ${environment}"#, "a b"),
        (r#""${environment}"${environment}"#, "a b"),
    ] {
        assert!(query(template, value).is_err(), "{template} {value}");
    }
}

#[test]
fn checks_that_cannot_work_are_named() {
    let http = |url: &str, expression: &str| json!({"name": "a", "http": {"url": url, "passExpr": expression}});
    for (check, expected) in [
        (http("https://e/", "status == 200"), None),
        (
            http("https://e/", "value < 1"),
            Some("there is no variable `value`; use status, body, json, headers"),
        ),
        (http("https://e/", "status =="), Some("passExpr: ")),
        (
            http("https://e/", "json.items.all(i, i.ok)"),
            Some("all, exists, exists_one, map and filter are not allowed"),
        ),
        (http("https://e/${environment}", "true"), None),
        (
            http("https://e/${env}", "true"),
            Some("url has ${env}; there are only ${environment}, ${revision}"),
        ),
        (
            http("https://e/${environment", "true"),
            Some("url has ${ without }"),
        ),
        (
            json!({"name": "a"}),
            Some("it must be one of prometheus, http, job and external"),
        ),
        (
            json!({"name": "a", "external": {}, "job": {"cronJobRef": {"name": "b"}}}),
            Some("must be one of"),
        ),
        (json!({"name": "a", "external": {}}), None),
        (
            json!({"name": "a", "prometheus": {"address": "http://${environment}", "query": "up", "passExpr": "value > 0"}}),
            Some("address cannot contain"),
        ),
        (
            json!({"name": "a", "prometheus": {"address": "http://p", "query": "up", "passExpr": "status == 200"}}),
            Some("use value, values"),
        ),
    ] {
        let parsed: Check = serde_json::from_value(check.clone()).unwrap();
        let problem = check_problem(&parsed);
        match expected {
            None => assert_eq!(problem, None, "{check}"),
            Some(text) => assert!(
                problem.clone().unwrap_or_default().contains(text),
                "{check}: {problem:?}"
            ),
        }
    }
}

#[test]
fn the_condition_is_shown_as_it_is_written() {
    for (check, expected) in [
        (
            json!({"http": {"url": "https://e/", "passExpr": "status == 200"}}),
            "status == 200",
        ),
        (
            json!({"prometheus": {"address": "http://p", "query": "up", "passExpr": "value > 0"}}),
            "value > 0",
        ),
        (json!({"external": {}}), ""),
    ] {
        let mut named = check;
        named["name"] = json!("a");
        let check: Check = serde_json::from_value(named).unwrap();
        assert_eq!(condition_text(&check), expected);
    }
}

/// `dev smoke: http://p` for each URL that is known before there is a revision.
#[test]
fn urls_are_known_before_there_is_a_revision() {
    let http =
        |name: &str, url: &str| json!({"name": name, "http": {"url": url, "passExpr": "true"}});
    let spec: PipelineSpec = serde_json::from_value(json!({
        "checks": [
            {"name": "errors", "prometheus": {"address": "http://p", "query": "up", "passExpr": "true"}},
            http("page", "https://${pipeline}-${environment}.e/${revision}?${version}"),
            http("host", "https://${revision}.e/"),
            http("version", "https://${version}.e/"),
            {"name": "ticket", "external": {}},
            http("unused", "https://unused.e/"),
        ],
        "environments": [
            {
                "name": "dev", "targets": [{"namespace": "dev"}],
                "verify": {"checks": ["errors", "host", "ticket"]},
                "promotion": {"checks": ["page"]},
            },
            {
                "name": "prod", "targets": [{"namespace": "prod"}],
                "verify": {"checks": ["version"]},
                "promotion": {"checks": ["page", "errors"]},
            },
        ],
    }))
    .unwrap();
    let urls = check_urls("shop", &spec);
    let shown = urls
        .iter()
        .map(|it| format!("{} {}: {}", it.environment, it.check, it.url));
    assert_eq!(
        shown.collect::<Vec<_>>(),
        [
            "dev errors: http://p",
            "prod errors: http://p",
            "prod page: https://shop-prod.e/0?0",
        ],
        "nothing is promoted into dev, and a host that is a revision is not known"
    );
}
