import { expect, test } from "vitest";
import type { JobRow } from "../../lib/types";
import { query, summary } from "./filter";

test("conditions that are not set are not in the address", () => {
  expect(query({})).toBe("");
  expect(query({ queue: "a b", state: "", older_ms: 5, after: 7 })).toBe("?queue=a+b&older_ms=5&after=7");
});

test.each([
  [{ about: "POST /x", payload: { bytes: 1, cut: false, text: "y" } }, "POST /x"],
  [{ about: null, payload: { bytes: 1, cut: false, text: "y" } }, "y"],
  [{ about: null, payload: { bytes: 0, cut: false } }, "(empty)"],
  [{ about: null, payload: { bytes: 3, cut: false, hex: "ffffff" } }, "(3 bytes)"],
])("a job in a line: %o", (job, text) => expect(summary(job as JobRow)).toBe(text));
