// Chooses the Node.js for Berth: the one that runs this script if Berth supports its version, or else the version that
// pinned-node.json names. That version is downloaded once with the machine's npm into a separate folder.
//
//   node scripts/pinned-node.cjs SCRIPT [ARGUMENT...]      runs SCRIPT on the chosen Node.js
//
// This file is CommonJS without dependencies, in syntax that Node.js 12 parses, because Ubuntu 22.04 has that version.
"use strict";
const childProcess = require("child_process");
const fs = require("fs");
const os = require("os");
const path = require("path");

const NEEDED = "Node.js 22.14 or a newer 22, 24, or 26 or newer";
const ELSEWHERE = "install one: https://nodejs.org/en/download";
const NETWORK = "check the network, and npm's settings for registry and proxy; or ";
const FOLDER = "set BERTH_NODE_DIR to a folder that this user may write to; or ";
/**
 * npm flags that shorten the pauses between retries of a download. A user waits for the download, and npm's default
 * pauses of 10 s and 60 s are too long for that.
 */
const RETRY_FLAGS = ["--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=5000"];
const FORWARDED_SIGNALS = ["SIGTERM", "SIGHUP", "SIGINT"];
const LEFTOVER = /^\.fetch-(\d+)-/;

/** An error about Node.js with a hint that tells the user what to do. */
class NodeError extends Error {
  constructor(message, hint) {
    super(message);
    this.hint = hint;
  }
}

/**
 * Returns true for the versions that `engines` of package.json allows; a test compares the two. better-sqlite3 needs
 * version 10 of Node-API, and crashes on Node.js 22.13, which lacks that version.
 */
function isFit(version) {
  const parts = (version || process.versions.node).split(".").map(Number);
  return (parts[0] === 22 && parts[1] >= 14) || parts[0] === 24 || parts[0] >= 26;
}

/**
 * Resolves immediately if this Node.js is supported. Otherwise the script runs again in a child process on the pinned
 * Node.js. This process then forwards signals to the child, exits with its status, and never settles the promise.
 */
function ensure() {
  if (isFit()) return Promise.resolve();
  continueOnPinnedNode(process.argv.slice(1));
  return new Promise(function () {});
}

/** Runs a script on the pinned Node.js, which is downloaded if it is missing, and exits with the script's status. */
function continueOnPinnedNode(args) {
  let node;
  try {
    node = pinnedNode();
  } catch (error) {
    fail(error);
  }
  const child = childProcess.spawn(node, process.execArgv.concat(args), {
    stdio: "inherit",
    env: environmentOf(node),
  });
  child.once("error", function (error) {
    fail(new NodeError("cannot run " + node + ": " + error.message, ELSEWHERE));
  });
  exitAs(child);
}

/** Forwards signals to a child process, and exits with the child's status. */
function exitAs(child) {
  FORWARDED_SIGNALS.forEach(function (signal) {
    process.on(signal, function () {
      // A terminal sends Ctrl-C to its whole foreground group, including the child. A forwarded copy would be a
      // second SIGINT, which makes Berth exit immediately.
      if (signal !== "SIGINT" || !isInForeground()) child.kill(signal);
    });
  });
  child.once("exit", function (code, signal) {
    if (signal === null) process.exit(code);
    FORWARDED_SIGNALS.forEach(function (name) {
      process.removeAllListeners(name);
    });
    process.exitCode = 128 + os.constants.signals[signal];
    process.kill(process.pid, signal);
  });
}

/** Returns true if this process belongs to the foreground process group of its terminal. */
function isInForeground() {
  try {
    // The fields of /proc/PID/stat are in proc_pid_stat(5). The name in brackets may contain spaces.
    const fields = fs
      .readFileSync("/proc/self/stat", "utf8")
      .replace(/^.*\) /s, "")
      .split(" ");
    return fields[2] === fields[5];
  } catch (error) {
    return Boolean(process.stdin.isTTY);
  }
}

/** Returns an environment for child processes, whose PATH begins with the folder of this `node`. */
function environmentOf(node) {
  const env = Object.assign({}, process.env);
  env.PATH = path.dirname(node) + path.delimiter + (env.PATH || "/usr/local/bin:/usr/bin:/bin");
  // npm sets these variables for the scripts that it runs. If they are set, they have to name this `node`.
  ["NODE", "npm_node_execpath"].forEach(function (name) {
    if (env[name]) env[name] = node;
  });
  return env;
}

/**
 * Returns the command for the machine's npm on this Node.js. Finds npm through the npm that started this process, or in
 * PATH. Returns undefined if there is no npm.
 */
