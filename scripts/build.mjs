// npm run build: bundles the sources into dist/, and writes the OpenAPI document and the built-in catalog into it. It
// also writes the JSON Schemas of spec files, which editors read. It is idempotent.
//
// Berth and most packages become few files, because Node.js needs about half a millisecond to load each one, and the
// server has more than two thousand: `berth --version` would take three times as long.
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { build } from "esbuild";

const root = path.resolve(import.meta.dirname, "..");

/** These packages are not bundled. They are loaded from node_modules. */
const EXTERNAL = [
  // These packages contain compiled code, which esbuild cannot bundle.
  "better-sqlite3",
  "koffi",
  "node-llama-cpp",
  // This package serves web pages from its own folder, which a bundle would not contain.
  "@fastify/swagger-ui",
];

/**
 * Omits the parts of dockerode for BuildKit sessions and SSH, because Berth has its own BuildKit sessions and refuses
 * ssh:// addresses. These parts would load more than a hundred modules, some with compiled code, and read files next to
 * their modules.
 */
const withoutUnusedDockerode = {
  name: "without-unused-dockerode",
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^\.\/(session|buildkit|ssh)$/ }, ({ importer }) =>
      /\/(dockerode|docker-modem)\/lib\//.test(importer)
        ? { path: "left-out", namespace: "left-out" }
        : undefined,
    );
    onLoad({ filter: /^left-out$/, namespace: "left-out" }, () => ({ contents: "" }));
  },
};

/**
 * The sources of the files in `dist` that are started by their file name: the command line, the process of a model, and
 * worker threads.
 */
const PROGRAMS = [
  "cli/main",
  "assistant/inference/llama/process/child",
  "assistant/inference/schema-grammar/grammar-worker",
  "assistant/ledger/writer-worker",
  "assistant/context/index/index-worker",
  "controller/models/files/hash-worker",
];

/**
 * Bundles programs into one flat folder, in which each has the name of its source. The folder must be inside the
 * checkout, so that packages are found. Returns the names of the files.
 */
export async function bundle(sources, outdir) {
  const { metafile } = await build({
    absWorkingDir: root,
    entryPoints: sources.map((source) => ({
      in: path.resolve(root, source),
      out: path.parse(source).name,
    })),
    outdir,
    bundle: true,
    splitting: true,
    format: "esm",
    platform: "node",
    target: "node22",
    external: EXTERNAL,
    plugins: [withoutUnusedDockerode],
    sourcemap: "linked",
    metafile: true,
    logLevel: "warning",
    // Packages in CommonJS call `require` for modules of Node.js, so the bundle defines it.
    banner: {
      js: 'import { createRequire as createBundleRequire } from "node:module"; const require = createBundleRequire(import.meta.url);',
    },
  });
  return Object.keys(metafile.outputs).map((file) => path.basename(file));
}

export const programSources = PROGRAMS.map((name) => `src/${name}.ts`);

async function buildAll() {
  const dist = path.join(root, "dist");
  const generators = [
    "scripts/editor-schemas.ts",
    "scripts/openapi-document.mjs",
    "src/controller/catalogs/catalog.ts",
  ];
  const written = new Set(await bundle([...programSources, ...generators], dist));
  for (const name of await readdir(dist))
    if (!written.has(name)) await rm(path.join(dist, name), { recursive: true });
  const load = (name) => import(pathToFileURL(path.join(dist, name)).href);
  const { generateOpenApiDocument } = await load("openapi-document.js");
  await writeFile(path.join(dist, "openapi.json"), await generateOpenApiDocument());
  const { loadBuiltInCatalog } = await load("catalog.js");
  await writeFile(path.join(dist, "catalog.json"), JSON.stringify(loadBuiltInCatalog()));
  const { editorSchemas } = await load("editor-schemas.js");
  const schemas = path.join(root, "schemas");
  await mkdir(schemas, { recursive: true });
  for (const [name, text] of editorSchemas()) {
    const file = path.join(schemas, name);
    const current = await readFile(file, "utf8").catch(() => undefined);
    if (current !== text) await writeFile(file, text);
  }
}

if (path.resolve(process.argv[1] ?? "") === import.meta.filename) await buildAll();
