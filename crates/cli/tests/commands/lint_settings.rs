//! What `sluice lint` says of settings that the API accepts and that cannot work.

use crate::offline::lint;

const PLACEHOLDERS: &str = "\
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: web}
spec:
  appRef: {apiVersion: helm.toolkit.fluxcd.io/v2, kind: HelmRelease, name: web}
  environments:
  - name: dev
    targets:
    - namespace: Shop_dev
    verify: {checks: [smoke]}
  - name: prod
    targets: [{namespace: prod}]
    promotion:
      strategy:
        commit:
          url: https://github.com/shop/fleet.git
          baseBranch: main
          secretRef: {name: git}
          paths: [\"clusters/${env}/**\"]
  checks:
  - name: smoke
    interval: 100ms
    http: {url: http://shop, passExpr: status == 200}
";

#[tokio::test]
async fn fields_that_cannot_be_filled_in_and_impossible_namespaces_are_errors() {
    let (code, out) = lint(PLACEHOLDERS, &[]).await;
    assert_eq!(code, 1);
    let expected = "\
p.yaml:22: warning: the check smoke has the interval 100ms, but is not measured more often than every 1s
p.yaml:9: error: a target of dev has the namespace \"Shop_dev\"; names of namespaces have up to 63 lower-case letters, \
digits and inner dashes
p.yaml:19: error: paths of prod has ${env}, which is not a field; did you mean ${environment}?
";
    assert_eq!(out, expected);
}
