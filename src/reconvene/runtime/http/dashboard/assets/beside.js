// Followers and outposts of the log: how far behind each of them is.

import { attribute, byId, keep, make, text } from "./dom.js";
import { count, many, span } from "./words.js";

const CELLS = ["name", "kind", "state", "ordered", "behind", "waiting", "connection"];

export function drawBeside(model) {
  const { beside, views } = model.look;
  const names = Object.keys(beside).sort();
  byId("beside").hidden = !names.length;
  if (!names.length) return;
  // A follower without a source does not know how far the log has gone on: another one may.
  const greens = Object.values(views).map((view) => view.sample?.log?.green ?? 0);
  const heads = Object.values(beside).map((each) => each.log?.head ?? 0);
  const furthest = Math.max(0, ...greens, ...heads);
  const rows = names.map((name) => ({ name, ...beside[name] }));
  text(byId("beside-line"), summary(rows, furthest));
  keep(byId("beside-rows"), rows, (row) => row.name, createRow, (element, row) => updateRow(element, row, furthest, model.look));
}

// The same as a sentence, which screen readers read.
function summary(rows, furthest) {
  const silent = rows.filter((row) => row.why).length;
  const late = rows.filter((row) => !row.why && row.log.kind === "follower" && furthest > row.log.green).length;
  const waiting = rows.reduce((sum, row) => sum + (row.why ? 0 : row.log.waiting), 0);
  const said = [late ? `${many(late, "follower is", "followers are")} behind` : "No follower is behind"];
  if (waiting) said.push(`${many(waiting, "message")} at outposts not confirmed`);
  if (silent) said.push(`${count(silent)} not heard`);
  return `${said.join("; ")}.`;
}

function createRow() {
  const row = make("tr");
  row.cells_ = Object.fromEntries(CELLS.map((name) => [name, make(name === "name" ? "th" : "td")]));
  attribute(row.cells_.name, "scope", "row");
  row.append(...Object.values(row.cells_));
  return row;
}

function updateRow(row, { name, log, heard_at: heardAt, why }, furthest, look) {
  const follower = log?.kind === "follower";
  const trouble = log && log.storage !== "ok" ? log.storage : (log?.trouble ?? []).join("; ");
  attribute(row, "data-stale", String(Boolean(why)));
  attribute(row, "title", why || trouble);
  const told = {
    name,
    kind: log?.kind ?? "–",
    state: why ? (heardAt === null ? "never heard" : `heard ${span(look.at - heardAt)} ago`) : log.storage === "ok" ? "up" : "storage refuses writes",
    ordered: follower ? count(log.green) : "–",
    behind: follower ? count(Math.max(0, furthest - log.green)) : "–",
    waiting: log && !follower ? waits(log) : "–",
    connection: connection(log, trouble),
  };
  for (const [cell, value] of Object.entries(told)) text(row.cells_[cell], value);
}

function waits(log) {
  return log.waiting ? `${count(log.waiting)}, for ${span(log.oldest_s * 1000)}` : "0";
}

function connection(log, trouble) {
  if (!log) return "–";
  if (log.kind === "outpost") return log.connection ? `forwards to ${log.connection}` : log.waiting || trouble ? "reaches no site" : "nothing to forward";
  return log.connection ? `follows ${log.connection}` : "reaches no source";
}
