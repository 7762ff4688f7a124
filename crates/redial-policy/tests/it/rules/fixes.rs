//! Following the help of a finding removes it, and leaves a valid policy.

use redial_core::admit::budget::{Budget, TokenBudget};
use redial_core::{Policy, Preset, Span, TimeLimit};
use redial_policy::file::File;
use redial_policy::rules::review;
use redial_policy::{Inputs, SourceText};

/// The rules with findings, and their help.
fn findings(text: &str) -> Vec<(&'static str, String)> {
    let mut inputs = Inputs::new();
    let source = SourceText::new("policy.toml", text.as_bytes().to_vec()).unwrap();
    assert_eq!(inputs.add(source, None).unwrap(), 1);
    let reading = inputs.read(None);
    assert!(reading.problems.is_empty(), "{:?}\n{text}", reading.problems);
    let all = review(&reading.found).into_iter();
    all.map(|finding| (finding.rule.name, finding.help)).collect()
}

/// The policy that the finding itself says its help produces.
fn fix(rule: &str, text: &str) -> Option<Policy> {
    let mut inputs = Inputs::new();
    inputs.add(SourceText::new("policy.toml", text.as_bytes().to_vec()).unwrap(), None).unwrap();
    let mut all = review(&inputs.read(None).found).into_iter();
    all.find(|finding| finding.rule.name == rule).and_then(|finding| finding.fix.map(|it| *it))
}

/// Sets `a.b = value`. A word in place of a table is replaced by a table.
fn write(policy: &mut toml::Table, line: &str) {
    let (path, value) = line.split_once(" = ").unwrap();
    let value: toml::Table = toml::from_str(&format!("value = {value}")).unwrap();
    let (tables, last) = path.rsplit_once('.').unwrap_or(("", path));
    let mut table = policy;
    for name in tables.split('.').filter(|name| !name.is_empty()) {
        let entry = table.entry(name).or_insert_with(|| toml::Table::new().into());
        // Another budget replaces this one.
        let other = line.split(['.', ' ']).nth(1).unwrap_or_default();
        if !entry.is_table() || name == "budget" && entry.get(other).is_none() {
            *entry = toml::Table::new().into();
        }
        table = entry.as_table_mut().unwrap();
    }
    table.insert(last.to_owned(), value["value"].clone());
}

/// The policy `p` breaks this rule, and no longer does when each line of the help is written into it.
#[track_caller]
fn check(rule: &str, text: &str) {
    let before = findings(text);
    let help = before.iter().find(|(name, _)| *name == rule);
    let (_, help) = help.unwrap_or_else(|| panic!("{rule} is not among {before:?}\n{text}"));
    let mut file: toml::Table = toml::from_str(text).unwrap();
    let policy = file["policy"]["p"].as_table_mut().unwrap();
    let lines: Vec<&str> =
        help.split('`').skip(1).step_by(2).filter(|line| line.contains(" = ")).collect();
    assert!(!lines.is_empty(), "{rule}: nothing to write in {help:?}");
    for line in lines {
        if help.starts_with("remove") {
            policy.remove(line.split(" = ").next().unwrap());
        } else {
            write(policy, line);
        }
    }
    let written = toml::to_string(&file).unwrap();
    if let Some(fix) = fix(rule, text) {
        let file = File::read(&written).unwrap();
        assert_eq!(*file.policy("p").unwrap(), fix, "{rule}: {help}\n{written}");
    } else {
        let simulated =
            ["no-jitter", "no-budget", "too-many-attempts", "hint-ignored", "no-timeout"];
        assert!(!simulated.contains(&rule), "{rule}: without the policy that the help produces");
    }
    let after = findings(&written);
    let new = after.iter().filter(|(name, _)| before.iter().all(|(known, _)| known != name));
    let new: Vec<_> = new.collect();
    assert!(after.iter().all(|(name, _)| *name != rule), "{rule}: {help}\n{file}");
    assert!(new.is_empty(), "{rule}: {help} causes {new:?}\n{file}");
}

