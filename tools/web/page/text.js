// Text and elements. What comes from the monitor reaches the page through here and is text, never markup.

export function make(tag, className, text) {
    const e = document.createElement(tag);
    if (className) e.className = className;
    if (text !== undefined) e.textContent = text;
    return e;
}

// Writes only what changed: most of a page stays as it is from look to look.
export function setText(element, text) {
    if (element.textContent !== text) element.textContent = text;
}

export function setData(element, key, value) {
    if (element.dataset[key] !== value) element.dataset[key] = value;
}

export const none = "–";
export const isNumber = (x) => typeof x === "number" && Number.isFinite(x);

export const percent = (x) => isNumber(x) ? `${(100 * x).toFixed(x > 0 && x < 0.0995 ? 1 : 0)} %` : none;

export const integer = (x) => isNumber(x) ? Math.round(x).toLocaleString("en") : none;

function scaled(x, units, base) {
    let i = 0;
    while (Math.abs(x) >= base && i < units.length - 1) { x /= base; i++; }
    return `${i === 0 ? Math.round(x * 10) / 10 : x.toPrecision(3)} ${units[i]}`.trim();
}

export const count = (x) => isNumber(x) ? scaled(x, ["", "k", "M", "G", "T", "P"], 1000) : none;
export const bytes = (x) => isNumber(x) ? scaled(x, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"], 1024) : none;
export const perSecond = (text) => text === none ? none : `${text}/s`;

// As gc-monitor has it: 13s, 4m1s, 2h5m, 3d4h.
export function duration(seconds) {
    if (!isNumber(seconds)) return none;
    const s = Math.max(0, Math.floor(seconds));
    if (s < 60) return `${s}s`;
    if (s < 3600) return `${Math.floor(s / 60)}m${s % 60}s`;
    if (s < 86400) return `${Math.floor(s / 3600)}h${Math.floor(s / 60) % 60}m`;
    return `${Math.floor(s / 86400)}d${Math.floor(s / 3600) % 24}h`;
}

export const clock = (hz) => isNumber(hz) ? `${(hz / 1e9).toFixed(2)} GHz` : none;

// Swedish dates are ISO's: 2026-11-16 11:31:10.
export const timeOfDay = (unix) => isNumber(unix) ? new Date(1000 * unix).toLocaleTimeString("sv") : none;

export const date = (unix) => isNumber(unix) ? new Date(1000 * unix).toLocaleString("sv") : none;

export const plural = (n, one, many) => `${n} ${n === 1 ? one : many}`;

export const pidText = (pid) => pid === 0 ? "of another namespace" : `pid ${pid}`;
