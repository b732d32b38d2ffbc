//! Repetitions in turns, and what may be said of them: medians, and medians of the ratios of one turn.

use std::fmt;
use std::time::Duration;

use crate::outcome::Outcome;

/// A series that takes part in the turns: one call is one repetition and answers its figure.
pub struct Series<'a> {
    /// What is measured.
    pub name: &'static str,
    run: Box<dyn FnMut() -> Outcome<f64> + 'a>,
}

/// The figures of one series, one for each turn.
#[derive(Clone, Default)]
pub struct Figures(Vec<f64>);

/// How many times one series is of another: the median over the turns, and the range.
#[derive(Clone, Copy)]
pub struct Ratio {
    /// The median.
    pub median: f64,
    low: f64,
    high: f64,
}

impl<'a> Series<'a> {
    /// A series of this name.
    pub fn new(name: &'static str, run: impl FnMut() -> Outcome<f64> + 'a) -> Self {
        Self {
            name,
            run: Box::new(run),
        }
    }
}

/// Runs every series once, then every series again, `turns` times. A turn before them warms up and is not counted.
pub fn in_turns(turns: usize, series: &mut [Series<'_>]) -> Outcome<Vec<Figures>> {
    let mut figures = vec![Figures::default(); series.len()];
    for turn in 0..=turns {
        for (one, of) in series.iter_mut().zip(&mut figures) {
            let figure = (one.run)().map_err(|e| format!("{}: {e}", one.name))?;
            if turn > 0 {
                of.push(figure);
            }
        }
    }
    Ok(figures)
}

impl Figures {
    /// One more turn.
    pub fn push(&mut self, figure: f64) {
        self.0.push(figure);
    }

    /// The median of the turns.
    pub fn median(&self) -> f64 {
        median(self.0.clone())
    }

    /// The median over the turns of `self / other`.
    pub fn ratio_to(&self, other: &Figures) -> Ratio {
        let ratios: Vec<f64> = self.0.iter().zip(&other.0).map(|(a, b)| a / b).collect();
        let low = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let high = ratios.iter().copied().fold(0.0, f64::max);
        Ratio {
            median: median(ratios),
            low,
            high,
        }
    }
}

impl Ratio {
    /// A ratio that was measured once.
    pub fn once(value: f64) -> Self {
        Self {
            median: value,
            low: value,
            high: value,
        }
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = if self.median < 10.0 { 2 } else { 1 };
        write!(f, "{:.digits$}", self.median)?;
        if self.high > self.low {
            write!(f, " ({:.digits$}-{:.digits$})", self.low, self.high)?;
        }
        Ok(())
    }
}

/// The latencies of one series.
#[derive(Default)]
pub struct Latencies(Vec<u32>);

impl Latencies {
    /// One more.
    pub fn push(&mut self, took: Duration) {
        self.0
            .push(u32::try_from(took.as_nanos()).unwrap_or(u32::MAX));
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The latency that this share of them does not exceed, in nanoseconds.
    pub fn quantile_ns(&mut self, share: f64) -> f64 {
        if self.0.is_empty() {
            return f64::NAN;
        }
        let at = ((self.0.len() - 1) as f64 * share) as usize;
        f64::from(*self.0.select_nth_unstable(at).1)
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[n / 2],
        n => (values[n / 2 - 1] + values[n / 2]) / 2.0,
    }
}

/// Nanoseconds, in the unit a reader would choose.
pub fn time(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e6 => format!("{:.2} us", ns / 1e3),
        ns if ns < 1e9 => format!("{:.2} ms", ns / 1e6),
        ns => format!("{:.2} s", ns / 1e9),
    }
}

/// A rate per second.
pub fn rate(per_s: f64) -> String {
    match per_s {
        per_s if per_s < 1e4 => format!("{per_s:.0}/s"),
        per_s => format!("{:.1}k/s", per_s / 1e3),
    }
}

/// Bytes as MiB.
pub fn mib(bytes: f64) -> String {
    format!("{:.0} MiB", bytes / f64::from(1 << 20))
}
