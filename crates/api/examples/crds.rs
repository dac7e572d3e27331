//! Prints the definitions as YAML, for `kubectl apply -f -`.

use std::io::{Write, stdout};

fn main() -> std::io::Result<()> {
    for definition in api::crds() {
        let text = serde_saphyr::to_string(&definition).map_err(std::io::Error::other)?;
        write!(stdout(), "---\n{text}")?;
    }
    Ok(())
}