#[test]
fn fixes_of_hedges_pass_the_check() {
    check("hedge-never-fires", "[policy.p]\nattempt_timeout = '1s'\nhedge = { after = '2s' }");
    check("hedge-never-fires", "[policy.p]\nhedge = { after = '1s', multiple = 30 }");
    check("hedge-never-fires", "[policy.p]\nattempts = 1\nhedge = { quantile = 0.9 }");
    check(
        "hedge-never-fires",
        "[policy.p]\nattempt_timeout = '1s'\ndeadline = 'none'\nhedge = { share = 0.5 }",
    );
    check("hedge-too-early", "[policy.p]\nhedge = { quantile = 0.4 }");
}

#[test]
fn a_fix_of_one_field_passes_the_check() {
    for jitter in ["jitter = 'none'", "base = '1s', cap = '1s', jitter = 'none'"] {
        check("no-jitter", &format!("[policy.p]\nbackoff = {{ {jitter} }}"));
    }
    check("partial-jitter", "[setting]\nclients = 500\n[policy.p]\nbackoff.jitter = 'equal'");
    for attempts in [6, 11, 1000, 1_000_000] {
        check("too-many-attempts", &format!("[policy.p]\nattempts = {attempts}"));
    }
    check("hint-ignored", "[policy.p]\nhint = 'ignore'");
    check(
        "hint-uncapped",
        "[policy.p]\nattempt_timeout = '1s'\ndeadline = 'none'\nhint.honour.cap = '1h'",
    );
    check("no-timeout", "[policy.p]\ndeadline = 'none'");
    check("no-budget", "[policy.p]\nbudget = 'none'");
    check(
        "breaker-window-too-short",
        "[policy.p]\nattempt_timeout = '2s'\nbreaker.lookback.time = '3s'",
    );
}

/// A base above the cap is invalid.
#[test]
fn fixes_of_waits_pass_the_check() {
    let waits = |base: &str, cap: &str| {
        format!(
            "[policy.p]\ndeadline = 'none'\nattempt_timeout = '1s'\nbackoff = {{ base = '{base}', cap = '{cap}' }}"
        )
    };
    for base in ["1ms", "20s", "30s", "60s", "2m", "1h"] {
        check("delay-uncapped", &waits(base, "2h"));
    }
    for (base, cap) in [("100us", "1s"), ("100us", "5ms"), ("100us", "900us"), ("1us", "1us")] {
        check("base-below-timer", &waits(base, cap));
    }
    check(
        "delays-do-not-fit",
        "[policy.p]\ndeadline = '3s'\nbackoff = { base = '1s', cap = '60s' }",
    );
}

/// An attempt timeout above the deadline is invalid.
#[test]
fn fixes_of_timeouts_pass_the_check() {
    for timeouts in [
        "attempt_timeout = '150ms'\ndeadline = '2s'",
        "attempt_timeout = '10s'\ndeadline = '60s'",
        "attempt_timeout = '666ms'\ndeadline = '60s'",
        "attempt_timeout = '5s'\nconnect_timeout = '1s'\ndeadline = '60s'",
        "attempt_timeout = '5s'\ndeadline = '60s'\nbackoff = { base = '2s', cap = '4s' }",
        "connect_timeout = '1s'\ndeadline = '60s'",
        "deadline = 'none'",
    ] {
        check("slower-than-slo", &format!("[setting]\nslo = '2s'\n[policy.p]\n{timeouts}"));
    }
    for connect in ["", "connect_timeout = '1s'", "connect_timeout = '100ms'"] {
        let text = format!(
            "[policy.p]\nhedge = 'none'\nattempt_timeout = '2s'\ndeadline = '2s'\n{connect}"
        );
        check("attempt-timeout-not-below-deadline", &text);
    }
}

