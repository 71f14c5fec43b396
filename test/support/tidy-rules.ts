import { posix } from "node:path";

/**
 * The rules about imports between modules, as functions of the texts of files, so that tests can pass texts that
 * violate the rules.
 */

export interface SourceFile {
  /** The path from the root of the project with `/`, such as `src/api/api-server.ts`. */
  readonly path: string;
  readonly text: string;
}

export interface ImportLine {
  readonly specifier: string;
  readonly line: number;
  readonly typeOnly: boolean;
}

/** The modules ("rooms") that each module may import, in addition to itself. `server` may import everything. */
export const allowedRooms: Readonly<Record<string, readonly string[]>> = {
  base: [],
  "source-tree": ["base"],
  dbus: ["base"],
  config: ["base"],
  resources: ["source-tree", "base"],
  compose: ["resources", "base"],
  "client/bus": ["dbus", "base"],
  "client/rest": ["resources", "base"],
  "tool-server": ["client/rest", "resources", "base"],
  store: ["resources", "base"],
  // The control plane may import only the types of settings from `config`.
  controller: ["store", "resources", "config", "dbus", "source-tree", "base"],
  api: ["store", "compose", "resources", "config", "base"],
  cli: [
    "client/rest",
    "client/bus",
    "compose",
    "tool-server",
    "resources",
    "config",
    "dbus",
    "source-tree",
    "base",
  ],
  assistant: ["dbus", "config", "source-tree", "base"],
};

/**
 * Imports between files that are allowed although `allowedRooms` forbids imports between their modules. The API may
 * import the ports and labels of the controllers. Some verbs of the CLI may import code that they run in their own
 * process.
 */
