//! Drawings of single repositories. `corpus` has the generated ones.

mod corpus;

use std::collections::BTreeMap;

use super::*;
use crate::paths::PathLimits;

pub(super) type Repository = BTreeMap<String, String>;

/// The repository as it would be proposed.
pub(super) fn promote(repository: &Repository, wanted: &WantedField) -> Result<Repository, Error> {
    promote_within(repository, wanted, &PathLimits::default())
}

fn promote_within(
    repository: &Repository,
    wanted: &WantedField,
    limits: &PathLimits,
) -> Result<Repository, Error> {
    let files = RepositoryFiles {
        identity: RepositoryIdentity::of("https://git.example/team/config"),
        paths: repository.keys().cloned().collect(),
        read: repository
            .iter()
            .map(|(path, text)| (path.clone(), Manifests::read(text.as_bytes()).ok()))
            .collect(),
    };
    let own = BuildGraph::new(&files, &wanted.directories);
    assert!(own.missing.is_empty(), "everything was read");
    let (path, changes) = find_field(&files, wanted, limits, &own)?;
    let edited = crate::edit::set_events(repository[&path].as_bytes(), &changes);
    let content = edited.expect("it can be edited").content;
    let mut after = repository.clone();
    after.insert(path, String::from_utf8(content).expect("text"));
    Ok(after)
}

fn release() -> ManifestIdentity {
    ManifestIdentity {
        group: "helm.toolkit.fluxcd.io".to_owned(),
        kind: "HelmRelease".to_owned(),
        namespace: "shop".to_owned(),
        name: "app".to_owned(),
    }
}

fn wanted(field: VersionField, identity: ManifestIdentity) -> WantedField {
    WantedField {
        identity,
        field,
        pin: PinnedVersion {
            version: "2.0.0".to_owned(),
            digest: None,
            commit: None,
        },
        directories: vec!["apps/prod".to_owned()],
        others: others(&["apps/dev"]),
    }
}

/// Other places, called like their directories.
pub(super) fn others(directories: &[&str]) -> Vec<OtherDeployment> {
    let other = |directory: &&str| OtherDeployment {
        name: (*directory).to_owned(),
        namespace: "shop".to_owned(),
        directories: Some(vec![(*directory).to_owned()]),
    };
    directories.iter().map(other).collect()
}

fn image(kind: &str) -> WantedField {
    let name = "host:5000/team/app".to_owned();
    let group = if kind == "Kustomization" {
        "kustomize.toolkit.fluxcd.io"
    } else {
        "apps"
    };
    let identity = ManifestIdentity {
        group: group.to_owned(),
        kind: kind.to_owned(),
        ..release()
    };
    wanted(VersionField::Image { name }, identity)
}

/// Files as one text, `== path` before each.
fn repository(text: &str) -> Repository {
    let parts = text.split("== ").filter(|part| !part.trim().is_empty());
    let file = |part: &str| {
        let (path, content) = part.split_once('\n').expect("a path");
        (path.trim().to_owned(), content.to_owned())
    };
    parts.map(file).collect()
}

/// `<…>` is what must become the new value, and nothing else.
fn check_with(wanted: &WantedField, text: &str, new: &str) {
    let before = repository(&text.replace(['<', '>'], ""));
    let start = text.find('<').expect("something changes");
    let end = text.find('>').expect("it ends");
    let after = repository(&format!("{}{new}{}", &text[..start], &text[end + 1..]));
    assert_eq!(promote(&before, wanted), Ok(after));
}

fn check(wanted: &WantedField, text: &str) {
    check_with(wanted, text, "2.0.0");
}

fn check_refused(wanted: &WantedField, text: &str, sentence: &str) {
    let error = promote(&repository(text), wanted).expect_err("it must be refused");
    assert_eq!(error.to_string(), sentence);
}

const HEAD: &str =
    "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: app}\n";

fn of_chart(version: &str) -> String {
    format!("{HEAD}spec:\n  chart:\n    spec:\n      chart: app\n      version: {version}\n")
}

#[test]
fn an_overlay_counts_before_its_base() {
    let text = format!(
        "== apps/prod/kustomization.yaml\nresources: [../base]\npatches:\n- path: patch.yaml\n\
         == apps/prod/patch.yaml\n{}== apps/base/kustomization.yaml\nresources:\n- app.yaml\n\
         == apps/base/app.yaml\n{}== apps/dev/kustomization.yaml\nresources: [../base]\n",
        of_chart("<1.0.0> # kept"),
        of_chart("0.9.0"),
    );
    check(&wanted(VersionField::Chart, release()), &text);
}

