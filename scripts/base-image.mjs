#!/usr/bin/env node
// Creates container images from files of this machine, so that no image has to be pulled.
//
// Usage: `node scripts/base-image.mjs [DOCKER_HOST]` creates berth.local/hello:1 if the engine lacks this image.
//
// This script uses plain Node without dependencies, because it runs before anything is installed.
import { spawnSync } from "node:child_process";
import { lstatSync, readdirSync, readFileSync, realpathSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { aptInstall, engineRequest, isDebianLike, isRoot, which } from "./engine.mjs";

const root = path.resolve(import.meta.dirname, "..");
export const HELLO_IMAGE = "berth.local/hello:1";
export const HELLO_PORT = 8080;

/** The file system of an image: files, links and folders by path without a leading slash. */
export class RootFs {
  #entries = new Map();

  file(name, content, mode = 0o644) {
    this.#parents(name);
    this.#entries.set(name, { type: "0", mode, content: Buffer.from(content) });
    return this;
  }

  link(name, target) {
    this.#parents(name);
    this.#entries.set(name, { type: "2", mode: 0o777, content: Buffer.alloc(0), target });
    return this;
  }

  folder(name, mode = 0o755) {
    this.#parents(name);
    if (!this.#entries.has(name))
      this.#entries.set(name, { type: "5", mode, content: Buffer.alloc(0) });
    return this;
  }

  /** Adds a program of this machine to bin/, with its libraries. */
  program(file, name) {
    this.file(name, readFileSync(file), 0o755);
    for (const library of librariesOf(file))
      this.file(library.replace(/^\//, ""), readFileSync(realpathSync(library)), 0o755);
    return this;
  }

  /** Copies the folder `folder` of this machine to `name` in the image, without symbolic links. */
  tree(folder, name) {
    for (const entry of readdirSync(folder).toSorted()) {
      const from = path.join(folder, entry);
      const state = lstatSync(from);
      if (state.isDirectory()) this.tree(from, `${name}/${entry}`);
      else if (state.isFile()) this.file(`${name}/${entry}`, readFileSync(from));
    }
    return this;
  }

  /** Returns a tar archive of the files. Equal files give equal bytes. */
  tar() {
    const blocks = [];
    for (const [name, entry] of this.#entries) {
      blocks.push(header(name, entry), entry.content);
      const rest = entry.content.length % 512;
      if (rest > 0) blocks.push(Buffer.alloc(512 - rest));
    }
    return Buffer.concat([...blocks, Buffer.alloc(1024)]);
  }

  #parents(name) {
    const parts = name.split("/").slice(0, -1);
    for (let depth = 1; depth <= parts.length; depth += 1) {
      const folder = parts.slice(0, depth).join("/");
      if (!this.#entries.has(folder))
        this.#entries.set(folder, { type: "5", mode: 0o755, content: Buffer.alloc(0) });
    }
  }
}

/** Returns a ustar header: https://www.gnu.org/software/tar/manual/html_node/Standard.html */
function header(name, { type, mode, content, target = "" }) {
  const full = type === "5" ? `${name}/` : name;
  if (Buffer.byteLength(full) > 100) throw new Error(`${full} is too long for a name in an image`);
  const block = Buffer.alloc(512);
  block.write(full, 0);
  block.write(`${mode.toString(8).padStart(7, "0")}\0`, 100);
  block.write("0000000\0", 108);
  block.write("0000000\0", 116);
  block.write(`${content.length.toString(8).padStart(11, "0")}\0`, 124);
  block.write("00000000000\0", 136);
  block.write("        ", 148);
  block.write(type, 156);
  block.write(target, 157);
  block.write("ustar\x0000", 257);
  let sum = 0;
  for (const byte of block) sum += byte;
  block.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
  return block;
}

/** Returns the absolute paths of the libraries and the loader of a program; a static program has none. */
function librariesOf(file) {
  const listed = spawnSync("ldd", [file], { encoding: "utf8" });
  if (listed.status !== 0) return [];
  return [...listed.stdout.matchAll(/(?:=> )?(\/[^\s:]+) \(0x/g)].map((match) => match[1]);
}

/** Programs of busybox for the images of tests and examples. */
const APPLETS =
  "awk cat cp date echo env false grep head hostname httpd ip kill ls mkdir mv nc nslookup printf ps pwd rm sed seq sh sleep sort stat tail tee test touch tr true uname vi wc wget which whoami yes".split(
    " ",
  );

/** Returns a file system with busybox under its usual names; undefined if the machine has no busybox. */
export function busyboxRoot() {
  const busybox = which("busybox");
  if (!busybox) return undefined;
  const fs = new RootFs().program(realpathSync(busybox), "bin/busybox");
  for (const applet of APPLETS) fs.link(`bin/${applet}`, "busybox");
  return fs
    .file("etc/passwd", "root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n")
    .file("etc/group", "root:x:0:\nnogroup:x:65534:\n")
    .folder("tmp", 0o1777)
    .folder("var");
}

/** Returns a file system with this Node and its libraries. */
export function nodeRoot() {
  return new RootFs().program(realpathSync(process.execPath), "bin/node").folder("tmp", 0o1777);
}

export async function hasImage(host, reference) {
  const { status } = await engineRequest(host, { path: `/images/${reference}/json` });
  return status === 200;
}

/** Imports a file system as an image; `changes` are Dockerfile lines such as CMD and EXPOSE. */
export async function importImage(host, reference, fs, changes) {
  const colon = reference.lastIndexOf(":");
  const query = new URLSearchParams({
    fromSrc: "-",
    repo: reference.slice(0, colon),
    tag: reference.slice(colon + 1),
  });
  for (const change of changes) query.append("changes", change);
  const upload = () =>
    engineRequest(host, {
      method: "POST",
      path: `/images/create?${query}`,
      body: fs.tar(),
      limitMs: 300_000,
    });
  // An engine may stop reading at the end mark of the archive and close the connection during the padding. The
  // response is then lost, so the image is uploaded again, which creates the same image.
  const { status, text } = await upload().catch((error) => {
    if (error.code !== "EPIPE" && error.code !== "ECONNRESET") throw error;
    return upload();
  });
  const failed = /"error":"([^"]*)"/.exec(text)?.[1];
  if (status !== 200 || failed)
    throw new Error(`cannot create ${reference}: ${failed ?? text.trim()}`);
}

/** Creates the image of the hello example unless the engine has it. Returns true if it was created. */
export async function ensureHelloImage(host) {
  if (await hasImage(host, HELLO_IMAGE)) return false;
  if (!which("busybox") && isDebianLike() && isRoot())
    // The alternative to busybox is Node with its libraries, which is a hundred times as large.
    await aptInstall(["busybox-static"], "the example needs a web server").catch((error) =>
      console.error(`berth: ${error.message}; Node serves the example instead`),
    );
  const pages = path.join(root, "examples", "hello", "www");
  const small = busyboxRoot();
  const fs = (small ?? nodeRoot()).tree(pages, "www");
  if (!small) fs.file("serve.cjs", readFileSync(path.join(root, "examples", "hello", "serve.cjs")));
  const command = small
    ? [
        "/bin/sh",
        "-c",
        `echo "hello listens on port ${HELLO_PORT}"; exec httpd -f -p ${HELLO_PORT} -h /www`,
      ]
    : ["/bin/node", "/serve.cjs", String(HELLO_PORT), "/www"];
  await importImage(host, HELLO_IMAGE, fs, [
    `CMD ${JSON.stringify(command)}`,
    `EXPOSE ${HELLO_PORT}`,
    "WORKDIR /",
  ]);
  return true;
}

if (process.argv[1] && fileURLToPath(import.meta.url) === path.resolve(process.argv[1])) {
  try {
    const host = process.argv[2] ?? process.env.DOCKER_HOST ?? "unix:///var/run/docker.sock";
    const made = await ensureHelloImage(host);
    console.log(`${HELLO_IMAGE} ${made ? "made" : "is there"}`);
  } catch (error) {
    console.error(`berth: ${error.message}`);
    process.exitCode = 1;
  }
}
