// What uPlot does not draw by itself: shaded times, limits, and the name of each line at its end.
import uPlot from "uplot";
import { clock, count, duration, quantity } from "./format";
import { colour as css } from "./theme.svelte";

export type Colour = "naive" | "redial" | "served" | "limit" | "other";

export interface Series {
  label: string;
  values: (number | null)[];
  colour: Colour;
  dash?: boolean;
  /** Shades down to zero. */
  fill?: boolean;
  /** Shades down to another series, by its label. */
  fillTo?: string;
}

/** A time that is shaded: when the trouble was. */
export interface Band {
  from: number;
  to: number;
  label: string;
}

/** A limit, or a capacity. A strong one is always within the chart. */
export interface Line {
  value: number;
  label: string;
  strong?: boolean;
}

export interface Shape {
  series: Series[];
  unit: string;
  xKind: "time" | "seconds";
  log: boolean;
  /** What the y axis contains at least. */
  range: [number, number] | undefined;
  sync: string | undefined;
}

/** Colours as a canvas takes them; made anew when the theme changes. */
export type Palette = Record<Colour | "text" | "muted" | "line" | "panel", string>;

export const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif';
/** Below this width the lines are named in the legend alone. */
const LABELS_FROM_PX = 520;
const LABELS_AT_MOST = 6;

export function palette(): Palette {
  return {
    naive: css("naive"),
    redial: css("redial"),
    served: css("served"),
    limit: css("limit"),
    other: css("other"),
    text: css("text"),
    muted: css("muted"),
    line: css("line"),
    panel: css("panel"),
  };
}

