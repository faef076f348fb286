// The page: what comes over the link goes into the store, and from there into view, unless it is paused.
import { Chart } from "./chart.js";
import { Detail } from "./detail.js";
import { Grids } from "./grid.js";
import { Link } from "./link.js";
import { meanUtilisation, Store } from "./store.js";
import { Partitions, Processes, showAlerts } from "./tables.js";
import { duration, make, none, percent, plural, setData, setText } from "./text.js";

const id = (name) => document.getElementById(name);
const store = new Store();
const detail = new Detail(store);
const grids = new Grids(id("grids"), (ipu) => detail.open(ipu));
const processes = new Processes(store), partitions = new Partitions(store);
const load = new Chart("load-chart", 2);
id("load-plot").append(load.svg);
let paused = false, linkState = "connecting", waiting = null, due = false;

const totals = {};
for (const [key, name] of [["ipus", "IPUs"], ["attached", "In use"], ["free", "Free"], ["processes", "Processes"], ["error", "Errors"], ["firing", "Alerts"]]) {
    const item = make("div"), value = make("dd"), more = make("dd", "more");
    item.append(make("dt", "", name), value, more);
    totals[key] = { item, value, more };
    id("totals").append(item);
}

function showTotals() {
    const t = store.totals();
    const more = {
        ipus: plural(store.sample.partitions.length, "partition", "partitions"),
        attached: `${t.busy} busy, ${t.held} held`,
        free: t.ipus ? percent(t.free / t.ipus) : none,
        processes: plural(new Set(store.sample.processes.map((p) => p.user)).size, "user", "users"),
        error: t.error ? "to be reset" : "none",
        firing: t.firing ? "firing" : t.pending ? `${t.pending} pending` : store.sample.alerts.length ? "all quiet" : "none set",
    };
    for (const key of Object.keys(totals)) {
        setText(totals[key].value, String(t[key]));
        setText(totals[key].more, more[key]);
    }
    setData(totals.error.item, "state", t.error ? "error" : "");
    setData(totals.firing.item, "state", t.firing ? "error" : t.pending ? "held" : "");
    setText(id("load-now"), percent(meanUtilisation(store.sample)));
    load.set(store.load, Math.floor(store.sample.time), store.interval);
    return t;
}

function showTitle(t) {
    const what = linkState === "lost" || linkState === "refused" ? "⚠ no connection"
        : t?.firing ? `▲ ${plural(t.firing, "alert", "alerts")}` : t ? `${t.attached}/${t.ipus} in use` : "";
    const title = [what, "OpenIPU monitor", id("host").textContent].filter(Boolean).join(" · ");
    if (document.title !== title) document.title = title;
}

function bannerText() {
    const last = store.sample ? ` The last look was ${duration(Date.now() / 1000 - lastHeard)} ago.` : "";
    if (linkState === "lost") return `The monitor does not answer: trying again.${last}`;
    if (linkState === "refused") return "The monitor refuses: open the address that it printed when it was started, with its token.";
    if (store.sample?.problem) return `The IPUs cannot be read: ${store.sample.problem} Shown is what was seen last.`;
    return "";
}

function showLink() {
    const text = { connecting: "Connecting", live: paused ? "Paused" : `Live, every ${store.interval} s`, lost: "Reconnecting", refused: "Refused" };
    setData(id("link"), "state", paused && linkState === "live" ? "paused" : linkState);
    setText(id("link-text"), text[linkState]);
    const banner = bannerText();
    setText(id("banner"), banner);
    id("banner").hidden = !banner;
    document.body.classList.toggle("stale", linkState === "lost" || linkState === "refused");
}

let lastHeard = Date.now() / 1000;

function show() {
    due = false;
    if (!store.sample) return;
    id("waiting")?.remove();
    showTitle(showTotals());
    showAlerts(store);
    grids.show(store);
    processes.show();
    partitions.show();
    detail.show();
    showLink();
}

// At most once a frame, and not at all while nobody looks.
function showSoon() {
    if (due) return;
    due = true;
    if (document.hidden) {
        due = false;
        if (store.sample) showTitle(store.totals());
    } else {
        requestAnimationFrame(show);
    }
}

function take(sample) {
    store.setSample(sample);
    showSoon();
}

const link = new Link({
    history(history) {
        setText(id("host"), history.host ?? "");
        setText(id("version"), `OpenIPU ${history.version}`);
        store.setHistory(history);
    },
    sample(sample) {
        lastHeard = Date.now() / 1000;
        if (!paused) return take(sample);
        store.record(sample);
        waiting = sample;
    },
    changed(state) {
        linkState = state;
        showLink();
        showTitle(store.sample ? store.totals() : null);
    },
});

id("pause").addEventListener("click", () => {
    paused = !paused;
    id("pause").setAttribute("aria-pressed", String(paused));
    setText(id("pause"), paused ? "Resume" : "Pause");
    if (!paused && waiting) take(waiting);
    waiting = null;
    showLink();
});

document.addEventListener("visibilitychange", () => { if (!document.hidden && !paused) showSoon(); });
setInterval(() => { if (link.state !== "live") showLink(); }, 1000);
