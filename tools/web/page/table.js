// A table of rows with keys: sorted by a click on a heading, rows kept from look to look.
import { make, setText } from "./text.js";

const collator = new Intl.Collator("en", { numeric: true });

// Not measured comes last, whichever way it is sorted.
function compare(a, b) {
    if (a === b) return 0;
    if (a === null || a === undefined) return Infinity;
    if (b === null || b === undefined) return -Infinity;
    return typeof a === "number" && typeof b === "number" ? a - b : collator.compare(a, b);
}

export class Table {
    // columns: [{name, title, value(row), text(row), share(row), numeric, wide}]; value is what it is sorted by.
    constructor(table, columns, caption, sortedBy) {
        this.columns = columns;
        this.sort = { column: columns.findIndex((c) => c.name === sortedBy), down: false };
        this.rows = new Map();
        this.body = make("tbody");
        const head = make("thead"), row = make("tr");
        this.heads = columns.map((column, i) => this.makeHead(column, i));
        row.append(...this.heads);
        head.append(row);
        table.append(make("caption", "hidden", caption), head, this.body);
        this.mark();
    }

    makeHead(column, i) {
        const th = make("th", column.numeric ? "number" : ""), button = make("button", "", column.name);
        th.scope = "col";
        button.type = "button";
        if (column.title) button.title = column.title;
        button.addEventListener("click", () => {
            this.sort = { column: i, down: this.sort.column === i ? !this.sort.down : Boolean(column.numeric) };
            this.mark();
            this.show(this.last, this.lastKey);
        });
        th.append(button);
        return th;
    }

    mark() {
        this.heads.forEach((th, i) => {
            th.ariaSort = i === this.sort.column ? (this.sort.down ? "descending" : "ascending") : "none";
        });
    }

    sorted(rows) {
        const { value } = this.columns[this.sort.column], sign = this.sort.down ? -1 : 1;
        return rows.map((row, i) => [row, i]).sort(([a, i], [b, k]) => {
            const order = compare(value(a), value(b));
            return (Number.isFinite(order) ? sign * order : Math.sign(order)) || i - k;
        }).map(([row]) => row);
    }

    show(rows, keyOf) {
        this.last = rows;
        this.lastKey = keyOf;
        const seen = new Set();
        this.sorted(rows).forEach((row, place) => {
            const key = keyOf(row);
            seen.add(key);
            let shown = this.rows.get(key);
            if (!shown) this.rows.set(key, shown = this.makeRow());
            if (this.body.children[place] !== shown.tr) this.body.insertBefore(shown.tr, this.body.children[place] ?? null);
            this.columns.forEach((column, i) => {
                setText(shown.texts[i], column.text(row));
                if (column.share) shown.bars[i].style.setProperty("--share", Math.max(0, Math.min(1, column.share(row) ?? 0)));
            });
        });
        for (const [key, shown] of this.rows) {
            if (seen.has(key)) continue;
            shown.tr.remove();
            this.rows.delete(key);
        }
    }

    makeRow() {
        const tr = make("tr"), texts = [], bars = [];
        for (const column of this.columns) {
            const td = make("td", column.numeric ? "number" : column.wide ? "wide" : "");
            const text = make("span");
            if (column.share) {
                const bar = make("span", "share");
                bar.ariaHidden = "true";
                td.append(bar);
                bars[texts.length] = bar;
            }
            td.append(text);
            texts.push(text);
            tr.append(td);
        }
        return { tr, texts, bars };
    }
}
