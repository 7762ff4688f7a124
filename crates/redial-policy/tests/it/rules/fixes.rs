//! Whoever does what the help says hears no more of it, and still has a policy.

use redial_core::Preset;
use redial_policy::rules::review;
use redial_policy::{Pile, Source};

/// The rules that have something to say, with their help.
fn said(text: &str) -> Vec<(&'static str, String)> {
    let mut pile = Pile::new();
    let source = Source::new("policy.toml", text.as_bytes().to_vec()).unwrap();
    assert_eq!(pile.add(source, None).unwrap(), 1);
    let reading = pile.read(None);
    assert!(reading.problems.is_empty(), "{:?}\n{text}", reading.problems);
    let findings = review(&reading.found).into_iter();
    findings.map(|finding| (finding.rule.name, finding.help)).collect()
}

/// Puts `a.b = value` where it belongs: a word that stood for the whole table makes room for it.
fn write(policy: &mut toml::Table, line: &str) {
    let (path, value) = line.split_once(" = ").unwrap();
    let value: toml::Table = toml::from_str(&format!("value = {value}")).unwrap();
    let (tables, last) = path.rsplit_once('.').unwrap_or(("", path));
    let mut table = policy;
    for name in tables.split('.').filter(|name| !name.is_empty()) {
        let entry = table.entry(name).or_insert_with(|| toml::Table::new().into());
        if !entry.is_table() || name == "budget" && entry.get("window").is_none() {
            *entry = toml::Table::new().into();
        }
        table = entry.as_table_mut().unwrap();
    }
    table.insert(last.to_owned(), value["value"].clone());
}

/// The policy `p` breaks this rule, and no more when each line of the help is written into it.
#[track_caller]
fn mends(rule: &str, text: &str) {
    let before = said(text);
    let help = before.iter().find(|(name, _)| *name == rule);
    let (_, help) = help.unwrap_or_else(|| panic!("{rule} is not among {before:?}\n{text}"));
    let mut file: toml::Table = toml::from_str(text).unwrap();
    let policy = file["policy"]["p"].as_table_mut().unwrap();
    let lines: Vec<&str> =
        help.split('`').skip(1).step_by(2).filter(|line| line.contains(" = ")).collect();
    assert!(!lines.is_empty(), "{rule}: nothing to write in {help:?}");
    lines.iter().for_each(|line| write(policy, line));
    let after = said(&toml::to_string(&file).unwrap());
    let new = after.iter().filter(|(name, _)| before.iter().all(|(known, _)| known != name));
    let new: Vec<_> = new.collect();
    assert!(after.iter().all(|(name, _)| *name != rule), "{rule}: {help}\n{file}");
    assert!(new.is_empty(), "{rule}: {help} brings {new:?}\n{file}");
}

#[test]
fn one_field() {
    for jitter in ["jitter = 'none'", "base = '1s', cap = '1s', jitter = 'none'"] {
        mends("no-jitter", &format!("[policy.p]\nbackoff = {{ {jitter} }}"));
    }
    mends("partial-jitter", "[setting]\nclients = 500\n[policy.p]\nbackoff.jitter = 'equal'");
    for attempts in [6, 11, 1000, 1_000_000] {
        mends("too-many-attempts", &format!("[policy.p]\nattempts = {attempts}"));
    }
    mends("hint-ignored", "[policy.p]\nhint = 'ignore'");
    mends(
        "hint-uncapped",
        "[policy.p]\nattempt_timeout = '1s'\ndeadline = 'none'\nhint.honour.cap = '1h'",
    );
    mends("no-timeout", "[policy.p]\ndeadline = 'none'");
    mends("no-budget", "[policy.p]\nbudget = 'none'");
    mends(
        "breaker-window-too-short",
        "[policy.p]\nattempt_timeout = '2s'\nbreaker.lookback.time = '3s'",
    );
}

/// A cap below the base is refused, and so is a base above the cap.
#[test]
fn waits() {
    let waits = |base: &str, cap: &str| {
        format!(
            "[policy.p]\ndeadline = 'none'\nattempt_timeout = '1s'\nbackoff = {{ base = '{base}', cap = '{cap}' }}"
        )
    };
    for base in ["1ms", "20s", "30s", "60s", "2m", "1h"] {
        mends("delay-uncapped", &waits(base, "2h"));
    }
    for (base, cap) in [("100us", "1s"), ("100us", "5ms"), ("100us", "900us"), ("1us", "1us")] {
        mends("base-below-timer", &waits(base, cap));
    }
    mends(
        "delays-do-not-fit",
        "[policy.p]\ndeadline = '3s'\nbackoff = { base = '1s', cap = '60s' }",
    );
}