/// With the policy that the help produces, the last attempt starts before the deadline: all attempts hang, and each wait is
/// the mean of its range.
#[test]
fn all_attempts_start_when_attempts_hang() {
    let policies = [
        ("attempts-do-not-fit", "attempts = 3\nattempt_timeout = '2s'\ndeadline = '3s'"),
        ("attempts-do-not-fit", "attempts = 5\nattempt_timeout = '4s'\ndeadline = '10s'"),
        ("attempts-do-not-fit", "attempts = 5\nattempt_timeout = '900ms'\ndeadline = '1s'"),
        ("attempt-timeout-not-below-deadline", "attempt_timeout = '2s'\ndeadline = '2s'"),
        ("attempt-timeout-not-below-deadline", "attempt_timeout = '300ms'\ndeadline = '300ms'"),
        ("slower-than-slo", "attempt_timeout = '3s'\ndeadline = '15s'"),
    ];
    let waits = [
        "{ base = '100ms', cap = '2s' }",
        "{ base = '1s', cap = '2s' }",
        "{ base = '400ms', cap = '2s', jitter = 'none' }",
        "{ base = '200ms', cap = '2s', jitter = 'equal' }",
        "{ base = '100ms', cap = '2s', jitter = 'decorrelated' }",
    ];
    for ((rule, policy), backoff) in policies.iter().flat_map(|it| waits.map(|wait| (it, wait))) {
        let text = format!(
            "[setting]\nslo = '6s'\n[policy.p]\nhedge = 'none'\n{policy}\nbackoff = {backoff}"
        );
        let fixed = fix(rule, &text).unwrap_or_else(|| panic!("{rule}: no fix of\n{text}"));
        let (mut start, mut wait) = (Span::ZERO, Span::ZERO);
        for k in 1..fixed.attempts() {
            let range = fixed.backoff().range(k, wait);
            wait = ((range.lo + range.hi) / 2).min(fixed.backoff().cap);
            start += fixed.attempt_timeout_limit().cap(Span::MAX) + wait;
        }
        let deadline = fixed.deadline_limit();
        assert!(
            fixed.attempts() >= 2 && TimeLimit::from(start) < deadline,
            "{rule}: {start} ≥ {deadline}\n{text}"
        );
    }
}

#[test]
fn fixes_of_budgets_pass_the_check() {
    for capacity in [1999, 1000, 150, 10, 1] {
        let setting = format!("[setting]\nclients = 200\ncapacity = '{capacity}/s'\n");
        for budget in ["window.ratio = 0.1", "tokens.floor = '2/s'"] {
            check("floor-exceeds-share", &format!("{setting}[policy.p]\nbudget.{budget}"));
        }
    }
    for target in [1.5, 1.337, 1.1, 1.011, 1.001] {
        for fleet in ["", "clients = 10\ncalls = '1000/s'\n", "clients = 1000\ncalls = '1000/s'\n"]
        {
            for budget in ["budget = 'none'", "budget.window.ratio = 1.0"] {
                let setting = format!("[setting]\nmultiplier = {target}\n{fleet}");
                check("multiplier-above-target", &format!("{setting}[policy.p]\n{budget}"));
            }
        }
    }
}

#[test]
fn fixes_of_cut_attempts_pass_the_check() {
    let text = "[policy.p]\nattempt_timeout = '1s'\nbudget.window.ratio = 0.2";
    check("timeouts-retried", text);
    let help = findings(text).remove(0).1;
    let (budget, _) = help.strip_prefix("write `").unwrap().split_once('`').unwrap();
    let file = File::read(budget).unwrap();
    assert_eq!(file.policies[0].policy.budget(), &Budget::Tokens(TokenBudget::earned()));
}

