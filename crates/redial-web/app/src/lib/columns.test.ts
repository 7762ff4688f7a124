import { expect, test } from "vitest";
import { columns } from "./columns";

const at = (at: number, value?: number) => ({ at, value });

test("a column for each pick, after the times", () => {
  const picks = [({ value }: { value?: number | undefined }) => value, () => 7];
  expect(columns([at(1, 5), at(2)], 10, picks)).toEqual([
    [1, 2],
    [5, null],
    [7, 7],
  ]);
});

test("samples that are too far apart have a null between them", () => {
  expect(columns([at(0, 1), at(10, 2), at(21, 3)], 10, [({ value }) => value])).toEqual([
    [0, 10, 11, 21],
    [1, 2, null, 3],
  ]);
});

test("no samples are empty columns", () => {
  expect(columns([], 10, [() => 1])).toEqual([[], []]);
});
