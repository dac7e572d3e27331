//! Lets the linker keep one copy of functions with the same machine code, which makes the program smaller.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Where rustc links with its own lld; the linkers of other platforms do not know the flag.
    let is = |name: &str, value: &str| std::env::var(name).as_deref() == Ok(value);
    let uses_lld = is("CARGO_CFG_TARGET_ARCH", "x86_64")
        && is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu");
    if uses_lld && is("PROFILE", "release") {
        println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
    }
}
