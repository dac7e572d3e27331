//! The binary `sluice`.

use std::process::ExitCode;

fn main() -> ExitCode {
    sluice::main()
}
