// The state of the playground: what the visitor has set, and what the server answered. The server simulates; here a request
// is sent when something changes, and an older one is dropped.
import { ApiError, get, post, stopped } from "../../lib/api";
import { route, replaceSearch } from "../../lib/route.svelte";
import type { Answer, Ask, PlaygroundDescription, PolicyChoice, Position, Slider, Story, TourStep } from "../../lib/types";

export type Values = Record<string, Position>;

/** After this long, a busy server is asked again. */
export const BUSY_MS = 1000;
/** A slider that rests for so long is drawn with full quality. */
const REST_MS = 250;

/** A tab is a visitor: its newer request replaces its older one, and not that of another tab. */
export const visitor = Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) => byte.toString(16).padStart(2, "0")).join("");

export class Playground {
  about = $state.raw<PlaygroundDescription | null>(null);
  story = $state.raw<Story | null>(null);
  /** The sliders that are not at their default. */
  sliders = $state.raw<Values>({});
  policies = $state.raw<PolicyChoice[]>([]);
  seed = $state(1);
  answer = $state.raw<Answer | null>(null);
  failure = $state("");
  /** Whether what is drawn is coarse, or of an older setting. */
  stale = $state(true);

  #sent: AbortController | null = null;
  #waiting: Ask["quality"] | null = null;
  #rest: ReturnType<typeof setTimeout> | undefined;
  #since = 0;

  async load(): Promise<void> {
    try {
      this.about = await get<PlaygroundDescription>("/playground");
    } catch (error) {
      this.failure = error instanceof Error ? error.message : String(error);
      return;
    }
    this.#read(new URLSearchParams(route.search));
    this.draw("full");
  }

  close(): void {
    clearTimeout(this.#rest);
    this.#sent?.abort();
  }

  value(slider: Slider): Position {
    return this.sliders[slider.name] ?? slider.default;
  }

  /** A slider was moved; `done` when it was released. */
  set(slider: Slider, value: Position, done: boolean): void {
    this.#since = performance.now();
    this.#put({ [slider.name]: value });
    this.draw(done ? "full" : "coarse");
  }

  /** Sets several sliders at once. */
  move(values: Values): void {
    this.#put(values);
    this.draw("full");
  }

  #put(values: Values): void {
    const next = { ...this.sliders, ...values };
    for (const { name, default: usual } of this.story?.sliders ?? []) {
      if (next[name] === usual) delete next[name];
    }
    this.sliders = next;
  }

  tell(name: string): void {
    const story = this.about?.stories.find((story) => story.name === name);
    if (!story) return;
    this.story = story;
    this.sliders = {};
    this.policies = story.policies.map((name) => ({ name }));
    this.draw("full");
  }

  step(step: TourStep): void {
    const first = this.about?.stories[0];
    if (!first) return;
    this.story = first;
    this.sliders = Object.fromEntries(step.sliders);
    this.policies = first.policies.map((name) => ({ name }));
    this.draw("full");
  }

  /** Whether the sliders are those of this step. */
  isAt(step: TourStep): boolean {
    const wanted = Object.fromEntries(step.sliders) as Values;
    const names = new Set([...Object.keys(wanted), ...Object.keys(this.sliders)]);
    const same = [...names].every((name) => wanted[name] === this.sliders[name]);
    return same && this.story?.name === this.about?.stories[0]?.name;
  }

  compare(policies: PolicyChoice[], quality: Ask["quality"] = "full"): void {
    this.policies = policies;
    this.draw(quality);
  }

  ask(quality: Ask["quality"]): Ask {
    const { story, sliders, policies, seed } = this;
    return { visitor, story: story?.name ?? "", sliders, policies, seed, quality };
  }

  /** Asks for the curves of the current setting. One request is in flight: what changes meanwhile is asked for after it. */
  draw(quality: Ask["quality"]): void {
    this.stale = true;
    this.#write();
    clearTimeout(this.#rest);
    if (quality === "coarse") this.#rest = setTimeout(() => this.draw("full"), REST_MS);
    if (this.#sent && quality === "coarse") {
      this.#waiting = quality;
      return;
    }
    this.#sent?.abort();
    void this.#send(quality);
  }

  async #send(quality: Ask["quality"]): Promise<void> {
    const sent = new AbortController();
    this.#sent = sent;
    this.#waiting = null;
    const since = this.#since;
    try {
      const answer = await post<Answer>("/simulate", this.ask(quality), sent.signal);
      if (this.#sent !== sent) return;
      this.answer = answer;
      this.failure = "";
      this.stale = quality === "coarse" || this.#waiting !== null;
      if (since > 0) measured(since, quality);
    } catch (error) {
      if (this.#sent !== sent || stopped(error)) return;
      const replaced = error instanceof ApiError && error.status === 409;
      if (!replaced) this.failure = error instanceof Error ? error.message : String(error);
      // The server is busy with others: what is drawn would stay that of an older setting.
      if (error instanceof ApiError && error.status === 503) this.#rest = setTimeout(() => this.draw("full"), BUSY_MS);
    }
    this.#sent = null;
    if (this.#waiting) void this.#send(this.#waiting);
  }

  /** What differs from the story is in the address. */
  #write(): void {
    const { story, sliders, policies, seed } = this;
    if (!story) return;
    const search = new URLSearchParams();
    if (story.name !== this.about?.stories[0]?.name) search.set("story", story.name);
    for (const [name, value] of Object.entries(sliders)) search.set(name, String(value));
    if (seed !== 1) search.set("seed", String(seed));
    const own = policies.map(({ name }) => name).join() !== story.policies.join() || policies.some(({ toml }) => toml !== undefined);
    if (own) for (const { name, toml } of policies) search.append("policy", toml === undefined ? name : `${name}=${toml}`);
    replaceSearch(search.toString());
  }

  #read(search: URLSearchParams): void {
    const { stories } = this.about!;
    const story = stories.find(({ name }) => name === search.get("story")) ?? stories[0]!;
    this.story = story;
    for (const slider of story.sliders) {
      const text = search.get(slider.name);
      if (text === null) continue;
      const value = slider.kind === "number" ? Number(text) : text;
      if (value !== slider.default && (typeof value === "string" || Number.isFinite(value))) this.sliders = { ...this.sliders, [slider.name]: value };
    }
    const seed = Number(search.get("seed") ?? 1);
    this.seed = Number.isSafeInteger(seed) && seed >= 0 ? seed : 1;
    const named = search.getAll("policy").map((text) => {
      const at = text.indexOf("=");
      return at < 0 ? { name: text } : { name: text.slice(0, at), toml: text.slice(at + 1) };
    });
    this.policies = named.length > 0 ? named : story.policies.map((name) => ({ name }));
  }
}

/** From the input to the frame after the one in which the curves were drawn; read by `performance.getEntriesByName`. */
function measured(since: number, quality: Ask["quality"]): void {
  requestAnimationFrame(() => {
    const channel = new MessageChannel();
    // A message that is sent in a frame arrives after it was painted.
    channel.port1.onmessage = () => performance.measure("slider to painted", { start: since, end: performance.now(), detail: quality });
    channel.port2.postMessage(null);
  });
}
