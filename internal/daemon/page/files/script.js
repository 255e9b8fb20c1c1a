// SPDX-License-Identifier: Apache-2.0
// Every page works without this script; with it, the overview is live, and the editor has line numbers.
"use strict";

// The tab of this page.
for (const a of document.querySelectorAll("[data-tab]"))
  if (a.getAttribute("href") === location.pathname) a.setAttribute("aria-current", "page");
for (const a of document.querySelectorAll("nav [aria-current]"))
  a.parentNode.scrollLeft = Math.max(0, a.offsetLeft - a.parentNode.offsetLeft - 24);

// A rate in words: v per second, with its unit.
const scaled = (v, unit) => {
  let i = 0;
  const steps = ["", "k", "M", "G", "T"];
  while (v >= 1000 && i < steps.length - 1) { v /= 1000; i++; }
  return (v >= 100 || i === 0 ? v.toFixed(0) : v.toPrecision(3)) + " " + steps[i] + unit;
};

// The ports of the overview, kept up to date by server-sent events.
const ports = document.getElementById("ports");
if (ports && window.EventSource) {
  const past = {};
  const most = 60; // points of a plot, two seconds apart
  const draw = (card, history) => {
    const top = Math.max(1000, ...history.flat());
    ["rx", "tx"].forEach((name, n) => card.querySelector("polyline." + name).setAttribute("points",
      history.map((h, i) => ((i + most - history.length) * 120 / (most - 1)).toFixed(1) + "," + (31 - h[n] / top * 29).toFixed(1)).join(" ")));
  };
  let source;
  const open = () => {
    source = new EventSource("/live");
    source.onmessage = (e) => {
      const news = JSON.parse(e.data);
      const state = document.getElementById("state");
      if (state.textContent !== news.state) { location.reload(); return; }
      for (const r of news.rates) {
        const card = ports.querySelector('[data-port="' + CSS.escape(r.name) + '"]');
        if (!card) continue;
        card.querySelector("[data-rx]").textContent = scaled(r.rx, "bit/s") + ", " + scaled(r.rxp, "packets/s");
        card.querySelector("[data-tx]").textContent = scaled(r.tx, "bit/s") + ", " + scaled(r.txp, "packets/s");
        const history = past[r.name] = (past[r.name] || []).concat([[r.rx, r.tx]]).slice(-most);
        draw(card, history);
      }
    };
  };
  open();
  // A page that nobody looks at costs the router nothing.
  document.addEventListener("visibilitychange", () => { source.close(); if (!document.hidden) open(); });
}

// How long a configuration on trial may still be kept.
for (const e of document.querySelectorAll("[data-countdown]")) {
  let left = Number(e.dataset.countdown);
  const tick = () => {
    e.textContent = left > 0 ? left + " s" : "this moment";
    if (left-- <= -3) location.reload(); else setTimeout(tick, 1000);
  };
  tick();
}

// Line numbers, and ways to the lines that the checker blames.
const text = document.getElementById("text");
if (text) {
  const numbers = document.getElementById("numbers");
  const count = () => { numbers.textContent = text.value.split("\n").map((_, i) => i + 1).join("\n"); };
  const follow = () => { numbers.scrollTop = text.scrollTop; };
  const fit = () => { numbers.style.height = text.offsetHeight + "px"; };
  text.addEventListener("input", count);
  text.addEventListener("scroll", follow);
  new ResizeObserver(fit).observe(text);
  count(); fit();
  for (const b of document.querySelectorAll("[data-line]"))
    b.addEventListener("click", () => {
      const lines = text.value.split("\n"), n = Number(b.dataset.line) - 1;
      const from = lines.slice(0, n).reduce((sum, l) => sum + l.length + 1, 0);
      text.focus();
      text.setSelectionRange(from, from + (lines[n] || "").length);
      text.scrollTop = Math.max(0, (n - 5) * parseFloat(getComputedStyle(text).lineHeight));
    });
}
