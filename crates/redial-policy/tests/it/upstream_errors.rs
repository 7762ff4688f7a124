use redial_policy::file::File;

/// The message about an invalid file, and the text that it points at.
fn check(text: &str, message: &str, at: &str) {
    let problem = File::read(text).expect_err(text);
    assert_eq!(problem.to_string(), message, "{text}");
    let span = problem.span.map(|span| &text[span.range()]);
    assert_eq!(span.unwrap_or(""), at, "{message}");
}

#[test]
fn targets_and_listeners() {
    const TARGET: &str =
        "must be a URL such as \"https://api.example.com\" or \"unix:/run/app.sock\"";
    const ADDRESS: &str = "must be an address such as \"127.0.0.1:9001\" or \"unix:/run/app.sock\"";
    let to = |text: &str, message: &str| {
        let at = format!("'{text}'");
        check(&format!("[upstream.a]\nto = {at}"), &format!("upstream.a.to: {message}"), &at);
    };
    to("api.example.com", &format!("{TARGET}, but is \"api.example.com\""));
    to("http://", &format!("{TARGET}, but is \"http://\""));
    to("http://256.0.0.1", &format!("{TARGET}, but is \"http://256.0.0.1\""));
    to("http://[::g]", &format!("{TARGET}, but is \"http://[::g]\""));
    to("http://a:x", &format!("{TARGET}, but is \"http://a:x\""));
    to("http://a:65536", "the port must be from 1 to 65535, but is 65536");
    to("http://a:0", "the port must be from 1 to 65535, but is 0");
    to(
        "http://a/v1",
        "must be a URL without a path, but has `/v1`; the path is the one of each request",
    );
    to(
        "http://a?x",
        "must be a URL without a path, but has `?x`; the path is the one of each request",
    );
    to(
        "unix:app.sock",
        "must be the absolute path of a Unix socket, of at most 107 bytes, but is \"app.sock\"",
    );
    let listen = |text: &str, message: &str| {
        let at = format!("'{text}'");
        let file = format!("[upstream.a]\nto = 'http://a'\nlisten = {at}");
        check(&file, &format!("upstream.a.listen: {message}"), &at);
    };
    listen("9001", &format!("{ADDRESS}, but is \"9001\""));
    listen("127.0.0.1:99999", "the port must be from 0 to 65535, but is 99999");
    for host in ["", "example.com", "http://127.0.0.1"] {
        let help = "the host must be an IP address: 127.0.0.1:9001 for this machine, 0.0.0.0:9001 for every interface";
        listen(&format!("{host}:9001"), &format!("{ADDRESS}, but is \"{host}:9001\"; {help}"));
    }
}

#[test]
fn secrets_are_not_repeated() {
    for (field, message) in [
        (
            "to = 'http://u:pw@h'",
            "upstream.a.to: must be a URL without user and password; let the program send its credentials; the \
             sidecar passes headers on",
        ),
        (
            "to = 'htp://u:pw@h'",
            "upstream.a.to: must be a URL such as \"https://api.example.com\" or \"unix:/run/app.sock\"",
        ),
        (
            "to = 'http://a'\nidempotency = { store = 'redis://:pw@h' }",
            "upstream.a.idempotency.store: must be a URL without user and password; put the URL into an environment \
             variable, and write \"redis:VARIABLE\"",
        ),
        (
            "to = 'http://a'\nidempotency = { store = 'redi://:pw@h' }",
            "upstream.a.idempotency.store: must be \"memory\", \"sqlite:FILE\", \"redis://host:port/database\", or \
             \"redis:VARIABLE\" for an environment variable with the URL",
        ),
        (
            "to = 'https://a'\ntls.cert = 'a'\ntls.key = '''\n-----BEGIN pw\n'''",
            "upstream.a.tls.key: must be the path of a file (PEM)",
        ),
    ] {
        let problem = File::read(&format!("[upstream.a]\n{field}")).unwrap_err();
        assert!(problem.is_secret, "{field}");
        assert_eq!(problem.to_string(), message, "{field}");
    }
    let problem = File::read("[upstream]\nto = 'http://u:pw@h'").unwrap_err();
    assert!(problem.is_secret);
    let message = "upstream.to: must be a table; give the upstream a name: [upstream.NAME]";
    assert_eq!(problem.to_string(), message);
}

