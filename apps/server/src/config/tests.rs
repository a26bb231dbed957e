use super::*;

fn load(file: &str, variables: &[(&str, &str)]) -> Result<(Settings, Vec<String>), String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("server.toml");
    std::fs::write(&path, file).unwrap();
    let variables = variables
        .iter()
        .map(|(k, v)| (k.to_string(), v.to_string()));
    Settings::load(Some(&path), variables).map_err(|error| error.to_string())
}

#[test]
fn nothing_given_gives_the_defaults() {
    let (settings, ignored) = Settings::load(None, []).unwrap();
    assert_eq!(settings.to_toml(), Settings::default().to_toml());
    assert!(ignored.is_empty());
}

#[test]
fn the_environment_wins_over_the_file_and_the_file_over_the_defaults() {
    let (settings, ignored) = load(
        "grpc_addr = '0.0.0.0:1'\n[limits]\nbatch = 5\ndimensions = 7",
        &[
            ("CHIPLET_LIMITS__BATCH", "6"),
            ("CHIPLET_SCHEDULER__KIND", "rayon"),
            ("CHIPLET_SCHEDULER__RESERVE_CORES", "1"),
            ("CHIPLET_LIMIT__BATCH", "9"),
            ("PATH", "/bin"),
        ],
    )
    .unwrap();
    assert_eq!(settings.grpc_addr, SocketAddr::from(([0, 0, 0, 0], 1)));
    assert_eq!((settings.limits.batch, settings.limits.dimensions), (6, 7));
    assert_eq!(settings.scheduler.kind, SchedulerKind::Rayon);
    assert_eq!(settings.scheduler.reserve_cores, Some(1));
    assert_eq!(ignored, ["CHIPLET_LIMIT__BATCH"]);
}

#[test]
fn what_is_printed_can_be_read_back() {
    let printed = Settings::default().to_toml();
    assert_eq!(load(&printed, &[]).unwrap().0.to_toml(), printed);
}

#[test]
fn mistakes_are_named() {
    for (file, named) in [
        ("grpc_adr = '0.0.0.0:1'", "grpc_adr"),
        ("grpc_addr = 'nowhere'", "grpc_addr"),
        ("[limits]\nbatch = 0", "limits.batch"),
        ("[scheduler]\nlevel = 'l9'", "scheduler.level"),
        ("[scheduler]\nkind = 'tokio'", "kind"),
        ("[scheduler]\npin = 'all'", "scheduler.pin"),
        ("[tls]\ncert = 'a.pem'", "cert and key"),
        ("[tls]\nclient_ca = 'a.pem'", "tls.client_ca"),
        ("[auth]\napi_key = ''", "auth.api_key"),
        ("drain_seconds = 9000000000", "drain_seconds"),
        ("drain_writes_seconds = 9000000000", "drain_writes_seconds"),
        ("= 3", "server.toml"),
    ] {
        let error = load(file, &[]).err().unwrap_or_default();
        assert!(error.contains(named), "{file}: {error}");
    }
}

#[cfg(unix)]
#[test]
fn variables_that_are_no_text_stop_nothing_unless_they_are_settings() {
    use std::os::unix::ffi::OsStringExt;
    let odd = || OsString::from_vec(vec![0xff]);
    let others = [
        ("LESS".into(), odd()),
        (odd(), "text".into()),
        ("CHIPLET_LOG".into(), "warn".into()),
    ];
    let read = readable(others.into_iter()).unwrap();
    assert_eq!(read, [("CHIPLET_LOG".to_owned(), "warn".to_owned())]);
    let ours = [("CHIPLET_AUTH__API_KEY".into(), odd())];
    let error = readable(ours.into_iter()).unwrap_err().to_string();
    assert!(error.contains("CHIPLET_AUTH__API_KEY"), "{error}");
}

#[test]
fn a_key_is_not_printed_and_what_is_printed_is_no_key() {
    let (settings, _) = load("", &[("CHIPLET_AUTH__API_KEY", "hunter2")]).unwrap();
    let printed = settings.to_toml();
    let by = "api_key is set, by the variable CHIPLET_AUTH__API_KEY";
    assert!(printed.contains(by), "{printed}");
    let (again, _) = load(&printed, &[]).unwrap();
    assert!(again.auth.api_key.is_none());
    let (again, _) = load(&printed, &[("CHIPLET_AUTH__API_KEY", "hunter2")]).unwrap();
    assert_eq!(again.auth.api_key.as_ref().unwrap().reveal(), "hunter2");
    assert_eq!(again.to_toml(), printed);
    let (settings, _) = load("[auth]\napi_key = 'hunter2'", &[]).unwrap();
    assert!(settings.to_toml().contains("server.toml, and is not shown"));
    // What earlier versions printed in its place.
    let error = load("[auth]\napi_key = '(set, not shown)'", &[]).unwrap_err();
    assert!(error.contains("auth.api_key"), "{error}");
    let error = load("", &[("CHIPLET_AUTH__API_KEY", "(set, not shown)")]).unwrap_err();
    assert!(error.contains("auth.api_key"), "{error}");
}

#[test]
fn variables_that_were_meant_to_protect_are_never_ignored() {
    for name in [
        "CHIPLET_AUTH_API_KEY",
        "CHIPLET_AUTH__APIKEY",
        "chiplet_auth__api_key",
        "CHIPLET_API_KEY",
        "Chiplet_Atuh__Api_Key",
        "CHIPLET_TLS_CERTIFICATE",
        "CHIPLET_LIMITS_BATCH",
    ] {
        let error = load("", &[(name, "hunter2")]).err().unwrap_or_default();
        assert!(error.contains(name), "{name}: {error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
    // As Kubernetes sets them for a service of that name; and nobody's.
    let others = [
        ("CHIPLET_SERVICE_HOST", "10.0.0.1"),
        ("CHIPLET_PORT_6334_TCP", "tcp://10.0.0.1:6334"),
        ("chiplet_colour", "blue"),
        ("CHIPLE", "x"),
    ];
    let (_, ignored) = load("", &others).unwrap();
    assert_eq!(ignored.len(), 3, "{ignored:?}");
}

#[test]
fn a_key_is_never_shown() {
    let (settings, _) = load("", &[("CHIPLET_AUTH__API_KEY", "hunter2")]).unwrap();
    assert_eq!(settings.auth.api_key.as_ref().unwrap().reveal(), "hunter2");
    assert!(!settings.to_toml().contains("hunter2"));
    assert!(!format!("{settings:?}").contains("hunter2"));
}
