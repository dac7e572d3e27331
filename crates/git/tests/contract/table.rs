//! What the run of the whole contract came to: case × forge.

use std::collections::BTreeMap;
use std::io::Write;

use parking_lot::Mutex;

use testbed::forge_doubles::SharedForgeState;

use crate::double::ForgeDouble;
use crate::rows::FORGES;

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
        // Whole only in a run of everything.
        let all: usize = FORGES.iter().map(|(_, cases)| cases.len()).sum();
        if outcomes.len() == all {
            print(&outcomes);
        }
    }
}

fn print(outcomes: &BTreeMap<(&str, &str), String>) {
    let mut table = format!("\n{:54}", "case");
    for (forge, _) in FORGES {
        table.push_str(&format!("{forge:22}"));
    }
    for case in FORGES[0].1 {
        table.push_str(&format!("\n{:54}", case.replace('_', " ")));
        for (forge, _) in FORGES {
            table.push_str(&format!("{:22}", outcomes[&(*case, *forge)]));
        }
    }
    table.push_str("\n\n");
    // Past the capture of test output: this is what the run is for.
    let _ = std::io::stdout().lock().write_all(table.as_bytes());
}
