//! Most files of a repository are not about retries, although some contain the words.

use redial_core::Preset;

use crate::{Scratch, redial, text};

const ORDINARY: &[(&str, &str)] = &[
    (
        "k8s/deployment.yaml",
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, annotations: {retry: 'yes'}}\nspec:\n  template:\n    spec:\n      \
         containers:\n      - name: web\n        env: [{name: RETRIES, value: '3'}]\n        readinessProbe: {failureThreshold: 3}\n---\n\
         apiVersion: batch/v1\nkind: Job\nmetadata: {name: once}\nspec: {backoffLimit: 4}\n---\n\
         apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n  nginx.conf: |\n    proxy_next_upstream error timeout;\n",
    ),
    (
        "k8s/route.yaml",
        "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: r}\nspec:\n  rules:\n  - backendRefs: [{name: a, port: 80}]\n",
    ),
    (
        "workflows/ci.yml",
        "on: [push]\njobs:\n  test:\n    runs-on: ubuntu-latest\n    timeout-minutes: 10\n    steps:\n    - uses: nick-fields/retry@v3\n      \
         with: {max_attempts: 10, timeout_seconds: 5}\n",
    ),
    (
        "docker-compose.yml",
        "services:\n  a:\n    deploy: {restart_policy: {max_attempts: 3, delay: 5s}}\n    healthcheck: {interval: 1s, retries: 5}\n",
    ),
    ("helm/values.yaml", "retries: {attempts: 3, perTryTimeout: 2s}\ntimeout: 5s\n"),
    ("helm/templates/route.yaml", "{{- if .Values.enabled }}\nkind: Service\n{{- end }}\n"),
    ("package.json", "{\"dependencies\": {\"p-retry\": \"1\"}, \"retries\": 3}"),
    ("tsconfig.json", "{\n  // comment\n  \"strict\": true,\n}\n"),
    ("Cargo.toml", "[package]\nname = \"x\"\n[dependencies]\nbackoff = \"0.4\"\n"),
    (".config/nextest.toml", "[profile.default]\nretries = { backoff = \"exponential\" }\n"),
    ("net.toml", "[net]\nretry = 3\n[http]\ntimeout = 10\n"),
    ("vet.toml", "[cargo-vet]\nversion = \"0.10\"\n[policy.serde]\naudit-as-crates-io = true\n"),
    ("task.toml", "title = \"a task\"\ndeadline = \"2026-01-01\"\nrate = 3\n"),
    ("appsettings.json", "{\"Logging\": {\"LogLevel\": {}}, \"Retry\": {\"Count\": 3}}"),
    ("application.yml", "spring:\n  retry: {max-attempts: 3}\n"),
    ("setup.ini", "[core]\nretries=3\n"),
    ("config", "[default]\nregion = eu\n"),
    ("api.json", "{\"a\": \"retrieves it\", \"a\": \"is here twice\"}"),
];

#[test]
fn other_files_are_skipped() {
    let scratch = Scratch::new("silent");
    for (name, content) in ORDINARY {
        scratch.file(name, content);
    }
    let output = redial(&["check", &scratch.path("")]);
    assert_eq!(text(&output.stderr), "");
    assert_eq!(text(&output.stdout), "no findings in 0 files; 0 policies\n");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn presets_are_clean_in_a_fleet() {
    let scratch = Scratch::new("presets");
    for preset in Preset::ALL {
        let printed = redial(&["presets", preset.name()]);
        let path = scratch.file(&format!("{}.toml", preset.name()), printed.stdout);
        let output = redial(&["check", &path, "--clients", "1000", "--deny", "note"]);
        let printed = text(&output.stdout);
        match preset {
            // One stays as it was released, and the text that the other comes from has no attempt timeout.
            Preset::Standard01 | Preset::PaymentProcessor => {
                assert!(printed.starts_with("warning[attempt-timeout-not-below-deadline]"));
                assert!(printed.ends_with("\n1 warning in 1 file; 1 policy\n"), "{printed}");
            }
            _ => assert_eq!(printed, "no findings in 1 file; 1 policy\n", "{}", preset.name()),
        }
    }
}
