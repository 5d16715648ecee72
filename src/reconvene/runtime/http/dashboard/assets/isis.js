// Process groups in the manner of ISIS: their views by rank, and what casts cost at each site.

import { attribute, byId, keep, make, text } from "./dom.js";
import { bytes, configuration, count, many, names, rate } from "./words.js";

const SHADES = 8;
const COLUMNS = 11;

export function drawGroups(model) {
  const known = knowing(model);
  byId("isis").hidden = !known;
  if (!known) return;
  const { isis } = known;
  text(byId("isis-line"), line(known, model.look));
  attribute(byId("isis-line"), "data-blocked", String(isis.blocked));
  const more = isis.group_count - isis.groups.length;
  const shown = more > 0 ? [...isis.groups, { name: "", more }] : isis.groups;
  keep(byId("isis-groups"), shown, (group) => group.name, createGroup, (item, group) => updateGroup(item, group, model.look.sites));
  byId("isis-empty").hidden = isis.groups.length > 0;
  drawSites(byId("isis-sites").tBodies[0], model);
}

// The site whose word counts: this one, unless it is blocked and another one is not.
function knowing({ look }) {
  const views = [look.site, ...look.sites.filter((site) => site !== look.site)].map((site) => look.views[site]);
  const samples = views.filter((view) => !view.why && view.sample?.isis).map((view) => view.sample);
  return samples.find((sample) => !sample.isis.blocked) ?? samples[0] ?? null;
}

function line({ name, isis }, look) {
  if (isis.refused.length) return `Nobody can use them while these sites take no part: ${names(isis.refused)}.`;
  const last = isis.view === "0" ? "no site view yet" : `site view ${configuration(isis.view, look.sites)}: ${names(isis.members)}`;
  if (isis.blocked) return `Blocked everywhere: no site is known to be in the primary component. As ${name} last knew, ${last}.`;
  return `${last[0].toUpperCase()}${last.slice(1)}. ${many(isis.group_count, "group")}.`;
}

function createGroup() {
  const item = make("li");
  item.name = make("b");
  item.view = make("span", { class: "view" });
  item.members = make("ol", { class: "members" });
  item.properties = make("span", { class: "properties" });
  item.append(make("div", { class: "who" }, item.name, item.view), item.members, item.properties);
  return item;
}

function updateGroup(item, group, sites) {
  if (group.more) {
    text(item.name, "");
    text(item.view, `and ${many(group.more, "more group")}`);
    return;
  }
  text(item.name, group.name);
  text(item.view, `view ${count(group.view)} · ${many(group.member_count, "member")}`);
  const beyond = group.member_count - group.members.length;
  const shown = beyond > 0 ? [...group.members, `and ${count(beyond)} more`] : group.members;
  keep(item.members, shown, (member) => member, () => make("li"), (chip, member) => {
    const rank = shown.indexOf(member);
    const site = sites.indexOf(member.slice(0, member.indexOf(":")));
    text(chip, member);
    attribute(chip, "data-shade", site < 0 ? "" : String(site % SHADES));
    attribute(chip, "data-rank", String(rank));
    attribute(chip, "title", site < 0 ? "" : rank ? `rank ${rank}` : "rank 0: the coordinator");
  });
  const properties = Object.entries(group.properties);
  text(item.properties, properties.map(([name, value]) => (value === null ? name : `${name}=${value}`)).join(" · "));
}

function drawSites(table, model) {
  const { look, rates } = model;
  keep(table, look.sites, (site) => site, createRow, (row, site) => {
    const view = look.views[site];
    const isis = view.why ? null : view.sample?.isis;
    const grown = (isis && rates.get(site)) || {};
    row.dataset.silent = String(!isis);
    const packets = grown.isis_channel_packets;
    const values = isis
      ? [
          isis.blocked ? "blocked" : "in the view",
          rate(grown.isis_casts),
          packets ? (grown.isis_channel_records / packets).toFixed(1) : "–",
          count(isis.processes),
          count(isis.open_casts),
          count(isis.waiting_casts),
          isis.pool ? `${count(isis.pool)}, ${bytes(isis.pool_bytes)}` : "0",
          count(isis.open_gbcasts),
          count(isis.open_calls),
          count(view.sample.counters.isis_kills ?? 0),
        ]
      : [view.why || !view.sample ? "not heard" : "takes no part", ...Array(COLUMNS - 2).fill("–")];
    attribute(row, "data-blocked", String(Boolean(isis?.blocked)));
    [site, ...values].forEach((value, index) => text(row.cells[index], value));
  });
}

function createRow() {
  const row = make("tr", {}, make("th", { scope: "row" }));
  for (let index = 1; index < COLUMNS; index++) row.append(make("td"));
  return row;
}
