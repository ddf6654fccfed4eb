"use strict";
(function () {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const dark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const name = () => { button.textContent = dark() ? "Light theme" : "Dark theme"; };
  button.hidden = false;
  button.addEventListener("click", () => { root.dataset.theme = dark() ? "light" : "dark"; name(); });
  name();

  const tip = document.getElementById("tip");
  const say = document.getElementById("said");
  let last = null;
  function show(point, texts) {
    if (last) last.classList.remove("on");
    last = point;
    if (!point) { tip.hidden = true; return; }
    point.classList.add("on");
    tip.textContent = say.textContent = texts[Number(point.dataset.i)];
    tip.hidden = false;
    const at = point.getBoundingClientRect();
    const left = Math.min(at.right + 8, root.clientWidth - tip.offsetWidth - 4);
    tip.style.left = Math.max(4, left) + scrollX + "px";
    tip.style.top = Math.max(0, at.top + scrollY - tip.offsetHeight - 4) + "px";
  }
  for (const chart of document.querySelectorAll("svg[data-live]")) {
    const texts = JSON.parse(chart.closest(".task").querySelector("script").textContent);
    const points = Array.from(chart.querySelectorAll(".points use"));
    points.forEach((point, i) => { point.dataset.i = i; });
    const place = (p) => [Number(p.getAttribute("x")), Number(p.getAttribute("y"))];
    chart.addEventListener("pointerover", (e) => { if (e.target.dataset && e.target.dataset.i) show(e.target, texts); });
    chart.addEventListener("pointerleave", () => show(null));
    chart.addEventListener("blur", () => show(null));
    // The arrow keys go to the nearest point in their direction.
    const directions = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    chart.addEventListener("keydown", (e) => {
      if (e.key === "Escape") { show(null); return; }
      const d = directions[e.key];
      if (!d || !points.length) return;
      e.preventDefault();
      if (!last || !chart.contains(last)) { show(points[0], texts); return; }
      const [x, y] = place(last);
      let best = null, least = Infinity;
      for (const p of points) {
        const [a, b] = place(p), along = (a - x) * d[0] + (b - y) * d[1];
        const across = Math.abs((a - x) * d[1]) + Math.abs((b - y) * d[0]);
        if (p !== last && along > 0.05 && along + 3 * across < least) { best = p; least = along + 3 * across; }
      }
      if (best) show(best, texts);
    });
  }
})();
