// What the server is, asked again until it answers.
import { get } from "./api";

export interface Hello {
  version: string;
  mode: "demo" | "proxy" | "page-only";
  pages: string[];
  /** Thresholds of the storm detector, from the code that owns them. */
  lines: Record<string, number>;
}

const AGAIN_MS = 2000;

let value = $state.raw<Hello | null>(null);

export const hello = {
  get value(): Hello | null {
    return value;
  },
};

export async function greet(): Promise<void> {
  try {
    value = await get<Hello>("/hello");
  } catch {
    setTimeout(() => void greet(), AGAIN_MS);
  }
}
