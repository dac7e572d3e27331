//! Reads one object from the API server and checks that it is the requested one.
use kube::{
    Client, Resource,
    api::GetParams,
    core::{NamespaceResourceScope, Request, TypeMeta},
};
use runtime::ObjectKey;
use serde::de::DeserializeOwned;

use crate::object_names::is_valid_key;

/// Reads an object; nothing if it does not exist. An answer with another kind or name counts as
/// nothing, and an invalid name is not requested.
pub(crate) async fn get_object<K>(
    client: &Client,
    key: &ObjectKey,
) -> Result<Option<K>, kube::Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + DeserializeOwned,
{
    if !is_valid_key(key) {
        return Ok(None);
    }
    let request = Request::new(K::url_path(&(), Some(&key.namespace)));
    let request = request.get(&key.name, &GetParams::default());
    let request = request.map_err(kube::Error::BuildRequest)?;
    let text = match client.request_text(request).await {
        Ok(text) => text,
        Err(kube::Error::Api(refusal)) if refusal.code == 404 => return Ok(None),
        Err(error) => return Err(error),
    };
    let types: TypeMeta = serde_json::from_str(&text).map_err(kube::Error::SerdeError)?;
    let is_of_kind = types.kind == K::kind(&()) && types.api_version == K::api_version(&());
    if !is_of_kind {
        tracing::error!(kind = %K::kind(&()), object = %key, "the API server answered with an object of another kind");
        return Ok(None);
    }
    let object: K = serde_json::from_str(&text).map_err(kube::Error::SerdeError)?;
    if ObjectKey::of(object.meta()) != *key {
        tracing::error!(kind = %K::kind(&()), object = %key, "the API server answered with another object");
        return Ok(None);
    }
    Ok(Some(object))
}

#[cfg(test)]
mod tests {
    use api::Pipeline;
    use axum::body::Body;
    use http::{Request, Response};
    use serde_json::{Value, json};
    use tower::service_fn;

    use super::*;

    /// What is read of `team/app` if the API server answers with this object.
    async fn read_answer(object: Value) -> Option<Pipeline> {
        let text = object.to_string();
        let service = service_fn(move |_: Request<kube::client::Body>| {
            let response = Response::new(Body::from(text.clone()));
            async move { Ok::<_, std::convert::Infallible>(response) }
        });
        let client = Client::new(service, "default");
        get_object(&client, &ObjectKey::new("team", "app"))
            .await
            .unwrap()
    }

    #[tokio::test]
    async fn only_the_requested_object_is_accepted() {
        let object = |kind: &str, namespace: &str, name: &str| {
            json!({
                "apiVersion": "pipelines.weave.works/v1alpha1",
                "kind": kind,
                "metadata": {"namespace": namespace, "name": name},
                "spec": {"environments": []},
            })
        };
        assert!(
            read_answer(object("Pipeline", "team", "app"))
                .await
                .is_some()
        );
        assert!(read_answer(object("Change", "team", "app")).await.is_none());
        assert!(
            read_answer(object("Pipeline", "other", "app"))
                .await
                .is_none()
        );
        assert!(
            read_answer(object("Pipeline", "team", "other"))
                .await
                .is_none()
        );
        let mut of_group = object("Pipeline", "team", "app");
        of_group["apiVersion"] = json!("tekton.dev/v1");
        assert!(read_answer(of_group).await.is_none());
    }
}
