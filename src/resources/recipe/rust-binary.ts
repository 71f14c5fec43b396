import {
  getFields,
  getText,
  getTexts,
  isParsedFields,
  type ParsedFields,
} from "./parsed-fields.ts";
import type { SourceReader } from "./source-reader.ts";
import { parseToml } from "./tool-version.ts";
import { undecidedSourceError } from "./undecided-source.ts";

/**
 * Finds the program of a Cargo package or workspace: `default-run`, else the only binary, else the one with the name of
 * its package.
 */
export async function findRustBinary(
  reader: SourceReader,
  manifest: ParsedFields,
): Promise<string> {
  const own = listBinaries(reader, manifest, "");
  const found = [...own.names];
  let preferred = own.preferred;
  for (const folder of listMembers(reader, manifest)) {
    const text = await reader.read(`${folder}/Cargo.toml`);
    if (text === undefined) continue;
    const member = listBinaries(reader, parseToml(text, `${folder}/Cargo.toml`), folder);
    found.push(...member.names);
    preferred ??= member.defaultRun;
  }
  const [first, ...others] = [...new Set(found)];
  if (first === undefined)
    throw undecidedSourceError(
      "Cargo.toml describes no program: there is no src/main.rs, no src/bin/ and no [[bin]]",
      "add one",
    );
  if (others.length === 0) return first;
  if (preferred !== undefined && found.includes(preferred)) return preferred;
  throw undecidedSourceError(
    `there are several programs (${[first, ...others].join(", ")}), and none is the default`,
    'name the program to run: `default-run = "NAME"` under [package] in Cargo.toml',
  );
}

function listBinaries(reader: SourceReader, manifest: ParsedFields, folder: string) {
  const at = (path: string) => (folder === "" ? path : `${folder}/${path}`);
  const pkg = getFields(manifest, "package");
  const name = getText(pkg, "name");
  const defaultRun = getText(pkg, "default-run");
  const names: string[] = [];
  if (name !== undefined && reader.has(at("src/main.rs"))) names.push(name);
  for (const file of reader.list(at("src/bin"))) {
    const binary = /^([\w-]+)(\.rs)?$/.exec(file)?.[1];
    if (binary !== undefined) names.push(binary);
  }
  const { bin } = manifest;
  for (const table of Array.isArray(bin) ? bin : []) {
    const binary = isParsedFields(table) ? getText(table, "name") : undefined;
    if (binary !== undefined && /^[\w-]+$/.test(binary)) {
      // A table for src/main.rs gives the program a name of its own.
      const path = isParsedFields(table) ? getText(table, "path") : undefined;
      if (path === "src/main.rs" && name !== undefined && names.includes(name))
        names.splice(names.indexOf(name), 1);
      names.push(binary);
    }
  }
  return { names, defaultRun, preferred: defaultRun ?? name };
}

/** Lists the folders of a workspace's members. In a pattern, only a last part `*` is known. */
function listMembers(reader: SourceReader, manifest: ParsedFields): readonly string[] {
  const workspace = getFields(manifest, "workspace");
  const members = getTexts(workspace, "default-members");
  const patterns = members.length > 0 ? members : getTexts(workspace, "members");
  return patterns.flatMap((pattern) => {
    const path = pattern.replace(/^\.\//, "").replace(/\/$/, "");
    if (path === "*") return reader.list("");
    return path.endsWith("/*")
      ? reader.list(path.slice(0, -2)).map((name) => `${path.slice(0, -2)}/${name}`)
      : [path];
  });
}
