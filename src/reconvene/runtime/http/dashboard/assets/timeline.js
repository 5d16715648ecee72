// Configurations through time: a row for each site, a band for each configuration that it was in. Drawn on a canvas,
// since there may be thousands of bands; a line below it describes the band under the pointer.

import { attribute, byId, make, sharp, text, tint } from "./dom.js";
import { clock, configuration, names, span } from "./words.js";

const RANGES = [["1 min", 60_000], ["5 min", 300_000], ["30 min", 1_800_000], ["all", 0]];
const SHADES = 8;
const ROW = 26;
const GAP = 6;
const AXIS = 22;
const LEAST = 10_000;
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600, 86_400].map((s) => s * 1000);

export class Timeline {
  constructor(canvas, model) {
    this.canvas = canvas;
    this.model = model;
    this.range = RANGES[0][1];
    this.until = null; // null: follows the present
    this.slider = byId("until");
    this.drawn = [];
    for (const [name, ms] of RANGES) {
      const button = make("button", { type: "button", "aria-pressed": String(ms === this.range) }, name);
      button.addEventListener("click", () => this.show(ms));
      button.range = ms;
      byId("ranges").append(button);
    }
    this.slider.addEventListener("input", () => this.slide(Number(this.slider.value) / 1000));
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("pointermove", (event) => this.point(event.offsetX, event.offsetY));
    canvas.addEventListener("pointerdown", (event) => this.point(event.offsetX, event.offsetY));
    new ResizeObserver(() => this.draw()).observe(canvas.parentElement);
  }

  show(ms) {
    this.range = ms;
    if (!ms) this.until = null;
    for (const button of byId("ranges").children) attribute(button, "aria-pressed", String(button.range === ms));
    this.draw();
  }

  // The whole known time: from the first band to the present.
  bounds() {
    const { look, bands } = this.model;
    const first = [...bands.values()].filter((each) => each.length).map((each) => each[0].at);
    return [Math.min(look.at - 1000, ...first), look.at];
  }

  // How much time is shown: at most the known time, at least LEAST.
  width([first, now]) {
    const all = Math.max(now - first, LEAST);
    return Math.min(this.range || all, all);
  }

  slide(part) {
    const [first, now] = this.bounds();
    const width = this.width([first, now]);
    const least = Math.min(first + width, now);
    this.until = part >= 1 ? null : least + (now - least) * part;
    this.draw();
  }

  key(event) {
    const [first, now] = this.bounds();
    const width = this.width([first, now]);
    const at = this.until ?? now;
    const index = RANGES.findIndex(([, ms]) => ms === this.range);
    const done = () => event.preventDefault();
    if (event.key === "ArrowLeft") done(this.move(Math.max(at - width / 4, Math.min(first + width, now))));
    else if (event.key === "ArrowRight") done(this.move(at + width / 4));
    else if (event.key === "End") done(this.move(now));
    else if (event.key === "Home") done(this.move(Math.min(first + width, now)));
    else if (event.key === "+" || event.key === "=") this.show(RANGES[Math.max(index - 1, 0)][1]);
    else if (event.key === "-") this.show(RANGES[Math.min(index + 1, RANGES.length - 1)][1]);
  }

  move(until) {
    this.until = until >= this.model.look.at ? null : until;
    this.draw();
  }

  draw() {
    const { look } = this.model;
    if (!look) return;
    const [first, now] = this.bounds();
    const to = this.until ?? now;
    const width = this.width([first, now]);
    const from = to - width;
    const least = Math.min(first + width, now);
    this.slider.disabled = now <= least;
    if (document.activeElement !== this.slider) this.slider.value = now > least ? (1000 * (to - least)) / (now - least) : 1000;
    text(byId("span"), this.until === null ? `the last ${span(width)}` : `${clock(from)} to ${clock(to)}`);

    const size = this.canvas.parentElement.clientWidth - 32;
    const height = look.sites.length * (ROW + GAP) + AXIS;
    const context = sharp(this.canvas, size, height);
    const left = Math.min(96, 26 + 7 * Math.max(...look.sites.map((site) => site.length)));
    const x = (at) => left + ((Math.min(Math.max(at, from), to) - from) / width) * (size - left);
    context.font = "12px ui-sans-serif, system-ui, sans-serif";
    context.textBaseline = "middle";
    this.axis(context, from, to, x, height, size);
    this.drawn = [];
    look.sites.forEach((site, index) => this.row(context, site, index * (ROW + GAP), from, to, x));
    this.scale = { left, from, width, size };
    attribute(this.canvas, "aria-label", `configurations of ${look.sites.length} sites, ${byId("span").textContent}`);
  }

