// One IPU in full: its chart with a scale, and all that is known of it and of who holds it.
import { Chart } from "./chart.js";
import { holder, STATES } from "./grid.js";
import { ipuKey, stateOf } from "./store.js";
import { ipusText } from "./tables.js";
import { bytes, count, date, duration, integer, make, none, percent, pidText, setData, setText, timeOfDay } from "./text.js";

const id = (name) => document.getElementById(name);

function processOf(sample, ipu) {
    return sample.processes.find((p) => p.owner === ipu.owner && p.partition === ipu.partition && p.gcd === ipu.gcd
        && p.first_ipu !== null && ipu.id >= p.first_ipu && ipu.id < p.first_ipu + p.ipus);
}

function facts(sample, ipu) {
    const p = processOf(sample, ipu);
    const own = [
        ["Partition", ipu.partition], ["Owner", ipu.owner], ["Machine", `${ipu.machine}, IPU# ${ipu.number}`],
        ["Board", ipu.board], ["Error", ipu.error ? `${ipu.error} (gc-reset clears it)` : "none"],
    ];
    if (!p) return own;
    return [...own,
        ["Process", `${p.command} (${pidText(p.pid)})`], ["User", p.user], ["Executable", p.executable],
        ["Device", `${p.device ?? none} (IPUs ${ipusText(p)})`], ["Attached", `${date(p.since)}, ${duration(p.seconds)} ago`],
        ["Utilisation, session", percent(p.utilisation_session)], ["Programs run", integer(p.runs)], ["Supersteps", integer(p.supersteps)],
        ["Bytes from and to the host", bytes(p.host_bytes)], ["Modelled cycles", count(p.cycles)], ["Tile memory", bytes(p.tile_bytes)],
    ];
}

export class Detail {
    constructor(store) {
        this.store = store;
        this.key = null;
        this.dialog = id("detail");
        this.chart = new Chart("detail-chart", 1);
        const plot = id("detail-plot");
        plot.append(this.chart.svg);
        id("detail-close").addEventListener("click", () => this.dialog.close());
        this.dialog.addEventListener("close", () => { this.key = null; });
        this.dialog.addEventListener("click", (e) => { if (e.target === this.dialog) this.dialog.close(); });
        plot.addEventListener("pointermove", (e) => this.point(e));
        plot.addEventListener("pointerleave", () => setText(id("detail-point"), ""));
    }

    open(ipu) {
        this.key = ipuKey(ipu);
        setText(id("detail-point"), "");
        this.show();
        this.dialog.showModal();
    }

    point(event) {
        const second = this.chart.secondAt(event.clientX), value = this.chart.ring?.at(second);
        setText(id("detail-point"), `${timeOfDay(second)}: ${value >= 0 ? percent(value) : "not in use"}`);
    }

    show() {
        if (this.key === null) return;
        const ipu = this.store.sample.ipus.find((i) => ipuKey(i) === this.key);
        if (!ipu) {
            this.dialog.close();
            return;
        }
        const state = stateOf(ipu);
        setText(id("detail-title"), `IPU ${ipu.id} of ${ipu.partition}`);
        setData(id("detail-state"), "state", state);
        setText(id("detail-state"), `${STATES[state].mark} ${STATES[state].word}${ipu.pid === null ? "" : `, ${percent(ipu.utilisation)}, ${holder(ipu)}`}`);
        this.chart.set(this.store.ring(this.key), Math.floor(this.store.sample.time), this.store.interval);
        this.showFacts(facts(this.store.sample, ipu));
    }

    showFacts(list) {
        const root = id("detail-facts");
        while (root.children.length > 2 * list.length) root.lastChild.remove();
        list.forEach(([name, value], i) => {
            if (!root.children[2 * i]) root.append(make("dt"), make("dd"));
            setText(root.children[2 * i], name);
            setText(root.children[2 * i + 1], String(value ?? none));
        });
    }
}
