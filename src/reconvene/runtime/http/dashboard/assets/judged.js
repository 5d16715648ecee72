// How far the cluster's trace is verified, where a judge follows it.

import { attribute, byId, text } from "./dom.js";
import { clock, many, span } from "./words.js";

const SILENCE = 20_000; // a judge that has not reported for this long (ms) may be gone

export function drawJudged({ look }) {
  const line = byId("judged");
  const { judged } = look;
  line.hidden = !judged;
  if (!judged) return;
  text(line, describe(judged, look.at));
  attribute(line, "data-violated", String(judged.violations > 0));
}

function describe(judged, now) {
  const nodes = Object.entries(judged.verified).sort((one, other) => one[1] - other[1]);
  const said = nodes.length ? [`Verified up to ${clock(nodes[0][1])} (${nodes[0][0]})`, many(judged.rows, "event")] : ["Nothing is verified yet"];
  said.push(judged.violations ? `${many(judged.violations, "violation")} found` : "no violation found");
  for (const lost of judged.not_judged) said.push(`not judged any more: ${lost}`);
  if (judged.over) said.push(`the judge ended at ${clock(judged.at)}`);
  else if (now - judged.at > SILENCE) said.push(`the judge has not reported for ${span(now - judged.at)}`);
  return `${said.join(", ")}.`;
}