const allowedEdges: readonly { readonly from: RegExp; readonly to: RegExp }[] = [
  { from: /^src\/api\//, to: /^src\/controller\/(.+\/)?(port|labels)\.ts$/ },
  { from: /^src\/cli\/verbs\/(up|backup|restore)\.ts$/, to: /^src\/server\/main\.ts$/ },
  {
    from: /^src\/cli\/verbs\/assistant\.ts$/,
    to: /^src\/assistant\/daemons\/(system-instance|companion-daemon|daemon-lifetime)\.ts$/,
  },
  // `berth tools lint` checks manifests without a daemon, so the verb may import the linter.
  {
    from: /^src\/cli\/verbs\/tools-lint\.ts$/,
    to: /^src\/assistant\/agent\/manifests\/lint-manifests\.ts$/,
  },
  // `berth ledger` verifies the files of a ledger and erases texts without a daemon, so the verb may import that code.
  {
    from: /^src\/cli\/verbs\/ledger(-command|-erase)?\.ts$/,
    to: /^src\/assistant\/ledger\/offline-(ledger|erase|texts)\.ts$/,
  },
];

/**
 * The folders of the modules `controller/` and `cli/`, and for each folder the other folders of the same module that it
 * may import. `""` stands for the files directly in the module, which every folder may import. The `entry` files of a
 * module may import everything in the module.
 */
export const innerRooms: Readonly<
  Record<
    string,
    {
      readonly entry: RegExp;
      readonly folders: Readonly<Record<string, readonly string[]>>;
      /** The ports, which any folder may import, because they contain the folders' interfaces. */
      readonly open: RegExp;
    }
  >
> = {
  controller: {
    entry: /^(controller-manager|port)\.ts$/,
    open: /(^|\/)port\.ts$/,
    folders: {
      "": ["metrics"],
      apps: ["builds", "ingress", "logs", "metrics", "models", "runtime", "secrets"],
      builds: ["git", "runtime", "secrets"],
      catalogs: [],
      daemons: [],
      git: [],
      ingress: ["runtime"],
      lease: ["runtime"],
      logs: ["runtime"],
      metrics: [],
      models: ["daemons", "ingress", "metrics", "runtime"],
      notifications: [],
      runtime: [],
      secrets: ["runtime"],
      specs: ["git"],
    },
  },
  cli: {
    entry: /^(main|program|overview)\.ts$/,
    open: /^$/,
    folders: {
      "": [],
      chat: ["companion", "models", "output"],
      companion: ["output"],
      completion: ["companion"],
      deploy: ["output"],
      doctor: ["companion", "output", "status"],
      models: ["output"],
      output: [],
      status: ["models", "output", "views"],
      verbs: [
        "chat",
        "companion",
        "completion",
        "deploy",
        "doctor",
        "models",
        "output",
        "stacks",
        "status",
        "views",
      ],
      stacks: ["deploy", "output", "views"],
      views: ["output"],
    },
  },
};

/**
 * The modules of the assistant, each with the modules that it may import. The daemons of the assistant may import
 * all of them.
 */
const assistantRooms: Readonly<Record<string, readonly RegExp[]>> = {
  // The places that can store a master key: for the credentials of providers, and for the texts of the ledger.
  "key-sources": [],
  ledger: [/^(assistant-error|caller)\.ts$/, /^bus\/port\.ts$/, /^key-sources\//],
  bus: [/^(assistant-error|caller)\.ts$/],
  agent: [
    /^(assistant-error|caller)\.ts$/,
    /^ledger\/port\.ts$/,
    /^bus\/(port|read-options)\.ts$/,
    /^context\/port\.ts$/,
  ],
  context: [
    /^(assistant-error|caller)\.ts$/,
    /^ledger\/port\.ts$/,
    /^bus\/(port|read-options)\.ts$/,
  ],
  "inference/bus": [
    /^(assistant-error|caller)\.ts$/,
    /^inference\/(service-port|runner|inference-engine)\.ts$/,
    /^bus\/(port|read-options)\.ts$/,
  ],
  remote: [
    /^(assistant-error|caller|data-class)\.ts$/,
    /^key-sources\//,
    /^ledger\/port\.ts$/,
    /^bus\/(port|read-options)\.ts$/,
    /^inference\/(service-port|runner|inference-engine)\.ts$/,
    /^inference\/(wire\/.+|routing\/port|service\/ledger-entries)\.ts$/,
  ],
  overlay: [
    /^(assistant-error|caller|data-class)\.ts$/,
    /^ledger\/port\.ts$/,
    /^bus\/(port|read-options)\.ts$/,
    /^(agent|context|remote|inference\/routing)\/port\.ts$/,
    // The overlay needs `tool-manifest.ts` for the schemas of tool arguments, which the port of the agent lacks.
    /^agent\/tool-manifest\.ts$/,
    /^inference\/(service-port|runner|inference-engine)\.ts$/,
  ],
  // `inference/wire` is the client side of the chat-completions protocol, for the system instance and for providers.
  "inference/wire": [
    /^assistant-error\.ts$/,
    /^inference\/(service-port|runner|inference-engine)\.ts$/,
  ],
  "inference/routing": [
    /^assistant-error\.ts$/,
    /^inference\/(service-port|runner|inference-engine)\.ts$/,
  ],
  "inference/upstream": [
    /^assistant-error\.ts$/,
    /^ledger\/port\.ts$/,
    /^inference\/(service-port|runner|inference-engine)\.ts$/,
    /^inference\/(wire\/.+|service\/ledger-entries)\.ts$/,
  ],
  "inference/schema-grammar": [/^assistant-error\.ts$/],
  "inference/prompts": [
    /^assistant-error\.ts$/,
    /^inference\/(runner|inference-engine|service-port|schema-grammar\/.+)\.ts$/,
  ],
  "inference/scheduler": [/^assistant-error\.ts$/, /^inference\/(runner|inference-engine)\.ts$/],
  "inference/stub": [
    /^assistant-error\.ts$/,
    /^inference\/(runner|inference-engine|in-process-model)\.ts$/,
  ],
  "inference/llama": [
    /^assistant-error\.ts$/,
    /^inference\/(runner|inference-engine|in-process-model|prompts\/.+)\.ts$/,
  ],
  // This module parses the chat template in a model's settings when it reads the settings, so that a mistake is
  // reported at once.
  "inference/models": [
    /^assistant-error\.ts$/,
    /^inference\/(runner|inference-engine|prompts\/explain-template-errors)\.ts$/,
  ],
  "inference/control": [/^assistant-error\.ts$/, /^inference\/models\//],
  "inference/http": [
    /^(assistant-error|data-class)\.ts$/,
    /^inference\/(service-port|runner|inference-engine|routing\/port)\.ts$/,
  ],
  "inference/service": [
    /^assistant-error\.ts$/,
    /^ledger\/port\.ts$/,
    /^inference\/(service-port|runner|inference-engine)\.ts$/,
    /^inference\/(models|prompts|schema-grammar)\//,
  ],
};

/** Adapters of ports. Only files in the same folder, and the files that construct them, may import them. */
const adapters: readonly { readonly folder: string; readonly port: string }[] = [
  { folder: "src/controller/runtime/", port: "src/controller/runtime/port.ts" },
  { folder: "src/controller/ingress/", port: "src/controller/ingress/port.ts" },
  { folder: "src/controller/models/assistant/", port: "src/controller/models/assistant/port.ts" },
  { folder: "src/controller/daemons/companion/", port: "src/controller/daemons/companion/port.ts" },
  { folder: "src/store/", port: "src/store/store.ts" },
  { folder: "src/assistant/agent/mcp/", port: "src/assistant/agent/tool-apps.ts" },
  { folder: "src/assistant/inference/llama/", port: "src/assistant/inference/inference-engine.ts" },
  { folder: "src/assistant/inference/stub/", port: "src/assistant/inference/inference-engine.ts" },
];

/** The files that construct adapters: the control plane, and the daemons of the assistant. */
const wiring: readonly RegExp[] = [/^src\/server\//, /^src\/assistant\/daemons\//];

/** The files with the interfaces (ports) between modules, which may not use types of libraries. */
const ports: readonly RegExp[] = [
  /(^|\/)(service-)?port\.ts$/,
  /^src\/store\/store\.ts$/,
  /^src\/assistant\/inference\/(inference-engine|runner)\.ts$/,
];

const LINES_MAX = 400;

export function parseImports(text: string): ImportLine[] {
  const found: ImportLine[] = [];
  const statements =
    /^[ \t]*(?:import|export)\b(?<clause>[^;"']*?\bfrom\s*|\s*)["'](?<specifier>[^"'\n]+)["']/gm;
  const calls = /\bimport\s*\(\s*["'](?<specifier>[^"'\n]+)["']/g;
  for (const pattern of [statements, calls]) {
    for (const match of text.matchAll(pattern)) {
      found.push({
        specifier: match.groups?.["specifier"] ?? "",
        line: text.slice(0, match.index).split("\n").length,
        typeOnly: /^\s*type\b/.test(match.groups?.["clause"] ?? ""),
      });
    }
  }
  return found;
}

/**
 * Returns the room (the module) to which a source file belongs: `src/api/api-server.ts` is in `api`, and
 * `src/client/bus/connect.ts` is in `client/bus`, because each client is a room.
 */
export function getRoom(path: string): string {
  const [, room = "", folder] = path.split("/");
  return room === "client" ? `client/${folder}` : room;
}

/** Returns the file that a relative import names; undefined for a package. */
function resolveImport(from: string, specifier: string): string | undefined {
  return specifier.startsWith(".")
    ? posix.normalize(posix.join(posix.dirname(from), specifier))
    : undefined;
}

export function findEdgeProblems(files: readonly SourceFile[]): string[] {
  const known = new Set(files.map((file) => file.path));
  return checkImports(files, ({ from, target, at }) => {
    if (target === undefined) return undefined;
    if (!known.has(target)) {
      return `${at} imports ${target}, which is not there (relative imports end in .ts)`;
    }
    const [room, other] = [getRoom(from), getRoom(target)];
    if (room === other || room === "server") return undefined;
    if (allowedRooms[room]?.includes(other)) return undefined;
    if (allowedEdges.some((edge) => edge.from.test(from) && edge.to.test(target))) return undefined;
    return `${at} imports ${target}: ${room} may import ${allowedRooms[room]?.join(", ") || "nothing"}`;
  });
}

export function findAdapterProblems(files: readonly SourceFile[]): string[] {
  return checkImports(files, ({ from, target, at }) => {
    const adapter = adapters.find(({ folder }) => target?.startsWith(folder));
    if (!adapter || target === adapter.port) return undefined;
    if (wiring.some((file) => file.test(from)) || from.startsWith(adapter.folder)) return undefined;
    return `${at} imports the adapter ${target}: import ${adapter.port}, and let the server or the daemon wire it`;
  });
}

function toAssistantPath(path: string): string {
  return path.replace(/^src\/assistant\//, "");
}

/** Checks imports inside the assistant by the table of its modules. */
export function findAssistantProblems(files: readonly SourceFile[]): string[] {
  return checkImports(files, ({ from, target, at }) => {
    if (!from.startsWith("src/assistant/") || !target?.startsWith("src/assistant/"))
      return undefined;
    const room = Object.keys(assistantRooms).find((name) =>
      toAssistantPath(from).startsWith(`${name}/`),
    );
    if (room === undefined || toAssistantPath(target).startsWith(`${room}/`)) return undefined;
    if (assistantRooms[room]?.some((allowed) => allowed.test(toAssistantPath(target))))
      return undefined;
    return `${at} imports ${target}: the room ${room} may not`;
  });
}

/**
 * Checks the imports between the folders of `controller/`, and between those of `cli/`, against the table `innerRooms`.
 */
export function innerProblems(files: readonly SourceFile[]): string[] {
  return checkImports(files, ({ from, target, at }) => {
    const [, room = "", ...rest] = from.split("/");
    const table = innerRooms[room];
    if (table === undefined || !target?.startsWith(`src/${room}/`)) return undefined;
    const [own, other] = [rest.join("/"), target.slice(`src/${room}/`.length)];
    const [folder, otherFolder] = [folderOf(own), folderOf(other)];
    if (!(folder in table.folders)) return `${from}: ${folder} is not in the table of ${room}`;
    if (folder === otherFolder || table.entry.test(own) || table.open.test(other)) return undefined;
    if (otherFolder === "" && !table.entry.test(other)) return undefined;
    if (table.folders[folder]?.includes(otherFolder)) return undefined;
    return `${at} imports ${target}: ${room}/${folder} may import ${table.folders[folder]?.join(", ") || "nothing"}`;
  });
}

/** Returns `apps` for `apps/plan/model.ts`, and "" for a file directly in the module. */
function folderOf(path: string): string {
  return path.includes("/") ? (path.split("/")[0] ?? "") : "";
}

export function findPortProblems(files: readonly SourceFile[]): string[] {
  const inPorts = files.filter((file) => ports.some((port) => port.test(file.path)));
  return checkImports(inPorts, ({ target, specifier, at }) =>
    target === undefined ? `${at} imports ${specifier}: a port exposes no library` : undefined,
  );
}

/** Returns one problem for each import cycle that is found. */
export function findImportCycles(files: readonly SourceFile[]): string[] {
  const targets = new Map(
    files.map((file) => [
      file.path,
      parseImports(file.text)
        .map((line) => resolveImport(file.path, line.specifier))
        .filter((target) => target !== undefined),
    ]),
  );
  const problems: string[] = [];
  const done = new Set<string>();
  const visit = (path: string, trail: readonly string[]): void => {
    const start = trail.indexOf(path);
    if (start !== -1) {
      problems.push(`a circle: ${[...trail.slice(start), path].join(" -> ")}`);
      return;
    }
    if (done.has(path)) return;
    for (const target of targets.get(path) ?? []) visit(target, [...trail, path]);
    done.add(path);
  };
  for (const path of targets.keys()) visit(path, []);
  return problems;
}

export function findNameProblems(files: readonly SourceFile[]): string[] {
  return files.flatMap((file) => {
    const name = posix.basename(file.path);
    if (/^(utils?|helpers?|misc|common|shared|index)\.ts$/.test(name)) {
      return [`${file.path}: "${name}" says nothing about what is in it`];
    }
    return /^[a-z0-9]+(-[a-z0-9]+)*\.ts$/.test(name) ? [] : [`${file.path}: not in kebab-case`];
  });
}

export function findShapeProblems(files: readonly SourceFile[]): string[] {
  return files.flatMap((file) => {
    const problems: string[] = [];
    const lines = file.text.replace(/\n$/, "").split("\n").length;
    if (lines > LINES_MAX) {
      problems.push(`${file.path} has ${lines} lines: past ${LINES_MAX}, split it`);
    }
    const code = blankComments(file.text).filter(({ text }) => text.trim() !== "");
    if (code.some(({ text }) => /^\s*export\s+default\b/.test(text))) {
      problems.push(`${file.path}: export by name, not as default`);
    }
    const joined = code.map(({ text }) => text).join("\n");
    const rest = joined.replaceAll(/^\s*export\b[^;]*?\bfrom\s*["'][^"']+["'];?/gm, "");
    if (joined !== "" && rest.trim() === "") {
      problems.push(
        `${file.path} only passes on the exports of others: import from where they are`,
      );
    }
    return problems;
  });
}

/** Reports reads of the environment outside of `src/config/config.ts`. */
export function findEnvironmentProblems(files: readonly SourceFile[]): string[] {
  return checkCodeLines(files, ({ path, text, at }) =>
    path !== "src/config/config.ts" &&
    /\bprocess\s*(\??\.\s*env\b|\[\s*["']env["'])|\benv\b.*from\s+["'](node:)?process["']/.test(
      text,
    )
      ? `${at} reads process.env: only src/config/config.ts does`
      : undefined,
  );
}

export function findConsoleProblems(files: readonly SourceFile[]): string[] {
  return checkCodeLines(files, ({ path, text, at }) =>
    !path.startsWith("src/cli/") && /\bconsole\s*(\.|\[)/.test(text)
      ? `${at} prints: only the command line does, everybody else takes a Logger`
      : undefined,
  );
}

/**
 * Reports paths in backticks of a Markdown text that do not exist. `exists` gets a path from the root. A path with a
 * pattern (`src/*`, `docs/kinds/<Kind>.md`) is checked up to the pattern.
 */
export function findDocPathProblems(doc: SourceFile, exists: (path: string) => boolean): string[] {
  const problems: string[] = [];
  let fenced = false;
  for (const [index, line] of doc.text.split("\n").entries()) {
    if (/^\s*(```|~~~)/.test(line)) fenced = !fenced;
    if (fenced) continue;
    for (const match of line.matchAll(
      /`((?:src|docs|test|scripts|templates|examples|bench)\/[^`\s]*)`/g,
    )) {
      const path = (match[1] ?? "").replace(/:\d+$/, "").replace(/\/$/, "");
      const plain = path.split("/").filter((_, at, parts) => {
        const first = parts.findIndex((part) => /[*<>{}…]/.test(part));
        return first === -1 || at < first;
      });
      if (!exists(plain.join("/"))) {
        problems.push(`${doc.path}:${index + 1} names \`${match[1]}\`, which is not there`);
      }
    }
  }
  return problems;
}

/** Returns the lines of a text with blanks instead of comments, so that the numbers of the lines stay the same. */
function blankComments(text: string): { text: string; line: number }[] {
  let commented = false;
  return text.split("\n").map((raw, index) => {
    let code = raw;
    if (commented) {
      const end = code.indexOf("*/");
      if (end === -1) return { text: "", line: index + 1 };
      code = code.slice(end + 2);
      commented = false;
    }
    code = code.replaceAll(/(^|\s)\/\*.*?\*\//g, " ").replace(/(^|\s)\/\/.*$/, "");
    const start = code.search(/(^|\s)\/\*/);
    if (start !== -1) {
      commented = true;
      code = code.slice(0, start);
    }
    return { text: code, line: index + 1 };
  });
}

interface Edge {
  readonly from: string;
  readonly specifier: string;
  readonly target: string | undefined;
  /** The position as path:line, for use in messages. */
  readonly at: string;
}

function checkImports(
  files: readonly SourceFile[],
  check: (edge: Edge) => string | undefined,
): string[] {
  return files.flatMap((file) =>
    parseImports(file.text).flatMap(({ specifier, line }) => {
      const target = resolveImport(file.path, specifier);
      const at = `${file.path}:${line}`;
      return check({ from: file.path, specifier, target, at }) ?? [];
    }),
  );
}

function checkCodeLines(
  files: readonly SourceFile[],
  check: (line: { path: string; text: string; at: string }) => string | undefined,
): string[] {
  return files.flatMap((file) =>
    blankComments(file.text).flatMap(
      ({ text, line }) => check({ path: file.path, text, at: `${file.path}:${line}` }) ?? [],
    ),
  );
}