#[test]
fn a_base_is_set_only_where_it_is_nobody_elses() {
    let base = |version: &str| {
        format!(
            "== apps/prod/kustomization.yaml\nresources: [../base]\n\
             == apps/base/app.yaml\n{}",
            of_chart(version)
        )
    };
    check(&wanted(VersionField::Chart, release()), &base("<1.0.0>"));
    let shared = format!(
        "{}== apps/dev/kustomization.yml\nbases: [../base/]\n",
        base("1.0.0")
    );
    check_refused(
        &wanted(VersionField::Chart, release()),
        &shared,
        "the chart version of HelmRelease shop/app is in apps/base/app.yaml:8, which apps/dev is \
         also built from; set it in an overlay",
    );
}

#[test]
fn while_others_are_not_known_only_own_files_change() {
    let mut wanted = wanted(VersionField::Chart, release());
    wanted.others[0].directories = None;
    let base = |version: &str| {
        let list = "== apps/prod/kustomization.yaml\nresources: [../base]\n== apps/base/app.yaml\n";
        format!("{list}{}", of_chart(version))
    };
    check_refused(
        &wanted,
        &base("1.0.0"),
        "the chart version of HelmRelease shop/app is in apps/base/app.yaml:8, and the directories of \
         apps/dev are not known yet; mark it, or name the paths of apps/dev",
    );
    let own = format!("== apps/prod/app.yaml\n{}", of_chart("<1.0.0>"));
    check(&wanted, &own);
}

/// Also where the other's own Kustomization does not list it: tomorrow it may.
#[test]
fn a_file_in_the_directory_of_another_is_theirs() {
    let sentence = |file: &str, other: &str| {
        format!(
            "the chart version of HelmRelease shop/app is in {file}:8, which {other} is also built from; \
             set it in an overlay"
        )
    };
    let listed = |file: &str, version: &str| {
        format!(
            "== apps/kustomization.yaml\nresources: []\n== apps/prod/kustomization.yaml\n\
             resources: [../../{file}]\n== apps/dev/kustomization.yaml\nresources: []\n== {file}\n{}",
            of_chart(version)
        )
    };
    let mut wanted = wanted(VersionField::Chart, release());
    let (dev, base) = ("apps/dev/app.yaml", "apps/base/app.yaml");
    check_refused(&wanted, &listed(dev, "1.0.0"), &sentence(dev, "apps/dev"));
    check(&wanted, &listed(base, "<1.0.0>"));
    // Of a directory around the own one, the own one is not theirs.
    wanted.others = others(&["apps"]);
    check_refused(&wanted, &listed(base, "1.0.0"), &sentence(base, "apps"));
    check(&wanted, &listed("apps/prod/app.yaml", "<1.0.0>"));
    // The root has the files of everybody.
    wanted.others = others(&["."]);
    let root = "== kustomization.yaml\nresources: []\n";
    check(&wanted, &format!("{root}{}", listed(base, "<1.0.0>")));
}

#[test]
fn the_directories_of_another_may_be_a_pattern() {
    let text = format!(
        "== kustomization.yaml\nresources: []\n== apps/prod/kustomization.yaml\nresources: [../base]\n\
         == apps/dev/kustomization.yaml\nresources: [../base]\n== apps/base/app.yaml\n{}",
        of_chart("1.0.0")
    );
    let mut wanted = wanted(VersionField::Chart, release());
    for pattern in ["apps/d*", "apps/?ev"] {
        wanted.others = others(&[pattern]);
        let refused = promote(&repository(&text), &wanted).expect_err(pattern);
        assert_eq!(refused.reason(), "SharedManifest", "{refused}");
    }
}

#[test]
fn directories_overlap_where_one_is_inside_the_other() {
    let overlap = |one: &str, other: &str| {
        let [one, other] = [one, other].map(|it| vec![it.to_owned()]);
        directories_overlap(&one, &other)
    };
    assert!(overlap("./apps", "apps/prod") && overlap("apps/prod", "apps/"));
    assert!(overlap("apps", "apps") && overlap(".", "apps"));
    assert!(!overlap("apps/prod", "apps/dev") && !overlap("apps", "apps-2"));
}

#[test]
fn a_patch_of_one_workload_does_not_leave_another_behind() {
    let name = "host:5000/team/app";
    let text = format!(
        "== apps/prod/kustomization.yaml\nresources: [../base]\npatches: [{{path: p.yaml}}]\n\
         == apps/prod/p.yaml\n{DEPLOYMENT}{name}:1.0.0\n== apps/base/a.yaml\n{DEPLOYMENT}{name}:1.0.0\n\
         == apps/base/b.yaml\n{}{name}:1.0.0\n",
        DEPLOYMENT.replace("{name: app}", "{name: other}")
    );
    check_refused(
        &image("Kustomization"),
        &text,
        "the image host:5000/team/app of Kustomization shop/app may be any of apps/prod/p.yaml:9, \
         apps/base/b.yaml:9; mark the right one",
    );
}

