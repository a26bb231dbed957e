//! What settings show to whoever can reach the server, said at start.

use std::net::SocketAddr;

use crate::config::Settings;

/// What to warn of, by the setting that it is about.
pub(crate) fn warnings(settings: &Settings) -> Vec<(SocketAddr, &'static str)> {
    let public = |address: SocketAddr| !address.ip().is_loopback();
    let key = settings.auth.api_key.is_some();
    let (grpc, admin) = (settings.grpc_addr, settings.admin_addr);
    let mut warnings = Vec::new();
    if public(grpc) && !key && settings.tls.client_ca.is_none() {
        warnings.push((
            grpc,
            "grpc_addr is no loopback address, and neither auth.api_key nor tls.client_ca is set: whoever reaches it may \
             read, write and delete everything",
        ));
    }
    if public(grpc) && key && settings.tls.cert.is_none() {
        warnings.push((
            grpc,
            "auth.api_key is set and clients send it as plain text: whoever sees the traffic has it; set tls.cert and \
             tls.key, or serve on a loopback address",
        ));
    }
    if public(admin) {
        warnings.push((
            admin,
            "admin_addr is no loopback address and never asks for a key: whoever reaches it sees the names of collections, \
             their sizes and their traffic",
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{AuthSettings, Secret, TlsSettings};

    #[test]
    fn what_is_shown_to_the_network_is_warned_of() {
        let at = |address: &str, key: bool, cert: bool, client_ca: bool| {
            let settings = Settings {
                grpc_addr: address.parse().unwrap(),
                auth: AuthSettings {
                    api_key: key.then(|| Secret::new("sesame")),
                },
                tls: TlsSettings {
                    cert: cert.then(|| "cert.pem".into()),
                    client_ca: client_ca.then(|| "ca.pem".into()),
                    ..TlsSettings::default()
                },
                ..Settings::default()
            };
            let said = warnings(&settings).into_iter();
            said.map(|(_, text)| text).collect::<Vec<_>>().join("\n")
        };
        for address in ["0.0.0.0:1", "[::]:1", "10.1.2.3:1"] {
            assert!(at(address, true, false, false).contains("plain text"));
            assert!(at(address, false, false, false).contains("neither auth.api_key"));
            assert!(at(address, false, true, false).contains("neither auth.api_key"));
            assert_eq!(at(address, true, true, false), "");
            assert_eq!(at(address, false, true, true), "");
        }
        for address in ["127.0.0.1:1", "[::1]:1"] {
            assert_eq!(at(address, true, false, false), "");
            assert_eq!(at(address, false, false, false), "");
        }
        let settings = Settings {
            admin_addr: "0.0.0.0:1".parse().unwrap(),
            ..Settings::default()
        };
        let [(address, text)] = warnings(&settings)[..] else {
            panic!("one warning")
        };
        assert!(address == settings.admin_addr && text.contains("admin_addr"));
    }
}
