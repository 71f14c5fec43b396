import type { NodePackage } from "./node-package.ts";

interface NodeLibraries {
  /** Packages of Debian that packages of Node.js need at run time. */
  readonly debian: readonly string[];
  /** Further lines of the final image, after the app was copied and before the user is set. */
  readonly lines: readonly string[];
  /** Environment variables of the build and of the app, as `NAME=value`. */
  readonly environment: readonly string[];
}

/** Finds the libraries and programs of the system that the packages of a source need at run time. */
export function findNodeLibraries(pkg: NodePackage): NodeLibraries {
  const has = (name: string) => name in pkg.dependencies || name in pkg.optionalDependencies;
  const debian: string[] = [];
  const lines: string[] = [];
  const environment: string[] = [];
  if (has("@prisma/client") || has("prisma")) debian.push("openssl");
  if (has("fluent-ffmpeg")) debian.push("ffmpeg");
  if (has("puppeteer") || has("puppeteer-core")) {
    debian.push("chromium", "fonts-liberation");
    environment.push("PUPPETEER_SKIP_DOWNLOAD=1", "PUPPETEER_EXECUTABLE_PATH=/usr/bin/chromium");
  }
  if (has("playwright")) {
    environment.push("PLAYWRIGHT_BROWSERS_PATH=/browsers");
    lines.push("RUN /app/node_modules/.bin/playwright install --with-deps chromium");
  }
  return { debian, lines, environment };
}
