//! Real control planes start, work, are independent and leave no processes or files.

use kube::Api;
use kube::api::PostParams;
use kube::core::DynamicObject;
use kube::core::{ApiResource, GroupVersionKind};
use testbed::real::{Assets, ControlPlane, Error};

#[tokio::test]
#[ignore = "needs a real control plane: `cargo xtask test --real`"]
async fn two_control_planes_stay_apart() {
    let assets = Assets::from_env().unwrap();
    let (one, two) = tokio::join!(ControlPlane::start(&assets), ControlPlane::start(&assets));
    let (one, two) = (one.unwrap(), two.unwrap());
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"));
    let configs = |plane: &ControlPlane| -> Api<DynamicObject> {
        Api::namespaced_with(plane.client(), "default", &resource)
    };
    let config = DynamicObject::new("only-in-one", &resource);
    configs(&one)
        .create(&PostParams::default(), &config)
        .await
        .unwrap();
    assert!(
        configs(&one)
            .get_opt("only-in-one")
            .await
            .unwrap()
            .is_some()
    );
    assert!(
        configs(&two)
            .get_opt("only-in-one")
            .await
            .unwrap()
            .is_none()
    );
    assert_ne!(one.kubeconfig(), two.kubeconfig());
    let folders = [one.folder().to_owned(), two.folder().to_owned()];
    one.stop();
    drop(two);
    assert_eq!(folders.map(|folder| folder.exists()), [false, false]);
}

#[test]
fn missing_programs_are_named() {
    let empty = tempfile::tempdir().unwrap();
    let error = Assets::at(empty.path()).unwrap_err();
    assert!(matches!(
        error,
        Error::ProgramMissing {
            program: "etcd",
            ..
        }
    ));
    assert!(error.to_string().contains("cargo xtask kube"), "{error}");
}
