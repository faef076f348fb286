// Charts of utilisation over the last ten minutes, as SVG: one second is one unit of the picture, 100 is all of the time.
import { WINDOW } from "./store.js";

const SVG = "http://www.w3.org/2000/svg";
let made = 0;

function element(name, attributes, parent) {
    const e = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
    parent?.append(e);
    return e;
}

export class Chart {
    // A small chart has one point for several seconds: `step`.
    constructor(className, step) {
        this.svg = element("svg", { class: `chart ${className}`, viewBox: `0 0 ${WINDOW} 100`, preserveAspectRatio: "none", "aria-hidden": "true" });
        this.area = element("path", { class: "chart-area" }, this.svg);
        this.line = element("path", { class: "chart-line" }, this.svg);
        this.step = step;
        this.phase = made++; // charts take turns
        this.ring = null;
        this.second = 0;
    }

    // It is drawn anew when it has moved by a point.
    set(ring, second, interval) {
        const turn = Math.floor((second + this.phase) / this.step);
        if (ring === this.ring && turn === this.turn) return;
        this.ring = ring;
        this.second = second;
        this.turn = turn;
        const stretches = this.stretches(Math.max(3, 2.5 * interval, 2 * this.step));
        this.area.setAttribute("d", stretches.map((s) => `M${s[0][0]} 100L${s.join("L")}L${s.at(-1)[0]} 100Z`).join(""));
        this.line.setAttribute("d", stretches.map((s) => s.length > 1 ? `M${s.join("L")}` : `M${s[0]}h1`).join(""));
    }

    // Points [x, y] as text, by stretches without a gap longer than `longest`. Seconds that share a point are averaged, always the same ones.
    stretches(longest) {
        const out = [], first = this.second - WINDOW;
        let now = null, before = -Infinity;
        for (let g = Math.floor((first + 1) / this.step) * this.step; g <= this.second; g += this.step) {
            let sum = 0, n = 0, gap = false;
            for (let s = g; s < g + this.step; s++) {
                const v = this.ring.at(s);
                if (v >= 0) { sum += v; n++; } else if (v < 0) gap = true;
            }
            if (!n) {
                if (gap) now = null;
                continue;
            }
            const at = Math.min(g + this.step - 1, this.second);
            if (!now || at - before > longest) out.push(now = []);
            before = at;
            now.push([at - first, (100 - 100 * Math.min(sum / n, 1)).toFixed(1)]);
        }
        return out;
    }

    // The second under a place of the page.
    secondAt(x) {
        const box = this.svg.getBoundingClientRect();
        return Math.round(this.second - WINDOW + (x - box.left) / box.width * WINDOW);
    }
}
