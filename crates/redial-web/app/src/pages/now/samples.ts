// How the samples of the server are looked up. No figures are made here that the server has.
import type { HistoryStep, SentSample, SentState, UpstreamSample } from "../../lib/types";

/** A step in the form of a sample of one second: the highest rates, because a visitor looks for peaks. */
export function fromStep({ at, upstreams }: HistoryStep): SentSample {
  return {
    id: at,
    at,
    span_ms: 1000,
    upstreams: upstreams.map(({ name, succeeded, stopped, ...of }) => ({
      name,
      succeeded,
      stopped,
      calls: of.calls_per_s.max,
      attempts: of.attempts_per_s.max,
      multiplier: of.multiplier?.max ?? null,
      amplification: null,
      level: "",
      ...(of.p50_ms ? { p50_ms: of.p50_ms.max } : {}),
      ...(of.p99_ms ? { p99_ms: of.p99_ms.max } : {}),
    })),
  };
}

/** Samples are looked at in every second, so each is looked up once. */
const known = new WeakMap<SentSample, Map<string, UpstreamSample>>();
const sums = new WeakMap<SentSample, UpstreamSample>();

export function of(sample: SentSample | undefined, name: string): UpstreamSample | undefined {
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
export function total(sample: SentSample): UpstreamSample | undefined {
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
export function stateOf(samples: SentSample[]): SentState | undefined {
  for (let i = samples.length - 1; i >= 0; i--) {
    const { state } = samples[i]!;
    if (state) return state;
  }
  return undefined;
}
