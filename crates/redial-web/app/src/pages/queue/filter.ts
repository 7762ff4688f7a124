// Filters and actions of the queue's page.
import type { JobRow } from "../../lib/types";

export type State = "waiting" | "held" | "running" | "dead";
export const STATES: State[] = ["waiting", "held", "running", "dead"];

/** A filter, as the server takes it. An empty text is no condition. */
export interface JobFilter {
  queue?: string;
  state?: string;
  ids?: string;
  key?: string;
  reason?: string;
  outcome?: string;
  older_ms?: number;
}

/** An action that a dialog is about to confirm. */
export interface Action {
  kind: "redrive" | "purge";
  which: JobFilter;
  /** What it is about, for the dialog's title. */
  about: string;
}

export function query(which: JobFilter & { after?: number; most?: number }): string {
  const set = Object.entries(which).filter(([, value]) => value !== undefined && value !== "");
  return set.length === 0 ? "" : `?${new URLSearchParams(set.map(([name, value]) => [name, String(value)]))}`;
}

/** What a job is about, in a line. */
export function summary({ about, payload }: JobRow): string {
  return about ?? payload.text ?? (payload.bytes === 0 ? "(empty)" : `(${payload.bytes} bytes)`);
}
