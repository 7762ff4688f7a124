//! tests
use redial::*;
#[tokio::test]
async fn spawnable() {
    let retry = Retry::new(Policy::standard());
    let r2 = retry.clone();
    let name = String::from("x");
    tokio::spawn(async move {
        let name = &name;
        r2.run(|a| async move {
            tokio::task::yield_now().await;
            let _ = (a.number(), name.len());
            Ok::<_, std::io::Error>(1)
        })
        .await
    })
    .await
    .unwrap()
    .unwrap();
    let r3 = retry.clone();
    tokio::spawn(async move {
        let mut v = vec![1];
        r3.run_with(&mut v, async |v, a| {
            tokio::task::yield_now().await;
            v.push(a.number());
            Ok::<_, std::io::Error>(v.len())
        })
        .await
    })
    .await
    .unwrap()
    .unwrap();
}
