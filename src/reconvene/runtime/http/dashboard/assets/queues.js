// The log's queue at each site, drawn over one axis of positions, like figure 3.3 of the COReL paper.
// A few messages are drawn as cells with their names, many as bars.

import { attribute, keep, make, style, text } from "./dom.js";
import { count, span } from "./words.js";

const LETTER = 7;
const AROUND = 10;
const BEFORE = 3;
const COLORS = ["green", "yellow", "red"];

export function drawQueues(parent, model) {
  const rows = model.look.sites.map((site) => row(site, model));
  const known = rows.filter((each) => each.log);
  const scale = scaleOf(known, Math.max(parent.clientWidth - (parent.clientWidth > 700 ? 244 : 28), 120));
  keep(parent, rows, (each) => each.site, createRow, (element, each) => updateRow(element, each, scale, model));
}

// A site's queue: as the site last reported it, or else only its green line, as this site last heard of it.
function row(site, model) {
  const view = model.look.views[site];
  if (view.sample?.log) return { site, log: view.sample.log, stale: Boolean(view.why), heardAt: view.heard_at };
  const own = model.look.views[model.look.site].sample.log;
  const green = view.sample ? undefined : own?.greens_told[site];
  if (green === undefined) return { site, log: null };
  const log = { base: 0, green, yellow: 0, red: 0, greens: [], pending: [], primary: null, phase: "" };
  return { site, log, stale: true, heardAt: view.heard_at };
}

// A name may end in a digit: message 1 of o2 is "o2·1".
const label = (author, counter) => `${author.slice(0, 2)}${/\d$/.test(author.slice(0, 2)) ? "·" : ""}${counter}`;
const endOf = (log) => log.green + log.yellow + log.red;

function scaleOf(rows, width) {
  const greens = rows.map((each) => each.log.green);
  const high = Math.max(1, ...rows.map((each) => endOf(each.log)));
  const longest = Math.max(2, ...rows.flatMap(({ log }) => [...log.greens, ...log.pending]).map((run) => label(run[1], run[2] + run[3] - 1).length));
  const fit = Math.max(4, Math.floor(width / (LETTER * longest + AROUND)));
  const low = Math.min(...greens, high);
  if (high - low + BEFORE <= fit) {
    const from = Math.max(0, high - fit);
    return { cells: true, from, to: from + fit };
  }
  const from = Math.max(0, Math.floor(low - (high - low) * 0.15));
  return { cells: false, from, to: Math.ceil(high + (high - from) * 0.02) };
}

function createRow(each) {
  const element = make("div", { class: "queue", "data-site": each.site });
  element.name = make("b");
  element.facts = make("span", { class: "facts" });
  element.track = make("div", { class: "track", role: "img" });
  element.cells_ = make("div", { class: "cells", "aria-hidden": "true" });
  element.lines = make("div", { class: "lines", "aria-hidden": "true" });
  element.track.append(element.cells_, element.lines);
  element.append(make("div", { class: "who" }, element.name, element.facts), element.track);
  return element;
}

function updateRow(element, { site, log, stale, heardAt }, scale, model) {
  text(element.name, site);
  attribute(element, "data-stale", String(Boolean(stale)));
  if (!log) {
    text(element.facts, model.look.views[site].why ? "not heard yet" : "keeps no log");
    attribute(element.track, "aria-label", `${site}: its queue is unknown`);
    for (const part of [element.cells_, element.lines]) keep(part, [], String, make, () => {});
    return;
  }
  const said = [`${count(log.green)} green`];
  if (log.yellow) said.push(`${count(log.yellow)} yellow`);
  if (log.red) said.push(`${count(log.red)} red`);
  const age = stale && heardAt !== null ? `, ${span(model.look.at - heardAt)} ago` : "";
  text(element.facts, said.join(" · ") + age);
  attribute(element.track, "aria-label", `${site}: ${said.join(", ")}${age}`);
  const percent = (position) => (100 * (Math.min(Math.max(position, scale.from), scale.to) - scale.from)) / (scale.to - scale.from);
  keep(element.cells_, scale.cells ? cells(log, scale) : bars(log, scale), (part) => part.key, createPart, (part, shape) => {
    attribute(part, "class", `part ${shape.color}${scale.cells ? " cell" : " bar"}`);
    style(part, "left", `${percent(shape.from)}%`);
    style(part, "width", `${percent(shape.to) - percent(shape.from)}%`);
    text(part, shape.label);
    if (shape.title) attribute(part, "title", shape.title);
  });
  const lines = [{ key: "green", at: log.green, shown: log.green >= scale.from }];
  if (log.yellow) lines.push({ key: "yellow", at: log.green + log.yellow, shown: true });
  keep(element.lines, lines.filter((line) => line.shown), (line) => line.key, (line) => make("i", { class: line.key }), (part, line) => {
    style(part, "left", `${percent(line.at)}%`);
    attribute(part, "data-at", count(line.at));
    attribute(part, "data-edge", percent(line.at) > 92 ? "end" : percent(line.at) < 8 ? "start" : "");
  });
}

const createPart = () => make("span");

// One cell for each message: its author and its counter.
function cells(log, scale) {
  const found = [];
  const [greens, pending] = [expand(log.greens), expand(log.pending)];
  const named = new Map(greens.map((message, index) => [log.green - greens.length + index, message]));
  pending.forEach((message, index) => named.set(log.green + index, message)); // so few that the site reports all of them
  for (let at = Math.max(scale.from, 0); at < Math.min(endOf(log), scale.to); at++) {
    const color = at < log.green ? "green" : at < log.green + log.yellow ? "yellow" : "red";
    const message = named.get(at);
    const gone = at < log.base;
    found.push({
      key: message ? `${message.author}:${message.counter}` : `at ${at}`,
      from: at,
      to: at + 1,
      color: gone ? "gone" : color,
      label: message ? label(message.author, message.counter) : "",
      title: `${message ? `${message.author}'s message ${message.counter}` : "a message"}, ${color}${at < log.green ? `, position ${count(at)}` : ""}`,
    });
  }
  return found;
}

function bars(log) {
  const bounds = [0, log.green, log.green + log.yellow, endOf(log)];
  return COLORS.map((color, index) => ({
    key: color,
    from: bounds[index],
    to: bounds[index + 1],
    color,
    label: index && bounds[index + 1] > bounds[index] ? count(bounds[index + 1] - bounds[index]) : "",
    title: "",
  }));
}

function expand(runs) {
  const found = [];
  for (const [color, author, first, many] of runs) {
    for (let index = 0; index < many; index++) found.push({ color, author, counter: first + index });
  }
  return found;
}
