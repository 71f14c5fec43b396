import { describe, expect, test } from "vitest";
import { chooseDockerfile } from "../../../../src/resources/recipe/choose-dockerfile.ts";
import { createMemorySource } from "./memory-source-reader.ts";

type Files = Readonly<Record<string, unknown>>;

async function textOf(
  packages: Files,
  {
    scripts = { build: "build it" },
    files = {},
    dev = {},
  }: { scripts?: Files; files?: Files; dev?: Files } = {},
) {
  const pkg = { scripts, dependencies: packages, devDependencies: dev };
  const chosen = await chooseDockerfile(createMemorySource({ "package.json": pkg, ...files }), {});
  if (chosen.type !== "generated") throw new Error(`${chosen.path} was found`);
  return chosen.text;
}
const lastLine = (text: string) => text.trim().split("\n").at(-1);

describe("a framework that builds pages", () => {
  test.each<[string, Files, Files, string, "index" | "error page"]>([
    [
      "Next.js with output export",
      { next: "15" },
      { "next.config.ts": 'const c = { output: "export" }' },
      "out",
      "error page",
    ],
    [
      "SvelteKit with the static adapter",
      { "@sveltejs/kit": "2", "@sveltejs/adapter-static": "3" },
      {},
      "build",
      "error page",
    ],
    [
      "SvelteKit with a fallback page",
      { "@sveltejs/kit": "2", "@sveltejs/adapter-static": "3" },
      { "svelte.config.js": "adapter({ fallback: '200.html' })" },
      "build",
      "index",
    ],
    ["Astro", { astro: "5" }, {}, "dist", "error page"],
    [
      "React Router without a server",
      { "@react-router/dev": "7" },
      { "react-router.config.ts": "export default { ssr: false }" },
      "build/client",
      "index",
    ],
    [
      "Angular",
      { "@angular/core": "20" },
      {
        "angular.json": {
          projects: {
            shop: { architect: { build: { builder: "@angular/build:application", options: {} } } },
          },
        },
      },
      "dist/shop/browser",
      "index",
    ],
    [
      "an older Angular",
      { "@angular/core": "14" },
      {
        "angular.json": {
          projects: {
            shop: {
              architect: {
                build: {
                  builder: "@angular-devkit/build-angular:browser",
                  options: { outputPath: "dist/web" },
                },
              },
            },
          },
        },
      },
      "dist/web",
      "index",
    ],
    ["Expo", { expo: "54" }, {}, "dist", "index"],
    ["Create React App", { "react-scripts": "5" }, {}, "build", "index"],
    ["Gatsby", { gatsby: "5" }, {}, "public", "error page"],
    ["Docusaurus", { "@docusaurus/core": "3" }, {}, "build", "error page"],
    ["Vue CLI", { "@vue/cli-service": "5" }, {}, "dist", "index"],
    ["Eleventy", { "@11ty/eleventy": "3" }, {}, "_site", "error page"],
    ["Parcel", { parcel: "2" }, {}, "dist", "index"],
    ["Vite", { vite: "7" }, { "index.html": "" }, "dist", "index"],
    [
      "Vite with several pages",
      { vite: "7" },
      { "index.html": "", "about.html": "" },
      "dist",
      "error page",
    ],
  ])("is served by Caddy: %s", async (_, packages, files, output, fallback) => {
    const text = await textOf(packages, { files });
    expect(text).toContain(`COPY --from=build /app/${output} /srv\n`);
    expect(text.includes("/index.html'")).toBe(fallback === "index");
    expect(text.includes("rewrite * /404.html")).toBe(fallback === "error page");
  });

  test("is exported by Expo even without a build script", async () => {
    expect(await textOf({ expo: "54" }, { scripts: { start: "expo start" } })).toContain(
      "RUN npx expo export --platform web\n",
    );
  });

  test("is not served by Caddy if a start script runs a server of the app", async () => {
    expect(
      lastLine(
        await textOf(
          { vite: "7", express: "5" },
          { scripts: { build: "vite build", start: "node server.js" } },
        ),
      ),
    ).toBe('CMD ["node", "server.js"]');
  });
});

