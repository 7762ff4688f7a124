// The one stream of live samples. It is closed while the tab is hidden, because a browser keeps only six connections to a host,
// and reopened after the last sample that was seen. The server's ring fills the hole; what it no longer has stays a gap.
import { hello } from "./hello.svelte";
import type { SentSample } from "./types";

export type State = "live" | "stale" | "cut off";

const STALE_MS = 3500;
const LATE_MS = 1200;
const REOPEN_MS = 2000;

let samples = $state.raw<SentSample[]>([]);
let shown = $state.raw<SentSample[] | null>(null);
let connected = $state(false);
let receivedAt = $state(0);
let now = $state(Date.now());

let source: EventSource | null = null;
let after = "";
let reopening: number | undefined;

export const live = {
  /** Oldest first, as many as the server keeps; they stand still while paused. */
  get samples(): SentSample[] {
    return shown ?? samples;
  },
  get latest(): SentSample | undefined {
    return (shown ?? samples).at(-1);
  },
  get state(): State {
    if (!connected) return "cut off";
    return now - receivedAt > STALE_MS ? "stale" : "live";
  },
  /** Milliseconds since the last sample arrived; null before the first. */
  get age(): number | null {
    return receivedAt === 0 ? null : Math.max(0, now - receivedAt);
  },
  get paused(): boolean {
    return shown !== null;
  },
  set paused(pause: boolean) {
    shown = pause ? samples : null;
  },
};

/** Opens the stream; called once, by the shell. */
export function start(): void {
  // Each sample sets the time as well: what is not late needs no frame of its own.
  setInterval(() => {
    if (!document.hidden && Date.now() - now > LATE_MS) now = Date.now();
  }, 500);
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  addEventListener("pagehide", close);
  addEventListener("pageshow", (event) => {
    if (event.persisted) open();
  });
  if (!document.hidden) open();
}

function open(): void {
  clearTimeout(reopening);
  if (source) return;
  now = Date.now();
  source = new EventSource(after === "" ? "/api/live" : `/api/live?after=${encodeURIComponent(after)}`);
  source.addEventListener("open", () => {
    connected = true;
    now = Date.now();
  });
  source.addEventListener("sample", take);
  source.addEventListener("message", take);
  source.addEventListener("gap", forget);
  source.addEventListener("error", () => {
    connected = false;
    // The browser opens a broken stream again by itself, but gives up for good after an answer that is no stream.
    if (source?.readyState !== EventSource.CLOSED) return;
    close();
    reopening = window.setTimeout(open, REOPEN_MS * (0.5 + Math.random()));
  });
}

function close(): void {
  clearTimeout(reopening);
  source?.close();
  source = null;
  connected = false;
}

function take(event: MessageEvent<string>): void {
  let sample: SentSample;
  try {
    sample = JSON.parse(event.data) as SentSample;
  } catch {
    return;
  }
  if (event.lastEventId !== "") after = event.lastEventId;
  const last = samples.at(-1);
  if (last && sample.id <= last.id) return;
  receivedAt = now = Date.now();
  // The server's clock was set back: a chart has one direction.
  if (last && sample.at <= last.at) samples = [sample];
  else samples = [...samples.slice(-((hello.value?.times.kept ?? Infinity) - 1)), sample];
}

/** The server was started again with an earlier clock: what is drawn lies in its future. Other gaps are seen by their times. */
function forget(event: MessageEvent<string>): void {
  try {
    if ((JSON.parse(event.data) as { reset?: boolean }).reset !== true) return;
  } catch {
    return;
  }
  samples = [];
  after = "";
}
