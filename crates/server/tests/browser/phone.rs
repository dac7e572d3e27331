//! The navigation on phones: every entry is on the screen, and no text is cut or covered.

use serde_json::json;
use testbed::browser::Chromium;

use crate::world::{OWNER, World, pipeline};

/// The links of the navigation that are not whole on the screen, or that overlap another one.
const CUT_OFF: &str = "(() => {
  const links = [...document.querySelectorAll('.top nav a')];
  const boxes = links.map((it) => it.getBoundingClientRect());
  const isOutside = (box) => box.left < 0 || box.right > document.documentElement.clientWidth || box.width < 24;
  const overlaps = (one, other) => one.left < other.right && other.left < one.right
    && one.top < other.bottom && other.top < one.bottom;
  const isCut = (it) => it.scrollWidth > it.clientWidth;
  return links.filter((it, nth) => isOutside(boxes[nth]) || isCut(it)
    || boxes.some((other, at) => at !== nth && overlaps(boxes[nth], other))).map((it) => it.textContent);
})()";

#[test]
fn every_tab_fits_on_a_phone() {
    let Some(mut browser) = Chromium::start() else {
        return;
    };
    let world = World::new();
    let mut object = pipeline("app");
    object["status"] = json!({"environments": {}});
    world.create(&object);
    world.sign_in(&mut browser, OWNER);
    world.go(&mut browser, "/pipelines");
    let count = "document.querySelectorAll('.top nav a').length";
    assert_eq!(browser.evaluate(count), 7);
    // As with many promotions that wait.
    let wait = "document.getElementById('waiting').textContent = '128'";
    for width in [320, 360, 390, 600, 760, 761, 1280] {
        browser.resize(width, 800);
        browser.evaluate(wait);
        browser.screenshot(&format!("navigation-{width}"));
        assert_eq!(browser.evaluate(CUT_OFF), json!([]), "at {width}");
        let scrolls = "document.documentElement.scrollWidth > document.documentElement.clientWidth";
        assert_eq!(browser.evaluate(scrolls), false, "at {width}");
    }
}