#[test]
fn names_and_references() {
    let name =
        "the name of an upstream must be a letter, followed by up to 63 letters, digits, - or _";
    for (text, message, at) in [
        (
            "[upstream.'a.b']\nto = 'http://a'",
            &*format!("{name}, but is `a.b`; its URL is in the variable NAME_URL"),
            "'a.b'",
        ),
        (
            "[upstream.a-b]\nto = 'http://a'\n[upstream.A_b]\nto = 'http://b'",
            "upstream.A_b: its URL is in A_B_URL, and so is that of `a-b`; rename one of them",
            "[upstream.A_b]",
        ),
        (
            "[policy.pay]\n[upstream.a]\nto = 'http://a'\npolicy = 'pey'",
            "upstream.a.policy: no policy `pey` in this file; did you mean `pay`?",
            "'pey'",
        ),
        (
            "[upstream.a]\nto = 'http://a'\npolicy = 'web'",
            "upstream.a.policy: no policy `web` in this file; to use the preset, add [policy.web] with extends = \"web\"",
            "'web'",
        ),
        (
            "[policy.a]\n[upstream.stripe]\nto = 'http://a'\n[[route]]\nupstream = 'strip'\npolicy = 'a'",
            "route[0].upstream: no upstream `strip` in this file; did you mean `stripe`?",
            "'strip'",
        ),
        (
            "[policy.a]\n[[route]]\nupstream = 'x'\npolicy = 'a'",
            "route[0].upstream: no upstream `x` in this file; add it: [upstream.NAME]",
            "'x'",
        ),
        (
            "[upstream.a]",
            "upstream.a: missing field `to`; write the URL that requests go to",
            "[upstream.a]",
        ),
        (
            "[upstream]",
            "upstream: must have 1 to 1000 upstreams; one starts with [upstream.NAME]",
            "[upstream]",
        ),
        ("[proxy]", "no upstream: one starts with [upstream.NAME]", ""),
        ("[upsteam.a]\n[policy.a]", "unknown field `upsteam`; did you mean `upstream`?", "upsteam"),
    ] {
        check(text, message, at);
    }
}

#[test]
fn addresses_in_use_and_loops() {
    let two = |a: &str, b: &str, message: &str| {
        let rest = format!("[upstream.b]\nto = 'http://b'\nlisten = '{b}'");
        let text = format!("[upstream.a]\nto = 'http://a'\nlisten = '{a}'\n{rest}");
        check(&text, &format!("upstream.b.listen: {message}"), &format!("'{b}'"));
    };
    two("127.0.0.1:1", "localhost:1", "127.0.0.1:1 is in use by `a`; use another address");
    two("0.0.0.0:1", "127.0.0.1:1", "127.0.0.1:1 is in use by `a`; use another address");
    two("10.0.0.1:1", "[::]:1", "[::]:1 is in use by `a`; use another address");
    two("[::]:1", "10.0.0.1:1", "10.0.0.1:1 is in use by `a`; use another address");
    two("[::]:1", "0.0.0.0:1", "0.0.0.0:1 is in use by `a`; use another address");
    two("unix:/a", "unix:/a", "unix:/a is in use by `a`; use another address");
    let admin = "in use by the admin interface; use another address, or write `admin` in [proxy]";
    two("127.0.0.1:1", "0.0.0.0:9900", &format!("0.0.0.0:9900 is {admin}"));

    let looping = |listen: &str, to: &str, target: &str| {
        let text = format!("[upstream.a]\nlisten = '{listen}'\nto = ['http://b', '{to}']");
        let message =
            format!("upstream.a.to[1]: {target} is the listener of `a`: requests would loop");
        check(
            &text,
            &format!("{message}; write the address of the server itself"),
            &format!("'{to}'"),
        );
    };
    looping("127.0.0.1:8080", "http://localhost:8080", "http://localhost:8080");
    looping("0.0.0.0:80", "http://127.0.0.1", "http://127.0.0.1");
    looping("[::1]:8080", "https://app.localhost.:8080", "https://app.localhost.:8080");
    looping("10.0.0.1:8080", "http://10.0.0.1:8080/", "http://10.0.0.1:8080");
    looping("127.0.0.1:8080", "http://0.0.0.0:8080", "http://0.0.0.0:8080");
    looping("unix:/a", "unix:/a", "unix:/a");
}

/// The message about an upstream with these lines.
fn check_upstream(lines: &str, message: &str, at: &str) {
    check(&format!("[upstream.a]\nto = 'http://a'\n{lines}"), message, at);
}

#[test]
fn fields_of_upstreams() {
    for (field, message, at) in [
        ("key = 'make'", "upstream.a: unknown field `key`; did you mean `keys`?", "key"),
        (
            "keys = 'mak'",
            "upstream.a.keys: must be \"leave\" or \"make\", but is \"mak\"; did you mean `make`?",
            "'mak'",
        ),
        ("host = 'b'", "upstream.a.host: must be \"upstream\" or \"keep\", but is \"b\"", "'b'"),
        ("trust = 'yes'", "upstream.a.trust: must be true or false, but is \"yes\"", "'yes'"),
        (
            "buffer = '64KB'",
            "upstream.a.buffer: must be a size such as \"64KiB\" or \"1MiB\", but is \"64KB\"; did you mean \"64KiB\"?",
            "'64KB'",
        ),
        (
            "buffer = 64",
            "upstream.a.buffer: must be a size such as \"64KiB\" or \"1MiB\", but is 64",
            "64",
        ),
        (
            "buffer = '2048GiB'",
            "upstream.a.buffer: must be at most 1024GiB, but is \"2048GiB\"",
            "'2048GiB'",
        ),
        (
            "buffer = '65MiB'",
            "upstream.a.buffer: larger than `replay`, which limits all buffers together; raise `replay` in [proxy], or lower `buffer`",
            "'65MiB'",
        ),
        (
            "shed = { queue = 3 }",
            "upstream.a.shed: missing field `limit`; write the most requests in progress",
            "{ queue = 3 }",
        ),
        ("shed = { limit = 0 }", "upstream.a.shed.limit: must be at least 1, but is 0", "0"),
    ] {
        check_upstream(field, message, at);
    }
}

