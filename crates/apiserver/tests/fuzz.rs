//! Bytes to the router: requests as they come over a connection, damaged in every way.
//!
//! A few requests (the corpus) are flipped, cut, doubled, spliced and sprinkled with words that mean
//! something, by dice whose seed is printed with a failure. `PROPTEST_RNG_SEED` and `PROPTEST_CASES`
//! are obeyed as by every other test of chance; `cargo xtask fuzz router` goes on for longer.

#![expect(
    clippy::unwrap_used,
    reason = "a failing case is a panic, as in any other test"
)]

use apiserver::Server;
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Whole requests: method, path, content type, body.
const CORPUS: &[(&str, &str, &str, &str)] = &[
    (
        "GET",
        "/api/v1/namespaces/default/configmaps?limit=1",
        "",
        "",
    ),
    (
        "GET",
        "/apis/example.com/v1/things?watch=true&timeoutSeconds=1",
        "",
        "",
    ),
    ("GET", "/openapi/v3/apis/example.com/v1", "", ""),
    (
        "POST",
        "/apis/example.com/v1/namespaces/default/things",
        "application/json",
        r#"{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a"},"spec":{"x":1}}"#,
    ),
    (
        "PUT",
        "/api/v1/namespaces/default/configmaps/a",
        "application/yaml",
        "metadata: {name: a}\ndata: {k: v}\n",
    ),
    (
        "PATCH",
        "/apis/example.com/v1/namespaces/default/things/a/status",
        "application/merge-patch+json",
        r#"{"status":{"conditions":[{"type":"Ready","status":"True"}]}}"#,
    ),
    (
        "PATCH",
        "/apis/example.com/v1/namespaces/default/things/a?fieldManager=m",
        "application/apply-patch+yaml",
        r#"{"apiVersion":"example.com/v1","kind":"Thing","spec":{"y":[1,2]}}"#,
    ),
    (
        "PATCH",
        "/api/v1/namespaces/default/configmaps/a",
        "application/json-patch+json",
        r#"[{"op":"add","path":"/data/x","value":"y"},{"op":"test","path":"/kind","value":null}]"#,
    ),
    (
        "PATCH",
        "/apis/apps/v1/namespaces/default/deployments/a",
        "application/strategic-merge-patch+json",
        r#"{"spec":{"template":{"spec":{"containers":[{"name":"a","$patch":"delete"}]}}}}"#,
    ),
    (
        "DELETE",
        "/apis/example.com/v1/namespaces/default/things",
        "application/json",
        r#"{"propagationPolicy":"Orphan","dryRun":["All"]}"#,
    ),
    (
        "POST",
        "/api/v1/namespaces",
        "application/vnd.kubernetes.protobuf",
        "k8s\0\n\u{f}\n\u{2}v1\u{12}\tNamespace\u{12}\u{9}\n\u{7}\n\u{1}a\u{1a}\0*\0",
    ),
];

/// Words that change the meaning of what they fall into.
const WORDS: &[&str] = &[
    "\r\n",
    "\0",
    "{",
    "}",
    "[",
    "null",
    "\\ud800",
    "1e999",
    "-1",
    "18446744073709551616",
    "..",
    "%2f",
    "managedFields",
    "\"metadata\":",
    "resourceVersion",
    "Transfer-Encoding: chunked\r\n",
    "Content-Length: 5\r\n",
    "Impersonate-User: x\r\n",
    "&",
    "labelSelector=a%20in%20(b",
    "status",
    "\u{12}\u{ff}",
    "k8s\0",
];

/// What a real server says 500 about, so this one does too.
const KNOWN: &[&str] = &[
    "resourceVersion",
    "strconv.ParseUint",
    "failed to create typed patch object",
];

fn whole((method, path, kind, body): &(&str, &str, &str, &str)) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n"
    );
    [head.as_bytes(), body.as_bytes()].concat()
}

/// A small generator of numbers; the same seed gives the same numbers.
struct SeededRandom(u64);

