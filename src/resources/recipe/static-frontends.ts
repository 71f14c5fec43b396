import { getScript, type NodePackage } from "./node-package.ts";

/** A tool that builds static pages, which are served without Node. */
interface Frontend {
  readonly package: string;
  /** The folder to which the tool writes the built pages by default. */
  readonly output: string;
  /** Matches a start script that runs the tool's development server. */
  readonly devServer: RegExp;
}

const frontends: readonly Frontend[] = [
  { package: "react-scripts", output: "build", devServer: /^react-scripts start/ },
  { package: "astro", output: "dist", devServer: /^astro(\s|$)/ },
  { package: "gatsby", output: "public", devServer: /^gatsby\s/ },
  { package: "@docusaurus/core", output: "build", devServer: /^docusaurus\s/ },
  { package: "@vue/cli-service", output: "dist", devServer: /^vue-cli-service\s/ },
  { package: "@11ty/eleventy", output: "_site", devServer: /^(npx @11ty\/)?eleventy(\s|$)/ },
  { package: "parcel", output: "dist", devServer: /^parcel(\s|$)/ },
  { package: "vite", output: "dist", devServer: /^vite(\s|$)/ },
];

/** A source that depends on one of these packages builds a server instead of static pages. */
const serverPackages = [
  "@astrojs/node",
  "@sveltejs/kit",
  "@remix-run/node",
  "@react-router/node",
  "@solidjs/start",
  "nuxt",
  "next",
  "vike",
];

/** Finds the tool and the output folder of a source that builds only static pages; undefined for any other source. */
export function findStaticBuild(
  pkg: NodePackage,
): { readonly tool: string; readonly output: string } | undefined {
  const known = { ...pkg.dependencies, ...pkg.devDependencies };
  if (getScript(pkg, "build") === undefined || serverPackages.some((name) => name in known))
    return undefined;
  const start = getScript(pkg, "start");
  const tool = frontends.find(
    (it) => it.package in known && (start === undefined || it.devServer.test(start)),
  );
  return tool && { tool: tool.package, output: tool.output };
}
