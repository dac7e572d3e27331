//! The one front door for developer commands.

mod kube;

fn main() -> anyhow::Result<()> {
    use std::io::Write;
    let folder = kube::kube()?;
    writeln!(std::io::stdout(), "{}", folder.display())?;
    Ok(())
}
