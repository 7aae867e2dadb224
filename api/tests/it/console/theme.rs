//! The theme of the pages.

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::{Browser, MIGRATIONS, world};

/// The token of the session, as the forms of a page have it.
pub(super) fn form_token(page: &str) -> String {
    let form = page.split("class=\"theme\"").nth(1).unwrap();
    form.split("value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_visitor_chooses_the_theme_and_stays_on_the_page(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let api = &world.api;
    let browser = Browser::new(api, &api.viewer);
    let page = browser.open("/console/job?state=failed").await.expect(200).text;
    assert!(
        page.contains("<html lang=\"en\">")
            && page.contains("name=\"back\" value=\"/console/job?state=failed\""),
        "{page}"
    );
    assert!(
        page.contains(&format!("Longshore {}", env!("CARGO_PKG_VERSION"))) && page.contains("href=\"/docs\""),
        "{page}"
    );
    let token = form_token(&page);
    let choose = async |to: &str, back: &str| {
        browser.send_bare("/console/theme", &[("form_token", &token), ("to", to), ("back", back)]).await
    };
    let reply = choose("dark", "/console/job?state=failed").await.expect(303);
    assert_eq!(reply.header("location"), Some("/console/job?state=failed"));
    let cookie = reply.header("set-cookie").unwrap().to_owned();
    assert!(cookie.starts_with("longshore_theme=dark; Path=/console; Max-Age=31536000;"), "{cookie}");
    for (kept, theme) in
        [("dark", Some("dark")), ("light", Some("light")), ("system", None), ("\"><b>", None)]
    {
        let both = Browser { api, cookie: format!("{}; longshore_theme={kept}", browser.cookie) };
        for address in ["/console", "/console/nothing"] {
            let page = both.open(address).await.text;
            let forced = theme.map(|theme| format!("<html lang=\"en\" data-theme=\"{theme}\">"));
            assert!(page.contains(forced.as_deref().unwrap_or("<html lang=\"en\">")), "{kept}: {page}");
        }
    }
    // the choice of the system is no cookie, and another site is no page to go back to
    let reply = choose("system", "//evil.example").await.expect(303);
    assert!(reply.header("set-cookie").unwrap().contains("Max-Age=0;"));
    assert_eq!(reply.header("location"), Some("/console"));
    choose("sepia", "/console").await.expect(400);
    browser.send_bare("/console/theme", &[("to", "dark")]).await.expect(403);
    browser
        .send_from("cross-site", "/console/theme", &[("form_token", &token), ("to", "dark")])
        .await
        .expect(403);
}
