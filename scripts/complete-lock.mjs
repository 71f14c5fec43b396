#!/usr/bin/env node
// Completes package-lock.json after npm has written it: `npm run lock` does both.
//
// A registry that offers not all platform packages of a version makes npm leave these out of the lock, and
// `npm ci` refuses such a lock on every machine. And npm cannot be told to leave out an optional package
// that Berth has no use for, except by a platform that no machine has.
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

const lockFile = path.resolve(import.meta.dirname, "..", "package-lock.json");

/** Never downloaded, and why. Their entries have the `os` "none", which npm skips as it skips those of other systems. */
const unused = [
  // 610 MB of llama.cpp for graphics cards: the engine computes on the processor (src/assistant/inference/llama).
  /^@node-llama-cpp\/.*-(cuda|cuda-ext|vulkan)$/,
  // Compiled at installation; Berth has a connection of its own to D-Bus (src/base/session-bus).
  /^usocket$/,
  // ssh2 compiles faster ciphers with these; Berth opens no ssh connection through it (it comes with dockerode).
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

/** The same lock with an entry for each optional dependency; what is complete comes back equal. */
export function completeLock(lock) {
  const packages = structuredClone(lock.packages);
  for (const [location, entry] of Object.entries(lock.packages))
    for (const [name, version] of Object.entries(entry.optionalDependencies ?? {}))
      if (!locationOf(packages, location, name))
        packages[`node_modules/${name}`] = missingEntry(name, version, entry);
  for (const [location, entry] of Object.entries(packages)) {
    const name = nameAt(location);
    if (unused.some((pattern) => pattern.test(name))) packages[location] = unusedEntry(entry);
    // That of linux-arm64 names x64 as well, for those who build for another machine.
    else if (name.startsWith("@node-llama-cpp/"))
      packages[location] = { ...entry, ...platformOf(name) };
  }
  return { ...lock, packages: sorted(reachable(packages)) };
}

/** `os`, `cpu` and `libc` by the name of a platform's package. Throws where the name does not tell them. */
function platformOf(name) {
  const words = name.split("/").at(-1).split("-");
  const os = words.map((word) => systems[word]).find((it) => it !== undefined);
  const cpu = words.map((word) => processors[word]).find((it) => it !== undefined);
  if (os === undefined || cpu === undefined)
    throw new Error(
      `package-lock.json has no entry for ${name}, and its name does not tell its platform`,
    );
  const isMusl = words.some((word) => word.startsWith("musl"));
  const isGlibc =
    words.some((word) => word.startsWith("gnu")) || name.startsWith("@node-llama-cpp/");
  const libc = isMusl ? "musl" : isGlibc ? "glibc" : undefined;
  return { os: [os], cpu: [cpu], ...(os === "linux" && libc && { libc: [libc] }) };
}

/** Without a digest and an address: the registry that npm asked had neither. */
function missingEntry(name, version, parent) {
  if (!/^\d+\.\d+\.\d+/.test(version))
    throw new Error(`package-lock.json has no entry for ${name}, and "${version}" is a range`);
  return { version, ...platformOf(name), ...(parent.dev && { dev: true }), optional: true };
}

function unusedEntry({ dependencies, optionalDependencies, hasInstallScript, ...entry }) {
  return { ...entry, os: ["none"] };
}

/** Without what only unused packages have asked for. */
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

/** Where Node finds a package that is asked for at a location; undefined where it finds none. */
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

/** In the order in which npm writes them. */
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
