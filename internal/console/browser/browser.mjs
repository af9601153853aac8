// Chromium, and what every page is watched for: errors, breaches of the policy, calls to anybody but the node.
import { chromium } from "playwright-core";

export const launch = () => chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });

export async function open(browser, node, { width = 1280, height = 900, theme = "light", lang = "en", at = "", context } = {}) {
  const own = context ?? (await browser.newContext({ viewport: { width, height }, colorScheme: theme, locale: lang, permissions: ["clipboard-read", "clipboard-write"] }));
  const page = await own.newPage();
  page.faults = [];
  page.calls = [];
  page.on("pageerror", (e) => page.faults.push("error: " + e.message));
  // A refusal that a test wants is logged by the browser as a failed resource: that is no fault of the page.
  page.on("console", (m) => { if (m.type() === "error" && !m.text().startsWith("Failed to load resource")) page.faults.push("console: " + m.text()); });
  page.on("dialog", (d) => { page.faults.push("dialog: " + d.message()); d.dismiss(); });
  page.on("request", (r) => {
    const url = r.url();
    page.calls.push(r.method() + " " + url.replace(node.url, ""));
    if (!url.startsWith(node.url + "/") && !url.startsWith("data:")) page.faults.push("asks elsewhere: " + url);
  });
  await page.goto(node.url + "/" + (at ? "#" + at : ""));
  return page;
}

// settled waits until the screen has been read.
export async function go(page, at) {
  await page.evaluate((place) => { location.hash = "#" + place; }, at);
  await settled(page);
}

export async function settled(page) {
  await page.waitForFunction(() => document.querySelector("main h1") && !document.querySelector("main [aria-busy=true], main .still"), null, { timeout: 15000 });
  await page.waitForTimeout(150);
}

// overflowing names what is wider than the screen and stands in no box that scrolls.
export function overflowing(page) {
  return page.evaluate(() => {
    const out = [], wide = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth > wide) out.push("the page: " + document.documentElement.scrollWidth + " > " + wide);
    for (const e of document.querySelectorAll("#app *")) {
      const box = e.getBoundingClientRect();
      if (box.right <= wide + 1 || box.width === 0) continue;
      let up = e, scrolls = false;
      while (up && up !== document.body) {
        if (/auto|scroll|hidden|clip/.test(getComputedStyle(up).overflowX)) { scrolls = true; break; }
        up = up.parentElement;
      }
      if (!scrolls && out.length < 5) out.push(e.tagName.toLowerCase() + "." + e.getAttribute("class") + " ends at " + Math.round(box.right) + ": " + e.textContent.slice(0, 40));
    }
    return out;
  });
}

// faulty runs axe and names what is serious.
export async function faulty(page, source) {
  await page.evaluate(source);
  return page.evaluate(async () => {
    const found = await window.axe.run(document, { resultTypes: ["violations"] });
    return found.violations.filter((v) => v.impact === "serious" || v.impact === "critical")
      .map((v) => v.id + " (" + v.nodes.length + "): " + v.nodes.slice(0, 3).map((n) => n.html.slice(0, 140) + " " + (n.any[0]?.message ?? n.failureSummary ?? "").slice(0, 160)).join(" | "));
  });
}
