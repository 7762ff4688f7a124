//! A defect of one page leaves the others as they are.

use std::sync::Arc;

use redial_policy::file::File;
use redial_proxy::{Options, Proxy};
use redial_web::App;

use crate::page::Page;

#[test]
fn a_request_that_panics_is_answered_and_the_server_lives_on() {
    // The program around the sidecar renders its metrics.
    let broken: Arc<redial_proxy::RenderMetrics> = Arc::new(|| panic!("a defect for the test"));
    let options = Options { metrics: Some(broken), ..Options::default() };
    let proxy = Proxy::start_with(&File::default(), options).unwrap();
    let page = Page::new(App { proxy: Some(proxy.admin_pages()), ..App::default() });
    for _ in 0..3 {
        let failed = page.get("/metrics");
        assert_eq!(failed.status, 500, "{}", failed.body);
        assert!(failed.body.contains("this is a bug"), "{}", failed.body);
        assert_eq!(failed.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(page.get("/api/hello").status, 200);
        assert_eq!(page.get("/budgets").status, 200);
    }
    proxy.drain();
}
