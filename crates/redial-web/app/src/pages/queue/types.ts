// What the server sends about queues, by hand.

export interface Queue {
  name: string;
  paused: boolean;
  rate: string | null;
  per_key: number;
  due: number;
  later: number;
  held: number;
  running: number;
  dead: number;
  oldest_ms: number;
  enqueued: number;
  done: number;
  retried: number;
  died: number;
  lost: number;
  dropped: number;
  /** Time, and jobs a second: enqueued, done, retried, given up. */
  rates: [number, number, number, number, number][];
}

export interface Overview {
  now: number;
  queues: Queue[];
  more: number;
}

export interface Group {
  reason: string | null;
  outcome: string | null;
  jobs: number;
  oldest: number;
  newest: number;
  first: number;
}

export interface Groups {
  groups: Group[];
  others: number;
  most: number;
}

export interface Tried {
  attempt: number;
  ended: number;
  took_ms: number;
  outcome: string;
}

export interface Payload {
  bytes: number;
  cut: boolean;
  text?: string;
  hex?: string;
}

export interface Job {
  id: number;
  queue: string;
  state: State;
  key: string | null;
  priority: number;
  policy: string | null;
  attempts: number;
  created: number;
  due: number;
  begun: number | null;
  reason: string | null;
  last: Tried | null;
  about: string | null;
  payload: Payload;
}

export interface WholeJob extends Job {
  now: number;
  history: Tried[];
  headers: { name: string; value: string | null }[];
  idempotency_key: string;
}

export interface Jobs {
  now: number;
  jobs: Job[];
  next: number | null;
}

export interface Preview {
  count: number;
  jobs: Job[];
}

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
export function summary({ about, payload }: Job): string {
  return about ?? payload.text ?? (payload.bytes === 0 ? "(empty)" : `(${payload.bytes} bytes)`);
}
