import { expect, test } from "vitest";
import type { SentSample, UpstreamSample } from "../../lib/types";
import { fromStep, of, stateOf, total } from "./samples";

function upstream(name: string, more: Partial<UpstreamSample> = {}): UpstreamSample {
  const none = { multiplier: null, amplification: null, level: "calm" };
  return { name, calls: 10, attempts: 12, succeeded: 9, stopped: 1, ...none, ...more };
}

function sample(...upstreams: UpstreamSample[]): SentSample {
  return { id: 1, at: 1, span_ms: 1000, upstreams };
}

test("an upstream is found by its name", () => {
  const both = sample(upstream("a"), upstream("b", { calls: 3 }));
  expect(of(both, "b")?.calls).toBe(3);
  expect(of(both, "c")).toBeUndefined();
  expect(of(undefined, "a")).toBeUndefined();
});

test("a total adds counts, and takes the worst of the others", () => {
  const all = total(sample(upstream("a", { multiplier: 1.5 }), upstream("b", { multiplier: 3, p99_ms: 40 })));
  expect(all).toMatchObject({ calls: 20, attempts: 24, multiplier: 3, p99_ms: 40 });
  expect(total(sample(upstream("a"), upstream("b")))?.multiplier).toBeNull();
  expect(total(sample())).toBeUndefined();
});

test("a step shows its peaks", () => {
  const range = (max: number) => ({ min: 0, max });
  const step = { name: "a", calls: 90, attempts: 99, succeeded: 80, stopped: 10 };
  const shown = fromStep({
    at: 10_000,
    upstreams: [{ ...step, calls_per_s: range(30), attempts_per_s: range(50), multiplier: range(2) }],
  });
  expect(shown.upstreams[0]).toMatchObject({ calls: 30, attempts: 50, multiplier: 2 });
  expect(shown.upstreams[0]).not.toHaveProperty("p99_ms");
});

test("the state is that of the latest sample that has one", () => {
  const state = { stops: [] } as unknown as NonNullable<SentSample["state"]>;
  expect(stateOf([{ ...sample(), state }, sample()])).toBe(state);
  expect(stateOf([sample()])).toBeUndefined();
});
