import { getScript, readNodePackage } from "./node-package.ts";
import { detectPackageManager } from "./node-package-manager.ts";
import { chooseNodeVersion } from "./node-version.ts";
import type { SourceReader } from "./source-reader.ts";

/** Lines for a build stage of another language, in which a package.json builds pages and styles. */
export interface NodeAssets {
  /** Lines that add Node.js and npm to an image that is based on Debian. */
  readonly setup: readonly string[];
  /** Lines that install the packages. They run in a folder that contains the whole source. */
  readonly install: readonly string[];
  /** Lines that run the build script; empty if there is none. */
  readonly build: readonly string[];
}

/** Creates the lines for the package.json of a source in another language; undefined if it has none. */
export async function createNodeAssets(reader: SourceReader): Promise<NodeAssets | undefined> {
  const pkg = await readNodePackage(reader);
  if (pkg === undefined) return undefined;
  const { tag } = await chooseNodeVersion(reader, pkg);
  const manager = await detectPackageManager(reader, pkg);
  return {
    setup: [...createNodeLines(tag), ...(manager.name === "bun" ? [BUN] : manager.setup)],
    install: [`RUN ${manager.install}`],
    build: getScript(pkg, "build") === undefined ? [] : [`RUN ${manager.name} run build`],
  };
}

const BUN = "RUN npm install --global bun";

/** The official images of Node.js are based on Debian, as those of PHP and Ruby are, so its files can be copied. */
export function createNodeLines(tag: string): readonly string[] {
  const image = `node:${tag}-slim`;
  return [
    `COPY --from=${image} /usr/local/bin/node /usr/local/bin/node`,
    `COPY --from=${image} /usr/local/lib/node_modules /usr/local/lib/node_modules`,
    "RUN cd /usr/local/bin && ln -s ../lib/node_modules/npm/bin/npm-cli.js npm && ln -s ../lib/node_modules/npm/bin/npx-cli.js npx",
  ];
}
