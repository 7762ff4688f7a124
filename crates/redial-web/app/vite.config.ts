import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";
import { licences } from "./licences.js";
import { packed } from "./packed.js";

// Names without hashes: the server sends an ETag, and `include_bytes!` needs to know them.
export default defineConfig({
  plugins: [svelte(), licences(), packed()],
  build: {
    outDir: "../dist",
    emptyOutDir: true,
    modulePreload: false,
    rollupOptions: {
      output: {
        entryFileNames: "app.js",
        assetFileNames: ({ names }) => (names.includes("licences.txt") ? "licences.txt" : "app[extname]"),
        codeSplitting: false,
      },
    },
  },
});
