import { getScript, type NodePackage } from "./node-package.ts";
import { getFields, getText, isParsedFields, type ParsedFields } from "./parsed-fields.ts";
import type { SourceReader } from "./source-reader.ts";

/** What a framework builds: pages that are served without Node.js, or a server. */
export type FrameworkBuild =
  | {
      readonly type: "pages";
      readonly name: string;
      /** The folder with the built pages. */
      readonly output: string;
      /** The response for a path without a page: index.html for apps with routes in the browser, or 404.html. */
      readonly fallback: "index" | "error page";
      /** The build command if package.json has no build script. */
      readonly build?: string;
    }
  | {
      readonly type: "server";
      readonly name: string;
      /** The program that starts the built server, which replaces a missing start script or a development server. */
      readonly start: readonly string[];
      /** True if `start` also replaces a start script for production. */
      readonly replacesStart?: boolean;
      /** The folder that contains all that the server needs; undefined if it needs the whole source. */
      readonly output?: string;
      /** Shell commands after the build. */
      readonly afterBuild?: readonly string[];
      /** Environment variables of the build, as `NAME=value`. */
      readonly environment?: readonly string[];
    };

interface FrameworkSource {
  readonly pkg: NodePackage;
  readonly reader: SourceReader;
  readonly has: (name: string) => boolean;
  /** Reads the first of the configuration files `NAME.js`, `NAME.mjs`, `NAME.cjs` and `NAME.ts`; empty if none exists. */
  readonly readConfig: (name: string) => Promise<string>;
}

interface FrameworkRow {
  /** The packages that show the framework: one of them is a dependency. */
  readonly packages: readonly string[];
  resolve(source: FrameworkSource): Promise<FrameworkBuild> | FrameworkBuild;
}

const pages = (
  name: string,
  output: string,
  fallback: "index" | "error page",
  build?: string,
): FrameworkBuild => ({
  type: "pages",
  name,
  output,
  fallback,
  ...(build === undefined ? {} : { build }),
});

const NITRO = {
  start: ["node", ".output/server/index.mjs"],
  output: ".output",
} as const;

/** One row for each framework. The first row whose package is a dependency applies, so frameworks precede their tools. */
const frameworks: readonly FrameworkRow[] = [
  {
    packages: ["next"],
    async resolve({ readConfig }) {
      const output = /\boutput\s*:\s*["'](export|standalone)["']/.exec(
        await readConfig("next.config"),
      )?.[1];
      if (output === "export") return pages("Next.js", "out", "error page");
      if (output === undefined)
        return { type: "server", name: "Next.js", start: ["next", "start"] };
      const target = ".next/standalone";
      return {
        type: "server",
        name: "Next.js",
        start: ["node", "server.js"],
        replacesStart: true,
        output: target,
        afterBuild: [
          `cp -r .next/static ${target}/.next/static`,
          `if [ -d public ]; then cp -r public ${target}/public; fi`,
        ],
      };
    },
  },
  {
    packages: ["nuxt"],
    resolve: ({ pkg }) =>
      /\bgenerate\b/.test(getScript(pkg, "build") ?? "")
        ? pages("Nuxt", ".output/public", "error page")
        : { type: "server", name: "Nuxt", ...NITRO },
  },
  {
    packages: ["@sveltejs/kit"],
    async resolve({ has, readConfig }) {
      if (has("@sveltejs/adapter-static")) {
        const isSpa = /\bfallback\s*:/.test(await readConfig("svelte.config"));
        return pages("SvelteKit", "build", isSpa ? "index" : "error page");
      }
      // With this variable the automatic adapter chooses, and installs, the adapter for Node.js.
      const environment = has("@sveltejs/adapter-node") ? [] : ["GCP_BUILDPACKS=1"];
      return { type: "server", name: "SvelteKit", start: ["node", "build"], environment };
    },
  },
  {
    packages: ["astro"],
    resolve: ({ has }) =>
      has("@astrojs/node")
        ? { type: "server", name: "Astro", start: ["node", "dist/server/entry.mjs"] }
        : pages("Astro", "dist", "error page"),
  },
  {
    packages: ["@react-router/dev"],
    resolve: async ({ readConfig }) =>
      /\bssr\s*:\s*false/.test(await readConfig("react-router.config"))
        ? pages("React Router", "build/client", "index")
        : {
            type: "server",
            name: "React Router",
            start: ["react-router-serve", "build/server/index.js"],
          },
  },
  {
    packages: ["@remix-run/serve"],
    resolve: () => ({
      type: "server",
      name: "Remix",
      start: ["remix-serve", "build/server/index.js"],
    }),
  },
  {
    packages: ["@tanstack/react-start", "@tanstack/solid-start"],
    async resolve({ has, readConfig }) {
      if (has("nitro") || /nitro/i.test(await readConfig("vite.config")))
        return { type: "server", name: "TanStack Start", start: NITRO.start };
      // Without nitro the build exports a request handler, which the program srvx serves.
      return {
        type: "server",
        name: "TanStack Start",
        start: ["srvx", "--prod", "-s", "../client", "dist/server/server.js"],
        afterBuild: ["npm install --no-save srvx"],
      };
    },
  },
  {
    packages: ["@solidjs/start", "vinxi"],
    resolve: () => ({ type: "server", name: "SolidStart", ...NITRO }),
  },
  { packages: ["@angular/core"], resolve: resolveAngular },
  {
    packages: ["expo"],
    resolve: ({ pkg }) =>
      pages(
        "Expo",
        "dist",
        "index",
        getScript(pkg, "build") === undefined ? "npx expo export --platform web" : undefined,
      ),
  },
  {
    packages: ["@nestjs/core"],
    resolve: () => ({ type: "server", name: "NestJS", start: ["node", "dist/main"] }),
  },
  { packages: ["react-scripts"], resolve: () => pages("Create React App", "build", "index") },
  { packages: ["gatsby"], resolve: () => pages("Gatsby", "public", "error page") },
  { packages: ["@docusaurus/core"], resolve: () => pages("Docusaurus", "build", "error page") },
  { packages: ["@vue/cli-service"], resolve: () => pages("Vue CLI", "dist", "index") },
  { packages: ["@11ty/eleventy"], resolve: () => pages("Eleventy", "_site", "error page") },
  { packages: ["parcel"], resolve: () => pages("Parcel", "dist", "index") },
  {
    packages: ["vite"],
    resolve({ reader }) {
      const files = reader.list("").filter((name) => name.endsWith(".html"));
      return pages("Vite", "dist", files.length > 1 ? "error page" : "index");
    },
  },
];