#[test]
fn only_files_that_are_called_manifests_count() {
    let text = format!(
        "== apps/prod/app.yml\n{}== apps/prod/app.yml.old\n{1}== apps/prod/notes.md\n{1}",
        of_chart("<1.0.0>"),
        of_chart("0.9.0")
    );
    check(&wanted(VersionField::Chart, release()), &text);
}

#[test]
fn a_folder_with_a_kustomization_is_built_below_one_without() {
    let text = format!(
        "== apps/prod/notes.yaml\nkind: ConfigMap\n== apps/prod/sub/kustomization.yaml\n\
         resources: [a.yaml]\n== apps/prod/sub/a.yaml\n{}",
        of_chart("<1.0.0>")
    );
    check(&wanted(VersionField::Chart, release()), &text);
}

#[test]
fn none_and_several_are_named() {
    let several = format!(
        "== apps/prod/a.yaml\n{0}== apps/prod/sub/b.yaml\n{0}",
        of_chart("1")
    );
    let wanted = wanted(VersionField::Chart, release());
    check_refused(
        &wanted,
        &several,
        "the chart version of HelmRelease shop/app may be any of apps/prod/a.yaml:8, \
         apps/prod/sub/b.yaml:8; mark the right one",
    );
    let limits = PathLimits::new(["apps/prod/sub"]).expect("patterns");
    let before = repository(&several);
    let mut after = before.clone();
    after.insert("apps/prod/sub/b.yaml".to_owned(), of_chart("2.0.0"));
    assert_eq!(promote_within(&before, &wanted, &limits), Ok(after));
    check_refused(
        &wanted,
        "== apps/prod/a.yaml\nkind: ConfigMap\n== apps/prod/b.yaml\n{{ template }}: [\n",
        "cannot find the chart version of HelmRelease shop/app in apps/prod; not readable: \
         apps/prod/b.yaml",
    );
    let nowhere = WantedField {
        directories: Vec::new(),
        ..wanted
    };
    check_refused(
        &nowhere,
        &several,
        "cannot find the chart version of HelmRelease shop/app without a marker: no directory is \
         known for it; name its paths",
    );
}

#[test]
fn a_manifest_is_known_by_what_it_ends_up_as() {
    let doc = |namespace: &str, name: &str, version: &str| {
        let head = HEAD.replace("name: app", &format!("name: {name}{namespace}"));
        of_chart(version).replace(HEAD, &head)
    };
    let text = format!(
        "== apps/prod/all.yaml\n{}---\n{}---\n{}---\n{}",
        doc("", "other", "1"),
        doc(", namespace: elsewhere", "app", "1"),
        doc(", namespace: shop", "app", "<1>"),
        doc(", namespace: shop", "app", "1").replace("HelmRelease", "HelmReleaze"),
    );
    check(&wanted(VersionField::Chart, release()), &text);
    let renamed = format!(
        "== apps/prod/kustomization.yaml\nnamespace: shop\nnamePrefix: ap\nresources: [x]\n\
         == apps/prod/x/kustomization.yaml\nnamespace: inner\nnameSuffix: p\nresources: [a.yaml]\n\
         == apps/prod/x/a.yaml\n{}",
        doc(", namespace: own", "\"\"", "<1>"),
    );
    check(&wanted(VersionField::Chart, release()), &renamed);
}

#[test]
fn what_a_release_refers_to_is_set() {
    let refers =
        |kind: &str| format!("{HEAD}spec:\n  chartRef: {{kind: {kind}, name: charts}}\n---\n");
    let source = |kind: &str, spec: &str| {
        format!(
            "== apps/prod/a.yaml\n{}apiVersion: source.toolkit.fluxcd.io/v1\nkind: {kind}\n\
             metadata:\n  name: charts\n  namespace: shop\nspec:\n{spec}",
            refers(kind)
        )
    };
    let mut wanted = wanted(VersionField::Chart, release());
    check(
        &wanted,
        &source("OCIRepository", "  ref:\n    tag: '<1>'\n").replace("'<1>'", "<1>"),
    );
    check(
        &wanted,
        &source("OCIRepository", "  ref: {semver: <1.x>}\n"),
    );
    check(&wanted, &source("HelmChart", "  version: <1.0.0>\n"));
    wanted.pin.version = "2.0.0+b1".to_owned();
    check_with(
        &wanted,
        &source("OCIRepository", "  ref: {tag: <1>}\n"),
        "2.0.0_b1",
    );
    check_refused(
        &wanted,
        &source(
            "OCIRepository",
            "  ref:\n    tag: 1.0.0\n    digest: sha256:aa\n",
        ),
        "the chart version of HelmRelease shop/app is in apps/prod/a.yaml:15, but it is pinned by a \
         digest, and none is known for the new version",
    );
    wanted.pin.digest = Some("sha256:bb".to_owned());
    check_with(
        &wanted,
        &source("OCIRepository", "  ref:\n    digest: <sha256:aa>\n"),
        "sha256:bb",
    );
    wanted.pin.version = "sha256:bb".to_owned();
    for pin in ["tag: 1.0.0", "semver: 1.x"] {
        check_refused(
            &wanted,
            &source("OCIRepository", &format!("  ref:\n    {pin}\n")),
            "the chart version of HelmRelease shop/app is in apps/prod/a.yaml:14, but it is pinned by a \
             tag, and the new version is a digest",
        );
    }
}

