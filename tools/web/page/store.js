// What the page knows: the newest sample, and ten minutes of utilisation of each IPU, one value a second.

export const WINDOW = 600; // seconds, and values of a ring
const UNKNOWN = NaN;       // no look in that second
const NOBODY = -1;         // nobody was attached, or it was not measured

// Values by second. `last` is the second of the newest.
export class Ring {
    constructor() {
        this.values = new Float32Array(WINDOW).fill(UNKNOWN);
        this.last = null;
    }

    add(second, value) {
        if (this.last !== null && second < this.last - WINDOW) this.last = null; // the clock was set back
        if (this.last === null || second - this.last >= WINDOW) {
            this.values.fill(UNKNOWN);
            this.last = second;
        }
        for (; this.last < second; this.last++) this.values[(this.last + 1) % WINDOW] = UNKNOWN;
        this.values[second % WINDOW] = typeof value === "number" ? value : NOBODY;
    }

    // The value of that second: a share, NaN or below 0.
    at(second) {
        if (this.last === null || second > this.last || second <= this.last - WINDOW) return UNKNOWN;
        return this.values[second % WINDOW];
    }
}

export const ipuKey = (x) => JSON.stringify([x.owner, x.partition, x.gcd, x.index]);
export const partitionKey = (owner, name, gcd) => JSON.stringify([owner, name, gcd]);
export const processKey = (p) => JSON.stringify([p.owner, p.partition, p.gcd, p.pid, p.device, p.first_ipu, p.since]);

const mean = (values) => values.length ? values.reduce((a, b) => a + b, 0) / values.length : null;

export const meanUtilisation = (sample) => mean(sample.ipus.map((i) => i.utilisation).filter((u) => typeof u === "number"));

export function stateOf(ipu) {
    if (ipu.error) return "error";
    if (ipu.pid === null) return "idle";
    return ipu.utilisation >= 0.005 ? "busy" : "held";
}

export class Store {
    constructor() {
        this.sample = null;
        this.interval = 1;
        this.rings = new Map();
        this.load = new Ring();
    }

    ring(key) {
        let ring = this.rings.get(key);
        if (!ring) this.rings.set(key, ring = new Ring());
        return ring;
    }

    // What the monitor remembers, when a connection begins: it knows better than the page.
    setHistory(history) {
        this.interval = history.interval;
        this.rings = new Map();
        this.load = new Ring();
        const seconds = history.looks.map(Math.floor);
        for (const ipu of history.ipus) {
            const ring = this.ring(ipuKey(ipu));
            seconds.forEach((second, i) => ring.add(second, ipu.utilisation[i]));
        }
        seconds.forEach((second, i) => {
            this.load.add(second, mean(history.ipus.map((x) => x.utilisation[i]).filter((u) => typeof u === "number")));
        });
    }

    setSample(sample) {
        this.sample = sample;
        this.record(sample);
    }

    // Remembers it without showing it.
    record(sample) {
        const second = Math.floor(sample.time);
        const seen = new Set();
        for (const ipu of sample.ipus) {
            const key = ipuKey(ipu);
            seen.add(key);
            this.ring(key).add(second, ipu.utilisation);
        }
        for (const [key, ring] of this.rings)
            if (!seen.has(key) && second - ring.last > WINDOW) this.rings.delete(key);
        this.load.add(second, meanUtilisation(sample));
    }

    totals() {
        const states = { idle: 0, held: 0, busy: 0, error: 0 };
        for (const ipu of this.sample.ipus) states[stateOf(ipu)]++;
        const attached = this.sample.ipus.filter((i) => i.pid !== null).length;
        return {
            ipus: this.sample.ipus.length,
            attached,
            free: this.sample.ipus.length - attached,
            ...states,
            processes: this.sample.processes.length,
            firing: this.sample.alerts.filter((a) => a.state === "firing").length,
            pending: this.sample.alerts.filter((a) => a.state === "pending").length,
        };
    }
}