/** Commands that run a development server, which is never started in production. */
const devServer =
  /^(npx |bunx |pnpm |yarn )?(next dev|nuxt dev|nuxi dev|vite( dev| serve|$| -)|ng serve|react-scripts start|astro( dev|$| -)|gatsby (develop|serve)|docusaurus (start|serve)|vue-cli-service serve|expo start|(@11ty\/)?eleventy|parcel( serve|$| )|remix (vite:)?dev|react-router dev|vinxi dev|nest start)/;

/** True if a start script runs a development server. */
export function isDevServer(script: string): boolean {
  return devServer.test(script.trim());
}

/**
 * Finds the framework of a source, and what it builds. Returns undefined for a source without a known framework, or one
 * that serves the pages of its framework with a server of its own.
 */
export async function findFramework(
  reader: SourceReader,
  pkg: NodePackage,
): Promise<FrameworkBuild | undefined> {
  const known = { ...pkg.dependencies, ...pkg.devDependencies };
  const has = (name: string) => name in known;
  const row = frameworks.find(({ packages }) => packages.some(has));
  if (row === undefined) return undefined;
  const build = await row.resolve({
    pkg,
    reader,
    has,
    readConfig: async (name) => {
      const file = ["js", "mjs", "cjs", "ts", "mts"]
        .map((extension) => `${name}.${extension}`)
        .find((path) => reader.has(path));
      return file === undefined ? "" : ((await reader.read(file)) ?? "");
    },
  });
  if (build.type === "server") return build;
  const start = getScript(pkg, "start");
  const canBuild = getScript(pkg, "build") !== undefined || build.build !== undefined;
  const isOwnServer = start !== undefined && !isDevServer(start) && !servesPages(build, start);
  return canBuild && !isOwnServer ? build : undefined;
}

/** A start script such as `next start` cannot serve pages that were exported. */
function servesPages(build: { readonly name: string }, start: string): boolean {
  return (
    (build.name === "Next.js" && start.startsWith("next start")) ||
    (build.name === "React Router" && start.startsWith("react-router-serve"))
  );
}

/** Reads from angular.json what the first project builds. */
async function resolveAngular({ reader }: FrameworkSource): Promise<FrameworkBuild> {
  const [first] = Object.entries(
    getFields(parseJson((await reader.read("angular.json")) ?? ""), "projects"),
  );
  const [name, project] = first ?? ["app", {}];
  const build = getFields(getFields(isParsedFields(project) ? project : {}, "architect"), "build");
  const options = getFields(build, "options");
  const output = getText(options, "outputPath") ?? `dist/${name}`;
  const isApplication = (getText(build, "builder") ?? "").endsWith(":application");
  if (isApplication && "ssr" in options && options["ssr"] !== false)
    return { type: "server", name: "Angular", start: ["node", `${output}/server/server.mjs`] };
  return pages("Angular", isApplication ? `${output}/browser` : output, "index");
}

function parseJson(text: string): ParsedFields {
  try {
    const parsed: unknown = JSON.parse(text);
    return isParsedFields(parsed) ? parsed : {};
  } catch {
    return {};
  }
}
