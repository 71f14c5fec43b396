#!/usr/bin/env node
// Completes package-lock.json after npm has written it: `npm run lock` does both.
//
// If a registry lacks platform packages of a version, npm omits them from the lock file, and `npm ci` refuses such a
// lock file on every machine. The script also gives unused optional packages the operating system "none", because npm
// skips an optional package only if the package does not support the machine's platform.
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

const lockFile = path.resolve(import.meta.dirname, "..", "package-lock.json");

/** Packages that npm never downloads, because their entries get the `os` "none". */
const unused = [
  // The packages for CUDA and Vulkan contain 610 MB of llama.cpp for graphics cards, but Berth computes on the
  // processor (src/assistant/inference/llama).
  /^@node-llama-cpp\/.*-(cuda|cuda-ext|vulkan)$/,
  // usocket would be compiled at installation, but Berth has its own implementation of D-Bus (src/dbus).
  /^usocket$/,
  // cpu-features and nan only speed up the ciphers of ssh2 (a dependency of dockerode), and Berth does not connect over
  // SSH.
  /^(cpu-features|nan)$/,
];

const systems = {
  android: "android",
  darwin: "darwin",
  freebsd: "freebsd",
  linux: "linux",
  mac: "darwin",
  netbsd: "netbsd",
  openbsd: "openbsd",
  openharmony: "openharmony",
  win: "win32",
  win32: "win32",
};
const processors = {
  arm: "arm",
  arm64: "arm64",
  armv7l: "arm",
  ia32: "ia32",
  ppc64: "ppc64",
  riscv64: "riscv64",
  s390x: "s390x",
  x64: "x64",
};

/**
 * Returns the content of package-lock.json with an entry for each optional dependency. A complete lock file is returned
 * unchanged.
 */
export function completeLock(lock) {
  const packages = structuredClone(lock.packages);
  for (const [location, entry] of Object.entries(lock.packages))
    for (const [name, version] of Object.entries(entry.optionalDependencies ?? {}))
      if (!locationOf(packages, location, name))
        packages[`node_modules/${name}`] = missingEntry(name, version, entry);
  for (const [location, entry] of Object.entries(packages)) {
    const name = nameAt(location);
    if (unused.some((pattern) => pattern.test(name))) packages[location] = unusedEntry(entry);
    // The package of node-llama-cpp for linux-arm64 also lists x64 as a processor, for cross builds. So the platform in
    // its lock entry is derived from the name of the package.
    else if (name.startsWith("@node-llama-cpp/"))
      packages[location] = { ...entry, ...platformOf(name) };
  }
  return { ...lock, packages: sorted(reachable(packages)) };
}

/** Returns `os`, `cpu` and `libc` from the name of a platform package. Throws if the name does not contain them. */
function platformOf(name) {
  const words = name.split("/").at(-1).split("-");
  const os = words.map((word) => systems[word]).find((it) => it !== undefined);
  const cpu = words.map((word) => processors[word]).find((it) => it !== undefined);
  if (os === undefined || cpu === undefined)
    throw new Error(
      `package-lock.json has no entry for ${name}, and its name does not contain its platform`,
    );
  const isMusl = words.some((word) => word.startsWith("musl"));
  const isGlibc =
    words.some((word) => word.startsWith("gnu")) || name.startsWith("@node-llama-cpp/");
  const libc = isMusl ? "musl" : isGlibc ? "glibc" : undefined;
  return { os: [os], cpu: [cpu], ...(os === "linux" && libc && { libc: [libc] }) };
}

/** Creates a lock entry for a package that the registry lacks. The entry has no digest and no address. */
function missingEntry(name, version, parent) {
  if (!/^\d+\.\d+\.\d+/.test(version))
    throw new Error(`package-lock.json has no entry for ${name}, and "${version}" is a range`);
  return { version, ...platformOf(name), ...(parent.dev && { dev: true }), optional: true };
}

function unusedEntry({ dependencies, optionalDependencies, hasInstallScript, ...entry }) {
  return { ...entry, os: ["none"] };
}

/** Returns the packages that the project needs, directly or indirectly. */
function reachable(packages) {
  const seen = new Set([""]);
  for (const location of seen) {
    const { dependencies, devDependencies, optionalDependencies, peerDependencies } =
      packages[location];
    for (const name of Object.keys({
      ...dependencies,
      ...devDependencies,
      ...optionalDependencies,
      ...peerDependencies,
    })) {
      const found = locationOf(packages, location, name);
      if (found) seen.add(found);
    }
  }
  return Object.fromEntries(Object.entries(packages).filter(([location]) => seen.has(location)));
}

/** Returns the location at which Node finds a package from another location; undefined if it finds none. */
function locationOf(packages, location, name) {
  const folders = [location];
  for (let folder = location; folder !== ""; folders.push(folder))
    folder = folder.slice(0, Math.max(0, folder.lastIndexOf("/node_modules/")));
  return folders
    .map((folder) => path.posix.join(folder, "node_modules", name))
    .find((candidate) => candidate in packages);
}

function nameAt(location) {
  return location.slice(location.lastIndexOf("node_modules/") + "node_modules/".length);
}

/** Sorts the packages in the order that npm uses. */
function sorted(packages) {
  return Object.fromEntries(
    Object.entries(packages).toSorted(([one], [other]) => one.localeCompare(other, "en")),
  );
}

if (process.argv[1] && fileURLToPath(import.meta.url) === path.resolve(process.argv[1])) {
  const before = readFileSync(lockFile, "utf8");
  const after = `${JSON.stringify(completeLock(JSON.parse(before)), undefined, 2)}\n`;
  if (after !== before) writeFileSync(lockFile, after);
}
