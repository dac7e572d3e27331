//! What the run of the whole contract came to: case × forge.

use std::collections::BTreeMap;
use std::io::Write;

use parking_lot::Mutex;

use testbed::forge_doubles::SharedForgeState;

use crate::double::ForgeDouble;
use crate::rows::{FORGES, real_gitea};

/// The column of the real server.
const REAL: (&str, &[&str]) = ("real_gitea", real_gitea::CASES);

/// The outcomes so far, by case and forge.
static OUTCOMES: Mutex<BTreeMap<(&str, &str), String>> = Mutex::new(BTreeMap::new());

/// One check of one forge. Dropped before it holds, it failed.
pub(crate) struct Cell {
    case: &'static str,
    forge: &'static str,
    state: SharedForgeState,
    holds: bool,
}

impl Cell {
    pub(crate) fn new(case: &'static str, forge: &'static str, double: &ForgeDouble) -> Self {
        let state = double.state.clone();
        Self {
            case,
            forge,
            state,
            holds: false,
        }
    }

    pub(crate) fn holds(mut self) {
        self.holds = true;
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        let outcome = match self.state.try_lock().and_then(|state| state.remark) {
            _ if !self.holds => "FAILED".to_owned(),
            Some(remark) => format!("ok, {remark}"),
            None => "ok".to_owned(),
        };
        let mut outcomes = OUTCOMES.lock();
        outcomes.insert((self.case, self.forge), outcome);
        if is_whole(&outcomes) {
            print(&outcomes);
        }
    }
}

/// Whether everything ran. The cases of the real server are ignored unless it was built.
fn is_whole(outcomes: &BTreeMap<(&str, &str), String>) -> bool {
    let is_real = |(_, forge): &&(&str, &str)| *forge == REAL.0;
    let real = outcomes.keys().filter(is_real).count();
    let doubles: usize = FORGES.iter().map(|(_, cases)| cases.len()).sum();
    outcomes.len() == doubles + real && (real == 0 || real == REAL.1.len())
}

fn print(outcomes: &BTreeMap<(&str, &str), String>) {
    let mut table = format!("\n{:54}", "case");
    let columns = || FORGES.iter().chain([&REAL]);
    for (forge, _) in columns() {
        table.push_str(&format!("{forge:22}"));
    }
    for case in FORGES[0].1 {
        table.push_str(&format!("\n{:54}", case.replace('_', " ")));
        for (forge, _) in columns() {
            let outcome = outcomes.get(&(*case, *forge)).map_or("not run", |it| it);
            table.push_str(&format!("{outcome:22}"));
        }
    }
    table.push_str("\n\n");
    // Past the capture of test output: this is what the run is for.
    let _ = std::io::stdout().lock().write_all(table.as_bytes());
}
