use std::time::Duration;

use proptest::prelude::*;
use redial_core::admit::budget::{Budget, TokenBudget, WindowBudget};
use redial_core::admit::{ParkRule, StallRule};
use redial_core::fleet::SecretSource;
use redial_core::schedule::{HedgeRule, HintRule, Jitter};
use redial_core::{Policy, Preset, Span};
use redial_policy::file::File;
use redial_policy::{Format, Found, Inputs, Language, SourceText};

use crate::policies::{files, policies, with_fleets};

/// The last policy of a file.
fn last(text: &str) -> Policy {
    let file = File::read(text).unwrap_or_else(|problem| panic!("{problem}\n{text}"));
    file.policies.last().unwrap().policy.clone()
}

proptest! {
    #[test]
    fn printed_files_are_read_back(file in files()) {
        let text = file.to_toml();
        prop_assert_eq!(File::read(&text).expect(&text), file, "{}", text);
    }

    #[test]
    fn an_empty_policy_equals_the_one_it_extends(policy in policies()) {
        let mut file = File::read("[policy.a]").unwrap();
        file.policies[0].policy = policy.clone();
        let text = with_fleets(file).to_toml() + "\n[policy.b]\nextends = \"a\"\n";
        prop_assert_eq!(last(&text), policy, "{}", text);
    }

    #[test]
    fn a_complete_policy_does_not_depend_on_what_it_extends(over in policies(), under in policies()) {
        let mut file = File::read("[policy.a]\n[policy.b]").unwrap();
        (file.policies[0].policy, file.policies[1].policy) = (under, over.clone());
        let mut file = with_fleets(file);
        file.policies.pop();
        let whole = toml::Value::try_from(&over).unwrap();
        let mut text = file.to_toml() + "\n[policy.b]\nextends = \"a\"\n";
        let optional = ["fleet", "breaker", "throttle", "rate", "concurrency", "cooldown"];
        for name in optional.iter().filter(|name| whole.get(name).is_none()) {
            text += &format!("{name} = \"none\"\n");
        }
        for (name, value) in whole.as_table().unwrap() {
            let mut value = value.clone();
            if let Some(table) = value.as_table_mut() {
                if name == "breaker" {
                    table.entry("minimum_calls").or_insert("none".into());
                }
                if let Some(tokens) = table.get_mut("tokens").and_then(toml::Value::as_table_mut) {
                    for name in ["opening", "slowdown", "floor"] {
                        tokens.entry(name).or_insert("none".into());
                    }
                    for name in ["bootstrap", "bonus"] {
                        tokens.entry(name).or_insert(0.into());
                    }
                }
                if name == "hedge" {
                    table.entry("overtaken").or_insert(false.into());
                }
                if let Some(honour) = table.get_mut("honour").and_then(toml::Value::as_table_mut) {
                    honour.entry("spread").or_insert("none".into());
                }
            }
            text += &format!("{name} = {value}\n");
        }
        prop_assert_eq!(last(&text), over, "{}", text);
    }
}

#[test]
fn presets_are_printed_without_defaults() {
    let mut file = File::read("extends = \"payment-processor\"").unwrap();
    assert_eq!(file.policies[0].name, "policy");
    file.policies[0].name = "pay".to_owned();
    assert_eq!(
        file.to_toml(),
        "[policy.pay]\n\
         deadline = \"1m\"\n\
         hedge = \"none\"\n\
         retry_on = [\"connect\", \"refused\", \"reset\", \"timeout\", 429, 500, 503]\n\
         require_key = true\n\
         backoff = { base = \"500ms\", cap = \"20s\" }\n\
         budget = { tokens = { capacity = 200, cost = 20, timeout_cost = 20, throttled_cost = 20, opening = 20, bootstrap = 40, \
         bonus = 10, slowdown = 1.5, floor = \"1/30s\" } }\n\
         breaker = {}\n"
    );
    for preset in Preset::ALL {
        assert_eq!(last(&format!("extends = \"{}\"", preset.name())), preset.into());
    }
}

#[test]
fn tables_are_inherited_field_by_field() {
    let web = Policy::from(Preset::Web);
    let policy = last("extends = 'web'\nbackoff = { base = '200ms' }");
    assert_eq!(policy.backoff().base, Span::from_millis(200));
    assert_eq!(policy.backoff().cap, web.backoff().cap);

    let chain = "[policy.c]\nextends = 'b'\nbudget.tokens.cost = 7\n\
                 [policy.b]\nextends = 'a'\nbudget.tokens.capacity = 100\n\
                 [policy.a]\nbudget = { tokens = { timeout_cost = 20 } }\nbreaker = {}\n";
    let file = File::read(chain).unwrap();
    let tokens = TokenBudget { capacity: 100, cost: 7, timeout_cost: 20, ..TokenBudget::default() };
    assert_eq!(file.policies[0].policy.budget(), &Budget::Tokens(tokens));
    assert!(file.policies[0].policy.breaker().is_some());

    let without = last(
        "[policy.a]\nbreaker = {}\nthrottle.k = 3\n[policy.b]\nextends = 'a'\nbreaker = 'none'",
    );
    assert!(without.breaker().is_none() && without.throttle().is_some());
}

