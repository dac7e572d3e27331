//! Runs the tests that reach a mutation until one of them fails.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::coverage::Test;
use super::process::{self, End, Finished};
use crate::suites::Suite;

/// The first process has tests that take this long together; each further one twice as long.
const FIRST_PROCESS: Duration = Duration::from_millis(60);
/// A test has timed out after this multiple of its time without mutation…
const TIMEOUT_FACTOR: u32 = 10;
/// …and this time, because other programs share the CPU.
const TIMEOUT_MARGIN: Duration = Duration::from_secs(5);

/// What the tests said about a mutation.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(super) enum Outcome {
    /// A test failed that passes without the mutation.
    Killed {
        program: String,
        test: String,
        timed_out: bool,
    },
    /// All tests that reach it passed.
    Survived,
    /// The time for one mutation was over before this number of tests, which reach it too.
    SurvivedFor { seconds: u64, tests_left: usize },
    /// No test runs the code.
    NotReached,
}

/// Tries mutations with the test programs.
pub(super) struct Trial<'a> {
    pub(super) programs: &'a [Suite],
    /// The time for the tests of one mutation.
    pub(super) limit: Duration,
}

impl Trial<'_> {
    /// Runs tests with a mutation, in this order.
    pub(super) fn run(&self, id: usize, mut tests: Vec<&Test>) -> Result<Outcome> {
        if tests.is_empty() {
            return Ok(Outcome::NotReached);
        }
        let started = Instant::now();
        let mut length = FIRST_PROCESS;
        while let Some(first) = tests.first() {
            if started.elapsed() + first.time > self.limit {
                return Ok(Outcome::SurvivedFor {
                    seconds: self.limit.as_secs(),
                    tests_left: tests.len(),
                });
            }
            let together = first_tests(&mut tests, length);
            if let Some(killed) = self.run_together(id, &together)? {
                return Ok(killed);
            }
            length *= 2;
        }
        Ok(Outcome::Survived)
    }

    fn run_together(&self, id: usize, tests: &[&Test]) -> Result<Option<Outcome>> {
        let finished = self.process(id, tests)?;
        if finished.end == End::Passed {
            return Ok(None);
        }
        let names: Vec<&str> = tests.iter().map(|it| it.name.as_str()).collect();
        let suspect = process::failed_test(&names, &finished.printed);
        let suspect = tests.iter().find(|it| Some(it.name.as_str()) == suspect);
        if let Some(test) = suspect
            && finished.end == End::TimedOut
        {
            return Ok(Some(killed(test, finished.end)));
        }
        if let ([test], None) | ([test], Some(_)) = (tests, suspect) {
            return Ok(Some(killed(test, finished.end)));
        }
        // By itself, as it passed without the mutation.
        let alone = suspect.into_iter().chain(tests);
        for test in alone {
            let finished = self.process(id, &[test])?;
            if finished.end != End::Passed {
                return Ok(Some(killed(test, finished.end)));
            }
        }
        Ok(None)
    }

    fn process(&self, id: usize, tests: &[&Test]) -> Result<Finished> {
        let program = self.programs.iter().find(|it| it.name == tests[0].program);
        let program = program.expect("tests are listed by their programs");
        let names: Vec<&str> = tests.iter().map(|it| it.name.as_str()).collect();
        let time: Duration = tests.iter().map(|it| it.time).sum();
        let mut command = process::tests(program, &names);
        command.env("MUTATION", id.to_string());
        process::run(&mut command, time * TIMEOUT_FACTOR + TIMEOUT_MARGIN)
    }
}

fn killed(test: &Test, end: End) -> Outcome {
    Outcome::Killed {
        program: test.program.clone(),
        test: test.name.clone(),
        timed_out: end == End::TimedOut,
    }
}

/// Takes the first test out of the list, and further ones of the same program that together take a time.
fn first_tests<'a>(tests: &mut Vec<&'a Test>, length: Duration) -> Vec<&'a Test> {
    let program = tests[0].program.clone();
    let mut time = Duration::ZERO;
    let mut taken = Vec::new();
    tests.retain(|test| {
        let is_first = taken.is_empty();
        let is_taken = is_first || (test.program == program && time + test.time <= length);
        if is_taken {
            time += test.time;
            taken.push(*test);
        }
        !is_taken
    });
    taken
}
