// The built page contains code of others, and their licences demand their texts beside it: `licences.txt`, with every package
// that a module of the page comes from.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** @returns {import("vite").Plugin} */
export function licences() {
  return {
    name: "licences",
    generateBundle() {
      const folders = new Map();
      for (const id of this.getModuleIds()) {
        const found = /^\0?(.*\/node_modules\/((?:@[^/]+\/)?[^/]+))\//.exec(id);
        if (found) folders.set(found[2], found[1]);
      }
      const parts = [...folders].sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, folder]) => part(name, folder));
      this.emitFile({ type: "asset", fileName: "licences.txt", source: parts.join("\n") });
    },
  };
}

function part(name, folder) {
  const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const file = readdirSync(folder).find((file) => /^licen[cs]e(\.|$)/i.test(file));
  if (!file) throw new Error(`${name} has no file with its licence`);
  const text = readFileSync(join(folder, file), "utf8").replaceAll("\r\n", "\n").trim();
  return `== ${name} ${version}: ${license}\n\n${text}\n`;
}
