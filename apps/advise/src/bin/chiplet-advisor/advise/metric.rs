//! What a trial is judged by: instructions a cycle of the group, or what a query of Prometheus says.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail, ensure};
use chiplet_advise::{GroupPath, Host};
use serde::Deserialize;

use crate::stop;
use chiplet_bench::counters::{CYCLES, Counters, Counting, INSTRUCTIONS};

/// How long Prometheus may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// What stands in a query for the length of the window.
const WINDOW: &str = "$window";

/// Which way the metric becomes better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Better {
    /// The higher it is: requests a second, instructions a cycle.
    Higher,
    /// The lower it is: a latency, processor time a request.
    Lower,
}

/// What is measured over a window.
pub(super) enum Metric {
    /// Instructions a cycle.
    Ipc,
    /// A query's value at the end of the window.
    Prometheus { url: String, query: String },
}

/// A window that has begun.
pub(super) enum Begun {
    Ipc(Counting),
    Prometheus,
}

impl Better {
    /// The share by which the second value is better than the first.
    pub(super) fn gain(self, first: f64, second: f64) -> f64 {
        match self {
            Self::Higher => second / first - 1.0,
            Self::Lower => 1.0 - second / first,
        }
    }
}

impl Metric {
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Ipc => "instructions a cycle",
            Self::Prometheus { query, .. } => query,
        }
    }

    /// That it can be measured at all: found out before anything is changed.
    pub(super) fn check(
        &self,
        host: &Host,
        group: &GroupPath,
        length: Duration,
    ) -> anyhow::Result<()> {
        match self {
            Self::Ipc => self.begin(host, group).map(|_| ()),
            Self::Prometheus { .. } => self.end(Begun::Prometheus, length).map(|_| ()),
        }
    }

    pub(super) fn begin(&self, host: &Host, group: &GroupPath) -> anyhow::Result<Begun> {
        match self {
            Self::Ipc => {
                let look = host.look(group)?;
                let folder: PathBuf = host.folder(group);
                // Wherever it may run once it is bound or unbound.
                let all = host
                    .nodes()
                    .iter()
                    .flat_map(|node| node.cpus.iter().copied());
                let cpus = all.chain(look.cpus.iter().copied()).collect();
                let counters = Counters::instructions_of_group(&folder, &cpus).map_err(|why| {
                    anyhow!("instructions a cycle are {why}; name a metric by --prometheus URL --query PROMQL")
                })?;
                Ok(Begun::Ipc(Counting::begin(counters)))
            }
            Self::Prometheus { .. } => Ok(Begun::Prometheus),
        }
    }

    /// The value over the window that began and was so long.
    pub(super) fn end(&self, begun: Begun, length: Duration) -> anyhow::Result<f64> {
        let value = match (self, begun) {
            (Self::Prometheus { url, query }, _) => {
                let (url, query) = (url.clone(), query.clone());
                let answer = stop::unless_asked(move || ask(&url, &query, length))?;
                answer.context("stopped before Prometheus has answered")??
            }
            (Self::Ipc, Begun::Ipc(counting)) => {
                let values = counting.end();
                let counted = values.total(INSTRUCTIONS).zip(values.total(CYCLES));
                let (instructions, cycles) =
                    counted.context("instructions and cycles were not counted")?;
                instructions / cycles
            }
            (Self::Ipc, Begun::Prometheus) => bail!("the window was begun for another metric"),
        };
        ensure!(
            value.is_finite() && value > 0.0,
            "{} is {value}: it has to be above 0 in every window; is there load?",
            self.name()
        );
        Ok(value)
    }
}

/// An answer of `/api/v1/query` (Prometheus, "HTTP API", instant queries).
#[derive(Deserialize)]
struct Answer {
    status: String,
    #[serde(default)]
    error: String,
    data: Option<Data>,
}