function npmCommand() {
  const started = process.env.npm_execpath;
  const found = [started].concat(
    (process.env.PATH || "").split(path.delimiter).map(function (folder) {
      return path.join(folder, "npm");
    }),
  );
  const program = found.find(function (file) {
    return file && /^npm(-cli\.js)?$/.test(path.basename(file)) && fs.existsSync(file);
  });
  if (program === undefined) return undefined;
  const cli = fs.realpathSync(program);
  if (path.basename(cli) !== "npm-cli.js") return { command: program, args: [], env: process.env };
  return { command: process.execPath, args: [cli], env: withDebianModules(cli) };
}

/**
 * Adds the folders of Debian's modules to NODE_PATH. Without them, only Debian's own Node.js finds the modules of
 * Debian's npm.
 */
function withDebianModules(cli) {
  const folder = "/usr/share/nodejs";
  if (!cli.startsWith(folder + "/")) return process.env;
  const paths = [process.env.NODE_PATH, folder, "/usr/lib/nodejs"].filter(Boolean);
  return Object.assign({}, process.env, { NODE_PATH: paths.join(path.delimiter) });
}

/**
 * Returns the folder for pinned versions. It is among the user's data and not in a cache, because the systemd units
 * that `berth assistant install` writes start the Node.js in it. Its path follows the rules of Berth's other folders
 * (src/base/assistant-paths.ts); BERTH_NODE_DIR overrides it.
 */
function nodeDir() {
  if (process.env.BERTH_NODE_DIR) return path.resolve(process.env.BERTH_NODE_DIR);
  if (process.getuid && process.getuid() === 0) return "/var/lib/berth/node";
  const data = process.env.XDG_DATA_HOME || "";
  if (path.isAbsolute(data)) return path.join(data, "berth/node");
  // npm 7 and 8 run scripts as the owner of the folder, but keep HOME, which may be that of root. HOME is therefore
  // used only if it belongs to this user.
  const home = isOwn(os.homedir()) ? os.homedir() : os.userInfo().homedir;
  return path.join(home, ".local/share/berth/node");
}

function isOwn(folder) {
  try {
    return fs.statSync(folder).uid === process.getuid();
  } catch (error) {
    return false;
  }
}

/** Returns the program of the pinned Node.js. Downloads it if it is missing; throws a NodeError if that fails. */
function pinnedNode() {
  const pinned = JSON.parse(fs.readFileSync(path.join(__dirname, "pinned-node.json"), "utf8"));
  const needed = "Berth needs " + NEEDED + "; this is " + process.versions.node;
  const source = process.platform === "linux" ? pinned.packages[process.arch] : undefined;
  if (source === undefined) throw new NodeError(needed + " (" + process.execPath + ")", ELSEWHERE);
  if (isMusl())
    throw new NodeError(
      needed + " (" + process.execPath + "), and a ready-made one for musl is not to be had",
      "apk add nodejs npm, on a version of Alpine that has such a Node.js",
    );
  const name = pinned.version + "-linux-" + process.arch;
  const folder = path.join(nodeDir(), name);
  const node = path.join(folder, "bin", "node");
  if (!fs.existsSync(node)) {
    process.stderr.write(
      "berth: " +
        needed +
        ", so Node.js " +
        pinned.version +
        " is downloaded with npm to " +
        folder +
        " (" +
        pinned.megabytes +
        " MB)\n",
    );
    try {
      fetchNode({ source: source, version: pinned.version, folder: folder });
    } catch (error) {
      throw new NodeError(
        "Berth needs " +
          NEEDED +
          "; Node.js " +
          pinned.version +
          " could not be had: " +
          error.message,
        error.hint || (error.syscall ? FOLDER : NETWORK) + ELSEWHERE,
      );
    }
  }
  if (fs.realpathSync(node) === fs.realpathSync(process.execPath))
    throw new NodeError(node + " is not Node.js " + pinned.version, "remove " + folder);
  return node;
}

/** Returns true on a system with musl, for which the node-linux packages contain no program: they need glibc. */
function isMusl() {
  if (!process.report || !process.report.getReport) return false;
  const report = process.report.getReport();
  const header = (typeof report === "string" ? JSON.parse(report) : report).header;
  return header.glibcVersionRuntime === undefined;
}

/**
 * Downloads, checks and unpacks the archive into a temporary folder next to the target, and renames the folder. Removes
 * folders that killed processes left. Concurrent processes use different folders, and the first one to finish wins.
 */
