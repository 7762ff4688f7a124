// What happened, in a sentence, wherever on the page it happened. Errors stay until they are dismissed.
import { stopped } from "./api";

export interface Notice {
  id: number;
  kind: "error" | "done";
  text: string;
}

const MOST = 5;
const DONE_STAYS_MS = 6000;

let next = 0;
let list = $state.raw<Notice[]>([]);

export const notices = {
  get list(): Notice[] {
    return list;
  },
};

export function notify(kind: Notice["kind"], text: string): void {
  const id = next++;
  // The same sentence twice tells nothing new.
  list = [...list.filter((notice) => notice.text !== text), { id, kind, text }].slice(-MOST);
  if (kind === "done") setTimeout(() => dismiss(id), DONE_STAYS_MS);
}

/** Shows a failed action. A request that was stopped on purpose is none. */
export function notifyFailure(what: string, error: unknown): void {
  if (stopped(error)) return;
  notify("error", `${what}: ${error instanceof Error ? error.message : String(error)}`);
}

export function dismiss(id: number): void {
  list = list.filter((notice) => notice.id !== id);
}
