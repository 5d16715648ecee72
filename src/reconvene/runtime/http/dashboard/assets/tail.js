// The end of the log, the newest message first: messages without a position are above those that have one.

import { attribute, byId, keep, make, text } from "./dom.js";
import { bytes, clock, count } from "./words.js";

const PLACED = 16;
const WAITING = 10;
const KINDS = { change: "a change of the replicas", staged: "staged", commit: "a commit" };

export function drawTail(parent, model) {
  const newest = [...model.look.tail].reverse();
  const waiting = newest.filter((entry) => entry.position === null).slice(0, WAITING);
  const placed = newest.filter((entry) => entry.position !== null).slice(0, PLACED);
  const log = model.look.views[model.look.site].sample.log;
  const more = log ? log.yellow + log.red - waiting.length : 0;
  const gap = more > 0 && waiting.length ? [{ gap: `${count(more)} more without a position` }] : [];
  byId("tail-empty").hidden = newest.length > 0;
  text(byId("tail-empty"), log ? "Nothing has been appended yet." : "This site keeps no log.");
  keep(parent, [...waiting, ...gap, ...placed], keyOf, createEntry, updateEntry);
}

const keyOf = (entry) => entry.gap ? "gap" : `${entry.author}:${entry.counter}`;

function createEntry() {
  const item = make("li");
  item.place = make("span", { class: "place" });
  item.id_ = make("code");
  item.at = make("time");
  item.said = make("span", { class: "said" });
  item.append(item.place, item.id_, item.at, item.said);
  return item;
}

function updateEntry(item, entry) {
  if (entry.gap) {
    attribute(item, "class", "gap");
    text(item.said, entry.gap);
    return;
  }
  attribute(item, "class", entry.color);
  text(item.place, entry.position === null ? entry.color : count(entry.position));
  text(item.id_, `${entry.author}:${entry.incarnation}:${entry.counter}`);
  text(item.at, clock(entry.at));
  text(item.said, entry.kind !== "data" && KINDS[entry.kind] ? KINDS[entry.kind] : (entry.text ?? bytes(entry.size)));
  attribute(item, "data-void", String(entry.void));
  attribute(item, "title", `${bytes(entry.size)}${entry.void ? ", a retry that does not count" : ""}`);
}
