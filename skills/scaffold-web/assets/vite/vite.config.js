import { defineConfig } from "vitest/config";

export default defineConfig({
  base: "./", // the built page works in any folder
  test: { environment: "happy-dom" },
});