#[test]
fn sources_of_what_is_applied_are_set() {
    let text = |spec: &str| {
        format!(
            "== apps/prod/a.yaml\napiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\n\
             metadata: {{name: app}}\nspec:\n  path: ./\n  sourceRef: {{kind: GitRepository, name: config}}\n\
             == apps/prod/b.yaml\napiVersion: source.toolkit.fluxcd.io/v1\nkind: GitRepository\n\
             metadata: {{name: config}}\nspec:\n  ref:\n{spec}"
        )
    };
    let mut wanted = image("Kustomization");
    wanted.field = VersionField::Source;
    check(&wanted, &text("    tag: <1>\n    branch: main\n"));
    let refused = promote(&repository(&text("    commit: aaaa\n")), &wanted);
    assert_eq!(refused.expect_err("no commit").reason(), "UneditableFile");
    wanted.pin.version = "c0ffee".repeat(6) + "c0de";
    let commit = wanted.pin.version.clone();
    check_with(
        &wanted,
        &text("    branch: main\n    commit: <aaaa>\n"),
        &commit,
    );
    let refused = promote(&repository(&text("    tag: 1.0.0\n")), &wanted);
    assert_eq!(
        refused.expect_err("a commit is no tag").reason(),
        "UneditableFile"
    );
}

const DEPLOYMENT: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: app}\nspec:\n  \
     template:\n    spec:\n      containers:\n      - name: app\n        image: ";

#[test]
fn images_are_set_where_they_are_replaced_else_in_the_workload() {
    let name = "host:5000/team/app";
    let plain = format!("== apps/prod/a.yaml\n{DEPLOYMENT}<{name}:1>\n");
    check_with(&image("Deployment"), &plain, &format!("{name}:2.0.0"));
    check_with(&image("Kustomization"), &plain, &format!("{name}:2.0.0"));
    let mut digest = image("Deployment");
    digest.pin.version = "sha256:bb".to_owned();
    digest.pin.digest = Some("sha256:bb".to_owned());
    for (wanted, pinned, because) in [
        (&digest, ":1", "a tag, and the new version is a digest"),
        (
            &image("Deployment"),
            "@sha256:aa",
            "a digest, and none is known for the new version",
        ),
    ] {
        let sentence = format!(
            "the image {name} of Deployment shop/app is in apps/prod/a.yaml:9, but it is pinned by {because}"
        );
        let text = format!("== apps/prod/a.yaml\n{DEPLOYMENT}{name}{pinned}\n");
        check_refused(wanted, &text, &sentence);
    }
    let replaced = |tag: &str| {
        format!(
            "== apps/prod/kustomization.yaml\nresources: [a.yaml]\nimages:\n- name: other\n  newTag: 1.0.0\n\
             - name: {name}\n  newTag: {tag}\n== apps/prod/a.yaml\n{DEPLOYMENT}{name}:0\n"
        )
    };
    check(&image("Deployment"), &replaced("<1.0.0>"));
    check(
        &image("Kustomization"),
        &replaced("\"<1.0.0>\"").replace("\"<1.0.0>\"", "<1.0.0>"),
    );
    let applied = format!(
        "== clusters/prod/apps.yaml\napiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\n\
         metadata: {{name: app}}\nspec:\n  path: ./apps/prod\n  images:\n  - name: {name}\n    newTag: <1.0.0>\n{}",
        replaced("0.1.0")
    );
    let mut wanted = image("Kustomization");
    wanted.directories = vec!["./clusters/prod/".to_owned()];
    check(&wanted, &applied);
}

