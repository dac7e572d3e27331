//! Makes the program smaller: the linker keeps one copy of functions with the same machine code, and packs the
//! addresses that are adjusted when the program starts.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if !uses_lld() || variable("PROFILE") != "release" {
        return;
    }
    println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
    // Older versions of glibc cannot start such a program, so released ones do not have it.
    let is_released = variable("OUT_DIR").contains("/shipped/");
    if variable("HOST") == variable("TARGET") && !is_released && glibc() >= Some((2, 36)) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// Whether rustc links with its own lld; the linkers of other platforms do not know the flags.
fn uses_lld() -> bool {
    variable("CARGO_CFG_TARGET_ARCH") == "x86_64"
        && variable("CARGO_CFG_TARGET_OS") == "linux"
        && variable("CARGO_CFG_TARGET_ENV") == "gnu"
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

/// The version of glibc on this machine.
fn glibc() -> Option<(u32, u32)> {
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output();
    let text = String::from_utf8(output.ok()?.stdout).ok()?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
