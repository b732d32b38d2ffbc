//! Many images of one recording, built and judged in parallel.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::thread;

use super::base::Base;
use super::choice::Choice;
use super::crash::Image;
use super::cuts::cuts;
use super::disk::Disk;
use crate::recording::Op;

/// How many images, and where.
#[derive(Debug, Clone)]
pub struct Sweep {
    /// What was there before the recording began.
    pub base: Base,
    /// How many images.
    pub images: usize,
    /// Decides the cuts and the choices.
    pub seed: u64,
    /// How many are judged at a time.
    pub threads: usize,
    /// Where the images are built; each is deleted after its judgement.
    pub scratch: PathBuf,
}

/// An image that did not pass; `build_on` with the same cut and choice makes it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// How many operations came before the cut.
    pub cut: usize,
    /// What reached the disk.
    pub choice: Choice,
    /// What the judge said.
    pub reason: String,
}

/// What came out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// How many images were judged.
    pub images: usize,
    /// Those that did not pass, by cut.
    pub failures: Vec<Failure>,
}

impl Sweep {
    /// Builds the images and asks the judge about each. A judge that panics has not passed its image.
    pub fn run<J>(&self, ops: &[Op], judge: J) -> io::Result<Report>
    where
        J: Fn(&Image) -> Result<(), String> + Sync,
    {
        let cuts = cuts(ops, self.images, self.seed);
        let cases: Vec<(usize, Choice)> = cuts
            .into_iter()
            .enumerate()
            .map(|(index, cut)| (cut, Choice::nth(self.seed, index)))
            .collect();
        let threads = self.threads.max(1);
        let reports: Vec<io::Result<Report>> = thread::scope(|scope| {
            let workers: Vec<_> = (0..threads)
                .map(|first| {
                    let mine = cases.iter().skip(first).step_by(threads);
                    let judge = &judge;
                    scope.spawn(move || self.judge_in_turn(ops, mine, judge))
                })
                .collect();
            let join = |worker: thread::ScopedJoinHandle<'_, _>| {
                worker
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            workers.into_iter().map(join).collect()
        });
        let mut total = Report::default();
        for report in reports {
            let report = report?;
            total.images += report.images;
            total.failures.extend(report.failures);
        }
        total.failures.sort_by_key(|failure| failure.cut);
        Ok(total)
    }

    /// The cuts come in ascending order, so that one replay serves them all.
    fn judge_in_turn<'a, J>(
        &self,
        ops: &[Op],
        cases: impl Iterator<Item = &'a (usize, Choice)>,
        judge: &J,
    ) -> io::Result<Report>
    where
        J: Fn(&Image) -> Result<(), String>,
    {
        let mut disk = Disk::new(&self.base)?;
        let mut applied = 0;
        let mut report = Report::default();
        for (cut, choice) in cases {
            for op in &ops[applied..*cut] {
                disk.apply(op)?;
            }
            applied = *cut;
            let home = tempfile::Builder::new()
                .prefix("cut-")
                .tempdir_in(&self.scratch)?;
            let image = disk.image(*cut, choice, &home.path().join("root"))?;
            let verdict = catch_unwind(AssertUnwindSafe(|| judge(&image)));
            report.images += 1;
            if let Err(reason) = verdict.unwrap_or_else(|_| Err("the judge panicked".into())) {
                report.failures.push(Failure {
                    cut: *cut,
                    choice: *choice,
                    reason,
                });
            }
        }
        Ok(report)
    }
}
