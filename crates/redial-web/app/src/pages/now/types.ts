// What the server sends for this page, and how it is looked up. No figures are made here that the server has.
import type { Sample } from "../../lib/live.svelte";

export interface UpstreamSample {
  name: string;
  calls: number;
  attempts: number;
  succeeded: number;
  stopped: number;
  p50_ms?: number;
  p99_ms?: number;
  /** Null without calls in the detector's window. */
  multiplier: number | null;
  amplification: number | null;
  level: string;
}

export interface Verdict {
  level: "calm" | "warn" | "storm" | "critical";
  text: string;
  since: number | null;
  cause: string | null;
  multiplier: number | null;
  amplification: number | null;
  upstream: string | null;
}

export interface Upstream {
  name: string;
  level: Verdict["level"];
  multiplier: number | null;
  amplification: number | null;
  surge: number | null;
  since: number | null;
  reason: string | null;
  failures: number;
  budget_left: number | null;
  breaker: "closed" | "open" | "half-open" | null;
  in_flight: number;
  is_queue: boolean;
  oldest_due_ms: number | null;
  action: string | null;
}

export interface Stopped {
  at: number;
  upstream: string;
  reason: string;
  meaning: string;
  count: number;
}

export interface Fault {
  kind: string;
  left_ms: number | null;
}

export interface State {
  verdict: Verdict;
  upstreams: Upstream[];
  stops: Stopped[];
  fault: Fault | null;
}

export interface NowSample extends Sample {
  /** The milliseconds that the counts cover. */
  span_ms: number;
  upstreams: UpstreamSample[];
  state?: State;
}

export interface Demo {
  naive: string;
  redial: string;
  capacity: number;
  faults: { kind: string; seconds: number; meaning: string }[];
}

interface Range {
  min: number;
  max: number;
}

interface Step {
  at: number;
  upstreams: (Omit<UpstreamSample, "multiplier" | "p50_ms" | "p99_ms"> & {
    calls_per_s: Range;
    attempts_per_s: Range;
    multiplier?: Range;
    p50_ms?: Range;
    p99_ms?: Range;
  })[];
}

export interface History {
  step_ms: number;
  samples: Step[];
}

/** A step in the form of a sample of one second: the highest rates, because a visitor looks for peaks. */
export function fromStep({ at, upstreams }: Step): NowSample {
  return {
    id: at,
    at,
    span_ms: 1000,
    upstreams: upstreams.map((one) => ({
      ...one,
      calls: one.calls_per_s.max,
      attempts: one.attempts_per_s.max,
      multiplier: one.multiplier?.max ?? null,
      p50_ms: one.p50_ms?.max,
      p99_ms: one.p99_ms?.max,
    })) as UpstreamSample[],
  };
}

/** Samples are looked at in every second, so each is looked up once. */
const known = new WeakMap<NowSample, Map<string, UpstreamSample>>();
const sums = new WeakMap<NowSample, UpstreamSample>();

export function of(sample: NowSample | undefined, name: string): UpstreamSample | undefined {
  if (!sample) return undefined;
  let map = known.get(sample);
  if (!map) {
    map = new Map(sample.upstreams.map((one) => [one.name, one]));
    known.set(sample, map);
  }
  return map.get(name);
}

/** The greater one; an absent figure is not zero. */
function worse(a: number | null | undefined, b: number | null | undefined): number | null {
  if (a === null || a === undefined) return b ?? null;
  return b === null || b === undefined ? a : Math.max(a, b);
}

/** All upstreams together; the worst of what cannot be added. */
export function total(sample: NowSample): UpstreamSample | undefined {
  const first = sample.upstreams[0];
  if (!first) return undefined;
  let sum = sums.get(sample);
  if (!sum) {
    sum = sample.upstreams.slice(1).reduce(
      (all, one) => ({
        ...all,
        calls: all.calls + one.calls,
        attempts: all.attempts + one.attempts,
        succeeded: all.succeeded + one.succeeded,
        stopped: all.stopped + one.stopped,
        multiplier: worse(all.multiplier, one.multiplier),
        p50_ms: worse(all.p50_ms, one.p50_ms) ?? undefined,
        p99_ms: worse(all.p99_ms, one.p99_ms) ?? undefined,
      }),
      first,
    );
    sums.set(sample, sum);
  }
  return sum;
}

/** The latest state: only the sample that was the latest when it was sent has one. */
export function stateOf(samples: NowSample[]): State | undefined {
  for (let i = samples.length - 1; i >= 0; i--) {
    const { state } = samples[i]!;
    if (state) return state;
  }
  return undefined;
}
