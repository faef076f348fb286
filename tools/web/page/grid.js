// The IPUs of each partition as a grid of cards, each with its chart. Arrow keys go from card to card.
import { Chart } from "./chart.js";
import { ipuKey, partitionKey, stateOf } from "./store.js";
import { clock, make, percent, pidText, plural, setData, setText } from "./text.js";

export const STATES = {
    idle: { mark: "○", word: "idle" },
    held: { mark: "◐", word: "held" },
    busy: { mark: "●", word: "busy" },
    error: { mark: "▲", word: "error" },
};

const density = (n) => n <= 16 ? "roomy" : n <= 96 ? "compact" : "dense";

export const holder = (ipu) => ipu.pid === null ? "nobody" : `${ipu.command} · ${ipu.user} · ${pidText(ipu.pid)}`;

class Card {
    constructor(open) {
        this.item = make("li");
        this.button = make("button", "ipu");
        this.button.type = "button";
        this.button.tabIndex = -1;
        this.button.addEventListener("click", () => open(this.ipu));
        const head = make("span", "ipu-head");
        this.id = make("span", "ipu-id");
        this.number = make("span");
        this.id.append(make("span", "ipu-name", "IPU "), this.number);
        this.state = make("span", "ipu-state");
        this.mark = make("span", "mark");
        this.mark.ariaHidden = "true";
        this.word = make("span", "word");
        this.share = make("span", "ipu-share");
        this.who = make("span", "ipu-who");
        this.chart = new Chart("ipu-chart", 6);
        this.state.append(this.mark, " ", this.word);
        head.append(this.id, this.state, this.share);
        this.button.append(head, this.chart.svg, this.who);
        this.item.append(this.button);
    }

    show(ipu, store) {
        const state = stateOf(ipu), s = STATES[state];
        this.ipu = ipu;
        setData(this.button, "state", state);
        setText(this.number, String(ipu.id));
        setText(this.mark, s.mark);
        setText(this.word, s.word);
        setText(this.share, ipu.pid === null ? "" : percent(ipu.utilisation));
        const who = ipu.error ? `${ipu.error} · gc-reset clears it` : holder(ipu);
        setText(this.who, who);
        if (this.button.title !== who) this.button.title = who;
        this.chart.set(store.ring(ipuKey(ipu)), Math.floor(store.sample.time), store.interval);
    }
}

class Partition {
    constructor(open) {
        this.open = open;
        this.cards = new Map();
        this.section = make("section", "partition");
        const head = make("div", "partition-head");
        this.title = make("h2");
        this.kind = make("span", "kind");
        this.use = make("span", "use");
        this.bar = make("span", "use-bar");
        this.bar.ariaHidden = "true";
        this.parts = Object.keys(STATES).map((state) => {
            const part = make("span");
            part.dataset.state = state;
            return part;
        });
        this.bar.append(...this.parts);
        const legend = make("span", "legend", Object.values(STATES).map((x) => `${x.mark} ${x.word}`).join("   "));
        head.append(this.title, this.kind, legend, this.use);
        this.list = make("ul", "ipus");
        this.list.addEventListener("keydown", (e) => this.move(e));
        this.section.append(head, this.bar, this.list);
    }

    show(p, ipus, store, showOwner) {
        const name = p.title ?? p.name;
        setText(this.title, showOwner ? `${name} of ${p.owner}` : name);
        setText(this.kind, [p.active ? "active" : "", p.chip, clock(p.clock_hz), p.elastic ? "elastic" : "hard",
            p.reconfigurable ? "" : "one device", p.stale ? "not readable now" : ""].filter(Boolean).join(" · "));
        setText(this.use, `${p.ipus - p.free} of ${plural(p.ipus, "IPU", "IPUs")} in use`);
        setData(this.section, "density", density(store.sample.ipus.length));
        this.section.ariaLabel = `Partition ${name}`;
        this.list.style.setProperty("--n", ipus.length);
        this.showBar(ipus);
        this.showCards(ipus, store);
    }

    showBar(ipus) {
        for (const part of this.parts) {
            const n = ipus.filter((i) => stateOf(i) === part.dataset.state).length;
            part.style.flexGrow = n;
        }
    }

    showCards(ipus, store) {
        const seen = new Set();
        ipus.forEach((ipu, place) => {
            const key = ipuKey(ipu);
            seen.add(key);
            let card = this.cards.get(key);
            if (!card) this.cards.set(key, card = new Card(this.open));
            if (this.list.children[place] !== card.item) this.list.insertBefore(card.item, this.list.children[place] ?? null);
            card.show(ipu, store);
        });
        for (const [key, card] of this.cards) {
            if (seen.has(key)) continue;
            card.item.remove();
            this.cards.delete(key);
        }
        if (!this.list.querySelector('[tabindex="0"]') && this.list.firstChild) this.list.firstChild.firstChild.tabIndex = 0;
    }

    // One stop of the Tab key for all cards; arrows, Home and End within.
    move(event) {
        const buttons = [...this.list.querySelectorAll("button")];
        const at = buttons.indexOf(document.activeElement);
        if (at < 0) return;
        const row = buttons[0].offsetTop;
        const columns = Math.max(1, buttons.filter((b) => b.offsetTop === row).length);
        const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns, Home: -at, End: buttons.length - 1 - at }[event.key];
        const to = buttons[at + step];
        if (step === undefined || !to) return;
        event.preventDefault();
        buttons[at].tabIndex = -1;
        to.tabIndex = 0;
        to.focus();
    }
}

export class Grids {
    constructor(root, open) {
        this.root = root;
        this.open = open;
        this.partitions = new Map();
    }

    show(store) {
        const sample = store.sample, seen = new Set();
        const byPartition = Map.groupBy(sample.ipus, (i) => partitionKey(i.owner, i.partition, i.gcd));
        const showOwner = new Set(sample.partitions.map((p) => p.owner)).size > 1;
        sample.partitions.forEach((p, place) => {
            const key = partitionKey(p.owner, p.name, p.gcd);
            seen.add(key);
            let shown = this.partitions.get(key);
            if (!shown) this.partitions.set(key, shown = new Partition(this.open));
            if (this.root.children[place] !== shown.section) this.root.insertBefore(shown.section, this.root.children[place] ?? null);
            shown.show(p, byPartition.get(key) ?? [], store, showOwner);
        });
        for (const [key, shown] of this.partitions) {
            if (seen.has(key)) continue;
            shown.section.remove();
            this.partitions.delete(key);
        }
    }
}

