// The page's data: the last state of the cluster (`look`), every site's bands, and how fast the counters grow.

const POINTS = 240;
const BANDS = 600;

export class Model {
  constructor() {
    this.look = null;
    this.faults = false;
    this.members = new Map(); // configuration number to its members
    this.bands = new Map(); // site to [{at, state, number, incarnation}], in order
    this.rates = new Map(); // site to {counter: growth per second}
    this.points = []; // {at, accepted, ordered, delay, trip} of the site that serves this page
    this._samples = new Map();
  }

  take(message) {
    this.look = message.look;
    this.faults = message.faults;
    if (message.whole) {
      this.members.clear();
      this.bands.clear();
    }
    for (const [number, members] of Object.entries(message.news.configurations)) this.members.set(number, members);
    for (const [site, fresh] of Object.entries(message.news.bands)) {
      const bands = this.bands.get(site) ?? [];
      for (const [at, state, number, incarnation] of fresh) bands.push({ at, state, number, incarnation });
      this.bands.set(site, bands.slice(-BANDS));
    }
    for (const [site, view] of Object.entries(this.look.views)) this._grow(site, view);
    this._point();
  }

  // Groups the sites that answer by their configuration; `silent` are the sites that are not heard.
  components() {
    const found = new Map();
    const silent = [];
    const own = this.look.views[this.look.site].sample;
    for (const site of this.look.sites) {
      const view = this.look.views[site];
      let number = null;
      if (!view.why && view.sample) number = view.sample.configuration;
      else if (!view.why && own.members.includes(site)) number = own.configuration;
      if (number === null) silent.push(site);
      else if (found.has(number)) found.get(number).sites.push(site);
      else found.set(number, { number, sites: [site], health: "", members: [] });
    }
    for (const component of found.values()) {
      const samples = component.sites.map((site) => this.look.views[site].sample).filter(Boolean);
      const first = samples[0] ?? own;
      component.health = samples.some((sample) => sample.health === "forming") ? "forming" : first.health;
      component.members = first.members;
    }
    const parts = [...found.values()].sort((a, b) => (a.sites[0] < b.sites[0] ? -1 : 1));
    return { parts, silent };
  }

  _grow(site, view) {
    const now = view.sample;
    const before = this._samples.get(site);
    if (!now || view.why) {
      this.rates.delete(site);
      this._samples.delete(site);
    } else if (!before || before.incarnation !== now.incarnation) {
      this._samples.set(site, now);
    } else if (now.at > before.at) {
      const rates = {};
      for (const [name, value] of Object.entries(now.counters)) {
        const grown = ((value - (before.counters[name] ?? 0)) * 1000) / (now.at - before.at);
        const last = this.rates.get(site)?.[name];
        rates[name] = last === undefined ? grown : 0.5 * last + 0.5 * grown;
        if (rates[name] < 0.05) rates[name] = 0;
      }
      this.rates.set(site, rates);
      this._samples.set(site, now);
    }
  }

  _point() {
    const { site, at, views } = this.look;
    const sample = views[site].sample;
    const rates = this.rates.get(site);
    const trips = trip(sample);
    this.points.push({
      at,
      accepted: rates?.log_accepted_messages,
      ordered: rates?.log_ordered_messages,
      delay: sample.order_ms,
      trip: trips,
    });
    this.points = this.points.slice(-POINTS);
  }
}

// The longest smoothed round trip to another member, in ms; null if there is none.
export function trip(sample) {
  const others = sample.members.filter((name) => name !== sample.name).map((name) => sample.round_trips_us[name] ?? 0);
  const longest = Math.max(0, ...others) / 1000;
  return longest > 0 ? longest : null;
}
