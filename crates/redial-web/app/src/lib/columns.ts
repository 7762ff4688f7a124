// Samples as the columns of a chart.

type Column = (number | null)[];

/** Columns with a null where samples are missing: between two that are further apart than `gap`. The first is the time. */
export function columns<T extends { at: number }>(samples: T[], gap: number, picks: ((sample: T) => number | null | undefined)[]): [number[], ...Column[]] {
  const x: number[] = [];
  const values: Column[] = picks.map(() => []);
  for (const sample of samples) {
    const last = x.at(-1);
    if (last !== undefined && sample.at - last > gap) {
      x.push(last + 1);
      for (const column of values) column.push(null);
    }
    x.push(sample.at);
    picks.forEach((pick, i) => values[i]!.push(pick(sample) ?? null));
  }
  return [x, ...values];
}