impl SeededRandom {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut number = self.0;
        number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((number ^ (number >> 31)) >> 1).unwrap() % limit.max(1)
    }

    fn range(&mut self, length: usize) -> std::ops::Range<usize> {
        let start = self.below(length + 1);
        let end = (start + self.below(24)).min(length);
        start..end
    }

    fn damaged(&mut self, mut bytes: Vec<u8>) -> Vec<u8> {
        for _ in 0..self.below(5) {
            let range = self.range(bytes.len());
            match self.below(6) {
                0 if !range.is_empty() => bytes[range.start] ^= 1 << self.below(8),
                1 => drop(bytes.drain(range)),
                2 => {
                    let copy = bytes[range.clone()].to_vec();
                    bytes.splice(range.start..range.start, copy.repeat(1 + self.below(9)));
                }
                3 => bytes.truncate(range.end),
                4 => {
                    let other = whole(&CORPUS[self.below(CORPUS.len())]);
                    let part = self.range(other.len());
                    bytes.splice(range, other[part].iter().copied());
                }
                _ => {
                    let word = WORDS[self.below(WORDS.len())];
                    bytes.splice(range.start..range.start, word.bytes());
                }
            }
        }
        bytes
    }
}

/// Sends bytes over a connection that then ends, and gives all that came back.
async fn answers(server: &Server, bytes: &[u8]) -> Vec<u8> {
    let (mut client, connection) = tokio::io::duplex(64 * 1024);
    let service = TowerToHyperService::new(server.router(apiserver::User::in_process()));
    let serving = tokio::spawn(async move {
        let connection = TokioIo::new(connection);
        // What is no HTTP ends the connection.
        let _ = hyper::server::conn::http1::Builder::new()
            .half_close(true)
            .serve_connection(connection, service)
            .await;
    });
    client.write_all(bytes).await.unwrap();
    client.shutdown().await.unwrap();
    let mut all = Vec::new();
    client.read_to_end(&mut all).await.unwrap();
    serving.await.unwrap();
    all
}

fn setting(name: &str, default: u64) -> u64 {
    let given = std::env::var(name).ok();
    given.and_then(|it| it.parse().ok()).unwrap_or(default)
}

#[test]
fn no_bytes_are_the_servers_fault() {
    let seed = setting("PROPTEST_RNG_SEED", 20_261_115);
    let mut random = SeededRandom(seed);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let server = Server::in_memory();
        let define = whole(&(
            "POST",
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            "application/json",
            DEFINITION,
        ));
        let defined = answers(&server, &define).await;
        assert!(
            defined.starts_with(b"HTTP/1.1 201"),
            "{}",
            String::from_utf8_lossy(&defined)
        );
        for case in 0..setting("PROPTEST_CASES", 2000) {
            let first = whole(&CORPUS[random.below(CORPUS.len())]);
            let sent = random.damaged(first);
            let answer = answers(&server, &sent).await;
            let answer = String::from_utf8_lossy(&answer);
            let is_fault =
                answer.contains("HTTP/1.1 500") && !KNOWN.iter().any(|it| answer.contains(it));
            assert!(
                !is_fault,
                "seed {seed}, case {case}: {}\nwas answered with {answer}",
                String::from_utf8_lossy(&sent)
            );
        }
        let healthy = answers(&server, &whole(&("GET", "/healthz", "", ""))).await;
        assert!(healthy.starts_with(b"HTTP/1.1 200"));
    });
}

const DEFINITION: &str = r#"{"metadata":{"name":"things.example.com"},"spec":{
    "group":"example.com","scope":"Namespaced","names":{"plural":"things","kind":"Thing"},
    "versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},"schema":{
        "openAPIV3Schema":{"type":"object","properties":{
            "spec":{"type":"object","x-kubernetes-preserve-unknown-fields":true},
            "status":{"type":"object","properties":{"conditions":{"type":"array",
                "x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["type"],
                "items":{"type":"object","required":["type"],"properties":{
                    "type":{"type":"string"},"status":{"type":"string"}}}}}}}}}}]}}"#;
