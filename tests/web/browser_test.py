"""The monitor's page in a browser: it lives, sorts, filters, recovers, is readable, and lets no name be markup.

tests/web_browser_test.sh runs it. Screenshots go to $SHOTS.
"""
import json
import os
import re
import sys
import time

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.chrome.service import Service

import made_up
import tap
from monitor import BOX, Holder, Monitor, clean, world
from tap import check, equal, note, until

WEB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "web", "page")
SHOTS = os.environ["SHOTS"]
HOSTILE = "<img src=x onerror=alert(1)>"
TOKEN = "0123456789abcdef0123456789abcdef"

# Ratio of every text on the page to what is behind it, by WCAG: those below what AA asks for.
CONTRAST = """
const probe = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
const rgba = (c) => { probe.clearRect(0, 0, 1, 1); probe.fillStyle = c; probe.fillRect(0, 0, 1, 1); return probe.getImageData(0, 0, 1, 1).data; };
const light = ([r, g, b]) => [r, g, b].map((x) => x / 255).map((x) => x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4)
    .reduce((sum, x, i) => sum + x * [0.2126, 0.7152, 0.0722][i], 0);
const behind = (e) => { for (; e; e = e.parentElement) { const c = rgba(getComputedStyle(e).backgroundColor); if (c[3] === 255) return c; } return [255, 255, 255]; };
const bad = []; let n = 0, least = 99;
const check = (e, what, colour) => {
    const style = getComputedStyle(e), size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    const [a, b] = [light(rgba(colour ?? style.color)), light(behind(e))].sort((x, y) => y - x), ratio = (a + 0.05) / (b + 0.05);
    n++; least = Math.min(least, ratio);
    if (ratio < (large ? 3 : 4.5)) bad.push(`${ratio.toFixed(2)} ${e.className || e.tagName}: ${what}`);
};
const open = document.querySelector('dialog[open]');
for (const e of (open ?? document.body).querySelectorAll('*')) {
    const text = [...e.childNodes].filter((x) => x.nodeType === 3 && x.data.trim()).map((x) => x.data.trim()).join(' ');
    if (text && e.checkVisibility({ visibilityProperty: true }) && e.tagName !== 'SCRIPT') check(e, text);
}
for (const e of document.querySelectorAll('input')) check(e, 'placeholder', getComputedStyle(e, '::placeholder').color);
return [bad, n, least];
"""