#[test]
fn what_cannot_be_set_is_refused_and_not_passed_over() {
    let base = "== apps/base/a.yaml\n".to_owned() + &of_chart("1.0.0");
    let overlay =
        |rest: &str| format!("== apps/prod/kustomization.yaml\nresources: [../base]\n{rest}{base}");
    let wanted = wanted(VersionField::Chart, release());
    let inline = "patches:\n- target: {kind: HelmRelease, name: app}\n  patch: |\n    - op: replace\n      \
                  path: /spec/chart/spec/version\n      value: 1.1.0\n";
    let sentence = "the chart version of HelmRelease shop/app is in apps/prod/kustomization.yaml:5, but \
                    an inline patch cannot be set; put it into a file of its own";
    check_refused(&wanted, &overlay(inline), sentence);
    let merged = "patches:\n- target: {name: app}\n  patch: |\n    kind: HelmRelease\n    metadata: \
                  {name: unused}\n    spec: {chart: {spec: {version: 1.1.0}}}\n";
    check_refused(&wanted, &overlay(merged), sentence);
    // Nor are other values of ours.
    let values = merged.replace(
        "{chart: {spec: {version: 1.1.0}}}",
        "{values: {version: 1.1.0}}",
    );
    check(&wanted, &overlay(&values).replace("1.0.0", "<1.0.0>"));
    // Patches for others are none of our business.
    check(
        &wanted,
        &overlay(&inline.replace("name: app}", "name: other}")).replace("1.0.0", "<1.0.0>"),
    );
    let listed = "patches:\n- target: {kind: HelmRelease, name: app}\n  path: p.yaml\n== apps/prod/p.yaml\n\
                  - op: replace\n  path: /spec/chart/spec/version\n  value: 1.1.0\n";
    let sentence = "the chart version of HelmRelease shop/app is in apps/prod/p.yaml:2, but a list of \
                    single operations sets it; use a patch that is a manifest";
    check_refused(&wanted, &overlay(listed), sentence);
    let sentence = "the chart version of HelmRelease shop/app is in apps/prod/a.yaml:8, but its value \
                    is a variable or written elsewhere";
    check_refused(
        &wanted,
        &format!("== apps/prod/a.yaml\n{}", of_chart("${app_version}")),
        sentence,
    );
}

#[test]
fn tags_and_digests_of_replaced_images_move_together() {
    let name = "host:5000/team/app";
    let text = |tag: &str, digest: &str| {
        format!(
            "== apps/prod/kustomization.yaml\nimages:\n- {{name: {name}, {tag}digest: {digest}}}\n"
        )
    };
    let mut wanted = image("Deployment");
    let before = repository(&text("newTag: 1.0.0, ", "sha256:aa"));
    let refused = promote(&before, &wanted).expect_err("no digest is known");
    assert_eq!(refused.reason(), "UneditableFile");
    wanted.pin.digest = Some("sha256:bb".to_owned());
    let after = repository(&text("newTag: 2.0.0, ", "sha256:bb"));
    assert_eq!(promote(&before, &wanted), Ok(after));
    check_with(&wanted, &text("", "<sha256:aa>"), "sha256:bb");
}

#[test]
fn the_target_of_a_patch_says_whom_it_is_for() {
    let text = |target: &str, version: &str, base: &str| {
        format!(
            "== apps/prod/kustomization.yaml\nresources: [../base]\npatches:\n- path: p.yaml\n  target: {target}\n\
             == apps/prod/p.yaml\n{}== apps/base/a.yaml\n{}",
            of_chart(version).replace("{name: app}", "{name: unused}"),
            of_chart(base)
        )
    };
    let wanted = wanted(VersionField::Chart, release());
    check(
        &wanted,
        &text("{kind: HelmRelease, name: app}", "<1.0.0>", "0.1.0"),
    );
    check(
        &wanted,
        &text("{kind: HelmRelease, name: other}", "1.0.0", "<0.1.0>"),
    );
    for one in [
        "{kind: HelmRelease}",
        "{name: .*}",
        "{group: helm.toolkit.fluxcd.io}",
    ] {
        check(&wanted, &text(one, "<1.0.0>", "0.1.0"));
    }
    for unclear in ["{name: ap.*}", "{labelSelector: a=b}"] {
        let text = text(unclear, "1.0.0", "0.1.0");
        let refused = promote(&repository(&text), &wanted);
        assert_eq!(refused.expect_err(unclear).reason(), "UneditableFile");
    }
    check(&wanted, &text("{name: a.p}", "<1.0.0>", "0.1.0"));
    for another in ["{name: abc}", "{name: apple}"] {
        check(&wanted, &text(another, "1.0.0", "<0.1.0>"));
    }
    let other = format!("---\n{}", of_chart("1").replace("name: app", "name: other"));
    let text_with_other = text("{kind: HelmRelease, name: other}", "1.0.0", "<0.1.0>") + &other;
    check(&wanted, &text_with_other);
    for several in [
        "{name: ap.*}",
        "{labelSelector: a=b}",
        "{kind: HelmRelease}",
    ] {
        let text = text(several, "1.0.0", "0.1.0") + &other;
        let refused = promote(&repository(&text), &wanted);
        assert_eq!(refused.expect_err(several).reason(), "UneditableFile");
    }
    // What is patched need not be in this repository.
    let remote = text("{kind: HelmRelease, name: app}", "<1.0.0>", "0.1.0");
    let remote = remote.replace(
        "resources: [../base]",
        "resources: [https://git.example/base]",
    );
    check(&wanted, &remote);
    let unclear = remote
        .replace("name: app}", "name: ap.*}")
        .replace(['<', '>'], "");
    let refused = promote(&repository(&unclear), &wanted);
    assert_eq!(refused.expect_err("unclear").reason(), "UneditableFile");
    // By the name it has before a prefix.
    let prefixed = text("{name: ap}", "<1.0.0>", "0.1.0")
        .replace(
            "resources: [../base]",
            "resources: [../base]\nnameSuffix: p",
        )
        .replace("{name: app}", "{name: ap}");
    check(&wanted, &prefixed);
}

