//! Test doubles and tools for tests and the demo: real control planes ([`real`]), a small git forge
//! ([`forge`]), doubles of the APIs of other forges ([`forge_doubles`]), an embedded hub ([`hub`]), a stand-in for Flux ([`flux`]), a
//! browser ([`browser`]), an OCI registry ([`registry`]), an OpenID provider
//! ([`oidc_provider`]), random damage to what parsers read ([`damage`]), and a runner for the commands in the guides ([`guide`]).

pub mod browser;
pub mod damage;
pub mod flux;
pub mod forge;
pub mod forge_doubles;
pub mod guide;
pub mod hub;
#[cfg(feature = "mariadb")]
pub mod mariadb;
pub mod objects;
pub mod oidc_provider;
pub mod ports;
pub mod real;
pub mod registry;
pub mod shop;
pub mod tls;
