// Compressed copies of what is large, beside the files themselves: the server sends them as they are.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

/** @returns {import("vite").Plugin} */
export function packed() {
  return {
    name: "packed",
    writeBundle({ dir }) {
      for (const name of ["app.js", "app.css"]) {
        const path = join(dir, name);
        writeFileSync(`${path}.gz`, gzipSync(readFileSync(path), { level: 9 }));
      }
    },
  };
}