/// An attempt longer than its call is refused.
#[test]
fn timeouts() {
    for timeouts in [
        "attempt_timeout = '150ms'\ndeadline = '2s'",
        "attempt_timeout = '10s'\ndeadline = '60s'",
        "attempt_timeout = '666ms'\ndeadline = '60s'",
        "attempt_timeout = '5s'\nconnect_timeout = '1s'\ndeadline = '60s'",
        "connect_timeout = '1s'\ndeadline = '60s'",
        "deadline = 'none'",
    ] {
        mends("slower-than-slo", &format!("[setting]\nslo = '2s'\n[policy.p]\n{timeouts}"));
    }
    for connect in ["", "connect_timeout = '1s'", "connect_timeout = '100ms'"] {
        let text = format!("[policy.p]\nattempt_timeout = '2s'\ndeadline = '2s'\n{connect}");
        mends("attempt-timeout-not-below-deadline", &text);
    }
}

#[test]
fn budgets() {
    for capacity in [1999, 1000, 150, 10, 1] {
        let setting = format!("[setting]\nclients = 200\ncapacity = '{capacity}/s'\n");
        mends("floor-exceeds-share", &format!("{setting}[policy.p]\nbudget.window.ratio = 0.1"));
    }
    for target in [1.5, 1.337, 1.1, 1.011, 1.001] {
        for around in ["", "clients = 10\ncalls = '1000/s'\n", "clients = 1000\ncalls = '1000/s'\n"]
        {
            for budget in ["budget = 'none'", "budget.window.ratio = 1.0"] {
                let setting = format!("[setting]\nmultiplier = {target}\n{around}");
                mends("multiplier-above-target", &format!("{setting}[policy.p]\n{budget}"));
            }
        }
    }
}

#[test]
fn presets_need_no_help() {
    for preset in Preset::ALL {
        let text = format!("[setting]\nclients = 1000\n[policy.p]\nextends = '{}'", preset.name());
        assert_eq!(said(&text), []);
    }
}

/// A config of another system, with what the help writes in the place of `HERE`.
#[track_caller]
fn theirs(name: &str, rule: &str, text: &str, without: &str, with: &str) {
    let said = |text: &str| {
        let mut pile = Pile::new();
        let source = Source::new(name, text.as_bytes().to_vec()).unwrap();
        assert!(pile.add(source, None).unwrap() > 0);
        let reading = pile.read(None);
        assert!(reading.problems.is_empty(), "{:?}\n{text}", reading.problems);
        review(&reading.found)
    };
    let before = said(&text.replace("HERE", without));
    let help = before.iter().find(|finding| finding.rule.name == rule);
    let help = help.unwrap_or_else(|| panic!("no {rule} in {before:?}")).help.as_str();
    let (_, value) = help.split_once(" to ").unwrap_or_else(|| panic!("{help}"));
    let value = value.split([',', ';']).next().filter(|_| !value.starts_with('`')).unwrap_or(value);
    let value = value.strip_prefix('`').and_then(|it| it.split('`').next()).unwrap_or(value);
    let after = said(&text.replace("HERE", &with.replace("VALUE", value)));
    let still: Vec<_> = after.iter().filter(|finding| finding.rule.name == rule).collect();
    assert!(still.is_empty(), "{help}\n{still:?}");
}

#[test]
fn in_the_words_of_others() {
    let grpc = r#"{"methodConfig": [{"name": [{}], HERE "retryPolicy": {"maxAttempts": 3, "initialBackoff": "0.1s",
        "maxBackoff": "1s", "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]}}]}"#;
    theirs("s.json", "no-timeout", grpc, "", r#""timeout": "VALUE","#);
    let throttled = grpc.replace("HERE", "").replace("]}}]}", "]}}] HERE}");
    theirs("s.json", "no-budget", &throttled, "", r#", "retryThrottling": VALUE"#);

    let envoy = "route_config:\n  virtual_hosts:\n  - name: v\n    domains: ['*']\n    routes:\n    - match: {prefix: /}\n      \
                 route: {cluster: c, retry_policy: {retry_on: 'connect-failure,retriable-status-codes', \
                 retriable_status_codes: [503], num_retries: 3, HERE}}\n"; // tidy-allow: the name in Envoy's API
    theirs("e.yaml", "hint-ignored", envoy, "", "rate_limited_retry_back_off: VALUE");
    let waits = "retry_back_off: {base_interval: 30s, max_interval: HERE}";
    let waits = envoy.replace("HERE", waits);
    theirs("e.yaml", "delay-uncapped", &waits, "300s", "VALUE");

    let istio = "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: a}\nspec:\n  hosts: [a]\n  http:\n  \
                 - route: [{destination: {host: a}}]\n    retries: {attempts: 2HERE}\n";
    theirs("i.yaml", "no-timeout", istio, "", ", perTryTimeout: VALUE");
    let rule = "---\napiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: a}\nspec: {host: a, \
                trafficPolicy: {HERE}}\n";
    let both = istio.replace("HERE", "") + rule;
    theirs("i.yaml", "no-budget", &both, "", "retryBudget: VALUE");

    let dotnet = r#"{"Resilience": {"Retry": {"MaxRetryAttempts": 3, "Delay": "HERE", "MaxDelay": "01:00:00"},
        "TotalRequestTimeout": {"Timeout": "02:00:00"}}}"#;
    theirs("appsettings.json", "base-below-timer", dotnet, "00:00:00.0005", "VALUE");
}
