// The tables of processes and of partitions.
import { partitionKey, processKey } from "./store.js";
import { Table } from "./table.js";
import { bytes, clock, count, duration, integer, isNumber, make, none, percent, perSecond, setText } from "./text.js";

export const ipusText = (p) => p.first_ipu === null ? `${p.ipus} further`
    : p.ipus === 1 ? String(p.first_ipu) : `${p.first_ipu}–${p.first_ipu + p.ipus - 1}`;

const text = (key) => ({ value: (p) => p[key], text: (p) => String(p[key] ?? none) });
const measured = (key, show) => ({ numeric: true, value: (p) => p[key], text: (p) => show(p[key]) });

const processColumns = [
    { name: "PID", value: (p) => p.pid, text: (p) => p.pid === 0 ? "other namespace" : String(p.pid) },
    { name: "User", ...text("user") },
    { name: "Command", wide: true, ...text("command") },
    { name: "Partition", ...text("partition") },
    { name: "IPUs", value: (p) => p.first_ipu ?? Infinity, text: ipusText },
    { name: "Held", title: "How long it has been attached", ...measured("seconds", duration) },
    { name: "Utilisation", title: "Share of the last second or so in which programs ran", share: (p) => p.utilisation, ...measured("utilisation", percent) },
    { name: "Session", title: "The same since it attached", ...measured("utilisation_session", percent) },
    { name: "Runs", title: "Programs run a second", ...measured("runs_per_second", (x) => perSecond(count(x))) },
    { name: "Supersteps", title: "Since it attached", ...measured("supersteps", count) },
    { name: "Host traffic", title: "Bytes a second from and to the host", ...measured("host_bytes_per_second", (x) => perSecond(bytes(x))) },
    { name: "Cycles", title: "By the model of the chip, where programs are priced", ...measured("cycles", count) },
    { name: "Tile memory", title: "On all tiles together, by the model", ...measured("tile_bytes", bytes) },
];

export class Processes {
    constructor(store) {
        this.store = store;
        this.table = new Table(document.getElementById("process-table"), processColumns, "Processes attached to IPUs", "IPUs");
        this.filter = document.getElementById("filter");
        this.empty = document.getElementById("process-empty");
        this.counted = document.getElementById("process-count");
        this.filter.addEventListener("input", () => { if (store.sample) this.show(); });
    }

    // Every word of the filter is somewhere in the row.
    matches(p) {
        const row = [p.pid, p.user, p.command, p.executable, p.partition, p.owner, ipusText(p)].join("\n").toLowerCase();
        return this.filter.value.toLowerCase().split(/\s+/).every((word) => row.includes(word));
    }

    show() {
        const all = this.store.sample.processes, some = all.filter((p) => this.matches(p));
        this.table.show(some, processKey);
        setText(this.counted, some.length === all.length ? String(all.length) : `${some.length} of ${all.length}`);
        this.empty.hidden = some.length > 0;
        setText(this.empty, all.length === 0 ? "No process is attached." : "No process matches the filter.");
    }
}

const yes = (x) => x ? "yes" : "no";

const partitionColumns = [
    { name: "Partition", wide: true, ...text("name") },
    { name: "Owner", ...text("owner") },
    { name: "Domain", title: "Graph compilation domain", ...measured("gcd", integer) },
    { name: "Chip", ...text("chip") },
    { name: "Architecture", ...text("architecture") },
    { name: "Clock", ...measured("clock_hz", clock) },
    { name: "IPUs", ...measured("ipus", integer) },
    { name: "Free", ...measured("free", integer) },
    { name: "Processes", ...measured("processes", integer) },
    { name: "Active", value: (p) => yes(p.active), text: (p) => yes(p.active) },
    { name: "Kind", value: (p) => p.elastic, text: (p) => p.elastic ? "elastic" : "hard" },
    { name: "Reconfigurable", value: (p) => yes(p.reconfigurable), text: (p) => yes(p.reconfigurable) },
];

export class Partitions {
    constructor(store) {
        this.store = store;
        this.table = new Table(document.getElementById("partition-table"), partitionColumns, "Partitions", "Partition");
        this.counted = document.getElementById("partition-count");
    }

    show() {
        const all = this.store.sample.partitions;
        this.table.show(all, (p) => partitionKey(p.owner, p.name, p.gcd));
        setText(this.counted, String(all.length));
    }
}

const alertOrder = { firing: 0, pending: 1, ok: 2 };
const alertMark = { firing: "▲", pending: "◔", ok: "✓" };

export const alertValue = (a) => {
    if (!isNumber(a.value)) return "";
    if (/^\s*utilisation/.test(a.alert) || /%/.test(a.alert)) return percent(a.value);
    if (/^\s*held/.test(a.alert)) return duration(a.value);
    return count(a.value);
};

// Firing first; each says its state in words.
export function showAlerts(store) {
    const section = document.getElementById("alerts"), list = document.getElementById("alert-list");
    const alerts = [...store.sample.alerts].sort((a, b) => alertOrder[a.state] - alertOrder[b.state]);
    section.hidden = alerts.length === 0;
    while (list.children.length > alerts.length) list.lastChild.remove();
    alerts.forEach((a, i) => {
        let item = list.children[i];
        if (!item) {
            item = make("li");
            item.append(make("span", "alert-state"), make("span", "alert-rule"), make("span", "alert-subject"), make("span", "alert-since"));
            list.append(item);
        }
        const [state, rule, subject, since] = item.children;
        if (item.dataset.state !== a.state) item.dataset.state = a.state;
        setText(state, `${alertMark[a.state] ?? ""} ${a.state}`);
        setText(rule, a.alert);
        const value = alertValue(a);
        setText(subject, a.subject ? `${a.subject}${value ? `: ${value}` : ""}` : "does not hold");
        setText(since, isNumber(a.since) ? `for ${duration(store.sample.time - a.since)}` : "");
    });
}

