// Rates and delays: two plots of the site that serves this page, and a table of all sites.

import { keep, make, sharp, text, tint } from "./dom.js";
import { bytes, millis, rate } from "./words.js";
import { trip } from "./model.js";

const SPAN = 120_000;
const HEIGHT = 132;
const PLOTS = [
  { title: "messages per second", unit: rate, least: 1, lines: [["accepted", "accepted here", "accent"], ["ordered", "ordered", "good"]] },
  { title: "delay", unit: millis, least: 1, lines: [["delay", "from accepted to ordered", "accent"], ["trip", "longest round trip", "violet"]] },
];

export class Rates {
  constructor(parent, table, model) {
    this.table = table.tBodies[0];
    this.model = model;
    this.plots = PLOTS.map((plot) => {
      const canvas = make("canvas", { role: "img" });
      const figure = make("figure", { class: "card plot" });
      const legend = make("ul");
      const values = plot.lines.map(([, name, color]) => {
        const value = make("b", {}, "–");
        const item = make("li", { class: color });
        item.append(make("i", { "aria-hidden": "true" }), make("span", {}, name), value);
        legend.append(item);
        return value;
      });
      figure.append(make("figcaption", {}, plot.title), legend, canvas);
      parent.append(figure);
      return { ...plot, canvas, figure, values };
    });
    new ResizeObserver(() => this.draw()).observe(parent);
  }

  draw() {
    if (!this.model.look) return;
    for (const plot of this.plots) this.plot(plot);
    this.rows();
  }

  plot({ canvas, figure, lines, unit, least, values, title }) {
    const { points, look } = this.model;
    const width = figure.clientWidth - 32;
    const context = sharp(canvas, width, HEIGHT);
    const all = points.flatMap((point) => lines.map(([name]) => point[name] ?? 0));
    const top = nice(Math.max(least, ...all));
    const x = (at) => width - ((look.at - at) / SPAN) * width;
    const y = (value) => HEIGHT - 4 - (value / top) * (HEIGHT - 22);
    context.strokeStyle = tint("grid");
    context.fillStyle = tint("dim");
    context.font = "11px ui-sans-serif, system-ui, sans-serif";
    for (const level of [0, top / 2, top]) {
      context.beginPath();
      context.moveTo(0, y(level));
      context.lineTo(width, y(level));
      context.stroke();
      if (level) context.fillText(unit(level), 0, y(level) - 4);
    }
    lines.forEach(([name, , color], index) => {
      context.strokeStyle = tint(color);
      context.lineWidth = 2;
      context.lineJoin = "round";
      context.beginPath();
      let pen = false;
      for (const point of points) {
        const value = point[name];
        if (value === null || value === undefined) pen = false;
        else if (pen) context.lineTo(x(point.at), y(value));
        else {
          context.moveTo(x(point.at), y(value));
          pen = true;
        }
      }
      context.stroke();
      context.lineWidth = 1;
      text(values[index], unit(points.at(-1)?.[name] ?? undefined));
    });
    canvas.setAttribute("aria-label", `${title}: ${lines.map(([, name], index) => `${name} ${values[index].textContent}`).join(", ")}`);
  }

  rows() {
    const { look, rates } = this.model;
    keep(this.table, look.sites, (site) => site, createRow, (row, site) => {
      const view = look.views[site];
      const grown = rates.get(site) ?? {};
      const sample = view.why ? null : view.sample;
      row.dataset.silent = String(!sample);
      [
        site,
        rate(grown.log_accepted_messages),
        rate(grown.log_ordered_messages),
        rate(grown.delivered_messages),
        `${bytes(grown.received_bytes)}/s`,
        `${bytes(grown.sent_bytes)}/s`,
        millis(sample?.order_ms),
        millis(sample ? trip(sample) : null),
        millis(sample?.lag_ms),
      ].forEach((value, index) => text(row.cells[index], value === "–/s" ? "–" : value));
    });
  }
}

function createRow() {
  const row = make("tr", {}, make("th", { scope: "row" }));
  for (let index = 1; index < 9; index++) row.append(make("td"));
  return row;
}

// The next round number: 1, 2, 5, 10, …
function nice(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((factor) => factor * power).find((each) => each >= value) ?? value;
}
