// Formats numbers, times and names for people.

const NUMBER = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const PROPOSER = 1n << 16n;

export const count = (number) => NUMBER.format(number);

export function many(number, word, words = `${word}s`) {
  return `${count(number)} ${number === 1 ? word : words}`;
}

export function rate(number) {
  if (number === undefined || !Number.isFinite(number)) return "–";
  if (number >= 100 || number === 0) return count(number);
  return number >= 10 ? number.toFixed(0) : number.toFixed(1);
}

export function bytes(number) {
  if (number === undefined || !Number.isFinite(number)) return "–";
  for (const unit of ["B", "kB", "MB"]) {
    if (number < 1000) return `${number < 10 && unit !== "B" ? number.toFixed(1) : number.toFixed(0)} ${unit}`;
    number /= 1000;
  }
  return `${number.toFixed(1)} GB`;
}

export function millis(number) {
  if (number === null || number === undefined) return "–";
  if (number >= 10_000) return `${(number / 1000).toFixed(0)} s`;
  if (number >= 1000) return `${(number / 1000).toFixed(1)} s`;
  return `${number >= 10 ? number.toFixed(0) : number.toFixed(1)} ms`;
}

export function span(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 60) return `${s} s`;
  if (s < 3600) return s % 60 && s < 600 ? `${Math.floor(s / 60)} min ${s % 60} s` : `${Math.round(s / 60)} min`;
  return s < 172_800 ? `${Math.floor(s / 3600)} h ${Math.round((s % 3600) / 60)} min` : `${Math.round(s / 86_400)} days`;
}

export const clock = (ms) => new Date(ms).toLocaleTimeString("en-GB");

// A configuration's short name: its counter and the site that proposed it, as in 4a.
export function configuration(number, sites) {
  try {
    const value = BigInt(number);
    return `${value / PROPOSER}${sites[Number(value % PROPOSER)] ?? ""}`;
  } catch {
    return number;
  }
}

// A list of names, shortened if there are many.
export function names(list, most = 12) {
  return list.length <= most ? list.join(", ") : `${list.slice(0, most - 1).join(", ")} and ${list.length - most + 1} more`;
}
