// Charts of utilisation over the last ten minutes, on canvases: hundreds of them cost little, and only those in sight are drawn.
import { WINDOW } from "./store.js";

// Colours as the style sheet has them for the theme that is on.
const probe = document.createElement("span");
probe.hidden = true;
let colours = null;

function read(name) {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
}

function palette() {
    if (!colours) {
        if (!probe.isConnected) document.body.append(probe);
        colours = { line: read("--accent"), fill: read("--accent-soft"), grid: read("--line"), text: read("--muted") };
    }
    return colours;
}

document.addEventListener("themechange", () => {
    colours = null;
    requestAnimationFrame(() => { for (const chart of charts.values()) if (chart.visible) chart.draw(); });
});

const inSight = new IntersectionObserver((entries) => {
    for (const e of entries) {
        const chart = charts.get(e.target);
        if (!chart) continue;
        chart.visible = e.isIntersecting;
        if (e.isIntersecting) chart.draw();
    }
}, { rootMargin: "100px" });
const resized = new ResizeObserver((entries) => { for (const e of entries) charts.get(e.target)?.resize(); });
const charts = new Map();

let made = 0;

export class Chart {
    // options: {labels: bool} for the axis of shares.
    constructor(canvas, options = {}) {
        this.canvas = canvas;
        this.options = options;
        this.visible = false;
        this.ring = null;
        this.second = 0;
        this.interval = 1;
        this.phase = made++; // charts take turns
        charts.set(canvas, this);
        inSight.observe(canvas);
        resized.observe(canvas);
    }

    stop() {
        inSight.unobserve(this.canvas);
        resized.unobserve(this.canvas);
        charts.delete(this.canvas);
    }

    // Seconds that share a pixel.
    get group() { return Math.max(1, Math.floor(WINDOW / Math.max(1, this.canvas.width / (this.scale ?? 1) - this.left))); }

    // A small chart looks no different every second: it is drawn anew when it has moved by a pixel.
    set(ring, second, interval) {
        const turn = Math.floor((second + this.phase) / this.group);
        const same = ring === this.ring && turn === this.turn;
        this.ring = ring;
        this.second = second;
        this.interval = interval;
        this.turn = turn;
        if (this.visible && !same) this.draw();
    }

    resize() {
        const scale = Math.min(devicePixelRatio || 1, 3);
        const width = Math.round(this.canvas.clientWidth * scale), height = Math.round(this.canvas.clientHeight * scale);
        if (!width || !height) return;
        if (this.canvas.width !== width) this.canvas.width = width;
        if (this.canvas.height !== height) this.canvas.height = height;
        this.scale = scale;
        this.draw();
    }

    get left() { return this.options.labels ? 40 : 0; }

    // The second under a place of the canvas.
    secondAt(x) {
        const width = this.canvas.clientWidth - this.left;
        return Math.round(this.second - WINDOW + (x - this.left) / width * WINDOW);
    }

    // Points [x, y], by stretches without a gap. Seconds that share a pixel are averaged, in groups that do not move.
    stretches(width, height) {
        const group = this.group;
        const longest = Math.max(3, 2.5 * this.interval, 2 * group);
        const out = [];
        let now = null, before = -Infinity;
        const first = this.second - WINDOW + 1;
        for (let g = Math.floor(first / group) * group; g <= this.second; g += group) {
            let sum = 0, n = 0, gap = false;
            for (let s = g; s < g + group; s++) {
                const v = this.ring.at(s);
                if (v >= 0) { sum += v; n++; } else if (v < 0) gap = true;
            }
            if (!n) {
                if (gap) now = null;
                continue;
            }
            const at = Math.min(g + group - 1, this.second);
            if (!now || at - before > longest) out.push(now = []);
            before = at;
            now.push([(at - first + 1) / WINDOW * width, height - Math.min(sum / n, 1) * height]);
        }
        return out;
    }

    draw() {
        if (!this.ring || !this.scale) return;
        const context = this.canvas.getContext("2d"), c = palette();
        const width = this.canvas.width / this.scale - this.left - 2, pad = this.options.labels ? 8 : 2;
        const height = this.canvas.height / this.scale - 2 * pad;
        context.setTransform(this.scale, 0, 0, this.scale, 0, 0);
        context.clearRect(0, 0, this.canvas.width, this.canvas.height);
        if (this.options.labels) this.drawScale(context, c, width, height, pad);
        context.translate(this.left, pad);
        context.strokeStyle = c.grid;
        context.lineWidth = 1;
        context.beginPath();
        context.moveTo(0, height + 0.5);
        context.lineTo(width, height + 0.5);
        context.stroke();
        for (const points of this.stretches(width, height)) this.drawStretch(context, c, points, height);
    }

    drawScale(context, c, width, height, pad) {
        context.font = "11px system-ui, sans-serif";
        context.textAlign = "right";
        context.textBaseline = "middle";
        for (const share of [0, 0.5, 1]) {
            const y = pad + height - share * height;
            context.fillStyle = c.text;
            context.fillText(`${100 * share} %`, this.left - 8, y);
            context.strokeStyle = c.grid;
            context.beginPath();
            context.moveTo(this.left, y + 0.5);
            context.lineTo(this.left + width, y + 0.5);
            context.stroke();
        }
    }

    drawStretch(context, c, points, height) {
        const [x0] = points[0], [x1, y1] = points[points.length - 1];
        context.beginPath();
        context.moveTo(x0, height);
        for (const [x, y] of points) context.lineTo(x, y);
        context.lineTo(x1, height);
        context.fillStyle = c.fill;
        context.fill();
        context.beginPath();
        context.moveTo(points[0][0], points[0][1]);
        for (const [x, y] of points) context.lineTo(x, y);
        if (points.length === 1) context.lineTo(x1 + 1.5, y1);
        context.strokeStyle = c.line;
        context.lineWidth = 1.5;
        context.lineJoin = "round";
        context.stroke();
    }
}
