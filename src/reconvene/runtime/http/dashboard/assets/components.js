// The picture: one box for each component, and one for the sites that are not heard.

import { attribute, keep, make, style, text } from "./dom.js";
import { configuration, many, names, span } from "./words.js";

export function drawComponents(parent, model) {
  const { parts, silent } = model.components();
  const boxes = parts.map((part) => ({ ...part, key: part.sites.join(" ") }));
  if (silent.length) boxes.push({ key: "silent", number: null, sites: silent, health: "silent", members: [] });
  keep(parent, boxes, (box) => box.key, createBox, (element, box) => updateBox(element, box, model));
}

// The same as a sentence, which stands above the picture and which screen readers read.
export function describe(model) {
  const { parts, silent } = model.components();
  const said = parts.map((part) => `${names(part.sites)} ${part.sites.length === 1 ? "is" : "are"} ${WORDS[part.health] ?? part.health}`);
  if (silent.length) said.push(`${names(silent)} ${silent.length === 1 ? "is" : "are"} not heard`);
  return `${many(parts.length, "component")}: ${said.join("; ")}.`;
}

const WORDS = { primary: "primary", minority: "a minority", forming: "forming a configuration" };

function createBox() {
  const box = make("article", { class: "component" });
  box.title_ = make("h3");
  box.badge = make("span", { class: "badge" });
  box.sites_ = make("ul");
  box.append(make("header", {}, box.title_, box.badge), box.sites_);
  return box;
}

function updateBox(box, part, model) {
  const { sites } = model.look;
  attribute(box, "data-health", part.health);
  style(box, "--weight", String(part.sites.length));
  text(box.title_, part.number === null ? "not heard" : configuration(part.number, sites));
  text(box.badge, part.number === null ? many(part.sites.length, "site") : part.health);
  const said = part.number === null ? "sites that are not heard" : `configuration ${box.title_.textContent}, ${part.health}`;
  attribute(box, "aria-label", `${said}: ${part.sites.join(", ")}`);
  keep(box.sites_, part.sites, (site) => site, createSite, (element, site) => updateSite(element, site, model));
}

function createSite(site) {
  const item = make("li", { class: "site", "data-site": site });
  item.name = make("b");
  item.state = make("span", { class: "state" });
  item.note = make("span", { class: "note" });
  item.append(item.name, item.state, item.note);
  return item;
}

function updateSite(item, site, model) {
  const { look } = model;
  const view = look.views[site];
  const sample = view.sample;
  const own = site === look.site;
  attribute(item, "data-own", String(own));
  text(item.name, site);
  if (view.why) {
    attribute(item, "data-state", "silent");
    text(item.state, view.heard_at === null ? "never heard" : `last heard ${span(look.at - view.heard_at)} ago`);
    text(item.note, "");
    attribute(item, "title", view.why);
    return;
  }
  const trouble = sample && sample.storage !== "ok";
  attribute(item, "data-state", trouble ? "trouble" : (sample?.health ?? "unasked"));
  attribute(item, "title", trouble ? sample.storage : sample ? `up for ${span(sample.uptime_s * 1000)}` : "this site can't query it");
  text(item.state, trouble ? "storage refuses writes" : sample ? (sample.phase === "operational" ? "up" : sample.phase) : "in this site's configuration");
  const notes = [];
  if (own) notes.push("this site");
  if (sample) notes.push(`start ${sample.incarnation}`);
  if (sample?.processes) notes.push(many(sample.processes, "process", "processes"));
  text(item.note, notes.join(" · "));
}