/// A target may be meant by the name before a suffix, and then it is that of another object.
#[test]
fn a_patch_for_what_gets_another_name_is_not_ours() {
    let text = format!(
        "== apps/prod/kustomization.yaml\nresources: [x, y]\n== apps/prod/x/kustomization.yaml\n\
         nameSuffix: q\nresources: [b.yaml]\npatches:\n- path: p.yaml\n  target: {{name: ap}}\n\
         == apps/prod/x/b.yaml\n{0}== apps/prod/x/p.yaml\n{0}== apps/prod/y/kustomization.yaml\n\
         resources: [a.yaml]\n== apps/prod/y/a.yaml\n{1}",
        of_chart("0.9.0").replace("{name: app}", "{name: ap}"),
        of_chart("<1.0.0>")
    );
    check(&wanted(VersionField::Chart, release()), &text);
}

#[test]
fn patches_count_before_what_they_are_for() {
    let name = "host:5000/team/app";
    let overlay = |rest: &str| {
        format!(
            "== apps/prod/kustomization.yaml\nresources: [a.yaml]\n{rest}\
             == apps/prod/a.yaml\n{DEPLOYMENT}{name}:1\n"
        )
    };
    let refused = |wanted: &WantedField, text: &str| {
        let refused = promote(&repository(text), wanted).expect_err(text);
        assert_eq!(refused.reason(), "UneditableFile", "{refused}");
    };
    let operation = |path: &str, value: &str| {
        format!("- op: replace\n      path: {path}\n      value: {value}\n")
    };
    let target = "patches:\n- target: {kind: Deployment, name: app}\n";
    let containers = "/spec/template/spec/containers";
    for (path, value) in [
        (format!("{containers}/0/image"), format!("{name}:1")),
        (
            format!("{containers}/0"),
            format!("{{name: app, image: {name}:1}}"),
        ),
        (
            containers.to_owned(),
            format!("[{{name: app, image: '{name}:1'}}]"),
        ),
    ] {
        let inline = format!("{target}  patch: |\n    {}", operation(&path, &value));
        let listed = format!(
            "{target}  path: p.yaml\n== apps/prod/p.yaml\n    {}",
            operation(&path, &value)
        );
        for kind in ["Deployment", "Kustomization"] {
            refused(&image(kind), &overlay(&inline));
            refused(&image(kind), &overlay(&listed));
        }
    }
    let merged = format!(
        "patches:\n- patch: |\n    {}{name}:1\n",
        DEPLOYMENT.replace('\n', "\n    ")
    );
    for kind in ["Deployment", "Kustomization"] {
        refused(&image(kind), &overlay(&merged));
    }
    // Images are replaced after patches, and what is patched beside them is none of our business.
    let replaced = format!(
        "images:\n- name: {name}\n  newTag: <1.0.0>\n{target}  patch: |\n    {}",
        operation(&format!("{containers}/0/image"), &format!("{name}:1"))
    );
    check(&image("Deployment"), &overlay(&replaced));
    let beside = format!(
        "{target}  patch: |\n    {}    {}    {}",
        operation(&format!("{containers}/0/args"), "[a]"),
        operation(&format!("{containers}/1/image"), "side:2"),
        operation(&format!("{containers}/1/env/0/value"), &format!("{name}:3"))
    );
    let text = overlay(&beside).replace(&format!("{name}:1"), &format!("<{name}:1>"));
    check_with(&image("Deployment"), &text, &format!("{name}:2.0.0"));
    for path in ["/spec", "/spec/chart/spec", "/spec/chart/spec/version"] {
        let text = format!(
            "== apps/prod/kustomization.yaml\nresources: [a.yaml]\npatches:\n- target: {{name: app}}\n  \
             patch: |\n    {}== apps/prod/a.yaml\n{}",
            operation(path, "{version: 1}"),
            of_chart("1.0.0")
        );
        refused(&wanted(VersionField::Chart, release()), &text);
    }
}

