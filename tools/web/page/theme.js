// Light, dark, or what the system says; remembered. Runs before the page is drawn, so that nothing flashes.
"use strict";
(() => {
    const key = "openipu.theme";
    const known = ["system", "light", "dark"];
    const remembered = () => { try { return localStorage.getItem(key); } catch { return null; } };
    const remember = (theme) => { try { localStorage.setItem(key, theme); } catch { /* private windows may refuse */ } };

    const apply = (theme) => {
        document.documentElement.dataset.theme = known.includes(theme) ? theme : "system";
    };

    apply(remembered());
    addEventListener("storage", (event) => { if (event.key === key) { apply(event.newValue); mark(); } });

    const buttons = () => document.querySelectorAll("[data-theme-choice]");
    const mark = () => {
        for (const b of buttons()) b.setAttribute("aria-pressed", String(b.dataset.themeChoice === document.documentElement.dataset.theme));
    };
    document.addEventListener("DOMContentLoaded", () => {
        for (const b of buttons()) {
            b.addEventListener("click", () => {
                remember(b.dataset.themeChoice);
                apply(b.dataset.themeChoice);
                mark();
            });
        }
        mark();
    });
})();