#[test]
fn presets_have_no_findings() {
    for preset in Preset::ALL {
        let text = format!("[setting]\nclients = 1000\n[policy.p]\nextends = '{}'", preset.name());
        let mut findings = findings(&text);
        // One stays as it was released, and the text that the other comes from has no attempt timeout.
        let is_known = matches!(preset, Preset::Standard01 | Preset::PaymentProcessor);
        let known = "attempt-timeout-not-below-deadline";
        findings.retain(|(rule, _)| !is_known || *rule != known);
        assert_eq!(findings, []);
    }
}

/// A config of another system, with the value of the help in place of `HERE`.
#[track_caller]
fn check_format(name: &str, rule: &str, text: &str, without: &str, with: &str) {
    let findings = |text: &str| {
        let mut inputs = Inputs::new();
        let source = SourceText::new(name, text.as_bytes().to_vec()).unwrap();
        assert!(inputs.add(source, None).unwrap() > 0);
        let reading = inputs.read(None);
        assert!(reading.problems.is_empty(), "{:?}\n{text}", reading.problems);
        review(&reading.found)
    };
    let before = findings(&text.replace("HERE", without));
    let help = before.iter().find(|finding| finding.rule.name == rule);
    let help = help.unwrap_or_else(|| panic!("no {rule} in {before:?}")).help.as_str();
    let (_, value) = help.split_once(" to ").unwrap_or_else(|| panic!("{help}"));
    let value = value.split([',', ';']).next().filter(|_| !value.starts_with('`')).unwrap_or(value);
    let value = value.strip_prefix('`').and_then(|it| it.split('`').next()).unwrap_or(value);
    let after = findings(&text.replace("HERE", &with.replace("VALUE", value)));
    let left: Vec<_> = after.iter().filter(|finding| finding.rule.name == rule).collect();
    assert!(left.is_empty(), "{help}\n{left:?}");
}

#[test]
fn fixes_in_other_formats_pass_the_check() {
    let grpc = r#"{"methodConfig": [{"name": [{}], HERE "retryPolicy": {"maxAttempts": 3, "initialBackoff": "0.1s",
        "maxBackoff": "1s", "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]}}]}"#;
    check_format("s.json", "no-timeout", grpc, "", r#""timeout": "VALUE","#);
    let throttled = grpc.replace("HERE", "").replace("]}}]}", "]}}] HERE}");
    check_format("s.json", "no-budget", &throttled, "", r#", "retryThrottling": VALUE"#);

    let envoy = "route_config:\n  virtual_hosts:\n  - name: v\n    domains: ['*']\n    routes:\n    - match: {prefix: /}\n      \
                 route: {cluster: c, retry_policy: {retry_on: 'connect-failure,retriable-status-codes', \
                 retriable_status_codes: [503], num_retries: 3, HERE}}\n"; // tidy-allow: the name in Envoy's API
    check_format("e.yaml", "hint-ignored", envoy, "", "rate_limited_retry_back_off: VALUE");
    let waits = "retry_back_off: {base_interval: 30s, max_interval: HERE}";
    let waits = envoy.replace("HERE", waits);
    check_format("e.yaml", "delay-uncapped", &waits, "300s", "VALUE");

    let istio = "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: a}\nspec:\n  hosts: [a]\n  http:\n  \
                 - route: [{destination: {host: a}}]\n    retries: {attempts: 2HERE}\n";
    check_format("i.yaml", "no-timeout", istio, "", ", perTryTimeout: VALUE");
    let rule = "---\napiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: a}\nspec: {host: a, \
                trafficPolicy: {HERE}}\n";
    let both = istio.replace("HERE", "") + rule;
    check_format("i.yaml", "no-budget", &both, "", "retryBudget: VALUE");

    let dotnet = r#"{"Resilience": {"Retry": {"MaxRetryAttempts": 3, "Delay": "HERE", "MaxDelay": "01:00:00"},
        "TotalRequestTimeout": {"Timeout": "02:00:00"}}}"#;
    check_format("appsettings.json", "base-below-timer", dotnet, "00:00:00.0005", "VALUE");
}