#[test]
fn a_component_counts_after_what_lists_it() {
    let name = "host:5000/team/app";
    let text = |patches: &str, component: &str| {
        format!(
            "== apps/prod/kustomization.yaml\nresources: [../base]\ncomponents: [../../parts/a]\n{patches}\
             == apps/base/a.yaml\n{DEPLOYMENT}{name}:1\n== parts/a/kustomization.yaml\nkind: Component\n\
             images:\n- name: {name}\n  newTag: {component}\n"
        )
    };
    for kind in ["Deployment", "Kustomization"] {
        check(&image(kind), &text("", "<1.0.0>"));
        let patch = format!(
            "patches: [{{path: p.yaml}}]\n== apps/prod/p.yaml\n{DEPLOYMENT}<{name}:1.0.0>\n"
        );
        check_with(
            &image(kind),
            &text(&patch, "0.9.0"),
            &format!("{name}:2.0.0"),
        );
        let images = format!("images: [{{name: '{name}', newTag: <1.0.0>}}]\n");
        check(&image(kind), &text(&images, "0.9.0"));
    }
}

#[test]
fn a_patch_of_a_component_is_for_what_is_listed_beside_it() {
    let text = format!(
        "== apps/prod/kustomization.yaml\nresources: [../base]\ncomponents: [../../parts/a]\n\
         == parts/a/kustomization.yaml\nkind: Component\npatches:\n- path: p.yaml\n  \
         target: {{kind: HelmRelease}}\n== parts/a/p.yaml\n{}== apps/base/a.yaml\n{}",
        of_chart("<1.0.0>").replace("{name: app}", "{name: unused}"),
        of_chart("0.1.0")
    );
    check(&wanted(VersionField::Chart, release()), &text);
}

#[test]
fn an_image_is_known_by_every_name_it_has() {
    let named = |name: &str| {
        let mut wanted = image("Kustomization");
        wanted.field = VersionField::Image {
            name: name.to_owned(),
        };
        wanted
    };
    let plain = |image: &str| format!("== apps/prod/a.yaml\n{DEPLOYMENT}{image}\n");
    for (name, image, after) in [
        ("acme/app", "<ghcr.io/acme/app:1>", "ghcr.io/acme/app:2.0.0"),
        (
            "nginx",
            "<docker.io/library/nginx:1>",
            "docker.io/library/nginx:2.0.0",
        ),
        ("docker.io/acme/app", "<acme/app>", "acme/app:2.0.0"),
    ] {
        check_with(&named(name), &plain(image), after);
    }
    let renamed = "== apps/prod/kustomization.yaml\nresources: [a.yaml]\nimages:\n- name: app\n  \
                   newName: ghcr.io/acme/app\n  newTag: <1.0.0>\n";
    check(
        &named("ghcr.io/acme/app"),
        &format!("{renamed}{}", plain("app")),
    );
    let several = [
        plain("a/app:1\n      - name: b\n        image: b/app:1"),
        format!(
            "{}- {{name: app, newTag: 1.0.0}}\n",
            renamed.replace(['<', '>'], "")
        ),
    ];
    for text in several {
        let refused = promote(&repository(&text), &named("app")).expect_err("two of them");
        assert_eq!(refused.reason(), "SeveralManifests", "{refused}");
    }
}

#[test]
fn one_directory_for_two_namespaces_is_told_apart_by_fields() {
    let text = |dev: &str, prod: &str| {
        let of = |namespace: &str, version: &str| {
            let named = format!("{{name: app{namespace}}}");
            of_chart(version).replace("{name: app}", &named)
        };
        format!(
            "== apps/all.yaml\n{}---\n{}",
            of(dev, "1"),
            of(prod, "<1.0.0>")
        )
    };
    let mut wanted = wanted(VersionField::Chart, release());
    wanted.directories = vec!["apps".to_owned()];
    wanted.others = others(&["./apps"]);
    let told = text(", namespace: dev", ", namespace: shop");
    let reason = |wanted: &WantedField, text: &str| {
        let text = text.replace(['<', '>'], "");
        promote(&repository(&text), wanted)
            .expect_err("it is shared")
            .reason()
    };
    assert_eq!(reason(&wanted, &told), "SharedManifest");
    wanted.others[0].namespace = "dev".to_owned();
    check(&wanted, &told);
    assert_eq!(
        reason(&wanted, &text(", namespace: other", "")),
        "SharedManifest"
    );
}

#[test]
fn a_replacement_counts_only_for_what_it_reaches() {
    let name = "host:5000/team/app";
    let text = |image: &str| {
        format!(
            "== apps/prod/kustomization.yaml\nresources: [a, b]\n\
             == apps/prod/a/kustomization.yaml\nresources: [a.yaml]\nimages:\n- name: {name}\n  newTag: 1.0.0\n\
             == apps/prod/a/a.yaml\n{}{name}\n\
             == apps/prod/b/b.yaml\n{DEPLOYMENT}{image}\n",
            DEPLOYMENT.replace("{name: app}", "{name: other}")
        )
    };
    let new = format!("{name}:2.0.0");
    check_with(
        &image("Deployment"),
        &text(&format!("<{name}:1.0.0>")),
        &new,
    );
    // Both are the application's; to set one would leave the other behind.
    check_refused(
        &image("Kustomization"),
        &text(&format!("{name}:1.0.0")),
        "the image host:5000/team/app of Kustomization shop/app may be any of \
         apps/prod/a/kustomization.yaml:4, apps/prod/b/b.yaml:9; mark the right one",
    );
}

