//! Keys and certificates. All of them are made here.

use std::path::PathBuf;

use crate::common::{self, Running, refusal};
use chiplet_server::config::Secret;
use qdrant_client::qdrant::ListCollectionsRequest;
use qdrant_client::qdrant::collections_client::CollectionsClient;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tonic::Code;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

#[test]
fn without_the_key_nothing_is_answered_but_health() {
    let running = Running::with(|settings| settings.auth.api_key = Some(Secret::new("sesame")));
    let url = format!("http://{}", running.grpc());
    let with = |key: &str| {
        let config = common::config(running.grpc());
        config.api_key(key.to_owned()).build().unwrap()
    };
    running.run(async {
        let (code, message) = refusal(running.client.list_collections().await);
        assert_eq!(code, Code::Unauthenticated);
        assert!(!message.contains("sesame"));
        let (code, _) = refusal(with("sesamf").list_collections().await);
        assert_eq!(code, Code::Unauthenticated);
        with("sesame").list_collections().await.unwrap();
        let channel = Endpoint::from_shared(url.clone())
            .unwrap()
            .connect()
            .await
            .unwrap();
        let mut health = tonic_health::pb::health_client::HealthClient::new(channel);
        let request = tonic_health::pb::HealthCheckRequest::default();
        let answer = health.check(request).await.unwrap().into_inner();
        assert_eq!(answer.status(), tonic_health::ServingStatus::Serving.into());
    });
    let (_, metrics) = running.page("/metrics");
    assert!(!metrics.contains("sesame"));
    assert!(metrics.contains("UNAUTHENTICATED"));
}

/// Strangers hold on to all connections that they can get; who has the key gets in all the same, and stays.
#[test]
fn strangers_cannot_take_all_connections() {
    let running = Running::with(|settings| {
        settings.auth.api_key = Some(Secret::new("sesame"));
        settings.limits.connections = 20;
    });
    let connect = async || {
        let stream = tokio::net::TcpStream::connect(running.grpc())
            .await
            .unwrap();
        // An error means that it was let go at once.
        let handshake = h2::client::handshake(stream).await;
        handshake
            .ok()
            .map(|(sender, connection)| (sender, tokio::spawn(connection)))
    };
    running.run(async {
        let mut strangers = Vec::new();
        for _ in 0..60 {
            strangers.push(connect().await);
        }
        let friend = common::config(running.grpc())
            .api_key("sesame")
            .build()
            .unwrap();
        // One connection, which a client that is let go would make anew.
        friend.list_collections().await.unwrap();
        for _ in 0..60 {
            strangers.push(connect().await);
            friend.list_collections().await.unwrap();
        }
        let open = strangers
            .iter()
            .flatten()
            .filter(|(_, connection)| !connection.is_finished());
        assert!(open.count() <= 20);
    });
    let connections = running.metric("chiplet_server_connections", &[]);
    assert!(connections <= 20.0, "{connections}");
}

/// Where there is no key, streams of health are bounded for everybody together.
#[test]
fn streams_of_health_are_bounded() {
    const BOUND: usize = 256;
    let running = Running::start();
    running.run(async {
        let url = format!("http://{}", running.grpc());
        let mut streams = Vec::new();
        let mut refused = 0;
        for _ in 0..3 {
            let channel = Endpoint::from_shared(url.clone())
                .unwrap()
                .connect()
                .await
                .unwrap();
            let mut health = tonic_health::pb::health_client::HealthClient::new(channel);
            for _ in 0..100 {
                let request = tonic_health::pb::HealthCheckRequest::default();
                match health.watch(request).await {
                    Ok(stream) => streams.push(stream),
                    Err(status) => {
                        assert_eq!(status.code(), Code::ResourceExhausted);
                        refused += 1;
                    }
                }
            }
            // A probe that asks once is answered.
            let request = tonic_health::pb::HealthCheckRequest::default();
            health.check(request).await.unwrap();
        }
        assert_eq!((streams.len(), refused), (BOUND, 300 - BOUND));
    });
}

/// An authority, and certificates that it signed.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Self(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    fn pem(&self) -> String {
        self.0.pem()
    }

    fn sign(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        (certificate.pem(), key.serialize_pem())
    }
}

