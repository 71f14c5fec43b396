import type { NodePackage } from "./node-package.ts";
import { getText } from "./parsed-fields.ts";
import type { SourceReader } from "./source-reader.ts";

/** The package manager of a source, and its commands. It is determined by package.json or the lock file. */
export interface PackageManager {
  readonly name: "npm" | "pnpm" | "yarn" | "bun";
  readonly lockFile: string | undefined;
  /** Dockerfile lines that install the manager in the image. */
  readonly setup: readonly string[];
  /** The command that installs all packages, including those for development. */
  readonly install: string;
  readonly installProduction: string;
  /** The command that removes packages which only the build needed; undefined if the package manager cannot do that. */
  readonly prune: string | undefined;
}

/** Files that an install reads, in addition to package.json. */
const settingsFiles = [".npmrc", ".yarnrc.yml", ".yarnrc", ".pnpmfile.cjs", "bunfig.toml"];
/** Folders that an install reads; Prisma's client is generated during the install, from the schema. */
const settingsFolders = [".yarn", "patches", "prisma"];

export async function detectPackageManager(
  reader: SourceReader,
  pkg: NodePackage,
): Promise<PackageManager> {
  const [, named, version] =
    /^(npm|pnpm|yarn|bun)@(\d+(?:\.\d+){0,2}(?:-[\w.]+)?)/.exec(pkg.packageManager ?? "") ?? [];
  const engine = ["pnpm", "yarn"].find((name) => getText(pkg.engines, name) !== undefined);
  const pick = (name: string, lockFiles: readonly string[]) => {
    const lockFile = lockFiles.find((file) => reader.has(file));
    const isPicked =
      named === undefined ? lockFile !== undefined || engine === name : named === name;
    return isPicked ? { lockFile } : undefined;
  };
  const pnpm = pick("pnpm", ["pnpm-lock.yaml"]);
  const ranged = /\d+(\.\d+){0,2}/.exec(getText(pkg.engines, "pnpm") ?? "")?.[0];
  if (pnpm) return createPnpmManager(reader, pnpm.lockFile, version ?? ranged);
  const yarn = pick("yarn", ["yarn.lock"]);
  if (yarn) return createYarnManager(reader, yarn.lockFile, version);
  const bun = pick("bun", ["bun.lock", "bun.lockb"]);
  if (bun) return createBunManager(bun.lockFile);
  const hasOtherLock = ["package-lock.json", "npm-shrinkwrap.json"].some((file) =>
    reader.has(file),
  );
  if (named === undefined && !hasOtherLock && getText(pkg.engines, "bun") !== undefined)
    return createBunManager(undefined);
  const lockFile = ["package-lock.json", "npm-shrinkwrap.json"].find((file) => reader.has(file));
  const install = lockFile === undefined ? "npm install" : "npm ci";
  return {
    name: "npm",
    lockFile,
    setup: [],
    install,
    installProduction: `${install} --omit=dev`,
    prune: "npm prune --omit=dev --ignore-scripts",
  };
}

/**
 * Lists the files that an install needs. Only these are copied before the install, so that its layer stays cached when
 * other files change.
 */
export function listInstallFiles(reader: SourceReader, manager: PackageManager): readonly string[] {
  const files = [manager.lockFile, ...settingsFiles].filter((file) => file !== undefined);
  return ["package.json", ...files.filter((file) => reader.has(file))];
}

export function listInstallFolders(reader: SourceReader): readonly string[] {
  return settingsFolders.filter((folder) => reader.list(folder).length > 0);
}

async function createPnpmManager(
  reader: SourceReader,
  lockFile: string | undefined,
  version: string | undefined,
): Promise<PackageManager> {
  const lock = lockFile === undefined ? "" : ((await reader.read(lockFile)) ?? "");
  const format = /^lockfileVersion:\s*'?(\d+)/m.exec(lock)?.[1];
  const release = version ?? { "5": "7", "6": "8" }[format ?? ""] ?? "10";
  const install = `pnpm install${lockFile === undefined ? "" : " --frozen-lockfile"}`;
  return {
    name: "pnpm",
    lockFile,
    setup: [`RUN npm install --global pnpm@${release}`],
    install,
    installProduction: `${install} --prod`,
    prune: "pnpm prune --prod --ignore-scripts",
  };
}

async function createYarnManager(
  reader: SourceReader,
  lockFile: string | undefined,
  version: string | undefined,
): Promise<PackageManager> {
  const lock = lockFile === undefined ? "" : ((await reader.read(lockFile)) ?? "");
  const isBerry =
    (version !== undefined && !version.startsWith("1.")) || /^__metadata:/m.test(lock);
  if (!isBerry) {
    const install = `yarn install${lockFile === undefined ? "" : " --frozen-lockfile"}`;
    return {
      name: "yarn",
      lockFile,
      setup: ["RUN command -v yarn > /dev/null || npm install --global yarn@1"],
      install,
      installProduction: `${install} --production`,
      prune: `${install} --production --ignore-scripts --prefer-offline`,
    };
  }
  const install = `yarn install${lockFile === undefined ? "" : " --immutable"}`;
  return {
    name: "yarn",
    lockFile,
    setup: [
      "RUN command -v corepack > /dev/null || npm install --global corepack",
      "RUN corepack enable",
      // With the linker node-modules, Node finds packages without Yarn, so the final image needs no Yarn.
      "ENV YARN_NODE_LINKER=node-modules COREPACK_ENABLE_DOWNLOAD_PROMPT=0",
    ],
    install,
    installProduction: install,
    prune: undefined,
  };
}

function createBunManager(lockFile: string | undefined): PackageManager {
  const install = `bun install${lockFile === undefined ? "" : " --frozen-lockfile"}`;
  return {
    name: "bun",
    lockFile,
    setup: [],
    install,
    installProduction: `${install} --production`,
    prune: undefined,
  };
}
