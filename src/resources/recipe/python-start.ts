import type { StartCommand } from "./generated-dockerfile.ts";
import { readProcfileStart } from "./procfile.ts";
import type { PythonProject } from "./python-project.ts";
import type { SourceReader } from "./source-reader.ts";
import { undecidedSourceError } from "./undecided-source.ts";

export interface PythonStart {
  readonly command: StartCommand;
  /**
   * The server program in the command, which is installed if the source does not require it; undefined if the command
   * needs none.
   */
  readonly server: "gunicorn" | "uvicorn" | undefined;
}

const moduleFiles = [
  "app.py",
  "main.py",
  "wsgi.py",
  "asgi.py",
  "server.py",
  "api.py",
  "application.py",
  "app/main.py",
  "app/app.py",
  "app/__init__.py",
  "src/main.py",
  "src/app.py",
  "src/app/main.py",
  "src/app/__init__.py",
];
const programFiles = ["main.py", "app.py", "server.py", "run.py", "bot.py", "src/main.py"];

/** Matches `NAME = FastAPI(` at the start of a line, with or without an annotation. */
const asgiApp = /^(\w+)\s*(?::[^=\n]+)?=\s*(?:\w+\.)?(?:FastAPI|Starlette|Litestar|Quart)\(/m;
const wsgiApp = /^(\w+)\s*(?::[^=\n]+)?=\s*(?:\w+\.)?(?:Flask|Bottle)\(/m;
/** Matches the server of a Dash app: `server = app.server`. */
const dashServer = /^(\w+)\s*=\s*\w+\.server\s*$/m;
const factory = /^def (create_app|make_app|get_app)\(/m;

/** Programs that start the files which import their package, with the option for PORT and for all addresses. */
const fileServers: readonly (readonly [name: string, command: (file: string) => string])[] = [
  ["streamlit", (file) => `streamlit run ${file} --server.address 0.0.0.0 --server.port $PORT`],
  ["chainlit", (file) => `chainlit run ${file} --headless --host 0.0.0.0 --port $PORT`],
  ["gradio", (file) => `GRADIO_SERVER_NAME=0.0.0.0 GRADIO_SERVER_PORT=$PORT exec python ${file}`],
];

/** Finds the start command of a Python app. Throws `invalid_request` if there is none. */
export async function findPythonStart(
  reader: SourceReader,
  { packages, script }: PythonProject,
): Promise<PythonStart> {
  const named = await readProcfileStart(reader);
  if (named !== undefined) return { command: named, server: undefined };
  const django = await findDjangoStart(reader);
  if (django !== undefined) return django;
  for (const [name, command] of fileServers) {
    const file = packages.has(name) ? await findImporter(reader, name) : undefined;
    if (file !== undefined) return createShellStart(command(file), undefined);
  }
  for (const file of moduleFiles) {
    const text = await reader.read(file);
    if (text === undefined) continue;
    const start = findServerStart(reader, { file, text, packages });
    if (start !== undefined) return start;
  }
  const file = programFiles.find((name) => reader.has(name));
  if (file !== undefined)
    return { command: { type: "program", words: ["python", file] }, server: undefined };
  if (script !== undefined && /^[\w.-]+$/.test(script))
    return { command: { type: "program", words: [script] }, server: undefined };
  throw undecidedSourceError(
    `no start command can be derived: there is no Procfile, no manage.py, and none of ${programFiles.join(", ")}`,
    "add a Procfile such as `web: gunicorn --bind 0.0.0.0:$PORT shop:app`",
  );
}

/** Finds the app object, or a function that creates one, in a module. */
function findServerStart(
  reader: SourceReader,
  {
    file,
    text,
    packages,
  }: { readonly file: string; readonly text: string; readonly packages: ReadonlySet<string> },
): PythonStart | undefined {
  // Modules in src/ are imported from there, unless src/ is a package itself.
  const isInSource = file.startsWith("src/") && !reader.has("src/__init__.py");
  const path = isInSource ? file.slice("src/".length) : file;
  const module = path.replace(/(\/__init__)?\.py$/, "").replaceAll("/", ".");
  const folder = isInSource ? "src" : undefined;
  const asgi = asgiApp.exec(text)?.[1];
  if (asgi !== undefined) return createUvicornStart(`${module}:${asgi}`, folder);
  const wsgi = wsgiApp.exec(text)?.[1];
  if (wsgi !== undefined) return createGunicornStart(`${module}:${wsgi}`, folder);
  const dash = packages.has("dash") ? dashServer.exec(text)?.[1] : undefined;
  if (dash !== undefined) return createGunicornStart(`${module}:${dash}`, folder);
  const create = factory.exec(text)?.[1];
  if (create === undefined) return undefined;
  if (packages.has("flask")) return createGunicornStart(`'${module}:${create}()'`, folder);
  return packages.has("fastapi")
    ? createUvicornStart(`--factory ${module}:${create}`, folder)
    : undefined;
}

/** Finds the file in the source folder that imports a package; a file with a usual name takes precedence. */
async function findImporter(reader: SourceReader, name: string): Promise<string | undefined> {
  const usual = [`${name}_app.py`, "app.py", "main.py"];
  const files = reader.list("").filter((file) => /^[\w-]+\.py$/.test(file));
  const found: string[] = [];
  for (const file of files)
    if (new RegExp(`^\\s*(import|from)\\s+${name}\\b`, "m").test((await reader.read(file)) ?? ""))
      found.push(file);
  return (
    usual.find((file) => found.includes(file)) ?? found[0] ?? usual.find((file) => reader.has(file))
  );
}

/** Reads the settings module that manage.py names; undefined for a source without Django. */
export async function findDjangoSettings(
  reader: SourceReader,
): Promise<{ readonly project: string; readonly text: string } | undefined> {
  const manage = await reader.read("manage.py");
  const settings = /DJANGO_SETTINGS_MODULE["'],\s*["']([\w.]+)["']/.exec(manage ?? "")?.[1];
  const project = settings?.split(".")[0];
  if (settings === undefined || project === undefined) return undefined;
  const text = (await reader.read(`${settings.replaceAll(".", "/")}.py`)) ?? "";
  return { project, text };
}

async function findDjangoStart(reader: SourceReader): Promise<PythonStart | undefined> {
  const project = (await findDjangoSettings(reader))?.project;
  return project !== undefined && reader.has(`${project}/wsgi.py`)
    ? createGunicornStart(`${project}.wsgi`)
    : undefined;
}

function createGunicornStart(app: string, folder?: string): PythonStart {
  const path = folder === undefined ? "" : `--pythonpath ${folder} `;
  return createShellStart(`gunicorn --bind 0.0.0.0:$PORT ${path}${app}`, "gunicorn");
}

function createUvicornStart(app: string, folder?: string): PythonStart {
  const path = folder === undefined ? "" : `--app-dir ${folder} `;
  return createShellStart(
    `uvicorn --host 0.0.0.0 --port $PORT --proxy-headers --forwarded-allow-ips '*' ${path}${app}`,
    "uvicorn",
  );
}

function createShellStart(line: string, server: PythonStart["server"]): PythonStart {
  return { command: { type: "shell", line }, server };
}