#[test]
fn tables_of_upstreams() {
    for (field, message, at) in [
        (
            "idempotency = {}",
            "upstream.a.idempotency: missing field `store`; write \"memory\", \"sqlite:FILE\" or \"redis:VARIABLE\"",
            "{}",
        ),
        (
            "idempotency = { store = 'memory', methods = ['P T'] }",
            "upstream.a.idempotency.methods[0]: must be an HTTP method such as \"GET\", but is \"P T\"",
            "'P T'",
        ),
        (
            "idempotency = { store = 'memory', methods = [] }",
            "upstream.a.idempotency.methods: must have at least one method",
            "[]",
        ),
        (
            "health = { path = 'healthz' }",
            "upstream.a.health.path: must be a path such as \"/healthz\", but is \"healthz\"",
            "'healthz'",
        ),
        (
            "health = { path = '/', every = '1s', timeout = '2s' }",
            "upstream.a.health.timeout: must be at most `every`, the time between two checks, but is \"2s\"",
            "'2s'",
        ),
        (
            "endpoint = { concurrency = 0 }",
            "upstream.a.endpoint.concurrency: must be from 1 to 1000000, but is 0",
            "0",
        ),
        (
            "endpoint = { breaker = { probes = -1 } }",
            "upstream.a.endpoint.breaker.probes: must be from 1 to 32767, but is -1",
            "-1",
        ),
        (
            "endpoint = { attempts = 3 }",
            "upstream.a.endpoint: unknown field `attempts`; known fields: concurrency, breaker",
            "attempts",
        ),
        (
            "tls = { ca = 'ca.pem' }",
            "upstream.a.tls: no target uses TLS; write https:// in `to`; TLS towards callers is `listen_tls`",
            "{ ca = 'ca.pem' }",
        ),
        (
            "listen_tls = { cert = 'c.pem' }",
            "upstream.a.listen_tls: `cert` without `key`; name the file (PEM) of its private key",
            "{ cert = 'c.pem' }",
        ),
        (
            "listen_tls = {}",
            "upstream.a.listen_tls: missing fields `cert` and `key`; name the files (PEM) of both",
            "{}",
        ),
    ] {
        check_upstream(field, message, at);
    }
}

#[test]
fn fields_of_the_proxy() {
    for (field, message, at) in [
        (
            "[proxy]\nadmin = '0.0.0.0:9900'",
            "proxy.admin: must be on loopback, a Unix socket or \"none\", but is \"0.0.0.0:9900\"; the admin interface has no \
             authentication; write \"127.0.0.1:9900\"",
            "'0.0.0.0:9900'",
        ),
        ("[proxy]\nthreads = 0", "proxy.threads: must be at least 1, but is 0", "0"),
        ("[proxy]\nreplay = '0B'", "proxy.replay: must be above zero, but is \"0B\"", "'0B'"),
        (
            "[proxy]\ndrain = 30",
            "proxy.drain: must be a duration above zero, such as \"150ms\", but is 30",
            "30",
        ),
        (
            "[proxy]\nlog = 'xml'",
            "proxy.log: must be \"text\" or \"json\" or \"none\", but is \"xml\"",
            "'xml'",
        ),
        ("[proxy]\nthread = 2", "proxy: unknown field `thread`; did you mean `threads`?", "thread"),
    ] {
        check_upstream(field, message, at);
    }
}

#[test]
fn lists_and_names_of_targets() {
    check(
        "[upstream.a]\nto = ['http://a', 'http://A:80']",
        "upstream.a.to[1]: http://a is in the list already; remove one of them",
        "'http://A:80'",
    );
    check("[upstream.a]\nto = []", "upstream.a.to: must have 1 to 1000 URLs, but has 0", "[]");
    check(
        "[upstream.a]\nto = 'https://a'\ntls = { name = 'a b' }",
        "upstream.a.tls.name: must be the name of a host, such as \"api.internal\", but is \"a b\"",
        "'a b'",
    );
}

#[test]
fn keys_belong_to_certificates_only_where_callers_have_them() {
    let file = "[upstream.a]\nto = 'http://a'\nidempotency = { store = 'memory', scope = 'certificate' }\n";
    check(
        file,
        "upstream.a.idempotency.scope: callers of this upstream have no certificates; set client_ca in `listen_tls`, or name a \
         header",
        "'certificate'",
    );
    let tls = "listen_tls = { cert = 'a', key = 'a', client_ca = 'a' }\n";
    assert!(File::read(&format!("{file}{tls}")).is_ok());
}
