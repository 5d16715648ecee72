// The page: receives the site's event stream and redraws each part.

import { drawBeside } from "./beside.js";
import { drawComponents, describe } from "./components.js";
import { byId, text } from "./dom.js";
import { drawDomains } from "./domains.js";
import { FaultForm } from "./faults.js";
import { drawGroups } from "./isis.js";
import { drawJudged } from "./judged.js";
import { Model } from "./model.js";
import { drawQueues } from "./queues.js";
import { Rates } from "./rates.js";
import { drawTail } from "./tail.js";
import { Timeline } from "./timeline.js";
import { clock } from "./words.js";

const SILENCE = 4000; // a stream that is silent for this long (ms) counts as lost
const RETRIES = [500, 1000, 2000, 4000];

const model = new Model();
const timeline = new Timeline(byId("timeline"), model);
const rates = new Rates(byId("plots"), byId("rates"), model);
const faults = new FaultForm(model);
let stream = null;
let watchdog = 0;
let failures = 0;

function connect() {
  stream = new EventSource("/dashboard/events");
  stream.onmessage = (event) => take(JSON.parse(event.data));
  stream.onerror = () => lose();
  watch();
}

function watch() {
  clearTimeout(watchdog);
  watchdog = setTimeout(() => lose(), SILENCE);
}

function lose() {
  clearTimeout(watchdog);
  stream.close();
  document.body.dataset.link = "lost";
  text(byId("link-text"), "connection lost, retrying");
  if (model.look) text(byId("link-since"), `shown as of ${clock(model.look.at)}`);
  setTimeout(connect, RETRIES[Math.min(failures++, RETRIES.length - 1)]);
}

function take(message) {
  failures = 0;
  watch();
  model.take(message);
  document.body.dataset.link = "live";
  text(byId("link-text"), "live");
  text(byId("link-since"), "");
  const { cluster, site, sites } = model.look;
  text(byId("cluster"), cluster);
  text(byId("place"), `${sites.length} sites, as site ${site} sees them`);
  document.title = `${site} · ${cluster} · Reconvene`;
  text(byId("summary"), describe(model));
  draw();
}

function draw() {
  if (!model.look) return;
  drawJudged(model);
  drawComponents(byId("picture"), model);
  faults.draw();
  drawQueues(byId("queues"), model);
  drawBeside(model);
  drawDomains(model);
  drawGroups(model);
  timeline.draw();
  rates.draw();
  drawTail(byId("tail"), model);
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
new ResizeObserver(() => model.look && drawQueues(byId("queues"), model)).observe(byId("queues"));
connect();