/** The same colour, so thin that what is below stays readable. */
export function thin(colour: string, alpha: number): string {
  const parts = /^rgba?\(([\d.]+), ([\d.]+), ([\d.]+)/.exec(colour);
  return parts ? `rgba(${parts[1]}, ${parts[2]}, ${parts[3]}, ${alpha})` : colour;
}

export function xText(x: number, kind: Shape["xKind"]): string {
  return kind === "time" ? clock(x) : duration(Math.round(x * 1e3));
}

/** "3 min 20 s" is too wide for an axis, and its steps are round in seconds. */
function secondsText(x: number): string {
  return `${Number(x.toPrecision(6))} s`;
}

/** A round value of the axis needs no trailing zeros. */
function yText(y: number, unit: string): string {
  if (unit === "×") return `${y}×`;
  if (unit === "ratio") return `${Number((y * 100).toPrecision(6))}%`;
  return unit === "ms" || unit === "s" ? quantity(y, unit) : count(y);
}

/** Whether there is room to name lines at their ends. */
export function labelled(width: number, series: number): boolean {
  return width >= LABELS_FROM_PX && series <= LABELS_AT_MOST;
}

interface Extras {
  bands(): Band[];
  lines(): Line[];
  series(): Series[];
  colours(): Palette;
  oncursor(index: number | null): void;
}

export function options(shape: Shape, width: number, height: number, extras: Extras): uPlot.Options {
  const base = shape.log ? logBase(shape) : 10;
  const names = widthOfNames(shape);
  const axis = {
    stroke: () => extras.colours().muted,
    font: FONT,
    grid: { stroke: () => extras.colours().line, width: 1 },
    ticks: { show: false },
  };
  return {
    width,
    height,
    ms: 1,
    // Without names, half of the last time below the axis.
    padding: [16, (u) => (labelled(u.width, shape.series.length) ? names : 28), 0, 0],
    legend: { show: false },
    cursor: {
      y: false,
      drag: { x: false, y: false },
      points: { size: 7 },
      ...(shape.sync === undefined ? {} : { sync: { key: shape.sync, setSeries: false } }),
    },
    scales: {
      x: { time: shape.xKind === "time" },
      y: {
        distr: shape.log ? 3 : 1,
        log: base === 2 ? 2 : 10,
        range: (_u, low, high) => yRange(shape, extras.lines(), low, high, base),
      },
    },
    axes: [
      {
        ...axis,
        gap: 8,
        size: 32,
        space: 76,
        values: shape.xKind === "seconds" ? (_u, at) => at.map(secondsText) : TIME_AXIS,
      },
      { ...axis, gap: 6, size: 56, values: (_u, at) => at.map((y) => (y === null ? "" : yText(y, shape.unit))) },
    ],
    series: [{}, ...shape.series.map((of) => lineOf(of, extras))],
    bands: shape.series.flatMap((of, i) => gapOf(of, i, shape.series, extras)),
    hooks: {
      drawClear: [(u) => drawBands(u, extras.bands(), extras.colours())],
      draw: [
        (u) => drawLines(u, extras.lines(), extras.colours(), shape.xKind === "time" ? "left" : "right"),
        (u) => {
          if (labelled(u.width, extras.series().length)) drawLabels(u, extras.series(), extras.colours());
        },
      ],
      setCursor: [(u) => extras.oncursor(u.cursor.idx ?? null)],
    },
  };
}

const TIME_AXIS: uPlot.Axis.Values = [
  [3.6e6, "{HH}:{mm}", "\n{YYYY}-{MM}-{DD}", null, null, null, null, null, 1],
  [6e4, "{HH}:{mm}", null, null, null, null, null, null, 1],
  [1e3, "{HH}:{mm}:{ss}", null, null, null, null, null, null, 1],
  [1, "{HH}:{mm}:{ss}", null, null, null, null, null, null, 1],
];

function lineOf(of: Series, extras: Extras): uPlot.Series {
  return {
    label: of.label,
    stroke: () => extras.colours()[of.colour],
    width: 1.75,
    points: { show: false },
    ...(of.dash ? { dash: [6, 4] } : {}),
    ...(of.fill ? { fill: () => thin(extras.colours()[of.colour], 0.14) } : {}),
  };
}

function gapOf(of: Series, index: number, all: Series[], extras: Extras): uPlot.Band[] {
  const other = all.findIndex(({ label }) => label === of.fillTo);
  if (of.fillTo === undefined || other < 0) return [];
  return [{ series: [index + 1, other + 1], fill: () => thin(extras.colours()[of.colour], 0.2) }];
}

function widthOfNames({ series }: Shape): number {
  const context = document.createElement("canvas").getContext("2d");
  if (!context) return 12;
  context.font = FONT.replace("12px", "600 12px");
  return Math.ceil(Math.max(0, ...series.map(({ label }) => context.measureText(label).width))) + 14;
}

function logBase(shape: Shape): 2 | 10 {
  let low = shape.range?.[0] ?? Infinity;
  let high = shape.range?.[1] ?? 0;
  for (const { values } of shape.series) {
    for (const value of values) {
      if (value === null || value <= 0) continue;
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
  }
  return high / low > 128 ? 10 : 2;
}

function yRange(shape: Shape, lines: Line[], low: number | null, high: number | null, base: number): [number, number] {
  let bottom = Math.min(low ?? Infinity, shape.range?.[0] ?? Infinity);
  let top = Math.max(high ?? -Infinity, shape.range?.[1] ?? -Infinity);
  for (const { value, strong } of lines) {
    if (!strong) continue;
    top = Math.max(top, value);
    if (shape.log) bottom = Math.min(bottom, value);
  }
  if (!Number.isFinite(top)) return shape.log ? [1, base] : [0, 1];
  if (!shape.log) return [Math.min(0, bottom), top <= 0 ? 1 : top === shape.range?.[1] ? top : top * 1.06];
  // A value that is a little below a line of the grid does not need another line.
  const below = base ** Math.floor(Math.log(Math.max(bottom, 1e-9)) / Math.log(base) + 0.08);
  const above = base ** Math.ceil(Math.log(Math.max(top, 1e-9)) / Math.log(base) - 1e-9);
  return [below, Math.max(above, below * base)];
}

function drawBands(u: uPlot, bands: Band[], colours: Palette): void {
  if (bands.length === 0) return;
  const { ctx, bbox } = u;
  const ratio = uPlot.pxRatio;
  ctx.save();
  ctx.font = FONT.replace("12px", `${11 * ratio}px`);
  ctx.textBaseline = "bottom";
  for (const { from, to, label } of bands) {
    const left = Math.max(bbox.left, u.valToPos(from, "x", true));
    const right = Math.min(bbox.left + bbox.width, u.valToPos(to, "x", true));
    if (right <= left) continue;
    ctx.fillStyle = thin(colours.limit, 0.1);
    ctx.fillRect(left, bbox.top, right - left, bbox.height);
    ctx.fillStyle = colours.limit;
    // Above the chart, where no line crosses it.
    const fits = left + ctx.measureText(label).width <= bbox.left + bbox.width;
    ctx.textAlign = fits ? "left" : "right";
    ctx.fillText(label, fits ? left : right, bbox.top - 2 * ratio);
  }
  ctx.restore();
}

/** A name is above its line, or below it where the next line is too close. What is live changes at the right end, so names are at the left there. */
function drawLines(u: uPlot, lines: Line[], colours: Palette, side: "left" | "right"): void {
  const { ctx, bbox } = u;
  const ratio = uPlot.pxRatio;
  ctx.save();
  clipTo(u, 14 * ratio);
  ctx.font = FONT.replace("12px", `${11 * ratio}px`);
  ctx.textAlign = side;
  const x = side === "left" ? bbox.left + 4 * ratio : bbox.left + bbox.width - 4 * ratio;
  const placed = lines
    .map((line) => ({ ...line, y: Math.round(u.valToPos(line.value, "y", true)) }))
    .filter(({ y }) => y >= bbox.top - 1 && y <= bbox.top + bbox.height + 1);
  for (const { label, strong, y } of placed) {
    const below = placed.some((other) => other.y < y && y - other.y < 15 * ratio);
    ctx.strokeStyle = ctx.fillStyle = strong ? colours.limit : colours.muted;
    ctx.lineWidth = (strong ? 2 : 1) * ratio;
    ctx.setLineDash(strong ? [] : [2 * ratio, 3 * ratio]);
    ctx.beginPath();
    ctx.moveTo(bbox.left, y);
    ctx.lineTo(bbox.left + bbox.width, y);
    ctx.stroke();
    ctx.textBaseline = below ? "top" : "bottom";
    ctx.fillText(label, x, below ? y + 3 * ratio : y - 2 * ratio);
  }
  ctx.restore();
}

function drawLabels(u: uPlot, series: Series[], colours: Palette): void {
  const { ctx, bbox } = u;
  const ratio = uPlot.pxRatio;
  const height = 14 * ratio;
  const placed = series
    .map(({ label, values, colour }) => ({ label, colour, value: lastOf(values) }))
    .filter((of): of is { label: string; colour: Colour; value: number } => of.value !== null)
    .map((of) => ({ ...of, y: u.valToPos(of.value, "y", true) }))
    .sort((a, b) => a.y - b.y);
  spread(placed, height, bbox.top, bbox.top + bbox.height);
  ctx.save();
  ctx.font = FONT.replace("12px", `600 ${12 * ratio}px`);
  ctx.textAlign = "left";
  ctx.textBaseline = "middle";
  for (const { label, colour, y } of placed) {
    ctx.fillStyle = colours[colour];
    ctx.fillText(label, bbox.left + bbox.width + 8 * ratio, y);
  }
  ctx.restore();
}

/** Moves labels apart that would cover each other, down first, then back up from the bottom. */
function spread(placed: { y: number }[], height: number, top: number, bottom: number): void {
  let least = top + height / 2;
  for (const label of placed) {
    label.y = Math.max(label.y, least);
    least = label.y + height;
  }
  let most = bottom;
  for (const label of placed.toReversed()) {
    label.y = Math.min(label.y, most);
    most = label.y - height;
  }
}

export function lastOf(values: (number | null)[]): number | null {
  for (let i = values.length - 1; i >= 0; i--) {
    const value = values[i];
    if (value !== null && value !== undefined) return value;
  }
  return null;
}

function clipTo({ ctx, bbox }: uPlot, above: number): void {
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top - above, bbox.width, bbox.height + above);
  ctx.clip();
}
