use redial_policy::file::File;

#[test]
fn the_example_of_the_design() {
    let text = r#"
[policy.payments]
extends = "payment-processor"

[policy.once]
attempts = 1

[upstream.stripe]
to     = "https://api.stripe.com"
listen = "127.0.0.1:9001"
policy = "payments"
keys   = "make"

[upstream.app]
to          = ["http://127.0.0.1:8000", "http://127.0.0.1:8001"]
listen      = "0.0.0.0:8080"
policy      = "once"
shed        = { limit = 64, queue = 32 }
idempotency = { store = "sqlite:keys.db", methods = ["POST"] }
health      = { path = "/healthz", every = "5s" }
trust       = false
"#;
    let file = File::read(text).unwrap();
    println!("{file:#?}");
    println!("{}", file.to_toml());
    assert_eq!(File::read(&file.to_toml()).unwrap(), file);
}