#[derive(Deserialize)]
#[serde(tag = "resultType", content = "result", rename_all = "lowercase")]
enum Data {
    Scalar((f64, String)),
    Vector(Vec<Series>),
    Matrix(serde::de::IgnoredAny),
    String(serde::de::IgnoredAny),
}

#[derive(Deserialize)]
struct Series {
    value: (f64, String),
}

fn ask(url: &str, query: &str, length: Duration) -> anyhow::Result<f64> {
    ensure!(
        url.starts_with("http://"),
        "--prometheus {url}: say http://HOST:PORT; https is not spoken, use a proxy on this host"
    );
    let query = query.replace(WINDOW, &format!("{}ms", length.as_millis().max(1)));
    let config = ureq::Agent::config_builder()
        .timeout_global(Some(PATIENCE))
        .http_status_as_error(false)
        .build();
    let agent: ureq::Agent = config.into();
    let path = format!("{}/api/v1/query", url.trim_end_matches('/'));
    let asked = agent.get(&path).query("query", &query).call();
    let text = asked.and_then(|mut answer| answer.body_mut().read_to_string());
    let text = text.with_context(|| format!("Prometheus at {url} does not answer"))?;
    value(&text).with_context(|| format!("Prometheus at {url}, query {query}"))
}

/// The one value of an answer.
fn value(text: &str) -> anyhow::Result<f64> {
    let answer: Answer = serde_json::from_str(text).map_err(|error| {
        let begin: String = text.chars().take(80).flat_map(char::escape_debug).collect();
        anyhow!("this is no answer of /api/v1/query ({error}): {begin}")
    })?;
    ensure!(
        answer.status == "success",
        "{}",
        answer.error.escape_debug()
    );
    let number = match answer.data {
        Some(Data::Scalar((_, number))) => number,
        Some(Data::Vector(series)) => match <[Series; 1]>::try_from(series) {
            Ok([Series { value: (_, number) }]) => number,
            Err(series) => bail!(
                "it gives {} series, and one is needed: add sum(..), or narrow the labels",
                series.len()
            ),
        },
        _ => {
            bail!("it gives a range or a text, and one number is needed: leave out [..] at its end")
        }
    };
    number
        .parse()
        .with_context(|| format!("{number:?} is no number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(data: &str) -> String {
        format!(r#"{{"status":"success","data":{data}}}"#)
    }

    #[test]
    fn one_number_is_taken_and_all_else_is_told() {
        let one =
            answer(r#"{"resultType":"vector","result":[{"metric":{},"value":[1.5,"0.25"]}]}"#);
        assert_eq!(value(&one).unwrap(), 0.25);
        assert_eq!(
            value(&answer(r#"{"resultType":"scalar","result":[1,"7"]}"#)).unwrap(),
            7.0
        );
        for (text, part) in [
            (answer(r#"{"resultType":"vector","result":[]}"#), "0 series"),
            (answer(r#"{"resultType":"matrix","result":[]}"#), "a range"),
            (
                answer(r#"{"resultType":"scalar","result":[1,"x"]}"#),
                "no number",
            ),
            (
                r#"{"status":"error","error":"parse error at 3"}"#.to_owned(),
                "parse error at 3",
            ),
            ("<html>".to_owned(), "no answer of /api/v1/query"),
        ] {
            let error = format!("{:#}", value(&text).unwrap_err());
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn better_knows_its_direction() {
        assert_eq!(Better::Higher.gain(10.0, 12.0), 0.19999999999999996);
        assert!((Better::Lower.gain(10.0, 8.0) - 0.2).abs() < 1e-12);
        assert!(Better::Lower.gain(10.0, 12.0) < 0.0);
    }

    #[test]
    fn addresses_that_cannot_be_asked_are_told() {
        let error = ask("https://there", "up", Duration::from_secs(1)).unwrap_err();
        assert!(error.to_string().contains("use a proxy"), "{error}");
        let error = ask("http://127.0.0.1:9", "up", Duration::from_secs(1)).unwrap_err();
        assert!(error.to_string().contains("does not answer"), "{error}");
    }
}
