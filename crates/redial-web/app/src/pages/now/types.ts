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
  multiplier: number;
  amplification: number;
  level: string;
}

export interface Verdict {
  level: "calm" | "warn" | "storm" | "critical";
  text: string;
  since: number | null;
  cause: string | null;
  multiplier: number;
  amplification: number;
  upstream: string | null;
}

export interface Upstream {
  name: string;
  level: Verdict["level"];
  multiplier: number;
  amplification: number;
  surge: number | null;
  since: number | null;
  reason: string | null;
  failures: number;
  budget_left: number | null;
  breaker: "closed" | "open" | "half-open" | null;
  in_flight: number;
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
    attempts_per_s: Range;
    multiplier: Range;
    p50_ms?: Range;
    p99_ms?: Range;
  })[];
}

export interface History {
  step_ms: number;
  samples: Step[];
}

/** A step of ten seconds in the form of a sample: rates per second, and the extremes that a visitor looks for. */
export function fromStep({ at, upstreams }: Step): NowSample {
  return {
    at,
    upstreams: upstreams.map((one) => ({
      ...one,
      calls: one.calls / 10,
      attempts: one.attempts_per_s.max,
      multiplier: one.multiplier.max,
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
        multiplier: Math.max(all.multiplier, one.multiplier),
        p50_ms: Math.max(all.p50_ms ?? 0, one.p50_ms ?? 0),
        p99_ms: Math.max(all.p99_ms ?? 0, one.p99_ms ?? 0),
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
