// How figures are written: presentation only. `parse` reads back what the functions write.

const STEPS: [number, string][] = [
  [1e12, "T"],
  [1e9, "G"],
  [1e6, "M"],
  [1e3, "k"],
];

/** 25000000 → "25 M"; at most three significant digits. */
export function count(value: number): string {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  // 999.6 k would be written as "1000 k".
  const step = STEPS.find(([by]) => size >= by * 0.9995);
  if (!step) return digits(value);
  return `${digits(value / step[0])} ${step[1]}`;
}

/** Milliseconds → "850 µs", "38 ms", "1.2 s", "3 min 20 s", "2 h", "5 d". */
export function duration(ms: number): string {
  if (!Number.isFinite(ms)) return "–";
  const size = Math.abs(ms);
  if (size === 0) return "0 s";
  if (size < 1) return `${digits(ms * 1000)} µs`;
  if (size < 999.5) return `${digits(ms)} ms`;
  if (size < 99_950) return `${digits(ms / 1000)} s`;
  const sign = ms < 0 ? "−" : "";
  const seconds = Math.round(size / 1000);
  if (seconds < 3600) return sign + two(Math.floor(seconds / 60), "min", seconds % 60, "s");
  if (seconds < 86_400) return sign + two(Math.floor(seconds / 3600), "h", Math.floor((seconds % 3600) / 60), "min");
  return sign + two(Math.floor(seconds / 86_400), "d", Math.floor((seconds % 86_400) / 3600), "h");
}

/** 0.0312 → "3.1%". */
export function percent(ratio: number): string {
  if (!Number.isFinite(ratio)) return "–";
  const value = ratio * 100;
  const places = Math.abs(value) >= 99.95 || value === 0 ? 0 : Math.abs(value) >= 99 ? 2 : 1;
  return `${value.toFixed(places)}%`;
}

/** A multiplier: "1.03×". */
export function times(value: number): string {
  if (!Number.isFinite(value)) return "–";
  return `${value.toFixed(value < 10 ? 2 : 1)}×`;
}

/** Unix milliseconds → "02:14:07" in the visitor's zone, with the date if it is another day. */
export function clock(at: number): string {
  const date = new Date(at);
  const time = `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
  return date.toDateString() === new Date().toDateString() ? time : `${day(date)} ${time}`;
}

/** "in 12 s", "3 min ago", "now". */
export function relative(at: number, now: number): string {
  const away = at - now;
  if (Math.abs(away) < 1000) return "now";
  const rounded = Math.round(Math.abs(away) / 1000) * 1000;
  return away > 0 ? `in ${duration(rounded)}` : `${duration(rounded)} ago`;
}

/** A value with its unit. "ms" is a duration, "ratio" a percentage, "×" a multiplier; all others follow a count. */
export function quantity(value: number, unit = ""): string {
  switch (unit) {
    case "ms":
      return duration(value);
    case "s":
      return duration(value * 1000);
    case "ratio":
      return percent(value);
    case "×":
      return times(value);
    case "":
      return count(value);
    default:
      return unit.startsWith("/") ? `${count(value)}${unit}` : `${count(value)} ${unit}`;
  }
}

const PREFIXES: Record<string, number> = { "": 1, k: 1e3, K: 1e3, M: 1e6, m: 1e6, G: 1e9, B: 1e9, T: 1e12 };
const TIMES: Record<string, number> = { µs: 1e-3, us: 1e-3, ms: 1, s: 1e3, min: 6e4, m: 6e4, h: 3.6e6, d: 8.64e7 };

/** Reads what a person types for a `unit`: "25M", "1.2 s", "30%". Null if it is no such value. */
export function parse(text: string, unit = ""): number | null {
  const cleaned = text.trim().replaceAll("×", "").replaceAll("x", "");
  if (unit === "ms" || unit === "s") return parseDuration(cleaned, unit);
  const match = /^(-?[\d.,_]+)\s*([kKmMGBT]?)(.*)$/.exec(cleaned);
  if (!match) return null;
  const value = Number(match[1]!.replace(/[,_]/g, "")) * PREFIXES[match[2]!]!;
  const rest = match[3]!.trim();
  if (!Number.isFinite(value)) return null;
  if (unit === "ratio") return rest === "%" || value > 1 ? value / 100 : value;
  return rest === "" || rest === unit || rest === `/${unit}` ? value : null;
}

function parseDuration(text: string, unit: string): number | null {
  const parts = [...text.matchAll(/(-?[\d.]+)\s*([a-zµ]*)/g)];
  if (
    parts.length === 0 ||
    parts
      .map((part) => part[0])
      .join("")
      .replace(/\s/g, "") !== text.replace(/\s/g, "")
  )
    return null;
  let sum = 0;
  for (const [, number, name] of parts) {
    const by = TIMES[name || unit];
    if (by === undefined) return null;
    sum += Number(number) * by;
  }
  return Number.isFinite(sum) ? (unit === "s" ? sum / 1000 : sum) : null;
}

function digits(value: number): string {
  const size = Math.abs(value);
  const places = size >= 100 || Number.isInteger(value) ? 0 : size >= 10 ? 1 : 2;
  const text = value.toFixed(places);
  return places === 0 ? text : text.replace(/\.?0+$/, "");
}

function two(major: number, majorUnit: string, minor: number, minorUnit: string): string {
  return minor === 0 ? `${major} ${majorUnit}` : `${major} ${majorUnit} ${minor} ${minorUnit}`;
}

function day(date: Date): string {
  return `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}`;
}

function pad(value: number): string {
  return String(value).padStart(2, "0");
}

// eslint-disable-next-line no-control-regex -- control characters are what it looks for
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;

/** A text from anywhere, with characters that would hide or reorder others written out. */
export function visible(text: string): string {
  return text.replace(HIDDEN, (odd) => `\\u{${odd.charCodeAt(0).toString(16)}}`);
}
