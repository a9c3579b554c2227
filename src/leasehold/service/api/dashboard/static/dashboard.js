"use strict";

// What the pages do beyond links and forms: charts, the playback of the timeline, and a pause for what updates itself.
// Without it everything can still be read.

const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// --- what updates itself can be paused, and waits while somebody reads with the keyboard in it -------------------

let paused = calm;

function showPause() {
  const button = document.getElementById("pause");
  if (button === null) return;
  button.hidden = false;
  button.setAttribute("aria-pressed", String(paused));
  button.textContent = paused ? "Resume updates" : "Pause updates";
}

document.addEventListener("click", (event) => {
  if (event.target.id !== "pause") return;
  paused = !paused;
  showPause();
});

document.addEventListener("htmx:beforeRequest", (event) => {
  const part = event.target;
  if (part.id !== "live") return;
  const inside = part.contains(document.activeElement) && document.activeElement.id !== "pause";
  if (paused || document.hidden || inside) event.preventDefault();
});

document.addEventListener("htmx:beforeSwap", (event) => {
  if (event.target.id !== "live") return;
  const open = [...event.target.querySelectorAll("details")].map((one) => one.open);
  const focused = document.activeElement?.id;
  document.addEventListener("htmx:afterSettle", () => {
    document.querySelectorAll("#live details").forEach((one, place) => { one.open = open[place] ?? false; });
    showPause();
    if (focused === "pause") document.getElementById("pause")?.focus();
  }, { once: true });
});

// --- charts: the table behind each has the same numbers ------------------------------------------------------------

const COLOURS = ["--own", "--suspendable", "--migratable", "--non-preemptable", "--cancelable", "--bad", "--good"];
const DASHES = [[], [6, 4], [2, 3], [10, 4, 2, 4]];

function drawChart(figure) {
  const told = JSON.parse(figure.dataset.chart);
  if (typeof uPlot === "undefined" || told.x.length < 2) return;
  const scale = told.ms ? 1000 : 1;
  const names = told.series.map(([name]) => name);
  const two = (number) => String(number).padStart(2, "0");
  const written = (at, step) => { const date = new Date(at * 1000); return step < 86400 && x.at(-1) - x[0] <= 2 * 86400 ? `${two(date.getUTCHours())}:${two(date.getUTCMinutes())}` : date.toISOString().slice(5, 10); };
  const x = told.x.map((one) => one / scale);
  const data = [x, ...told.series.map(([, values]) => values.map((one) => one / scale))];
  const axis = { stroke: css("--soft"), grid: { stroke: css("--line"), width: 1 }, ticks: { stroke: css("--line") }, font: "13px system-ui" };
  figure.hidden = false;
  figure.replaceChildren();
  const plot = new uPlot({
    width: figure.clientWidth, height: 220, tzDate: (at) => uPlot.tzDate(new Date(at * 1000), "UTC"),
    cursor: { drag: { x: false, y: false } },
    scales: { y: { range: (_, low, high) => [0, Math.max(high * 1.1, 1)] } },
    axes: [{ ...axis, values: (_, splits, __, ___, step) => splits.map((at) => written(at, step)) }, { ...axis, label: told.unit, labelFont: "13px system-ui", labelSize: 20, size: 56 }],
    series: [{ label: "time", value: (_, at) => at === null ? "" : `${new Date(at * 1000).toISOString().slice(0, 16).replace("T", " ")}Z` },
      ...names.map((name, place) => ({ label: name, stroke: css(COLOURS[place % COLOURS.length]), width: 2, dash: DASHES[place % DASHES.length], points: { show: x.length < 40 }, value: (_, value) => value === null ? "" : value.toLocaleString("en", { maximumFractionDigits: 1 }) }))],
  }, data, figure);
  plot.root.setAttribute("aria-hidden", "true");
  addEventListener("resize", () => plot.setSize({ width: figure.clientWidth, height: 220 }));
}

// --- the timeline, played ------------------------------------------------------------------------------------------

function preparePlayback(bar) {
  const slider = bar.querySelector("#moment"), button = bar.querySelector("#play"), output = bar.querySelector("output"), held = bar.querySelector("#held");
  const from = Number(bar.dataset.from), to = Number(bar.dataset.to);
  const charts = [...document.querySelectorAll("svg.lane-chart")].map((svg) => {
    const height = svg.viewBox.baseVal.height;
    const make = (tag, attributes) => {
      const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
      for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
      svg.append(element);
      return element;
    };
    const later = make("rect", { class: "later", y: 0, height, x: 10000, width: 0 });
    const cursor = make("line", { class: "cursor", y1: 0, y2: height, x1: 10000, x2: 10000, visibility: "hidden" });
    const segments = [...svg.querySelectorAll("rect.seg")].filter((one) => one.dataset.vms !== "0").map((one) => ({
      begin: Number(one.getAttribute("x")), end: Number(one.getAttribute("x")) + Number(one.getAttribute("width")), vms: Number(one.dataset.vms), own: one.dataset.own === "1",
    }));
    return { later, cursor, segments };
  });
  const show = () => {
    const at = Number(slider.value), x = Math.min(at, 9998);
    output.textContent = new Date(from + (to - from) * at / 10000).toISOString().slice(11, 19);
    let own = 0, lent = 0;
    for (const chart of charts) {
      chart.later.setAttribute("x", at);
      chart.later.setAttribute("width", 10000 - at);
      chart.cursor.setAttribute("x1", at);
      chart.cursor.setAttribute("x2", at);
      chart.cursor.setAttribute("visibility", at < 10000 ? "visible" : "hidden");
      for (const one of chart.segments) if (one.begin <= x && x < one.end) { if (one.own) own += one.vms; else lent += one.vms; }
    }
    held.textContent = `${own} VMs of own users, ${lent} on loan`;
    slider.setAttribute("aria-valuetext", `${output.textContent}: ${held.textContent}`);
  };
  let timer = 0;
  const stop = () => { clearInterval(timer); timer = 0; button.textContent = "Play"; button.setAttribute("aria-pressed", "false"); };
  button.addEventListener("click", () => {
    if (timer) { stop(); return; }
    if (Number(slider.value) >= 10000) slider.value = 0;
    button.textContent = "Stop";
    button.setAttribute("aria-pressed", "true");
    timer = setInterval(() => {
      slider.value = Number(slider.value) + 50;
      show();
      if (Number(slider.value) >= 10000) stop();
    }, calm ? 500 : 100);
  });
  slider.addEventListener("input", show);
  bar.hidden = false;
  show();
}

document.querySelectorAll("figure[data-chart]").forEach(drawChart);
document.querySelectorAll(".playback").forEach(preparePlayback);
showPause();