function fetchNode(wanted) {
  const parent = path.dirname(wanted.folder);
  const npm = npmCommand();
  if (npm === undefined)
    throw new NodeError("there is no npm to download it with", "install npm, or " + ELSEWHERE);
  fs.mkdirSync(parent, { recursive: true, mode: 0o700 });
  fs.readdirSync(parent).forEach(function (name) {
    const leftover = LEFTOVER.exec(name);
    if (leftover && !isAlive(Number(leftover[1]))) remove(path.join(parent, name));
  });
  const scratch = fs.mkdtempSync(path.join(parent, ".fetch-" + process.pid + "-"));
  try {
    const archive = download(npm, wanted, scratch);
    run("tar", ["-xzof", archive, "package/bin/node", "package/LICENSE"], { cwd: scratch });
    const unpacked = path.join(scratch, "package");
    const node = path.join(unpacked, "bin", "node");
    const version = run(node, ["-p", "process.versions.node"], { env: {} }).trim();
    if (version !== wanted.version) throw new Error("the package holds Node.js " + version);
    flush(node);
    if (!fs.existsSync(path.join(wanted.folder, "bin", "node"))) remove(wanted.folder);
    try {
      fs.renameSync(unpacked, wanted.folder);
    } catch (error) {
      // Another process has finished the same download first.
      if (!fs.existsSync(path.join(wanted.folder, "bin", "node"))) throw error;
    }
  } finally {
    remove(scratch);
  }
}

/** Downloads the archive, checks its digest, and returns its path. */
function download(npm, wanted, scratch) {
  const spec = wanted.source.name + "@" + wanted.version;
  const flags = ["pack", spec, "--pack-destination=.", "--loglevel=error"].concat(RETRY_FLAGS);
  run(npm.command, npm.args.concat(flags), { cwd: scratch, env: npm.env });
  const archive = fs.readdirSync(scratch).find(function (name) {
    return name.endsWith(".tgz");
  });
  if (archive === undefined) throw new Error("npm pack " + spec + " has written no archive");
  const content = fs.readFileSync(path.join(scratch, archive));
  const digest = require("crypto").createHash("sha512").update(content).digest("base64");
  if ("sha512-" + digest !== wanted.source.integrity)
    throw new NodeError(
      "what the registry has as " + spec + " is not what Berth expects (sha512-" + digest + ")",
      "set npm's registry to one that has the original package, or " + ELSEWHERE,
    );
  return archive;
}

/** Returns the standard output of a program. If it fails, throws an error with the end of its output. */
function run(command, args, options) {
  const result = childProcess.spawnSync(
    command,
    args,
    Object.assign({ encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] }, options),
  );
  if (result.error) throw result.error;
  if (result.status === 0) return result.stdout;
  throw new Error(
    reasonOf(result) || path.basename(command) + " ended with " + (result.status || result.signal),
  );
}

/**
 * Returns the line of npm's output that contains the reason: npm prints codes before it, and advice and a stack
 * after it.
 */
function reasonOf(result) {
  return (result.stderr || result.stdout || "")
    .split("\n")
    .map(function (line) {
      return line.replace(/^npm (ERR!|error) (\w+Error: |[a-z]+ (?=No ))?/, "").trim();
    })
    .find(function (line) {
      return line !== "" && !/^(npm |code |syscall |errno |A complete log)/.test(line);
    });
}

/**
 * The content is flushed to the disk before the rename. Otherwise, a power failure could leave a file that has the
 * final name but not the content.
 */
function flush(file) {
  const descriptor = fs.openSync(file, "r");
  fs.fsyncSync(descriptor);
  fs.closeSync(descriptor);
}

function remove(folder) {
  if (fs.rmSync) fs.rmSync(folder, { recursive: true, force: true });
  else if (fs.existsSync(folder)) fs.rmdirSync(folder, { recursive: true });
}

function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === "EPERM";
  }
}

function fail(error) {
  process.stderr.write("error: " + error.message + "\n");
  if (error.hint) process.stderr.write("try:   " + error.hint + "\n");
  process.exit(1);
}

module.exports = { isFit, ensure, continueOnPinnedNode, exitAs, environmentOf, npmCommand };

if (require.main === module) {
  if (process.argv.length < 3)
    fail(new NodeError("no script was named", "node scripts/pinned-node.cjs SCRIPT [ARGUMENT...]"));
  const script = path.resolve(process.argv[2]);
  process.argv.splice(1, 2, script);
  ensure().then(function () {
    return import(require("url").pathToFileURL(script).href);
  });
}