#[test]
fn another_alternative_replaces_the_first_as_a_whole() {
    let other = last(
        "[policy.a]\nbudget.tokens.cost = 7\n[policy.b]\nextends = 'a'\nbudget.window.ratio = 0.2",
    );
    assert_eq!(
        other.budget(),
        &Budget::Window(WindowBudget { ratio: 0.2, ..WindowBudget::default() })
    );
    let other = last(
        "[policy.a]\nbackoff.jitter.around = 0.5\n[policy.b]\nextends = 'a'\nbackoff.jitter = 'equal'",
    );
    assert_eq!(other.backoff().jitter, Jitter::Equal);
    let other =
        last("[policy.a]\nhint = 'ignore'\n[policy.b]\nextends = 'a'\nhint = { honour = {} }");
    assert_eq!(other.hint_rule(), &HintRule::default());
}

#[test]
fn a_policy_can_have_the_name_of_the_preset_that_it_extends() {
    let file =
        File::read("[policy.web]\nextends = 'web'\nattempts = 2\n[policy.b]\nextends = 'web'")
            .unwrap();
    assert!(file.policies.iter().all(|named| named.policy.attempts() == 2));
}

#[test]
fn settings_are_inherited_too() {
    let file = File::read(
        "[setting]\nslo = '2s'\nclients = 9\n[policy.a]\nsetting = { clients = 3 }\n\
         [policy.b]\nextends = 'a'\nsetting = { queue = 'unbounded' }\n",
    )
    .unwrap();
    let b = file.policies[1].setting.within(&file.setting);
    assert_eq!((b.slo, b.clients), (Some(Span::from_secs(2)), Some(3)));
    assert_eq!(file.policies[0].setting.queue, None);
}

/// The configs in a text with this name.
fn found(name: &str, text: &str) -> Vec<Found> {
    let mut inputs = Inputs::new();
    inputs.add(SourceText::new(name, text.into()).unwrap(), None).unwrap();
    let reading = inputs.read(None);
    assert!(reading.problems.is_empty(), "{:?}", reading.problems);
    reading.found
}

#[test]
fn every_field_has_its_place() {
    let text = "[setting]\nslo = '2s'\n\n[policy.a]\nextends = 'web'\nattempts = 3\nbackoff = { base = '200ms' }\n\n\
                [policy.b]\nextends = 'a'\nbudget = 'none'\n\n[[route]]\npolicy = 'b'\nmethods = ['post']\n";
    let found = found("a.toml", text);
    let check = |which: usize, field: &str, at: &str| {
        let span = found[which].places.of(field).span;
        assert_eq!(&text[span.range()], at, "{field}");
    };
    let [a, b] = [0, 1];
    check(a, "", "a");
    check(a, "attempts", "3");
    check(a, "backoff", "backoff");
    check(a, "backoff.base", "'200ms'");
    check(a, "backoff.cap", "'web'");
    check(a, "backoff.jitter", "backoff");
    check(a, "breaker", "a");
    check(a, "setting.slo", "'2s'");
    check(b, "", "b");
    check(b, "attempts", "3");
    check(b, "budget", "'none'");
    check(b, "budget.window.floor", "'none'");
    check(b, "route[0].methods", "['post']");
    assert_eq!(found[b].routes[0].methods, ["POST"]);
    assert_eq!(found[b].setting.slo, Some(Span::from_secs(2)));
    assert!(found.iter().all(|found| found.format == Format::Redial));
}

#[test]
fn policy_files_are_toml() {
    assert_eq!(found("x.toml", "attempts = 3").len(), 1);
    assert_eq!(found("x.toml", "extends = 'standard'").len(), 1);
    assert!(found("x.toml", "extends = './base.toml'").is_empty());
    assert!(found("x.toml", "[package]\nname = 'x'").is_empty());
    assert!(found("x.yaml", "policy: {a: {attempts: 3}}").is_empty());
    assert!(found("x.json", "{\"policy\": {\"a\": {}}}").is_empty());
    let scenario = "[policy.a]\n[clients]\n[backend]";
    assert!(found("x.toml", scenario).is_empty());

    let mut inputs = Inputs::new();
    let source = SourceText::new("stdin", b"attempts = 3".into()).unwrap();
    inputs.add(source, Some(Format::Redial)).unwrap();
    assert_eq!(inputs.documents()[0].language, Language::Toml);
    assert_eq!(inputs.read(Some(Format::Redial)).found.len(), 1);
}

#[test]
fn every_field_alone_is_a_policy() {
    for field in [
        "attempts = 3",
        "attempt_timeout = '1s'",
        "connect_timeout = '1s'",
        "deadline = '1s'",
        "backoff.base = '1s'",
        "hint = 'ignore'",
        "hedge = 'none'",
        "stall = {}",
        "park = {}",
        "budget = 'none'",
        "retry_on = [503]",
        "require_key = true",
        "refuse_nested = true",
        "breaker = {}",
        "throttle = {}",
        "rate = { rate = '1/s', burst = 1 }",
        "concurrency = 3",
        "cooldown.every = '1s'",
    ] {
        assert_eq!(found("x.toml", field).len(), 1, "{field}");
    }
}