#[test]
fn another_applications_replacement_is_not_ours() {
    let name = "host:5000/team/app";
    let applier = |app: &str, rest: &str| {
        format!(
            "== clusters/prod/{app}.yaml\napiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\n\
             metadata: {{name: {app}, namespace: shop}}\nspec:\n  path: apps/{app}\n{rest}"
        )
    };
    let text = format!(
        "{}{}== apps/other/a.yaml\n{}{name}:1.0.0\n== apps/app/a.yaml\n{DEPLOYMENT}<{name}:1.0.0>\n",
        applier("app", ""),
        applier(
            "other",
            &format!("  images:\n  - name: {name}\n    newTag: 1.0.0\n")
        ),
        DEPLOYMENT.replace("{name: app}", "{name: other}")
    );
    let new = format!("{name}:2.0.0");
    for kind in ["Deployment", "Kustomization"] {
        let mut wanted = image(kind);
        wanted.directories = vec!["clusters/prod".to_owned()];
        check_with(&wanted, &text, &new);
    }
}

#[test]
fn what_is_written_elsewhere_is_refused() {
    let alias = of_chart("*chart").replace("metadata:", "x-chart: &chart 1.0.0\nmetadata:");
    let text = format!(
        "== apps/prod/kustomization.yaml\nresources: [../base]\npatches: [{{path: p.yaml}}]\n\
         == apps/prod/p.yaml\n{alias}== apps/base/a.yaml\n{}",
        of_chart("1.0.0")
    );
    let refused = promote(&repository(&text), &wanted(VersionField::Chart, release()));
    assert_eq!(refused.expect_err("an alias").reason(), "UneditableFile");
}

#[test]
fn a_path_of_another_repository_is_not_followed() {
    let text = |url: &str, version: &str| {
        format!(
            "== clusters/prod/a.yaml\napiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\n\
             metadata: {{name: apps}}\nspec:\n  path: apps/prod\n  sourceRef: {{kind: GitRepository, name: config}}\n\
             == clusters/prod/b.yaml\napiVersion: source.toolkit.fluxcd.io/v1\nkind: GitRepository\n\
             metadata: {{name: config}}\nspec:\n  url: {url}\n== apps/prod/a.yaml\n{}",
            of_chart(version)
        )
    };
    let mut wanted = wanted(VersionField::Chart, release());
    wanted.directories = vec!["clusters/prod".to_owned()];
    check(
        &wanted,
        &text("ssh://git@git.example/team/config.git", "<1>"),
    );
    let other = repository(&text("https://git.example/team/other", "1"));
    let refused = promote(&other, &wanted).expect_err("it is not here");
    assert_eq!(refused.reason(), "NoManifest");
}

#[test]
fn circles_and_paths_that_leave_end_the_walk() {
    for list in ["resources", "components"] {
        let text = format!(
            "== apps/prod/kustomization.yaml\nnamePrefix: a\n{list}: [., ../prod, ../../../etc, \
             https://example.com/x, git@example.com:x, b]\n== apps/prod/b/kustomization.yaml\n\
             {list}: [..]\n== apps/prod/a.yaml\n{}",
            of_chart("1")
        );
        let refused = promote(&repository(&text), &wanted(VersionField::Chart, release()));
        assert_eq!(
            refused.expect_err("nothing is listed").reason(),
            "NoManifest"
        );
    }
}

#[test]
fn a_file_made_of_brackets_does_not_fill_the_memory() {
    let depth = 20_000;
    let text = format!("{}{}", "[a,".repeat(depth), "]".repeat(depth));
    // Whether it can be read is the reader's business; here it must only come to an end.
    let _ = Manifests::read(text.as_bytes());
}

#[test]
fn what_has_no_end_is_refused() {
    let mut deep = Repository::new();
    for level in 0..2000 {
        let text = format!("components: [../{}]\n", level + 1);
        deep.insert(format!("apps/{level}/kustomization.yaml"), text);
    }
    let mut wide = Repository::new();
    for level in 0..24 {
        let text = format!("namePrefix: a\nresources: [../{0}, ../{0}x]\n", level + 1);
        wide.insert(format!("apps/{level}/kustomization.yaml"), text);
        let text = format!("namePrefix: b\nresources: [../{0}, ../{0}x]\n", level + 1);
        wide.insert(format!("apps/{level}x/kustomization.yaml"), text);
    }
    for repository in [deep, wide] {
        let mut wanted = wanted(VersionField::Chart, release());
        wanted.directories = vec!["apps/0".to_owned()];
        let refused = promote(&repository, &wanted).expect_err("it has no end");
        assert_eq!(refused.reason(), "TooManyFiles");
    }
}