class Page:
    """A browser with the page in it."""

    def __init__(self):
        options = webdriver.ChromeOptions()
        for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-sync",
                     "--disable-background-networking", "--disable-component-update", "--disable-default-apps", "--hide-scrollbars",
                     f"--user-data-dir={BOX}/profile", "--disable-features=OptimizationHints,MediaRouter,Translate"):
            options.add_argument(word)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)
        self.driver.set_page_load_timeout(60)
        self.driver.set_script_timeout(60)

    def size(self, width, height):
        """Of the window."""
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                    {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500})

    def open(self, url, theme=None):
        """Loads it, with a theme if one is given."""
        self.driver.get(url)
        if theme:
            self.driver.find_element(By.CSS_SELECTOR, f"[data-theme-choice={theme}]").click()

    def js(self, text, *args):
        """Runs it in the page."""
        return self.driver.execute_script(text, *args)

    def text(self, selector):
        """Of the first that matches, as the page has it."""
        return self.js("return document.querySelector(arguments[0])?.textContent ?? null", selector)

    def texts(self, selector):
        """Of all that match."""
        return self.js("return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)", selector)

    def click(self, selector):
        """As a user would: it must be in sight."""
        e = self.driver.find_element(By.CSS_SELECTOR, selector)
        self.js("arguments[0].scrollIntoView({block: 'center'})", e)
        e.click()

    def shot(self, name):
        """A picture for people to look at."""
        self.driver.save_screenshot(os.path.join(SHOTS, name + ".png"))

    def column(self, n):
        """Column n of the processes."""
        return self.texts(f"#process-table tbody td:nth-child({n})")

    def complaints(self):
        """What the console says is wrong."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]

    def requests(self):
        """Addresses that the page asked for since the last time."""
        found = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                found.append(message["params"]["request"]["url"])
        return found


def live(page, m, env):
    """What a user sees while processes come and go."""
    with check("the page shows the IPUs of the partition, idle, and that it is live"):
        until(lambda: len(page.texts(".ipu")) == 4)
        equal(page.texts(".ipu .word"), ["idle"] * 4)
        equal(page.texts(".ipu-who"), ["nobody"] * 4)
        until(lambda: page.text("#link-text") == "Live, every 0.2 s")
        equal(page.texts("#totals dd:not(.more)"), ["4", "0", "4", "0", "0", "0"])
        assert page.driver.title.startswith("0/4 in use · OpenIPU monitor"), page.driver.title
        equal(page.text("#process-empty"), "No process is attached.")
    worker = Holder(env, "0", program="busy")
    with check("a process that attaches gets a row, and its IPU is busy"):
        until(lambda: page.column(1) == [str(worker.pid)])
        until(lambda: page.texts(".ipu .word") == ["busy", "idle", "idle", "idle"])
        equal(page.column(3), ["busy"])
    with check("numbers change by themselves"):
        first = page.column(10)
        until(lambda: page.column(10) != first)
        until(lambda: re.fullmatch(r"[1-9]\d(\.\d)? %", page.text(".ipu-share")))
    with check("the chart is drawn"):
        lines = "return [...document.querySelectorAll('.ipu .chart-line')].map((e) => e.getAttribute('d'))"
        until(lambda: re.fullmatch(r"M[\d.]+,[\d.]+(L[\d.]+,[\d.]+|h1)+", page.js(lines)[0]))
        equal(page.js(lines)[1:], [""] * 3)
    hostile = Holder(env, "2", name=HOSTILE)
    holder = Holder(env, "3")
    with check("a name that is markup is shown as text, and runs nothing"):
        until(lambda: len(page.column(1)) == 3)
        name = page.column(3)[1]
        assert name.startswith("<img src=x"), name
        assert any(name in who for who in page.texts(".ipu-who"))
        equal(page.js("return document.querySelectorAll('img').length"), 1)
        equal(page.js("return document.querySelectorAll('[onerror], [onclick], [onload], script:not([src])').length"), 0)
    with check("one that is attached and does nothing is held, one that works is busy"):
        equal(page.texts(".ipu .word"), ["busy", "idle", "held", "held"])
    return worker, hostile, holder


def tables(page, holders):
    """Sorting and filtering."""
    pids = [h.pid for h in holders]
    with check("a click on a heading sorts, another turns it round, and it says so"):
        equal(page.js("return document.querySelector('th[aria-sort=ascending]').textContent"), "IPUs")
        page.click("#process-table th:nth-child(1) button")
        equal(page.column(1), [str(p) for p in sorted(pids)])
        page.click("#process-table th:nth-child(1) button")
        equal(page.column(1), [str(p) for p in sorted(pids, reverse=True)])
        equal(page.js("return document.querySelector('#process-table th').ariaSort"), "descending")
        page.click("#process-table th:nth-child(7) button")
        equal(page.column(3)[0], "busy")
        page.click("#process-table th:nth-child(6) button")
        equal(page.column(1)[-1], str(holders[2].pid))
    with check("what is not measured comes last either way"):
        page.js("window.rows = [...document.querySelectorAll('#process-table tbody tr')]")
        for _ in range(2):
            page.click("#process-table th:nth-child(12) button")
            equal(page.column(12), ["–"] * 3)
    with check("rows stay the same elements from look to look"):
        page.click("#process-table th:nth-child(5) button")
        assert page.js("return window.rows.every((r) => r.isConnected)")
    with check("the filter shows the rows that have all its words"):
        box = page.driver.find_element(By.ID, "filter")
        box.send_keys("BUSY default")
        equal((page.column(3), page.text("#process-count")), (["busy"], "1 of 3"))
        box.clear()
        box.send_keys("nobody-has-this")
        equal((page.column(3), page.text("#process-empty")), ([], "No process matches the filter."))
        box.send_keys(Keys.CONTROL, "a")
        box.send_keys(Keys.DELETE)
        equal(len(page.column(3)), 3)


def keyboard(page, holders):
    """Without a mouse."""
    focused = "return document.activeElement.textContent"
    with check("arrow keys go from IPU to IPU, Enter opens one, Escape closes it"):
        page.js("document.querySelector('.ipu[tabindex=\"0\"]').focus()")
        keys = page.driver.switch_to.active_element
        keys.send_keys(Keys.ARROW_RIGHT)
        page.driver.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
        assert page.js(focused).startswith("IPU 2"), page.js(focused)
        page.driver.switch_to.active_element.send_keys(Keys.END)
        assert page.js(focused).startswith("IPU 3"), page.js(focused)
        page.driver.switch_to.active_element.send_keys(Keys.HOME)
        equal(page.js("return document.querySelectorAll('.ipu[tabindex=\"0\"]').length"), 1)
        page.driver.switch_to.active_element.send_keys(Keys.ENTER)
        equal(page.text("dialog[open] h2"), "IPU 0 of default")
        facts = dict(zip(page.texts("#detail-facts dt"), page.texts("#detail-facts dd")))
        equal(facts["Process"], f"busy (pid {holders[0].pid})")
        page.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
        equal(page.text("dialog[open]"), None)
        assert page.js(focused).startswith("IPU 0"), "the focus is lost"
    with check("every control is reached by Tab, and has a name"):
        page.js("document.activeElement.blur(); window.scrollTo(0, 0)")
        names = []
        for _ in range(60):
            page.driver.switch_to.active_element.send_keys(Keys.TAB)
            names.append(page.js("const e = document.activeElement; return (e.ariaLabel ?? e.labels?.[0]?.textContent ?? e.textContent).trim()"))
        for name in ("Skip to processes", "Pause", "System", "Light", "Dark", "Filter processes", "Table of processes", "PID", "Metrics"):
            assert name in names, (name, names)
        assert all(names), names


def pause(page, holders):
    """The page stands still, and catches up."""
    with check("paused, the page stands still; resumed, it shows what is"):
        page.click("#pause")
        equal((page.text("#pause"), page.text("#link-text")), ("Resume", "Paused"))
        before = page.column(10)
        holders[2].end()
        time.sleep(1)
        equal(page.column(10), before)
        page.click("#pause")
        until(lambda: len(page.column(1)) == 2)
        equal(page.text("#pause"), "Pause")


def themes(page, m):
    """Light, dark, and what the system says."""
    background = "return getComputedStyle(document.body).backgroundColor"
    media = lambda scheme: page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
    media("light")
    with check("a theme that is chosen stays so over a reload"):
        page.click("[data-theme-choice=light]")
        light = page.js(background)
        page.click("[data-theme-choice=dark]")
        dark = page.js(background)
        assert light != dark, (light, dark)
        page.driver.refresh()
        equal(page.js(background), dark)
        equal(page.js("return document.querySelector('.theme [aria-pressed=true]').textContent"), "Dark")
    with check("otherwise it is the system's"):
        page.click("[data-theme-choice=system]")
        equal(page.js(background), light)
        media("dark")
        equal(page.js(background), dark)
        media("light")
    until(lambda: len(page.texts(".ipu")) == 4)


def alerts(page, env):
    """One that fires."""
    with check("an alert that fires is on top, in words, and in the title"):
        equal(page.texts(".alert-state"), ["✓ ok"] * 2)
        holder = Holder(env, "3")
        until(lambda: page.texts(".alert-state") == ["▲ firing", "✓ ok"])
        equal(page.texts(".alert-rule"), ["free<2", "errors>0"])
        assert "default" in page.text(".alert-subject"), page.text(".alert-subject")
        until(lambda: page.driver.title.startswith("▲ 1 alert · "))
        page.shot("real-alert")
        holder.end()
        until(lambda: page.texts(".alert-state") == ["✓ ok"] * 2)


def restart(page, m, env):
    """The monitor goes away and comes back."""
    with check("no complaints in the console so far"):
        equal(page.complaints(), [])
    with check("nothing was asked of anybody but the monitor"):
        urls = page.requests()
        assert len(urls) > 10 and all(u.startswith((m.url, "data:", "about:", "chrome:")) for u in urls), urls
    equal(m.stop(), 143)
    with check("when the monitor is gone the page says so, and keeps what it saw"):
        until(lambda: "does not answer" in (page.text("#banner") or ""))
        equal(page.text("#link-text"), "Reconnecting")
        assert page.driver.title.startswith("⚠ no connection"), page.driver.title
        equal(len(page.texts(".ipu")), 4)
        page.shot("real-lost")
    m = Monitor(env, "--interval", "0.2", listen=f"127.0.0.1:{m.port}")
    with check("when it is back the page goes on by itself"):
        until(lambda: page.text("#link-text").startswith("Live"), 40)
        equal(page.js("return document.getElementById('banner').hidden"), True)
        assert page.js("return document.querySelectorAll('.alert-state').length") == 0
    equal(m.stop(), 143)
    m = Monitor({**env, "IPU_MONITOR_TOKEN": TOKEN}, "--interval", "0.2", listen=f"127.0.0.1:{m.port}")
    with check("when it then wants a token, the page says what to do"):
        until(lambda: "refuses" in (page.text("#banner") or ""), 40)
        equal(page.text("#link-text"), "Refused")
    with check("with the token in the address the page works, and the token is out of sight"):
        page.open(f"{m.url}?token={TOKEN}")
        until(lambda: (page.text("#link-text") or "").startswith("Live"))
        equal(page.driver.current_url, m.url)
        assert TOKEN not in page.js("return document.cookie + document.documentElement.outerHTML")
    equal(m.stop(), 143)


def readable(page, name):
    """Contrast of what is on the page."""
    bad, n, least = page.js(CONTRAST)
    assert n > 30, n
    equal(bad, [], name)
    return least


def looks(page):
    """Made-up IPUs: sizes, themes, all states."""
    least = 99
    for n in (1, 4, 64, 256):
        server, url = made_up.serve(n)
        for width, height in ((1600, 1000), (360, 760)):
            theme = "dark" if (n in (4, 256)) == (width == 1600) else "light"
            with check(f"{n} IPUs at {width} pixels, {theme}: nothing sticks out, everything is readable"):
                page.size(width, height)
                page.open(url, theme)
                until(lambda: len(page.texts(".ipu")) == n)
                page.shot(f"made-up-{n}-{theme}-{width}")
                equal(page.js("return document.documentElement.scrollWidth"), width)
                cut = page.js("""return [...document.querySelectorAll('.ipu-head, .totals > div, .button, .theme button')]
                    .filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => e.textContent)""")
                equal(cut, [])
                least = min(least, readable(page, theme))
        if n == 4:
            for theme in ("light", "dark"):
                with check(f"the details of an IPU are readable, {theme}"):
                    page.size(1200, 900)
                    page.open(url, theme)
                    until(lambda: len(page.texts(".ipu")) == n)
                    page.click(".ipu")
                    equal(page.text("dialog[open] h2"), "IPU 0 of p1")
                    least = min(least, readable(page, theme))
                    page.shot(f"made-up-detail-{theme}")
        if n == 256:
            cost(page, url, n)
        server.shutdown()
    note(f"least contrast of a text: {least:.2f}")


def cost(page, url, n):
    """What the page costs while nobody touches it."""
    def figures():
        return {x["name"]: x["value"] for x in page.driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]}
    with check(f"{n} IPUs: the page costs little"):
        page.size(1600, 1000)
        page.open(url)
        until(lambda: len(page.texts(".ipu")) == n)
        page.driver.execute_cdp_cmd("Performance.enable", {})
        time.sleep(1)
        before, begin = figures(), time.monotonic()
        time.sleep(4)
        after, seconds = figures(), time.monotonic() - begin
        share = (after["TaskDuration"] - before["TaskDuration"]) / seconds
        nodes = page.js("return document.querySelectorAll('*').length")
        note(f"{n} IPUs: {100 * share:.1f} % of a processor, {nodes} elements, {after['JSHeapUsedSize'] / 1e6:.1f} MB of JavaScript")
        assert share < 0.5 and nodes < 10000, (share, nodes)
        equal(before["Nodes"] > 0, True)


def sources():
    """Ways to turn text into markup or code."""
    with check("no source of the page can turn text into markup or code"):
        for name in os.listdir(WEB):
            with open(os.path.join(WEB, name), encoding="utf-8") as f:
                text = f.read()
            found = re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|\bsetTimeout\(\"| on[a-z]+=\"|https?://(?!www\.w3\.org/2000/svg)", text)
            assert not found, (name, found)


def main():
    """All of it."""
    sources()
    page = Page()
    try:
        env = world("browser")
        m = Monitor(env, "--interval", "0.2", "--alert", "free<2", "--alert", "errors>0")
        page.size(1280, 900)
        page.open(m.url)
        holders = live(page, m, env)
        page.shot("real-live")
        tables(page, holders)
        keyboard(page, holders)
        pause(page, holders)
        themes(page, m)
        alerts(page, env)
        for h in holders[:2]:
            h.end()
        restart(page, m, env)
        page.driver.get_log("browser")
        looks(page)
        with check("no complaints in the console about made-up IPUs"):
            equal(page.complaints(), [])
    finally:
        page.driver.quit()


if __name__ == "__main__":
    try:
        main()
    finally:
        clean()
    tap.finish()
    sys.exit(1)