#[test]
fn the_examples_in_the_documentation_are_valid() {
    let page = include_str!("../../../../docs/policy.md");
    let blocks = page.split("```").skip(1).step_by(2);
    let blocks: Vec<_> = blocks.filter_map(|block| block.strip_prefix("toml\n")).collect();
    assert_eq!(blocks.len(), 5);
    for block in &blocks {
        assert!(File::read(block).is_ok(), "{:?}", File::read(block));
    }
    let file = File::read(blocks[2]).unwrap();
    let payments = &file.policies[1];
    assert_eq!(payments.policy.backoff().cap, Policy::from(Preset::Web).backoff().cap);
    assert!(payments.policy.breaker().is_none() && file.policies[0].policy.breaker().is_some());
    let setting = payments.setting.within(&file.setting);
    assert_eq!((setting.slo, setting.clients), (Some(Span::from_secs(5)), Some(200)));
}

#[test]
fn another_delay_replaces_an_inherited_one() {
    let base =
        "[policy.a]\nhedge = { after = '1s', most = 2 }\n[policy.b]\nextends = 'a'\nhedge = ";
    let hedge = |own: &str| last(&format!("{base}{own}")).hedge().copied();
    assert_eq!(hedge("{ quantile = 0.9 }"), Some(HedgeRule::quantile(0.9)));
    assert_eq!(hedge("{ share = 0.5 }"), Some(HedgeRule::share(0.5)));
    assert_eq!(
        hedge("{ multiple = 2 }").and_then(|rule| rule.fixed_delay()),
        Some(Span::from_secs(2))
    );
    assert_eq!(hedge("'none'"), None);
}

#[test]
fn a_part_of_the_default_hedge_and_budget_can_be_changed() {
    let rule = *Policy::standard().hedge().unwrap();
    for base in ["extends = 'standard'\n", "[policy.a]\n[policy.b]\nextends = 'a'\n"] {
        let policy = last(&format!("{base}hedge.most = 1\nbudget.tokens.bonus = 5"));
        assert_eq!(policy.hedge(), Some(&rule.at_most(1)));
        assert_eq!(policy.budget(), &Budget::Tokens(TokenBudget::earned().bonus(5)));
        let policy = last(&format!("{base}hedge.after = '1s'\nbudget.tokens.floor = 'none'"));
        assert_eq!(policy.hedge(), Some(&HedgeRule::after(Duration::from_secs(1))));
        let Budget::Tokens(tokens) = policy.budget() else { panic!("{policy:?}") };
        assert_eq!((tokens.floor, tokens.capacity), (None, 200));
    }
    // A policy that extends nothing has the bucket's own defaults, those of the AWS SDKs.
    let alone = last("budget.tokens.cost = 7");
    assert_eq!(alone.budget(), &Budget::Tokens(TokenBudget { cost: 7, ..TokenBudget::default() }));
}

#[test]
fn none_switches_off_what_is_on_by_default() {
    let off = last("extends = 'standard'\nhedge = 'none'\nstall = 'none'\npark = 'none'");
    assert_eq!((off.hedge(), off.stall(), off.park()), (None, None, None));
    assert_eq!(last("hedge = 'none'\nstall = 'none'\npark = 'none'"), off);
    let on = last(
        "[policy.a]\nextends = 'standard-0.1'\n[policy.b]\nextends = 'a'\nstall = {}\npark.most = 9",
    );
    assert_eq!((on.hedge(), on.stall()), (None, Some(&StallRule::default())));
    assert_eq!(on.park(), Some(&ParkRule::default().most(9)));
}

#[test]
fn a_fleet_has_its_ledger_in_the_file() {
    let text = "[policy.a]\nfleet = 'shop'\nbudget.window = {}\n[policy.b]\n[fleet.shop]\nredis = 'redis://h'\n\
                password = { env = 'P' }";
    let file = File::read(text).unwrap();
    let location = file.location(&file.policies[0].policy).unwrap();
    assert_eq!((location.redis.as_str(), &location.user), ("redis://h", &None));
    assert_eq!(location.password, Some(SecretSource::Env("P".to_owned())));
    assert_eq!(file.location(&file.policies[1].policy), None);
}

#[test]
fn a_floor_of_a_fleet_is_not_multiplied() {
    let text =
        "[setting]\nclients = 200\ncapacity = '1000/s'\n[policy.a]\nbudget.window.floor = '10/s'\n";
    let findings = |text: &str| {
        let mut inputs = Inputs::new();
        inputs.add(SourceText::new("a.toml", text.into()).unwrap(), None).unwrap();
        let found = inputs.read(None).found;
        let findings = redial_policy::rules::review(&found).into_iter();
        findings.map(|finding| finding.rule.name).collect::<Vec<_>>()
    };
    assert_eq!(findings(text), ["floor-exceeds-share"]);
    let shared = format!("{text}fleet = 'a'\n[fleet.a]\nredis = 'redis://h'");
    assert_eq!(findings(&shared), [""; 0]);
}
