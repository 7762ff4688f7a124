// What the server is, asked again until it answers.
import { get } from "./api";
import type { Hello } from "./types";

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