  axis(context, from, to, x, height, size) {
    const step = STEPS.find((each) => (to - from) / each <= size / 90) ?? STEPS.at(-1);
    context.fillStyle = tint("dim");
    context.strokeStyle = tint("grid");
    for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
      context.beginPath();
      context.moveTo(x(at), 0);
      context.lineTo(x(at), height - AXIS + 4);
      context.stroke();
      const said = clock(at);
      const half = context.measureText(said).width / 2;
      if (x(at) + half < size && x(at) - half > 0) context.fillText(said, x(at) - half, height - AXIS / 2 + 2);
    }
  }

  row(context, site, y, from, to, x) {
    const { look, bands, members } = this.model;
    context.fillStyle = tint("ink");
    context.font = "600 12.5px ui-sans-serif, system-ui, sans-serif";
    context.fillText(site, 0, y + ROW / 2);
    context.font = "12px ui-sans-serif, system-ui, sans-serif";
    const own = bands.get(site) ?? [];
    for (let index = 0; index < own.length; index++) {
      const band = own[index];
      const end = index + 1 < own.length ? own[index + 1].at : look.at;
      if (end < from || band.at > to) continue;
      const [a, b] = [x(band.at), Math.max(x(end), x(band.at) + 1)];
      this.drawn.push({ site, band, end, a, b, y });
      if (band.state === "gone") {
        context.fillStyle = tint("line");
        for (let dot = a + 2; dot < b - 1; dot += 7) context.fillRect(dot, y + ROW / 2 - 1, 3, 2);
        continue;
      }
      const size = members.get(band.number)?.length ?? 0;
      const primary = 2 * size > look.sites.length;
      const shade = shadeOf(band.number);
      const inset = band.state === "forming" ? ROW * 0.36 : primary ? 0 : ROW * 0.16;
      context.fillStyle = band.state === "forming" ? tint("line") : tint(`shade-${shade}`);
      context.beginPath();
      context.roundRect(a, y + inset, b - a, ROW - 2 * inset, Math.min(5, (b - a) / 2));
      context.fill();
      if (band.state === "in") {
        context.fillStyle = tint(`shade-${shade}-edge`);
        context.fillRect(a, y + inset, Math.min(2.5, b - a), ROW - 2 * inset);
        this.name(context, band, a, b, y);
      }
    }
  }

  name(context, band, a, b, y) {
    const said = configuration(band.number, this.model.look.sites);
    const width = context.measureText(said).width;
    if (width + 14 > b - a) return;
    context.fillStyle = tint("ink");
    context.fillText(said, a + 8, y + ROW / 2 + 0.5);
  }

  point(x, y) {
    const found = this.drawn.find((each) => x >= each.a && x <= each.b && y >= each.y && y <= each.y + ROW);
    if (found) text(byId("pointed"), this.say(found));
  }

  say({ site, band, end }) {
    const { look, members } = this.model;
    const from = `${clock(band.at)}, for ${span(end - band.at)}`;
    const who = configuration(band.number, look.sites);
    if (band.state === "gone") return `${site} was not heard from ${from}`;
    if (band.state === "forming") return `${site} was forming a configuration after ${who}, from ${from}`;
    const all = members.get(band.number) ?? [];
    const kind = 2 * all.length > look.sites.length ? "a majority" : "a minority";
    return `${site} in ${who} with ${names(all)} (${kind}), from ${from}`;
  }
}

// Consecutive configurations should have different colours: it depends on the counter and the proposer.
function shadeOf(number) {
  const value = BigInt(number);
  return Number((value / 65_536n + 3n * (value % 65_536n)) % BigInt(SHADES));
}
