// The end of the log, the newest first: what has no place yet stands above what has.

import { attribute, byId, keep, make, text } from "./dom.js";
import { bytes, clock, count } from "./words.js";

const SHOWN = 30;
const KINDS = { change: "a change of the replicas", staged: "staged", commit: "a commit" };

export function drawTail(parent, model) {
  const entries = [...model.look.tail].reverse().slice(0, SHOWN);
  byId("tail-empty").hidden = entries.length > 0;
  keep(parent, entries, (entry) => `${entry.author}:${entry.counter}`, createEntry, updateEntry);
}

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
  attribute(item, "class", entry.color);
  text(item.place, entry.position === null ? entry.color : count(entry.position));
  text(item.id_, `${entry.author}:${entry.incarnation}:${entry.counter}`);
  text(item.at, clock(entry.at));
  text(item.said, entry.kind !== "data" && KINDS[entry.kind] ? KINDS[entry.kind] : (entry.text ?? bytes(entry.size)));
  attribute(item, "data-void", String(entry.void));
  attribute(item, "title", `${bytes(entry.size)}${entry.void ? ", a retry that counts for nothing" : ""}`);
}