describe("a framework that builds a server", () => {
  test.each<[string, Files, Files, Files, string]>([
    ["Next.js", { next: "15" }, { build: "next build" }, {}, '["next", "start"]'],
    ["Nuxt", { nuxt: "4" }, { build: "nuxt build" }, {}, '["node", ".output/server/index.mjs"]'],
    [
      "SvelteKit with the Node.js adapter",
      { "@sveltejs/kit": "2", "@sveltejs/adapter-node": "5" },
      { build: "vite build" },
      {},
      '["node", "build"]',
    ],
    [
      "Astro with the Node.js adapter",
      { astro: "5", "@astrojs/node": "9" },
      { build: "astro build" },
      {},
      '["node", "dist/server/entry.mjs"]',
    ],
    [
      "React Router",
      { "@react-router/dev": "7", "@react-router/serve": "7" },
      { build: "react-router build" },
      {},
      '["react-router-serve", "build/server/index.js"]',
    ],
    [
      "Remix",
      { "@remix-run/serve": "2" },
      { build: "remix vite:build" },
      {},
      '["remix-serve", "build/server/index.js"]',
    ],
    [
      "TanStack Start with nitro",
      { "@tanstack/react-start": "1", nitro: "3", vite: "7" },
      { build: "vite build" },
      {},
      '["node", ".output/server/index.mjs"]',
    ],
    [
      "SolidStart",
      { "@solidjs/start": "1" },
      { build: "vinxi build" },
      {},
      '["node", ".output/server/index.mjs"]',
    ],
    [
      "Angular with a server",
      { "@angular/core": "20" },
      { build: "ng build", start: "ng serve" },
      {
        "angular.json": {
          projects: {
            shop: {
              architect: {
                build: {
                  builder: "@angular/build:application",
                  options: { ssr: { entry: "src/server.ts" } },
                },
              },
            },
          },
        },
      },
      '["node", "dist/shop/server/server.mjs"]',
    ],
    [
      "NestJS",
      { "@nestjs/core": "11" },
      { build: "nest build", start: "nest start" },
      {},
      '["node", "dist/main"]',
    ],
    [
      "NestJS with its own script for production",
      { "@nestjs/core": "11" },
      { build: "nest build", start: "nest start", "start:prod": "node dist/src/main" },
      {},
      '["node", "dist/src/main"]',
    ],
  ])("is started in production: %s", async (_, packages, scripts, files, command) => {
    expect(lastLine(await textOf(packages, { scripts, files }))).toBe(`CMD ${command}`);
  });

  test("of Next.js with output standalone leaves everything else out of the image", async () => {
    const text = await textOf(
      { next: "15" },
      {
        scripts: { build: "next build", start: "next start" },
        files: { "next.config.js": 'module.exports = { output: "standalone" }' },
      },
    );
    expect(text).toContain("RUN cp -r .next/static .next/standalone/.next/static\n");
    expect(text).toContain("COPY --from=build --chown=1000:1000 /app/.next/standalone /app\n");
    expect(lastLine(text)).toBe('CMD ["node", "server.js"]');
  });

  test("of SvelteKit with the automatic adapter is built with the Node.js adapter", async () => {
    expect(
      await textOf(
        { "@sveltejs/kit": "2", "@sveltejs/adapter-auto": "6" },
        { scripts: { build: "vite build" } },
      ),
    ).toContain("RUN GCP_BUILDPACKS=1 npm run build\n");
  });

  test("of TanStack Start without nitro is served by srvx, which the build adds last", async () => {
    const text = await textOf({ "@tanstack/react-start": "1" });
    expect(text).toMatch(/RUN npm prune .*\nRUN npm install --no-save srvx\n/);
    expect(lastLine(text)).toBe(
      'CMD ["srvx", "--prod", "-s", "../client", "dist/server/server.js"]',
    );
  });
});

describe("packages for development", () => {
  test.each<[string, Files, Files]>([
    ["tsx starts the app", { start: "tsx server.ts" }, { tsx: "4" }],
    ["a loader is imported", { start: "node --import tsx server.ts" }, { tsx: "4" }],
    ["ts-node is required", { start: "node -r ts-node/register server.ts" }, { "ts-node": "10" }],
    [
      "a shell line runs one",
      { start: "cross-env A=1 tsx server.ts && true" },
      { tsx: "4", "cross-env": "7" },
    ],
  ])("are kept if %s", async (_, scripts, dev) => {
    const text = await textOf({ express: "5" }, { scripts: { build: "tsc", ...scripts }, dev });
    expect(text).toContain("RUN npm install\n");
    expect(text).not.toContain("prune");
  });

  test("are installed for scripts of the install, such as husky, and then removed", async () => {
    const text = await textOf(
      { express: "5" },
      { scripts: { prepare: "husky", start: "node a.js" }, dev: { husky: "9" } },
    );
    expect(text).toMatch(
      /COPY \. \.\nRUN npm install\nRUN npm prune --omit=dev --ignore-scripts\n/,
    );
  });

  test.each([
    ["nodemon server.js", '["node", "server.js"]'],
    ["tsx watch server.ts", '["tsx", "server.ts"]'],
    ["node --watch server.js", '["node", "server.js"]'],
  ])("never watch files in production: %s", async (start, command) => {
    expect(lastLine(await textOf({ express: "5" }, { scripts: { start } }))).toBe(`CMD ${command}`);
  });
});

describe("libraries of the system", () => {
  test.each([
    ["@prisma/client", "openssl"],
    ["puppeteer", "chromium fonts-liberation"],
    ["fluent-ffmpeg", "ffmpeg"],
  ])("are in the final image for %s", async (name, debian) => {
    const text = await textOf({ [name]: "1" }, { scripts: { start: "node a.js" } });
    expect(text).toMatch(
      new RegExp(`FROM node:24-slim\nRUN apt-get update .*--no-install-recommends ${debian} &&`),
    );
  });

  test("are installed by Playwright itself", async () => {
    expect(await textOf({ playwright: "1" }, { scripts: { start: "node a.js" } })).toMatch(
      /PLAYWRIGHT_BROWSERS_PATH=\/browsers[^]*playwright install --with-deps chromium\nEXPOSE/,
    );
  });

  test("let the client of Prisma be generated from a schema that is copied before the install", async () => {
    const files = { "prisma/schema.prisma": "", "server.js": "" };
    expect(await textOf({ "@prisma/client": "6" }, { files })).toMatch(
      /COPY prisma \.\/prisma\nRUN npm install/,
    );
  });
});

test("a program for Bun that another tool installs gets Bun in its image", async () => {
  const files = { "pnpm-lock.yaml": "", ".bun-version": "1.3.14" };
  expect(await textOf({ chalk: "5" }, { scripts: { start: "bun index.ts" }, files })).toContain(
    "COPY --from=oven/bun:1.3.14-slim /usr/local/bin/bun /usr/local/bin/bun\n",
  );
});
