//! Encryption of the gRPC port: certificates, and who has to show one.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use crate::config::TlsSettings;

/// What clients and server agree to speak: HTTP/2.
const PROTOCOL: &[u8] = b"h2";

/// What the settings ask for; `None` without a certificate.
///
/// # Errors
/// A file cannot be read, or holds nothing that will do; the message names it.
pub(crate) fn acceptor(settings: &TlsSettings) -> anyhow::Result<Option<TlsAcceptor>> {
    let (Some(cert), Some(key)) = (&settings.cert, &settings.key) else {
        return Ok(None);
    };
    let chain = certificates("tls.cert", cert)?;
    let key = PrivateKeyDer::from_pem_slice(&read("tls.key", key)?)
        .map_err(|error| anyhow::anyhow!("tls.key {}: {error}", key.display()))?;
    let builder = ServerConfig::builder();
    let builder = match &settings.client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(certificates("tls.client_ca", path)?);
            let verifier = WebPkiClientVerifier::builder(Arc::new(roots)).build();
            let verifier = verifier.with_context(|| format!("tls.client_ca {}", path.display()))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let config = builder.with_single_cert(chain, key);
    let mut config = config.with_context(|| format!("tls.cert {}", cert.display()))?;
    config.alpn_protocols.push(PROTOCOL.into());
    Ok(Some(TlsAcceptor::from(Arc::new(config))))
}

fn read(key: &str, path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("{key} {} cannot be read", path.display()))
}

fn certificates(key: &str, path: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    CertificateDer::pem_slice_iter(&read(key, path)?)
        .collect::<Result<_, _>>()
        .map_err(|error| anyhow::anyhow!("{key} {}: {error}", path.display()))
}