fn written(folder: &tempfile::TempDir, name: &str, content: &str) -> Option<PathBuf> {
    let path = folder.path().join(name);
    std::fs::write(&path, content).unwrap();
    Some(path)
}

#[test]
fn mutual_tls_lets_in_who_shows_a_certificate() {
    let (servers, clients, strangers) = (Authority::new(), Authority::new(), Authority::new());
    let files = tempfile::tempdir().unwrap();
    let (cert, key) = servers.sign("localhost");
    let running = Running::with(|settings| {
        settings.tls.cert = written(&files, "cert.pem", &cert);
        settings.tls.key = written(&files, "key.pem", &key);
        settings.tls.client_ca = written(&files, "ca.pem", &clients.pem());
    });
    let url = format!("https://localhost:{}", running.grpc().port());
    let trusting = |authority: &Authority| {
        ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(authority.pem()))
            .domain_name("localhost")
    };
    let shown = |authority: &Authority| {
        let (cert, key) = authority.sign("client");
        Identity::from_pem(cert, key)
    };
    let list = async |tls: ClientTlsConfig| -> Result<(), String> {
        let endpoint = Endpoint::from_shared(url.clone())
            .unwrap()
            .tls_config(tls)
            .unwrap();
        let channel = endpoint
            .connect()
            .await
            .map_err(|error| error.to_string())?;
        let mut client = CollectionsClient::new(channel);
        let answer = client.list(ListCollectionsRequest {}).await;
        answer.map(|_| ()).map_err(|status| status.to_string())
    };
    running.run(async {
        list(trusting(&servers).identity(shown(&clients)))
            .await
            .unwrap();
        assert!(list(trusting(&servers)).await.is_err(), "no certificate");
        let stranger = trusting(&servers).identity(shown(&strangers));
        assert!(
            list(stranger).await.is_err(),
            "another authority's certificate"
        );
        let suspicious = trusting(&strangers).identity(shown(&clients));
        assert!(
            list(suspicious).await.is_err(),
            "the client does not trust the server"
        );
    });
}

/// With both, TLS alone opens nothing but health, and who has the key is served over it.
#[test]
fn the_key_is_asked_for_over_tls_too() {
    let servers = Authority::new();
    let files = tempfile::tempdir().unwrap();
    let (cert, key) = servers.sign("localhost");
    let running = Running::with(|settings| {
        settings.auth.api_key = Some(Secret::new("sesame"));
        settings.tls.cert = written(&files, "cert.pem", &cert);
        settings.tls.key = written(&files, "key.pem", &key);
    });
    running.run(async {
        let url = format!("https://localhost:{}", running.grpc().port());
        let tls = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(servers.pem()))
            .domain_name("localhost");
        let endpoint = Endpoint::from_shared(url).unwrap().tls_config(tls).unwrap();
        let channel = endpoint.connect().await.unwrap();
        let mut health = tonic_health::pb::health_client::HealthClient::new(channel.clone());
        let request = tonic_health::pb::HealthCheckRequest::default();
        health.check(request).await.unwrap();
        let mut client = CollectionsClient::new(channel);
        let refused = client.list(ListCollectionsRequest {}).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unauthenticated);
        // On the same connection, and then more than a stranger may send.
        for _ in 0..3_000 {
            let mut request = tonic::Request::new(ListCollectionsRequest {});
            let key = "sesame".parse().unwrap();
            request.metadata_mut().insert("api-key", key);
            let padding = "x".repeat(200).parse().unwrap();
            request.metadata_mut().insert("padding", padding);
            client.list(request).await.unwrap();
        }
    });
}

#[test]
fn a_certificate_that_cannot_be_read_is_named() {
    let data = tempfile::tempdir().unwrap();
    let mut settings = common::settings(&data);
    settings.tls.cert = Some(data.path().join("absent.pem"));
    settings.tls.key = settings.tls.cert.clone();
    let error = chiplet_server::server::Server::start(&settings)
        .err()
        .unwrap();
    assert!(format!("{error:#}").contains("absent.pem"), "{error:#}");
}
