// Partition and heal: shown if this site allows faults and the viewer may inject them.

import { attribute, byId, keep, make, text } from "./dom.js";

const SIDES = 3;
const ORDER = { method: "POST", headers: { "X-Reconvene-Order": "1" } };

export class FaultForm {
  constructor(model) {
    this.model = model;
    this.form = byId("faults");
    this.side = new Map(); // site to the side that it is on
    this.busy = false;
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.partition();
    });
    byId("heal").addEventListener("click", () => this.order("/dashboard/heal", "all sites"));
  }

  draw() {
    const { look, faults } = this.model;
    this.form.hidden = !faults;
    if (!faults) return;
    if (!this.side.size) this.suggest(look.sites);
    keep(byId("sides"), look.sites, (site) => site, (site) => this.createSide(site), (element, site) => this.updateSide(element, site));
    const parts = this.parts().length;
    byId("partition").disabled = this.busy || parts < 2;
    byId("heal").disabled = this.busy;
    attribute(byId("partition"), "title", parts < 2 ? "all sites are on one side" : "only sites on the same side stay connected");
  }

  // Puts a majority on the second side, so that one side stays primary.
  suggest(sites) {
    sites.forEach((site, index) => this.side.set(site, index < Math.floor(sites.length / 2) ? 1 : 2));
  }

  parts() {
    const found = new Map();
    for (const site of this.model.look.sites) {
      const side = this.side.get(site) ?? 1;
      found.set(side, [...(found.get(side) ?? []), site]);
    }
    return [...found.values()];
  }

  createSide(site) {
    const button = make("button", { type: "button", class: "side" });
    button.name_ = make("b", {}, site);
    button.number = make("span");
    button.append(button.name_, button.number);
    button.addEventListener("click", () => {
      this.side.set(site, ((this.side.get(site) ?? 1) % SIDES) + 1);
      this.draw();
    });
    return button;
  }

  updateSide(button, site) {
    const side = this.side.get(site) ?? 1;
    attribute(button, "data-side", String(side));
    text(button.number, `side ${side}`);
    attribute(button, "aria-label", `${site} is on side ${side} of the next partition; press to move it`);
  }

  partition() {
    const parts = this.parts();
    const lists = parts.map((part) => part.join(",")).join(";");
    this.order(`/dashboard/partition?components=${encodeURIComponent(lists)}`, parts.map((part) => part.join(" ")).join(" ┃ "));
  }

  async order(path, done) {
    this.busy = true;
    this.draw();
    text(byId("answer"), "…");
    let said;
    try {
      const answer = await fetch(path, ORDER);
      const result = await answer.json();
      const failed = Object.entries(result.failed ?? {}).map(([site, why]) => `${site} ${why}`);
      said = answer.ok ? [`connected: ${done}`, ...failed].join("; ") : result.error;
    } catch {
      said = "the site does not answer; it may or may not have changed the connections";
    }
    this.busy = false;
    text(byId("answer"), said);
    this.draw();
  }
}
