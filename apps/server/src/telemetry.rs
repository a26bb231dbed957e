//! Logs and spans.
//!
//! A request's spans (`request`, and below it `queue`, `coarse`, `scan`, `merge`) have the target
//! `chiplet_server::query` and the level DEBUG, so that they cost nothing unless asked for: by the log filter
//! `chiplet_server::query=debug`, or by an OpenTelemetry collector.

use http::HeaderMap;
use tracing::Span;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::Settings;

/// The target of requests' spans.
pub(crate) const QUERY: &str = "chiplet_server::query";

/// The calls that have a name of their own in metrics and spans; whatever else comes in is `other`, so that no client
/// can make labels.
const METHODS: &[&str] = &[
    "/qdrant.Points/Search",
    "/qdrant.Points/SearchBatch",
    "/qdrant.Points/Query",
    "/qdrant.Points/QueryBatch",
    "/qdrant.Points/Upsert",
    "/qdrant.Points/Delete",
    "/qdrant.Points/Get",
    "/qdrant.Points/Scroll",
    "/qdrant.Points/SetPayload",
    "/qdrant.Points/OverwritePayload",
    "/qdrant.Points/DeletePayload",
    "/qdrant.Points/ClearPayload",
    "/qdrant.Points/Count",
    "/qdrant.Points/CreateFieldIndex",
    "/qdrant.Points/DeleteFieldIndex",
    "/qdrant.Collections/Create",
    "/qdrant.Collections/Update",
    "/qdrant.Collections/Delete",
    "/qdrant.Collections/Get",
    "/qdrant.Collections/List",
    "/qdrant.Collections/CollectionExists",
    "/qdrant.Qdrant/HealthCheck",
    "/grpc.health.v1.Health/Check",
    "/grpc.health.v1.Health/Watch",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];

/// A path as a label.
pub(crate) fn method(path: &str) -> &'static str {
    METHODS
        .iter()
        .find(|method| **method == path)
        .map_or("other", |method| &method[1..])
}

/// The span of a request, continued from the client's W3C trace context if it brings one.
pub(crate) fn request_span(method: &'static str, headers: &HeaderMap) -> Span {
    let span = tracing::debug_span!(
        target: QUERY,
        "request",
        rpc.method = method,
        trace_id = tracing::field::Empty
    );
    if span.is_disabled() {
        return span;
    }
    if let Some(context) = headers
        .get("traceparent")
        .and_then(|value| value.to_str().ok())
        && let Some(trace) = trace_id(context)
    {
        span.record("trace_id", trace);
        #[cfg(feature = "otel")]
        otel::continue_trace(&span, headers);
    }
    span
}

/// The trace's id in a W3C `traceparent`: `version-traceid-parentid-flags`, in hexadecimal digits.
fn trace_id(context: &str) -> Option<&str> {
    let mut fields = context.trim().split('-');
    let (version, trace, parent, flags) = (
        fields.next()?,
        fields.next()?,
        fields.next()?,
        fields.next()?,
    );
    let hex = |field: &str, length: usize| {
        field.len() == length
            && field
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let zero = |field: &str| field.bytes().all(|byte| byte == b'0');
    let well_formed = hex(version, 2)
        && version != "ff"
        && hex(trace, 32)
        && !zero(trace)
        && hex(parent, 16)
        && !zero(parent)
        && hex(flags, 2);
    // A later version may have more fields; version 00 has four.
    (well_formed && (version != "00" || fields.next().is_none())).then_some(trace)
}

/// Keeps the exporter running; flushes it when dropped.
#[derive(Default)]
pub struct Telemetry {
    #[cfg(feature = "otel")]
    export: Option<otel::Export>,
}

impl Telemetry {
    /// Sends logs to standard error and, if the settings name a collector, spans there. Once in a process.
    ///
    /// # Errors
    /// The log filter cannot be read, or the collector's address.
    pub fn start(settings: &Settings) -> anyhow::Result<Self> {
        use tracing_subscriber::Layer;
        let filter = EnvFilter::try_new(&settings.log)
            .map_err(|error| anyhow::anyhow!("log is {:?}: {error}", settings.log))?;
        let logs = tracing_subscriber::fmt::layer()
            .with_writer(std::io::stderr)
            .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
            .with_span_events(tracing_subscriber::fmt::format::FmtSpan::CLOSE)
            .with_filter(filter);
        let registry = tracing_subscriber::registry().with(logs);
        #[cfg(feature = "otel")]
        {
            let export = settings.otlp_endpoint.as_deref().map(otel::Export::start);
            let export = export.transpose()?;
            registry
                .with(export.as_ref().map(otel::Export::layer))
                .try_init()?;
            Ok(Self { export })
        }
        #[cfg(not(feature = "otel"))]
        {
            registry.try_init()?;
            if settings.otlp_endpoint.is_some() {
                tracing::warn!(
                    "otlp_endpoint is set, but this server was built without the feature `otel`"
                );
            }
            Ok(Self::default())
        }
    }
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        #[cfg(feature = "otel")]
        if let Some(export) = self.export.take() {
            export.finish();
        }
    }
}

