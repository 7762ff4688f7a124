import { expect, test } from "vitest";
import { count, duration, parse, percent, quantity, relative, times, visible } from "./format";

test.each([
  [0, "0"],
  [999, "999"],
  [999_600, "1 M"],
  [25_000_000, "25 M"],
  [1234, "1.23 k"],
  [0.125, "0.13"],
  [NaN, "–"],
])("a count of %d is %s", (value, text) => expect(count(value)).toBe(text));

test.each([
  [0, "0 s"],
  [0.85, "850 µs"],
  [38, "38 ms"],
  [999.5, "1 s"],
  [1200, "1.2 s"],
  [200_000, "3 min 20 s"],
  [7_200_000, "2 h"],
  [-200_000, "−3 min 20 s"],
  [5 * 86_400_000, "5 d"],
])("%d ms are %s", (ms, text) => expect(duration(ms)).toBe(text));

test.each([
  [0, "0%"],
  [0.0312, "3.1%"],
  [0.9951, "99.51%"],
  [1, "100%"],
])("a share of %d is %s", (ratio, text) => expect(percent(ratio)).toBe(text));

test("a multiplier has two digits below ten", () => {
  expect([times(1.03), times(12.34)]).toEqual(["1.03×", "12.3×"]);
});

test("a time is relative to now, in whole seconds", () => {
  expect([relative(12_400, 0), relative(0, 180_000), relative(900, 0)]).toEqual(["in 12 s", "3 min ago", "now"]);
});

test.each([
  ["25M", "", 25_000_000],
  ["1,500", "", 1500],
  ["30%", "ratio", 0.3],
  ["0.3", "ratio", 0.3],
  ["1.2 s", "ms", 1200],
  ["3min 20s", "ms", 200_000],
  ["90", "s", 90],
  ["10 clients", "", null],
  ["five", "ms", null],
  ["1 fortnight", "ms", null],
])("%s for the unit “%s” is read as %d", (text, unit, value) => expect(parse(text, unit)).toBe(value));

test.each([
  [38, "ms"],
  [200_000, "ms"],
  [0.25, "ratio"],
  [25_000_000, ""],
])("what is written can be read: %d %s", (value, unit) => expect(parse(quantity(value, unit), unit)).toBeCloseTo(value));

test("characters that would reorder a text are written out", () => {
  expect(visible("a\u202eb\n")).toBe("a\\u{202e}b\n");
});
