// Joined clusters as a tree: each cluster can be opened, and shows its gateways, who represents it, and what crosses.

import { attribute, byId, keep, make, text } from "./dom.js";
import { count, many, names, rate } from "./words.js";

export function drawDomains(model) {
  const known = knowing(model);
  byId("domains").hidden = !known;
  if (!known) return;
  text(byId("domains-line"), line(known));
  keep(byId("domains-tree"), known.domain.all, (name) => name, create, (item, name) => update(item, name, known, model));
}

// The site whose word counts: one whose messages flow, this one first.
function knowing({ look }) {
  const views = [look.site, ...look.sites.filter((site) => site !== look.site)].map((site) => look.views[site]);
  const samples = views.filter((view) => !view.why && view.sample?.domain).map((view) => view.sample);
  return samples.find((sample) => sample.domain.phase === "open") ?? samples[0] ?? null;
}

function line({ domain }) {
  const away = domain.all.filter((name) => !domain.domains.includes(name));
  const where = domain.configuration ? `Wide configuration ${domain.configuration}: ${names(domain.domains)}.` : "No wide configuration yet.";
  return away.length ? `${where} Out of reach, and perhaps well: ${names(away)}.` : where;
}

function create(name) {
  const item = make("li");
  item.fold = make("details");
  item.head = make("summary");
  item.sites = make("ul", { class: "members" });
  item.note = make("p", { class: "note" });
  item.fold.append(item.head, item.sites, item.note);
  item.append(item.fold);
  return item;
}

function update(item, name, known, model) {
  const { domain } = known;
  const own = name === domain.name;
  const reached = domain.domains.includes(name);
  if (item.first === undefined) {
    item.first = false;
    item.fold.open = own;
  }
  attribute(item, "data-reached", String(reached));
  text(item.head, `${name} · ${own ? `represented by ${domain.representative ?? "nobody"}` : reached ? "connected" : "out of reach"}`);
  const sites = own ? model.look.sites : gateways(name, model);
  keep(item.sites, sites, (site) => site, () => make("li"), (chip, site) => text(chip, own ? role(site, domain) : site));
  text(item.note, own ? crossing(known, model) : `${many(sites.length, "gateway")} of it in the configuration above`);
}

// Of another cluster: its gateways in the configuration above, as this cluster's gateways see it.
function gateways(name, { look }) {
  const found = new Set();
  for (const view of Object.values(look.views)) {
    const above = view.why ? null : view.sample?.domain?.above;
    for (const site of above ?? []) if (site.startsWith(`${name}.`)) found.add(site.slice(name.length + 1));
  }
  return [...found].sort();
}

function role(site, domain) {
  if (domain.refused[site]) return `${site} refused, its rules differ: ${names(domain.refused[site])}`;
  if (site === domain.representative) return `${site} represents`;
  return domain.gateways.includes(site) ? `${site} gateway` : site;
}

function crossing({ domain }, { look, rates }) {
  const sum = (name) => look.sites.reduce((total, site) => total + (rates.get(site)?.[name] ?? 0), 0);
  const rules = `Passes out ${names(domain.out) || "nothing"}, in ${names(domain.in) || "nothing"}`;
  const refused = look.sites.reduce((total, site) => total + (look.views[site].sample?.counters.wide_refused ?? 0), 0);
  return `${rules}. ${rate(sum("wide_crossed"))} a second cross, ${rate(sum("wide_brought_in"))} come in; ${count(domain.waiting)} of this site wait, ${count(refused)} refused.`;
}