#[cfg(feature = "otel")]
mod otel {
    use http::HeaderMap;
    use opentelemetry::propagation::{Extractor, TextMapPropagator};
    use opentelemetry::trace::TracerProvider;
    use opentelemetry_otlp::WithExportConfig;
    use opentelemetry_sdk::Resource;
    use opentelemetry_sdk::propagation::TraceContextPropagator;
    use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};
    use tokio::runtime::Runtime;
    use tracing::Span;
    use tracing::level_filters::LevelFilter;
    use tracing_opentelemetry::OpenTelemetrySpanExt;
    use tracing_subscriber::Layer;
    use tracing_subscriber::filter::Targets;
    use tracing_subscriber::registry::LookupSpan;

    const SERVICE: &str = "chiplet-server";

    struct Headers<'a>(&'a HeaderMap);

    impl Extractor for Headers<'_> {
        fn get(&self, key: &str) -> Option<&str> {
            self.0.get(key)?.to_str().ok()
        }

        fn keys(&self) -> Vec<&str> {
            self.0.keys().map(|name| name.as_str()).collect()
        }
    }

    pub(super) fn continue_trace(span: &Span, headers: &HeaderMap) {
        let context = TraceContextPropagator::new().extract(&Headers(headers));
        if let Err(error) = span.set_parent(context) {
            tracing::debug!(%error, "a trace could not be continued");
        }
    }

    /// The exporter, with a thread of its own for its connection.
    pub(super) struct Export {
        provider: SdkTracerProvider,
        runtime: Runtime,
    }

    impl Export {
        pub(super) fn start(endpoint: &str) -> anyhow::Result<Self> {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .thread_name("spans")
                .enable_all()
                .build()?;
            let inside = runtime.enter();
            let exporter = opentelemetry_otlp::SpanExporter::builder()
                .with_tonic()
                .with_endpoint(endpoint)
                .build()?;
            drop(inside);
            // What the client sampled is sampled; of the rest, everything.
            let provider = SdkTracerProvider::builder()
                .with_batch_exporter(exporter)
                .with_sampler(Sampler::ParentBased(Box::new(Sampler::AlwaysOn)))
                .with_resource(Resource::builder().with_service_name(SERVICE).build())
                .build();
            Ok(Self { provider, runtime })
        }

        /// A layer that exports requests' spans, and no others.
        pub(super) fn layer<S>(&self) -> impl Layer<S> + use<S>
        where
            S: tracing::Subscriber + for<'span> LookupSpan<'span>,
        {
            tracing_opentelemetry::layer()
                .with_tracer(self.provider.tracer(SERVICE))
                .with_filter(Targets::new().with_target(super::QUERY, LevelFilter::DEBUG))
        }

        /// Sends what is left.
        pub(super) fn finish(self) {
            if let Err(error) = self.provider.shutdown() {
                tracing::warn!(%error, "the last spans may not have been exported");
            }
            self.runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_methods_become_labels() {
        assert_eq!(method("/qdrant.Points/Search"), "qdrant.Points/Search");
        assert_eq!(method("/qdrant.Points/search"), "other");
        assert_eq!(method(""), "other");
    }

    #[test]
    fn a_trace_context_is_believed_only_if_well_formed() {
        let trace = "0af7651916cd43dd8448eb211c80319c";
        let context =
            |version: &str, rest: &str| format!("{version}-{trace}-b7ad6b7169203331-01{rest}");
        assert_eq!(trace_id(&context("00", "")), Some(trace));
        assert_eq!(trace_id(&context("01", "-more")), Some(trace));
        for wrong in [
            context("00", "-more"),
            context("ff", ""),
            context("00", "").replace('b', "B"),
            context("00", "").replace(trace, &"0".repeat(32)),
            String::new(),
            "00-1-2-3".to_owned(),
        ] {
            assert_eq!(trace_id(&wrong), None, "{wrong}");
        }
    }
}
