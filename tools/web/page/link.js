// The stream of events from the monitor: opened, watched, and opened again whenever it ends.

const FIRST_WAIT = 1000, LONGEST_WAIT = 10000;

export class Link {
    // changed(state): "connecting", "live", "lost", "refused".
    constructor({ history, sample, changed }) {
        this.on = { history, sample, changed };
        this.wait = FIRST_WAIT;
        this.silence = 45000;
        this.heard = Date.now();
        this.state = "connecting";
        this.open();
        setInterval(() => this.check(), 5000);
        // A tablet that wakes up should not wait for its turn.
        addEventListener("online", () => this.again(0));
        document.addEventListener("visibilitychange", () => { if (!document.hidden) this.check(); });
    }

    set(state) {
        if (state === this.state) return;
        this.state = state;
        this.on.changed(state);
    }

    open() {
        this.source?.close();
        const source = this.source = new EventSource("events");
        source.addEventListener("history", (e) => {
            const history = JSON.parse(e.data);
            this.silence = Math.max(45000, 3000 * history.interval);
            this.hear();
            this.on.history(history);
        });
        source.addEventListener("sample", (e) => {
            this.hear();
            this.on.sample(JSON.parse(e.data));
        });
        source.addEventListener("error", () => this.fail(source));
    }

    hear() {
        this.heard = Date.now();
        this.wait = FIRST_WAIT;
        this.set("live");
    }

    // The browser tries again by itself, unless there was an answer that is no stream.
    fail(source) {
        if (source !== this.source) return;
        if (this.state !== "refused") this.set("lost");
        if (source.readyState === EventSource.CLOSED) this.again(this.wait);
    }

    again(wait) {
        clearTimeout(this.timer);
        if (this.state === "live" && wait === 0) return;
        this.wait = Math.min(2 * this.wait, LONGEST_WAIT);
        this.timer = setTimeout(() => this.open(), wait);
        this.ask();
    }

    // Is it there, and is it that we may not?
    async ask() {
        try {
            const answer = await fetch("api/sample", { method: "HEAD", cache: "no-store" });
            this.set(answer.status === 401 || answer.status === 403 ? "refused" : "lost");
        } catch {
            this.set("lost");
        }
    }

    // A connection can be dead without anybody saying so.
    check() {
        if (Date.now() - this.heard < this.silence) return;
        this.heard = Date.now();
        this.set("lost");
        this.open();
    }
}
